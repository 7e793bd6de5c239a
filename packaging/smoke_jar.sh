#!/bin/sh
# Tests a jar: it alone, of those in directory $1, runs the first program of the documentation in an empty folder.
set -eu
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml" | head -n 1)
jar=$(cd "$1" && pwd)/arrowwood-$version.jar
program=$(cd "$(dirname "$0")/.." && pwd)/examples/java/prices.jsh
# Java on Windows takes its own paths.
if command -v cygpath > /dev/null; then
  jar=$(cygpath -w "$jar") program=$(cygpath -w "$program")
fi
jshell=${JAVA_HOME:+$JAVA_HOME/bin/}jshell
folder=$(mktemp -d)
cd "$folder"
"$jshell" --class-path "$jar" -R--enable-native-access=ALL-UNNAMED "$program" < /dev/null > out
grep '^102.99' out || { cat out; exit 1; }
rm out
rmdir "$folder"
