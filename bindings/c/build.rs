//! The name by which programs ask for the library: it contains the ABI version, as in `include/arrowwood.h`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // On Windows, where it is that of the file, nothing else is asked for.
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux") => println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libarrowwood.so.1"),
        Ok("macos") => println!("cargo::rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libarrowwood.1.dylib"),
        _ => (),
    }
}
