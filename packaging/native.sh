#!/bin/sh
# Builds the C library for one system, as it is released: native.sh TARGET FOLDER, with Rust's name of the system. Writes into FOLDER
# - PLATFORM/, with the library alone, for jars, which need those of all systems,
# - arrowwood-c-VERSION-PLATFORM.tar.gz, with header, static library, and files for pkg-config and CMake.
# For Linux, zig links against an old C library: `pip install cargo-zigbuild 'ziglang>=0.17,<0.18'`.
set -eu
target=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
built=${CARGO_TARGET_DIR:-target}/$target/release
# Of the C library that Linux distributions of 2014 have.
glibc=${GLIBC:-2.17}

processor=${target%%-*}
case $target in
  *-linux-musl)
    platform=linux-musl-$processor file=libarrowwood.so
    # A shared library uses the C library of its program.
    RUSTFLAGS="${RUSTFLAGS-} -Ctarget-feature=-crt-static" cargo zigbuild --release --package arrowwood-c --target "$target" ;;
  *-linux-gnu)
    platform=linux-$processor file=libarrowwood.so
    cargo zigbuild --release --package arrowwood-c --target "$target.$glibc" ;;
  *-apple-darwin)
    platform=macos-$processor file=libarrowwood.dylib
    cargo build --release --package arrowwood-c --target "$target" ;;
  *-windows-*)
    platform=windows-$processor file=arrowwood.dll
    cargo build --release --package arrowwood-c --target "$target" ;;
  *)
    echo "native.sh: $target is no system for which the library is released" >&2
    exit 1 ;;
esac

mkdir -p "$folder/$platform"
cp "$built/$file" "$folder/$platform/$file"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=arrowwood-c-$version-$platform
DESTDIR='' PKG_CONFIG_PREFIX='${pcfiledir}/../..' PREFIX=$folder/$name LIBDIR=$folder/$name/lib INCLUDEDIR=$folder/$name/include VERSION=$version \
  ABI=$(sed -n 's/^#define ARROWWOOD_ABI_VERSION //p' bindings/c/include/arrowwood.h) sh bindings/c/install.sh "$built" "$target"
tar -C "$folder" -czf "$folder/$name.tar.gz" "$name"
rm -r "${folder:?}/$name"
echo "$folder/$name.tar.gz"
