#!/usr/bin/env python3
"""Runs a command, and ends it when it hangs, after showing where.

    tests/watchdog.py [--silent SECONDS] [--all SECONDS] -- COMMAND…

Output, errors and exit status of the command are passed on, and so are signals to it. When nothing was printed for
`--silent` seconds, or `--all` seconds are over, every process below is named with the stacks of its threads: by gdb or
elfutils' eu-stack, where they are installed and allowed to, else what /proc tells; by jcmd for Java; by faulthandler
for Python. Then all of them are ended, and the exit status is 124. `kill -USR1` does the same at once.

Processes that the command leaves behind, also those that have made themselves daemons, are named and ended.
"""

import argparse
import contextlib
import ctypes
import fcntl
import os
import pty
import resource
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import tty
from pathlib import Path

# The status of a command that was ended, as timeout(1) has it.
ENDED = 124
# The seconds for a program that shows the stacks of one process, and for a killed process to be over.
PATIENCE = 60
PR_SET_CHILD_SUBREAPER = 36
PROC = Path("/proc")


class Limits:
    """The time since the last output, and since the start, each against its limit."""

    def __init__(self, silent, all, now):
        self.silent, self.all, self.start, self.last = silent, all, now, now

    def output(self, now):
        self.last = now

    def left(self, now):
        """The seconds until the first limit is reached."""
        return max(0.0, min(self.last + self.silent, self.start + self.all) - now)

    def reached(self, now):
        """What is to be said about the limit that is reached, or None."""
        if now >= self.start + self.all:
            return f"it ran for {self.all:g} s"
        if now >= self.last + self.silent:
            return f"it printed nothing for {self.silent:g} s"
        return None


def one_line(words):
    """A command as a shell takes it, as far as it fits into a line."""
    line = shlex.join(words).replace("\n", "\\n")
    return line if len(line) <= 500 else line[:500] + "…"


class Process:
    """One process, as /proc had it when it was read."""

    def __init__(self, pid):
        self.pid = pid
        # The name in parentheses may hold anything, also parentheses and spaces.
        self.state, self.parent = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        self.parent = int(self.parent)
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[:-1]
        self.command = one_line(map(os.fsdecode, words)) or self.read("comm").strip()

    def read(self, name):
        """The text of one file, or why it can't be read."""
        try:
            return (PROC / str(self.pid) / name).read_text(errors="replace")
        except OSError as error:
            return f"({error.strerror})"

    def link(self, name):
        try:
            return os.readlink(PROC / str(self.pid) / name)
        except OSError:
            return ""

    def program(self):
        return os.path.basename(self.link("exe").removesuffix(" (deleted)"))

    def is_over(self):
        """Whether it had ended when it was read."""
        return self.state in "ZX"

    def is_there(self):
        """Whether it has not ended until now."""
        try:
            return not Process(self.pid).is_over()
        except OSError:
            return False

    def send(self, number):
        # It may be over, or belong to somebody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    def __str__(self):
        return f"{self.pid} {self.command}"


def processes_below(top):
    """The processes that descend from `top`, parents before children; those that are over are left out."""
    children = {}
    for name in os.listdir(PROC):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                process = Process(int(name))
                children.setdefault(process.parent, []).append(process)
    found, parents = [], [top]
    while parents:
        below = children.get(parents.pop(0), [])
        found += below
        parents += [process.pid for process in below]
    return [process for process in found if not process.is_over()]


def printed(*command):
    """What a program prints that looks at a process, or None if it isn't there or fails."""
    if not shutil.which(command[0]):
        return None
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


GDB = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set pagination off", "-ex"]


def stacks(process):
    """The native stacks of the threads of a process, as far as it may be looked at."""
    shown = printed(*GDB, "thread apply all backtrace", "-p", str(process.pid))
    # gdb's status is 0 also where it may not attach.
    if shown and "#0" in shown:
        # Before the first thread stands which libraries were read.
        return shown[max(0, shown.find("\nThread ")) :]
    shown = printed("eu-stack", "-p", str(process.pid))
    if shown and "#0" in shown:
        return shown
    lines, threads = [], []
    with contextlib.suppress(OSError):
        threads = sorted(os.listdir(PROC / str(process.pid) / "task"), key=int)
    for thread in threads:
        name, waits, call, kernel = (
            process.read(f"task/{thread}/{file}").strip() for file in ("comm", "wchan", "syscall", "stack")
        )
        lines += [f"thread {thread} {name}: waits in {waits}, system call {call}", kernel]
    return "\n".join(lines)


def java_stacks(process):
    """The stacks of all threads of a JVM, also of virtual ones, or None: by the program of its JDK that shows them."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "threads")
        jcmd = os.path.join(os.path.dirname(process.link("exe")), "jcmd")
        if printed(jcmd, str(process.pid), "Thread.dump_to_file", file) is None:
            return None
        return Path(file).read_text(errors="replace") if os.path.exists(file) else None


class Errors:
    """What a process writes to its standard error from now on, if that is something else than ours."""

    def __init__(self, process, ours):
        self.file, name = None, process.link("fd/2")
        # Both ends of a pipe have one name, so those that we read ourselves are known by it.
        if name in [os.readlink(f"/proc/self/fd/{file}") for file in (1, 2, *ours)]:
            return
        with contextlib.suppress(OSError):
            self.file = os.open(PROC / str(process.pid) / "fd/2", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            os.lseek(self.file, 0, os.SEEK_END)

    def read(self):
        data = b""
        if self.file is not None:
            with contextlib.suppress(OSError):
                while more := os.read(self.file, 1 << 16):
                    data += more
            os.close(self.file)
        return data.decode(errors="replace")


class Watched:
    """The command, its output on the way to ours, and everything below it."""

    def __init__(self, command, grace):
        self.command, self.grace = one_line(command), grace
        self.status, self.streams, self.selector = None, {}, selectors.DefaultSelector()
        self.woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(self.woken, selectors.EVENT_READ)
        # What leaves the command's group, or survives its parent, becomes a child of this process.
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            say(f"orphans can't be found: {os.strerror(ctypes.get_errno())}")
        self.pid = self.start(command)

    def start(self, command):
        out, errors = self.stream(1), None
        # Both into one stream where ours are, as the order between them would be lost.
        if not os.path.sameopenfile(1, 2):
            errors = self.stream(2)
        process = subprocess.Popen(
            command,
            # A session of its own can't read from our terminal.
            stdin=subprocess.DEVNULL if os.isatty(0) else None,
            stdout=out,
            stderr=out if errors is None else errors,
            # faulthandler then shows the stacks of any Python that is aborted.
            env={"PYTHONFAULTHANDLER": "1", **os.environ},
            start_new_session=True,
            # A shell ignores SIGINT in what it starts in the background. Tests that interrupt a process need it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        for end in {out, errors} - {None}:
            os.close(end)
        # It is waited for with all others, in `reap`.
        process.returncode = 0
        return process.pid

    def stream(self, ours):
        """What the command writes to, to be passed on to `ours`: a terminal if that is one, else a pipe."""
        if os.isatty(ours):
            here, there = pty.openpty()
            tty.setraw(there)
            with contextlib.suppress(OSError):
                fcntl.ioctl(there, termios.TIOCSWINSZ, fcntl.ioctl(ours, termios.TIOCGWINSZ, bytes(8)))
        else:
            here, there = os.pipe()
        self.streams[here] = ours
        self.selector.register(here, selectors.EVENT_READ)
        return there

    def pass_on(self, seconds):
        """Wait for output, or for another event, and pass the output on; whether there was some."""
        some = False
        for key, _ in self.selector.select(seconds):
            if key.fd == self.woken:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.woken, 4096)
                continue
            try:
                data = os.read(key.fd, 1 << 16)
                write(self.streams[key.fd], data)
            except OSError:
                # So ends a terminal, and whoever reads us: the command finds out by its own next write.
                data = b""
            if data:
                some = True
            else:
                self.selector.unregister(key.fd)
                os.close(key.fd)
                del self.streams[key.fd]
        self.reap()
        return some

    def reap(self):
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.pid:
                    self.status = os.waitstatus_to_exitcode(ended[1])

    def send(self, number):
        """Send a signal to the command, and to what it has started in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def until_over(self, seconds):
        """Wait until no process is left; those that are, after some seconds."""
        end = time.monotonic() + seconds
        while left := processes_below(os.getpid()):
            if time.monotonic() >= end:
                break
            self.pass_on(0.02)
        return left

    def end_all(self):
        """Ask all processes to end, and after a while make them."""
        for number, seconds in ((signal.SIGTERM, self.grace), (signal.SIGKILL, PATIENCE)):
            end, asked = time.monotonic() + seconds, set()
            while left := processes_below(os.getpid()):
                # Also those that were started meanwhile.
                for process in left:
                    if process.pid not in asked:
                        asked.add(process.pid)
                        process.send(number)
                if time.monotonic() >= end:
                    break
                self.pass_on(0.02)
        if left:
            say(f"could not be ended: {'; '.join(map(str, left))}")

    def rest(self):
        """Pass on what is still in the pipes."""
        while self.streams and self.pass_on(0):
            pass

    def show(self):
        """Say what hangs: each process, and the stacks of its threads."""
        hanging, pythons = processes_below(os.getpid()), []
        for process in hanging:
            say(f"process {process.pid}, child of {process.parent}, state {process.state}: {process.command}")
            if process.program() == "java":
                if shown := java_stacks(process):
                    say_all(shown)
                else:
                    process.send(signal.SIGQUIT)
            say_all(stacks(process))
            if process.program().startswith("python"):
                pythons.append(process)
        # A child says it to its parent, who is to be over then.
        errors = {process.pid: Errors(process, self.streams) for process in pythons}
        for process in pythons:
            with contextlib.suppress(OSError):
                resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
            process.send(signal.SIGABRT)
            end = time.monotonic() + self.grace
            while process.is_there() and time.monotonic() < end:
                self.pass_on(0.02)
            self.rest()
            if shown := errors[process.pid].read():
                say(f"process {process.pid}:")
                say_all(shown)


def write(file, data):
    while data:
        data = data[os.write(file, data) :]


def say(text):
    say_all(f"watchdog: {text}")


def say_all(text):
    with contextlib.suppress(OSError):
        write(2, text.strip("\n").encode(errors="surrogateescape") + b"\n")


def watch(options):
    """Run the command; returns the exit status."""
    limits, asked = Limits(options.silent, options.all, time.monotonic()), []
    try:
        watched = Watched(options.command, options.grace)
    except OSError as error:
        say(error)
        return 127 if isinstance(error, FileNotFoundError) else 126
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # What nohup and `&` have this process ignore is not passed on.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: watched.send(number))
    signal.signal(signal.SIGUSR1, lambda *_: asked.append("it was to be ended by SIGUSR1"))
    while watched.status is None:
        if watched.pass_on(limits.left(time.monotonic())):
            limits.output(time.monotonic())
        if watched.status is None and (why := limits.reached(time.monotonic()) or "".join(asked[:1])):
            say(f"{why}; it is ended after its stacks")
            watched.show()
            watched.end_all()
            watched.rest()
            say(f"{watched.command}: ended, as {why}")
            return ENDED
    if left := watched.until_over(options.grace):
        watched.end_all()
        watched.rest()
        say(f"{watched.command}: left processes behind, which were ended: {'; '.join(map(str, left))}")
    watched.rest()
    return watched.status if watched.status >= 0 else 128 - watched.status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--silent", type=float, default=600, help="the seconds without output (default: 600)")
    parser.add_argument("--all", type=float, default=float("inf"), help="the seconds in all (default: no limit)")
    parser.add_argument(
        "--grace", type=float, default=10, help="the seconds that processes have to end by themselves (default: 10)"
    )
    parser.add_argument("command", nargs="+", help="what is run, after --")
    sys.exit(watch(parser.parse_args()))


if __name__ == "__main__":
    main()
