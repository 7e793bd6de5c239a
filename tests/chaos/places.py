"""Places for tables: a plain directory, or a small file system that fills up, turns read-only or loses its pages."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import random
import shutil
import struct
import subprocess
import uuid
from pathlib import Path

CLONE_NEWNS = 0x20000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
MS_SYNC = 4
PAGE = 4096
LOOP_SET_FD, LOOP_CLR_FD, LOOP_CTL_GET_FREE = 0x4C00, 0x4C01, 0x4C82
# Shuts an ext4 file system down without writing back its journal or its pages.
EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
BOOT = "/proc/sys/kernel/random/boot_id"

libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """The system does not allow what a place needs."""


def call_libc(function, *arguments):
    """Calls a function of libc, and raises OSError if it fails."""
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def mount(source, target, kind=b"none", flags=0, data=None):
    call_libc("mount", os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), data)


def own_mounts():
    """Gives this process and its children a mount namespace of their own, which ends with them."""
    call_libc("unshare", CLONE_NEWNS)
    mount(b"none", b"/", flags=MS_REC | MS_PRIVATE)


class Folder:
    """A plain directory."""

    can_fill = can_lose = can_remount = False

    def __init__(self, home):
        self.home = Path(home)
        self.home.mkdir(exist_ok=True)

    def path(self, name: str) -> str:
        return str(self.home / name)

    # A folder has no second mount.
    other = path

    def clean(self):
        for name in os.listdir(self.home):
            shutil.rmtree(self.home / name)

    def close(self):
        shutil.rmtree(self.home)


class Volume:
    """An ext4 file system in a file, mounted at two directories."""

    can_fill = can_lose = can_remount = True
    SIZE = 256 << 20

    def __init__(self, home):
        self.home = Path(home)
        self.home.mkdir(exist_ok=True)
        self.image, self.one, self.two = self.home / "image", self.home / "one", self.home / "two"
        self.boot = self.home / "boot"
        self.loop = None
        self.is_booted = False
        self.make()

    def make(self):
        with self.image.open("wb") as file:
            file.truncate(self.SIZE)
        options = [
            "-q",
            "-F",
            "-m",
            "0",
            "-O",
            "^metadata_csum",
            "-E",
            "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
        ]
        process = subprocess.run(["mkfs.ext4", *options, str(self.image)], capture_output=True, text=True)
        if process.returncode:
            raise Refused(f"mkfs.ext4: {process.stderr}")
        for folder in (self.one, self.two):
            folder.mkdir(exist_ok=True)
        self.mount()

    def mount(self):
        if self.loop is None:
            with open("/dev/loop-control") as control:
                number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            self.loop = f"/dev/loop{number}"
            with open(self.loop, "r+b", buffering=0) as loop, self.image.open("r+b", buffering=0) as image:
                fcntl.ioctl(loop, LOOP_SET_FD, image.fileno())
        mount(self.loop, self.one, b"ext4")
        mount(self.one, self.two, flags=MS_BIND)

    def unmount(self):
        for folder in (self.two, self.one):
            call_libc("umount2", os.fsencode(folder), 0)

    def path(self, name: str) -> str:
        return str(self.one / name)

    def other(self, name: str) -> str:
        """Returns the path of a table on the second mount."""
        return str(self.two / name)

    def fill(self, free_bytes: int):
        """Uses up the space except for `free_bytes`."""
        with contextlib.suppress(FileNotFoundError):
            (self.one / "hog").unlink()
        with (self.one / "hog").open("wb") as hog:
            # Retries, as other processes may use space between the two calls.
            for _ in range(100):
                status = os.statvfs(self.one)
                size = max(PAGE, status.f_bavail * status.f_frsize - free_bytes)
                with contextlib.suppress(OSError):
                    os.posix_fallocate(hog.fileno(), 0, size)
                    return

    def free(self):
        (self.one / "hog").unlink()
        # ext4 makes the space available once the removal is committed.
        directory = os.open(self.one, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def write_back(self, name: str, rng: random.Random):
        """Writes random pages of a table to the disk."""
        for path in sorted((self.one / name).glob("*.arrow")):
            if rng.random() < 0.5:
                with path.open("r+b") as file:
                    self.sync_pages(file, rng)

    def sync_pages(self, file, rng: random.Random):
        size = os.fstat(file.fileno()).st_size
        pages = -(-size // PAGE)
        with mmap.mmap(file.fileno(), size) as mapping:
            start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
            for _ in range(rng.randrange(1, 4)):
                # Prefers the beginning of the file, where the commit records are.
                first = rng.choice([0, rng.randrange(pages)])
                count = min(pages - first, rng.choice([1, 4, 16, 64]))
                call_libc("msync", ctypes.c_void_p(start + first * PAGE), ctypes.c_size_t(count * PAGE), MS_SYNC)

    def lose(self, how: str):
        """Loses all pages that were not written back. No process may have a file of the volume open.

        `how` is "snapshot" to continue with a copy of the volume's image, "reboot" to continue in another boot, or
        anything else to detach the volume and mount it again.
        """
        if how == "snapshot":
            copy = self.home / "copy"
            subprocess.run(["cp", "--sparse=always", str(self.image), str(copy)], check=True)
            self.unmount()
            self.detach()
            copy.replace(self.image)
        else:
            directory = os.open(self.one, os.O_RDONLY)
            try:
                fcntl.ioctl(directory, EXT4_IOC_SHUTDOWN, struct.pack("i", NO_LOG_FLUSH))
            finally:
                os.close(directory)
            self.unmount()
        if how == "reboot":
            self.reboot()
        self.mount()

    def detach(self):
        with open(self.loop, "r+b", buffering=0) as loop:
            fcntl.ioctl(loop, LOOP_CLR_FD)
        self.loop = None

    def reboot(self):
        """Changes the id of the boot that new processes see."""
        if self.is_booted:
            call_libc("umount2", BOOT.encode(), MNT_DETACH)
        # The old file may still be mounted elsewhere, so a new one is made.
        with contextlib.suppress(FileNotFoundError):
            self.boot.unlink()
        self.boot.write_text(f"{uuid.uuid4()}\n")
        mount(self.boot, BOOT, flags=MS_BIND)
        self.is_booted = True

    def read_only(self, is_read_only: bool) -> bool:
        """Makes the volume read-only or writable. Returns false if a file is open for writing, which prevents it."""
        try:
            mount(self.loop, self.one, b"ext4", MS_REMOUNT | (MS_RDONLY if is_read_only else 0))
        except OSError as e:
            if e.errno == errno.EBUSY:
                return False
            raise
        return True

    def clean(self):
        for name in os.listdir(self.one):
            if name not in ("lost+found", "hog"):
                shutil.rmtree(self.one / name)

    def close(self):
        if self.loop is None:
            return
        with contextlib.suppress(OSError):
            self.unmount()
        with contextlib.suppress(OSError):
            self.detach()
        shutil.rmtree(self.home, ignore_errors=True)
