"""zig, which compiles and links C for other systems, and brings their C libraries along.

As a program, `zig.py TARGET WORD…` is the compiler for one of zig's targets.
"""

import importlib.util
import os
import stat
import sys
from pathlib import Path

# What cargo and rustc tell Apple's compiler of its target and libraries, and how many words follow. zig has its own.
DROPPED_WORDS = {"-arch": 1, "-target": 1, "-isysroot": 1, "-liconv": 0, "-framework": 1}
DROPPED_STARTS = ("--target=", "-mmacosx-version-min=", "-mmacos-version-min=")


def find_folder():
    """Returns the folder of zig. Ends the program if it is not installed."""
    spec = importlib.util.find_spec("ziglang")
    if not spec or not spec.origin:
        raise SystemExit(f"please install: {sys.executable} -m pip install 'ziglang>=0.17,<0.18'")
    return Path(spec.origin).parent


def write_compiler(path, target):
    """Writes a program that compiles and links C for one of zig's targets. Returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" {target} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def words_for_zig(words):
    """Returns the words of a call of a compiler that zig takes."""
    kept, skipped = [], 0
    for word in words:
        if skipped:
            skipped -= 1
        elif word in DROPPED_WORDS:
            skipped = DROPPED_WORDS[word]
        elif not word.startswith(DROPPED_STARTS):
            kept.append(word)
    return kept


def main():
    target, *words = sys.argv[1:]
    program = find_folder() / "zig"
    os.execv(program, [str(program), "cc", "-target", target, *words_for_zig(words)])


if __name__ == "__main__":
    main()
