"""Where tables lie: a plain directory, or a small file system that can be full, read-only, mounted twice, or lost."""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
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
# What ext4 does: give up the journal as it is, without writing anything back.
EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
BOOT = "/proc/sys/kernel/random/boot_id"

libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """This system does not do it."""


def call(function, *arguments):
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def mount(source, target, kind=b"none", flags=0, data=None):
    call("mount", os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), data)


def own_mounts():
    """From here on mounts are seen by this process and its children only, and go with them."""
    call("unshare", CLONE_NEWNS)
    mount(b"none", b"/", flags=MS_REC | MS_PRIVATE)


class Folder:
    """A plain directory."""

    can_fill = can_lose = can_remount = False

    def __init__(self, home):
        self.home = Path(home)
        self.home.mkdir(exist_ok=True)

    def path(self, name):
        return str(self.home / name)

    other = path

    def clean(self):
        for name in os.listdir(self.home):
            shutil.rmtree(self.home / name)

    def close(self):
        shutil.rmtree(self.home)


class Volume:
    """An ext4 in a file of its own, mounted at two places."""

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
        done = subprocess.run(["mkfs.ext4", *options, str(self.image)], capture_output=True, text=True)
        if done.returncode:
            raise Refused(f"mkfs.ext4: {done.stderr}")
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
            call("umount2", os.fsencode(folder), 0)

    def path(self, name):
        return str(self.one / name)

    def other(self, name):
        return str(self.two / name)

    def fill(self, left):
        """All space but so many bytes is used."""
        with contextlib.suppress(FileNotFoundError):
            (self.one / "hog").unlink()
        with (self.one / "hog").open("wb") as hog:
            # Others may take some meanwhile.
            for _ in range(100):
                found = os.statvfs(self.one)
                with contextlib.suppress(OSError):
                    os.posix_fallocate(hog.fileno(), 0, max(4096, found.f_bavail * found.f_frsize - left))
                    return

    def free(self):
        (self.one / "hog").unlink()
        # Only now ext4 gives the space to others.
        place = os.open(self.one, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)

    def write_back(self, name, dice):
        """Some pages of a table reach the disk, and no others."""
        for file in sorted((self.one / name).glob("*.arrow")):
            if dice.random() < 0.5:
                with file.open("r+b") as opened:
                    self.sync_pages(opened, dice)

    def sync_pages(self, file, dice):
        size = os.fstat(file.fileno()).st_size
        pages = -(-size // PAGE)
        with mmap.mmap(file.fileno(), size) as mapping:
            start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
            for _ in range(dice.randrange(1, 4)):
                # The records are near the beginning.
                first = dice.choice([0, dice.randrange(pages)])
                count = min(pages - first, dice.choice([1, 4, 16, 64]))
                call("msync", ctypes.c_void_p(start + first * PAGE), ctypes.c_size_t(count * PAGE), MS_SYNC)

    def lose(self, how):
        """What was not written back is gone: nobody has a file open."""
        if how == "snapshot":
            # Made of the volume as it is, and mounted on the machine that made it.
            copy = self.home / "copy"
            subprocess.run(["cp", "--sparse=always", str(self.image), str(copy)], check=True)
            self.unmount()
            self.detach()
            copy.replace(self.image)
        else:
            place = os.open(self.one, os.O_RDONLY)
            try:
                fcntl.ioctl(place, EXT4_IOC_SHUTDOWN, struct.pack("i", NO_LOG_FLUSH))
            finally:
                os.close(place)
            self.unmount()
        if how == "reboot":
            self.reboot()
        self.mount()

    def detach(self):
        with open(self.loop, "r+b", buffering=0) as loop:
            fcntl.ioctl(loop, LOOP_CLR_FD)
        self.loop = None

    def reboot(self):
        """Another boot, as all processes that are started from here on see it."""
        if self.is_booted:
            call("umount2", BOOT.encode(), MNT_DETACH)
        # Another file each time, as it stays mounted.
        with contextlib.suppress(FileNotFoundError):
            self.boot.unlink()
        self.boot.write_text(f"{uuid.uuid4()}\n")
        mount(self.boot, BOOT, flags=MS_BIND)
        self.is_booted = True

    def read_only(self, is_so):
        """Whether nothing can be written; False if somebody has a file open for writing."""
        try:
            mount(self.loop, self.one, b"ext4", MS_REMOUNT | (MS_RDONLY if is_so else 0))
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
