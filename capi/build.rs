//! The name by which programs ask for the library: that of its ABI version, which `include/arrowwood.h` has as well.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libarrowwood.so.1");
}
