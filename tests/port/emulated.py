"""Starts a program of another processor where the kernel hands such programs to an emulator.

    emulated.py LINE PROGRAM [WORD…]

LINE is what binfmt_misc is told. It is told in a user and mount namespace with a binfmt_misc of its own, so that the
machine is left as it is. The program keeps its user there, and root can become any other.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x0002_0000, 0x1000_0000
BINFMT = "/proc/sys/fs/binfmt_misc"

libc = ctypes.CDLL(None, use_errno=True)


def call_libc(name, *arguments):
    """Calls a function that returns -1 and sets `errno` if it fails."""
    if getattr(libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def same_ids(ids):
    """Returns the map in which the users or groups of a namespace, whose map is `ids`, keep their numbers."""
    return "\n".join(f"{first} {first} {count}" for first, _, count in map(str.split, ids.splitlines()))


def enter_namespaces(kinds, users, groups):
    """Moves the process into new namespaces with these users and groups."""
    process = os.getpid()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # Only a process outside may map more than one number. It waits for the namespace, or the end of its parent.
        os.close(writer)
        if os.read(reader, 1):
            if os.geteuid() != 0:
                Path(f"/proc/{process}/setgroups").write_text("deny")
            Path(f"/proc/{process}/uid_map").write_text(users)
            Path(f"/proc/{process}/gid_map").write_text(groups)
        os._exit(0)
    call_libc("unshare", kinds)
    os.write(writer, b".")
    os.close(reader)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise SystemExit("users and groups were not mapped")


def main():
    line, *words = sys.argv[1:]
    user, group = os.geteuid(), os.getegid()
    is_root = user == 0
    users, groups = f"0 {user} 1", f"0 {group} 1"
    if is_root:
        users, groups = (same_ids(Path(f"/proc/self/{kind}_map").read_text()) for kind in ("uid", "gid"))
    enter_namespaces(CLONE_NEWUSER | CLONE_NEWNS, users, groups)
    call_libc("mount", b"binfmt_misc", BINFMT.encode(), b"binfmt_misc", 0, None)
    Path(BINFMT, "register").write_text(line)
    if not is_root:
        enter_namespaces(CLONE_NEWUSER, f"{user} 0 1", f"{group} 0 1")
    # Python ignores them, and programs that it becomes would, too.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execv(words[0], words)


if __name__ == "__main__":
    main()
