#!/usr/bin/env python3
"""Checks and links what ships for macOS, on Linux. Nothing is run, as there is no macOS.

    tests/port/macos.py [TARGET…]

Debian's Rust compiles, with the standard library from its source, and zig, which has the symbols of Apple's libraries,
compiles C and links. For each processor:
1. the tests of the crate that calls the system are linked, and the C library, the command and the Python extension. A
   warning is an error;
2. no function may be called that the oldest macOS for which Rust builds lacks: its dynamic linker would refuse the
   program. zig's headers tell which macOS has a function;
3. each name that they take from the system must be in Apple's libraries. zig has no frameworks: names that begin as
   those of the used ones do are not checked.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import zig
from port import BUILD_ENVIRONMENT, CARGO, PACKAGES, ROOT, RUSTC, missing_packages

TARGETS = ["aarch64-apple-darwin", "x86_64-apple-darwin"]
LINKED_CRATE = "arrowwood-mapping"
# What ships, and the file that it is. It is linked without optimizations, in a tenth of the time.
SHIPPED = {
    "arrowwood-c": "libarrowwood.dylib",
    "arrowwood-cli": "arrowwood",
    "arrowwood-python": "lib_arrowwood.dylib",
}
# How names begin that others than Apple's libraries have: Python itself, and the frameworks Security and
# CoreFoundation, which the server takes its trusted certificates from.
OTHER_NAMES = re.compile(r"_?Py|k?Sec[A-Z]|SSL[A-Z]|Authorization[A-Z]|CMS(De|En)code|(k|__)?CF[A-Z]|dyld_stub_binder$")
# The first bytes of a file for macOS of 64 bits.
MACH_O = bytes.fromhex("cffaedfe")
# Functions that zig's headers lack, by the start of their names, and the macOS that has them.
NEW_FUNCTIONS = {"os_sync_": (14, 4)}
AVAILABLE = re.compile(r"AVAILABLE(?:_STARTING)?\(\s*(?:__MAC_|macosx?\()?(\d+)[._](\d+)")


def oldest_macos(target):
    """Returns the version of the oldest macOS for which Rust builds."""
    words = [RUSTC, "--print", "deployment-target", "--target", target]
    environment = {**os.environ, "RUSTC_BOOTSTRAP": "1"}
    printed = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    major, minor = re.search(r"(\d+)\.(\d+)", printed).groups()
    return int(major), int(minor)


def build_folder(target):
    """Returns the folder where cargo builds for a target."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / target


def build_environment(target, oldest, folder):
    """Returns the environment of cargo, with a compiler of C in `folder`."""
    processor = target.split("-")[0]
    compiler = zig.write_compiler(folder / "cc", f"{processor}-macos.{oldest[0]}.{oldest[1]}")
    name = target.replace("-", "_")
    return {
        **os.environ,
        **BUILD_ENVIRONMENT,
        "CARGO_PROFILE_DEV_OPT_LEVEL": "0",
        # Debian lacks the program that would.
        "CARGO_PROFILE_DEV_STRIP": "none",
        f"CARGO_TARGET_{name.upper()}_LINKER": str(compiler),
        # Which names are missing is checked afterwards.
        f"CARGO_TARGET_{name.upper()}_RUSTFLAGS": "-Dwarnings -Clink-arg=-Wl,-undefined,dynamic_lookup",
        f"CC_{name}": str(compiler),
        f"AR_{name}": "/usr/bin/llvm-ar",
        # Otherwise rustc looks for Apple's.
        "SDKROOT": str(zig.find_folder() / "lib/libc/darwin"),
    }


def cargo(words, target, environment, **options):
    """Runs cargo for a target."""
    command = [CARGO, *words, "--quiet", "--locked", "-Zbuild-std", "--target", target]
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, **options)


def link_tests(target, environment):
    """Links the tests of a crate. Returns the paths of the programs."""
    words = ["test", "--no-run", "--message-format=json-render-diagnostics", "--package", LINKED_CRATE]
    built = cargo(words, target, environment, stdout=subprocess.PIPE)
    if built.returncode != 0:
        raise SystemExit(f"{target}: linking the tests of {LINKED_CRATE} has failed")
    messages = map(json.loads, built.stdout.splitlines())
    return [
        message["executable"]
        for message in messages
        if message["reason"] == "compiler-artifact" and message.get("executable")
    ]


def link_shipped(target, environment):
    """Links what ships. Returns the paths of the files."""
    if cargo(["build", *(f"--package={crate}" for crate in SHIPPED)], target, environment).returncode != 0:
        raise SystemExit(f"{target}: linking what ships has failed")
    files = [build_folder(target) / "debug" / name for name in SHIPPED.values()]
    for file in files:
        if file.read_bytes()[:4] != MACH_O:
            raise SystemExit(f"{target}: {file} is no program or library for macOS")
    return files


def called_functions(program):
    """Returns the names that a program takes from libraries of the system."""
    words = ["/usr/bin/llvm-nm", "--undefined-only", "--just-symbol-name", program]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return {line.removeprefix("_").split("$")[0] for line in printed.split() if line.startswith("_")}


def names_of_system():
    """Returns the names in Apple's libraries, which programs without frameworks are linked with."""
    text = (zig.find_folder() / "lib/libc/darwin/libSystem.tbd").read_text()
    return {name.removeprefix("_").split("$")[0] for name in re.findall(r"(?<![\w$])_[\w$]+", text)}


def header_versions():
    """Returns the first macOS that has a function, for those of which the headers tell."""
    versions = {}
    for path in (zig.find_folder() / "lib/libc/include/any-darwin-any").rglob("*.h"):
        text = re.sub(
            r"/\*.*?\*/|//[^\n]*|^\s*#(?:\\\n|[^\n])*", "", path.read_text(errors="replace"), flags=re.S | re.M
        )
        for statement in re.split(r"[;{}]", text):
            available = AVAILABLE.search(statement)
            names = re.findall(r"(\w+)\s*\(", statement[: available.start()]) if available else []
            names = [name for name in names if not name.startswith("__")]
            if names:
                version = (int(available[1]), int(available[2]))
                versions[names[0]] = min(version, versions.get(names[0], version))
    return versions


def too_new(names, versions, oldest):
    """Returns those functions that the oldest macOS lacks."""
    found = []
    for name in sorted(names):
        version = versions.get(name, (0, 0))
        version = max([version, *(new for start, new in NEW_FUNCTIONS.items() if name.startswith(start))])
        if version > oldest:
            found.append(f"{name} (macOS {version[0]}.{version[1]})")
    return found


def test_target(target):
    """Checks and links for a target. Returns what is wrong with its programs."""
    oldest = oldest_macos(target)
    versions = header_versions()
    # So that a change of the headers is noticed, which would make this check find nothing.
    if versions.get("renameatx_np") != (10, 12):
        raise SystemExit(f"the headers are not understood: {len(versions)} functions have versions")
    # Cargo would build all anew for another path of the compiler.
    folder = build_folder(target) / "compiler"
    environment = build_environment(target, oldest, folder)
    programs = link_tests(target, environment)
    if not programs:
        raise SystemExit(f"{target}: no program was linked")
    print(f"{target}: {len(programs)} programs of tests link", flush=True)
    shipped = link_shipped(target, environment)
    print(f"{target}: {', '.join(SHIPPED.values())} link")
    names = set().union(*map(called_functions, [*programs, *shipped]))
    if "mmap" not in names or "PyErr_SetString" not in names:
        raise SystemExit(f"{target}: the functions that programs call are not found: {len(names)}")
    known = len(names & versions.keys())
    print(f"{target}: {len(names)} names of the system, {known} with a version")
    missing = sorted(name for name in names - names_of_system() if not OTHER_NAMES.match(name))
    return [
        *(f"{target}: macOS {oldest[0]}.{oldest[1]} lacks {name}" for name in too_new(names, versions, oldest)),
        *(f"{target}: no library has {name}" for name in missing),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"by default {' and '.join(TARGETS)}")
    targets = parser.parse_args().targets or TARGETS
    unknown = [target for target in targets if target not in TARGETS]
    if unknown:
        parser.error(f"no target {unknown[0]}; there are {', '.join(TARGETS)}")
    if missing := missing_packages([*PACKAGES, "llvm"]):
        raise SystemExit(f"please install: apt-get install {' '.join(missing)}")
    zig.find_folder()
    errors = [error for target in targets for error in test_target(target)]
    print("\n".join(errors) or "no function is newer than the oldest macOS; nothing was run")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
