#!/bin/sh
# Installs the C library: install.sh FOLDER [TARGET], with the folder where cargo has built it. `make install-c` sets the
# variables, but PKG_CONFIG_PREFIX, which pkg-config takes for the prefix. Paths below PREFIX are relative to it in the files for CMake, so that what is installed can be moved.
set -eu
built=$1
target=${2-$(uname -s)}
here=$(dirname "$0")

# `loaded` is what programs load, with the names that lead to it, `linked` what linkers take if it is another file, and
# `libraries` what programs need that link the static library.
folder=$LIBDIR names='' linked='' static=libarrowwood.a
case $target in
  *windows-msvc)
    folder=$PREFIX/bin file=arrowwood.dll loaded=$file linked=arrowwood.lib built_linked=arrowwood.dll.lib static=''
    libraries='' ;;
  *windows* | MINGW* | MSYS*)
    folder=$PREFIX/bin file=arrowwood.dll loaded=$file linked=libarrowwood.dll.a
    libraries='-lws2_32 -luserenv -lntdll -lbcrypt' ;;
  *apple* | Darwin)
    file=libarrowwood.dylib loaded=libarrowwood.$ABI.dylib names=$file libraries=-lSystem ;;
  *)
    file=libarrowwood.so loaded=$file.$ABI.$VERSION names="$file.$ABI $file"
    libraries='-lutil -lrt -lpthread -lm -ldl -lc' ;;
esac

# Returns a path as one relative to the prefix, after the words for it.
below_prefix() {
  case $2 in
    "$PREFIX"/*) echo "$1${2#"$PREFIX"}" ;;
    *) echo "$2" ;;
  esac
}

# Returns the way from a folder in the prefix up to it; the prefix if the folder is elsewhere.
way_up() {
  case $1 in
    "$PREFIX"/*) echo "$1" | sed -e "s|^$PREFIX/||" -e 's|[^/]\{1,\}|..|g' -e 's|^|${CMAKE_CURRENT_LIST_DIR}/|' ;;
    *) echo "$PREFIX" ;;
  esac
}

# Writes a file with the paths, which begin with the words for the prefix.
fill_in() {
  sed -e "s|@PREFIX@|$1|; s|@LIBDIR@|$(below_prefix "$2" "$LIBDIR")|; s|@VERSION@|$VERSION|; s|@LIBRARIES@|$libraries|" \
    -e "s|@INCLUDEDIR@|$(below_prefix "$2" "$INCLUDEDIR")|; s|@LOADED@|$(below_prefix "$2" "$folder/$loaded")|" \
    -e "s|@LINKED@|${linked:+$(below_prefix "$2" "$LIBDIR/$linked")}|" "$here/$3"
}

cmake=$LIBDIR/cmake/arrowwood
install -d "$DESTDIR$LIBDIR/pkgconfig" "$DESTDIR$cmake" "$DESTDIR$INCLUDEDIR" "$DESTDIR$folder"
install -m 755 "$built/$file" "$DESTDIR$folder/$loaded"
for name in $names; do
  ln -sf "$loaded" "$DESTDIR$LIBDIR/$name"
done
for name in $static; do
  install -m 644 "$built/$name" "$DESTDIR$LIBDIR/$name"
done
[ -z "$linked" ] || install -m 644 "$built/${built_linked-$linked}" "$DESTDIR$LIBDIR/$linked"
install -m 644 "$here/include/arrowwood.h" "$DESTDIR$INCLUDEDIR/arrowwood.h"
fill_in "${PKG_CONFIG_PREFIX-$PREFIX}" '${prefix}' arrowwood.pc.in > "$DESTDIR$LIBDIR/pkgconfig/arrowwood.pc"
for name in arrowwood-config arrowwood-config-version; do
  fill_in "$(way_up "$cmake")" '${_arrowwood_prefix}' $name.cmake.in > "$DESTDIR$cmake/$name.cmake"
done
