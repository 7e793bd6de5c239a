#!/bin/sh
# R over a mapped column: run.sh FILE COLUMN. Needs the C library where pkg-config finds it, and R, which is installed where
# that can be done.
set -eu
if ! command -v Rscript > /dev/null; then
  apt-get install -y --no-install-recommends r-base-core > /dev/null 2>&1 || true
fi
if ! command -v Rscript > /dev/null; then
  echo "left out: there is no R here, and it can't be installed (Debian's r-base-core)"
  exit 0
fi
here=$(dirname "$0")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
libraries=$(pkg-config --variable=libdir arrowwood)
# shellcheck disable=SC2046
cc -shared -fPIC "$here/shim.c" -o "$folder/shim.so" $(pkg-config --cflags --libs arrowwood) -Wl,-rpath,"$libraries"
Rscript --vanilla "$here/sum.R" "$folder/shim.so" "$1" "$2"
