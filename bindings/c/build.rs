//! The name by which programs ask for the library: it contains the ABI version, as in `include/arrowwood.h`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libarrowwood.so.1");
}
