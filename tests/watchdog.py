#!/usr/bin/env python3
"""Runs a command. If it hangs, prints the stacks of its processes and ends them.

    tests/watchdog.py [--silent SECONDS] [--all SECONDS] -- COMMAND…

The output, errors and exit status of the command are passed on, and so are signals to it. A command hangs if it prints
nothing for `--silent` seconds, or runs for `--all` seconds. Then each of its processes is listed with the stacks of its
threads, and all processes are ended; the exit status is 124. `kill -USR1` does the same at once. Stacks come from gdb
or elfutils' eu-stack where they are installed and allowed, and otherwise from /proc; for Java also from jcmd, and for
Python from faulthandler.

Processes that outlive the command, including daemons, are listed and ended.
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

# The exit status for a command that was ended, as of timeout(1).
ENDED = 124
# How long a debugger may take for one process, and a killed process to end, in seconds.
PATIENCE = 60
PR_SET_CHILD_SUBREAPER = 36
PROC = Path("/proc")
READ_SIZE = 1 << 16
MAX_COMMAND_LENGTH = 500


class Limits:
    """Limits of the time since the last output, and of the time since the start."""

    def __init__(self, silent, all, now):
        self.silent, self.all = silent, all
        self.start = self.last_output = now

    def output(self, now):
        self.last_output = now

    def left(self, now):
        """Returns the seconds until the first limit is exceeded."""
        return max(0.0, min(self.last_output + self.silent, self.start + self.all) - now)

    def reached(self, now):
        """Returns a description of the limit that is exceeded, or None."""
        if now >= self.start + self.all:
            return f"it ran for {self.all:g} s"
        if now >= self.last_output + self.silent:
            return f"it printed nothing for {self.silent:g} s"
        return None


def format_command(words):
    """Quotes a command for a shell, shortened to a line."""
    line = shlex.join(words).replace("\n", "\\n")
    return line if len(line) <= MAX_COMMAND_LENGTH else line[:MAX_COMMAND_LENGTH] + "…"


class Process:
    """A process as /proc described it when this object was made."""

    def __init__(self, pid):
        self.pid = pid
        # The program's name in parentheses may itself contain parentheses and spaces.
        stat = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2]
        self.state, parent, *_ = stat.split()
        self.parent = int(parent)
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[:-1]
        self.command = format_command(map(os.fsdecode, words)) or self.read("comm").strip()

    def read(self, name):
        """Returns the text of a file in /proc, or why it can't be read."""
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

    def has_ended(self):
        """Returns whether the process had ended when this object was made."""
        return self.state in "ZX"

    def is_running(self):
        """Returns whether the process is running now."""
        try:
            return not Process(self.pid).has_ended()
        except OSError:
            return False

    def send(self, number):
        # The process may have ended, or belong to another user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    def __str__(self):
        return f"{self.pid} {self.command}"


def processes_below(top):
    """Returns the running descendants of process `top`, parents before their children."""
    children = {}
    for name in os.listdir(PROC):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                process = Process(int(name))
                children.setdefault(process.parent, []).append(process)
    descendants, parents = [], [top]
    while parents:
        next_children = children.get(parents.pop(0), [])
        descendants += next_children
        parents += [process.pid for process in next_children]
    return [process for process in descendants if not process.has_ended()]


def run_debugger(*command):
    """Returns the output of a debugger, or None if it isn't installed or fails."""
    if not shutil.which(command[0]):
        return None
    try:
        debugger = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return debugger.stdout.decode(errors="replace") if debugger.returncode == 0 else None


GDB = ["gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set pagination off", "-ex"]


def native_stacks(process):
    """Returns the native stacks of a process's threads, or what /proc says about them if no debugger may attach."""
    output = run_debugger(*GDB, "thread apply all backtrace", "-p", str(process.pid))
    # gdb's status is 0 even if it may not attach.
    if output and "#0" in output:
        # Skips the list of loaded libraries.
        return output[max(0, output.find("\nThread ")) :]
    output = run_debugger("eu-stack", "-p", str(process.pid))
    if output and "#0" in output:
        return output
    lines, threads = [], []
    with contextlib.suppress(OSError):
        threads = sorted(os.listdir(PROC / str(process.pid) / "task"), key=int)
    for thread in threads:
        name = process.read(f"task/{thread}/comm").strip()
        function = process.read(f"task/{thread}/wchan").strip()
        call = process.read(f"task/{thread}/syscall").strip()
        lines.append(f"thread {thread} {name}: waits in {function}, system call {call}")
        lines.append(process.read(f"task/{thread}/stack").strip())
    return "\n".join(lines)


def java_stacks(process):
    """Returns the stacks of all threads of a JVM, including virtual ones, or None if its JDK's jcmd fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "threads")
        jcmd = os.path.join(os.path.dirname(process.link("exe")), "jcmd")
        if run_debugger(jcmd, str(process.pid), "Thread.dump_to_file", file) is None:
            return None
        return Path(file).read_text(errors="replace") if os.path.exists(file) else None


class StderrTail:
    """Reads what a process writes to its standard error from now on, if the watchdog does not read it anyway."""

    def __init__(self, process, streams):
        self.file = None
        # Both ends of a pipe have the same link in /proc, so a pipe that the watchdog reads has one of these.
        own_links = [os.readlink(f"/proc/self/fd/{file}") for file in (1, 2, *streams)]
        if process.link("fd/2") in own_links:
            return
        with contextlib.suppress(OSError):
            self.file = os.open(PROC / str(process.pid) / "fd/2", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            os.lseek(self.file, 0, os.SEEK_END)

    def read(self):
        data = b""
        if self.file is not None:
            with contextlib.suppress(OSError):
                while chunk := os.read(self.file, READ_SIZE):
                    data += chunk
            os.close(self.file)
        return data.decode(errors="replace")


class WatchedCommand:
    """A running command, the forwarding of its output, and all of its descendants."""

    def __init__(self, command, grace):
        self.command = format_command(command)
        # How many seconds processes have to end by themselves.
        self.grace = grace
        self.status = None
        # The file that the output of each stream is written to.
        self.streams = {}
        self.selector = selectors.DefaultSelector()
        self.wakeup_reader, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(self.wakeup_reader, selectors.EVENT_READ)
        # Orphans become children of this process, also those that left the command's group.
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            print_line(f"orphans can't be found: {os.strerror(ctypes.get_errno())}")
        self.pid = self.start(command)

    def start(self, command):
        out, errors = self.open_stream(1), None
        # If both are the same file here, the command gets one stream too, which preserves the order of its output.
        if not os.path.sameopenfile(1, 2):
            errors = self.open_stream(2)
        process = subprocess.Popen(
            command,
            # A process in another session can't read from the terminal.
            stdin=subprocess.DEVNULL if os.isatty(0) else None,
            stdout=out,
            stderr=out if errors is None else errors,
            # Python then prints its stacks when it is aborted.
            env={"PYTHONFAULTHANDLER": "1", **os.environ},
            start_new_session=True,
            # Shells make background commands ignore SIGINT, but tests interrupt processes with it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        for end in {out, errors} - {None}:
            os.close(end)
        # Keeps Popen from waiting for the process: `reap` waits for all children.
        process.returncode = 0
        return process.pid

    def open_stream(self, target):
        """Returns a file for the command to write to, which is forwarded to `target`: a terminal if that is one."""
        if os.isatty(target):
            reader, writer = pty.openpty()
            tty.setraw(writer)
            with contextlib.suppress(OSError):
                fcntl.ioctl(writer, termios.TIOCSWINSZ, fcntl.ioctl(target, termios.TIOCGWINSZ, bytes(8)))
        else:
            reader, writer = os.pipe()
        self.streams[reader] = target
        self.selector.register(reader, selectors.EVENT_READ)
        return writer

    def forward_output(self, seconds):
        """Waits for output or a signal, and forwards output. Returns whether there was some."""
        has_output = False
        for key, _ in self.selector.select(seconds):
            if key.fd == self.wakeup_reader:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wakeup_reader, 4096)
                continue
            try:
                data = os.read(key.fd, READ_SIZE)
                write(self.streams[key.fd], data)
            except OSError:
                # The terminal was closed, or our reader is gone. The command's next write will fail too.
                data = b""
            if data:
                has_output = True
            else:
                self.selector.unregister(key.fd)
                os.close(key.fd)
                del self.streams[key.fd]
        self.reap()
        return has_output

    def reap(self):
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.pid:
                    self.status = os.waitstatus_to_exitcode(status)

    def send(self, number):
        """Sends a signal to the process group of the command."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait_for_all(self, seconds):
        """Waits until no process is left. Returns the processes that are left after `seconds`."""
        end = time.monotonic() + seconds
        while remaining := processes_below(os.getpid()):
            if time.monotonic() >= end:
                break
            self.forward_output(0.02)
        return remaining

    def end_processes(self):
        """Ends all processes with SIGTERM, and with SIGKILL if they don't end within the grace period."""
        for number, seconds in ((signal.SIGTERM, self.grace), (signal.SIGKILL, PATIENCE)):
            deadline, signalled = time.monotonic() + seconds, set()
            while remaining := processes_below(os.getpid()):
                # New processes may have started meanwhile.
                for process in remaining:
                    if process.pid not in signalled:
                        signalled.add(process.pid)
                        process.send(number)
                if time.monotonic() >= deadline:
                    break
                self.forward_output(0.02)
        if remaining:
            print_line(f"could not be ended: {'; '.join(map(str, remaining))}")

    def drain(self):
        """Forwards the output that is still in the pipes."""
        while self.streams and self.forward_output(0):
            pass

    def print_stacks(self):
        """Prints each process, and the stacks of its threads."""
        hanging, pythons = processes_below(os.getpid()), []
        for process in hanging:
            print_line(f"process {process.pid}, child of {process.parent}, state {process.state}: {process.command}")
            if process.program() == "java":
                if java_threads := java_stacks(process):
                    print_text(java_threads)
                else:
                    process.send(signal.SIGQUIT)
            print_text(native_stacks(process))
            if process.program().startswith("python"):
                pythons.append(process)
        # Python writes its stacks to standard error when it is aborted, which may be a pipe to a parent that reads it.
        errors = {process.pid: StderrTail(process, self.streams) for process in pythons}
        for process in pythons:
            with contextlib.suppress(OSError):
                resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
            process.send(signal.SIGABRT)
            end = time.monotonic() + self.grace
            while process.is_running() and time.monotonic() < end:
                self.forward_output(0.02)
            self.drain()
            if python_stacks := errors[process.pid].read():
                print_line(f"process {process.pid}:")
                print_text(python_stacks)


def write(file, data):
    while data:
        data = data[os.write(file, data) :]


def print_line(text):
    print_text(f"watchdog: {text}")


def print_text(text):
    with contextlib.suppress(OSError):
        write(2, text.strip("\n").encode(errors="surrogateescape") + b"\n")


def watch(options):
    """Runs the command until it ends or hangs. Returns the exit status."""
    limits = Limits(options.silent, options.all, time.monotonic())
    requests = []
    try:
        watched = WatchedCommand(options.command, options.grace)
    except OSError as error:
        print_line(error)
        return 127 if isinstance(error, FileNotFoundError) else 126
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Signals that nohup or `&` made this process ignore are not forwarded.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: watched.send(number))
    signal.signal(signal.SIGUSR1, lambda *_: requests.append("it was to be ended by SIGUSR1"))
    while watched.status is None:
        if watched.forward_output(limits.left(time.monotonic())):
            limits.output(time.monotonic())
        if watched.status is None and (why := limits.reached(time.monotonic()) or "".join(requests[:1])):
            print_line(f"{why}; it is ended after its stacks")
            watched.print_stacks()
            watched.end_processes()
            watched.drain()
            print_line(f"{watched.command}: ended, as {why}")
            return ENDED
    if remaining := watched.wait_for_all(options.grace):
        watched.end_processes()
        watched.drain()
        print_line(f"{watched.command}: left processes behind, which were ended: {'; '.join(map(str, remaining))}")
    watched.drain()
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
