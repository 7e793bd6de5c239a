"""Tests `tests/watchdog.py`, which passes on the output of a command and ends the command if it hangs."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

WATCHDOG = Path(__file__).parents[1] / "watchdog.py"
PYTHON = [sys.executable, "-u", "-c"]

# The exit status of a command that the watchdog ended.
ENDED = 124

# Starts a process in a session of its own, which never ends, and prints its process id.
START_DAEMON = """
import os, subprocess, sys
sleeper = [sys.executable, "-c", "import signal; signal.pause()"]
print(subprocess.Popen(sleeper, start_new_session=True).pid)
"""
# Never ends, in a function whose name its stack shows.
HANG = """
import signal
def where_it_hangs():
    print("hangs")
    signal.pause()
where_it_hangs()
"""
IGNORE_SIGNALS = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGABRT, signal.SIG_IGN)
"""


class Result(NamedTuple):
    output: bytes
    errors: bytes
    status: int


def start_watchdog(*arguments, **options) -> subprocess.Popen:
    command = [sys.executable, WATCHDOG, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def run_watchdog(*arguments) -> Result:
    with start_watchdog(*arguments) as process:
        output, errors = process.communicate()
    return Result(output, errors, process.returncode)


def end_hanging_command(process: subprocess.Popen) -> None:
    """Waits until the command hangs, and makes the watchdog treat it as silent, without waiting for a timeout."""
    assert process.stdout.readline() == b"hangs\n"
    process.send_signal(signal.SIGUSR1)


@contextlib.contextmanager
def assert_process_ends(pid: int):
    """Asserts that a process exists when the block starts and has ended when it is left."""
    pidfd = os.pidfd_open(pid)
    try:
        yield
        readable, _, _ = select.select([pidfd], [], [], 0)
        assert readable, f"process {pid} is still running"
    finally:
        os.close(pidfd)


def described_processes(lines: list[str]) -> list[str]:
    """Returns the lines of the report that begin the description of a process."""
    return [line for line in lines if line.startswith("watchdog: process ")]


def process_id(line: str) -> str:
    """Returns the process id in a line such as "watchdog: process 7, child of 6, …"."""
    return line.split()[2].rstrip(",")


# ---- Output, status and signals of the command ----


@pytest.mark.parametrize(
    ("end", "status"),
    [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), 15)", 128 + signal.SIGTERM)],
)
def test_output_errors_and_status_are_passed_on(end, status):
    code = rf"import os, sys; os.write(1, b'out\0\xff\r\n' * 50_000); os.write(2, b'errors\n'); {end}"
    result = run_watchdog("--", *PYTHON, code)
    assert result == Result(b"out\0\xff\r\n" * 50_000, b"errors\n", status)


def test_output_and_errors_in_one_file_keep_their_order(tmp_path):
    code = "import os\nfor i in range(100): os.write(1 + i % 2, b'%d ' % i)"
    with open(tmp_path / "both", "wb") as file:
        subprocess.run([sys.executable, WATCHDOG, "--", *PYTHON, code], stdout=file, stderr=file, check=True)
    assert (tmp_path / "both").read_text().split() == [str(i) for i in range(100)]


def test_command_has_a_terminal_if_the_watchdog_has_one():
    controller, terminal = pty.openpty()
    code = "import os; print(os.isatty(1), os.isatty(2), flush=True)"
    command = [sys.executable, WATCHDOG, "--", *PYTHON, code]
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE) as process:
        os.close(terminal)
        with open(controller, "rb") as output:
            assert output.readline() == b"True False\r\n"
        assert process.communicate() == (None, b"")
        assert process.returncode == 0


def test_missing_command_is_named():
    result = run_watchdog("--", "/nowhere/nothing")
    assert (result.output, result.status) == (b"", 127)
    assert b"/nowhere/nothing" in result.errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_passed_on(number):
    # The signal is blocked first, so that it may arrive before `sigwait` is called or during the call.
    code = f"""
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [{number:d}])
print("waits")
signal.sigwait([{number:d}])
sys.exit(9)
"""

    # `nohup`, or a shell that runs these tests in the background, sets signals to be ignored.
    def restore_default_action():
        signal.signal(number, signal.SIG_DFL)

    with start_watchdog("--", *PYTHON, code, preexec_fn=restore_default_action) as process:
        assert process.stdout.readline() == b"waits\n"
        process.send_signal(number)
        assert process.communicate() == (b"", b"")
        assert process.returncode == 9


def test_command_in_the_background_can_be_interrupted():
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    # A shell starts background commands with SIGINT ignored.
    previous_action = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with start_watchdog("--", *PYTHON, code) as process:
            assert process.communicate() == (b"True\n", b"")
    finally:
        signal.signal(signal.SIGINT, previous_action)


# ---- Commands that hang ----


def test_silent_command_is_ended():
    result = run_watchdog("--silent", "0.01", "--", *PYTHON, "import signal; signal.pause()")
    assert (result.output, result.status) == (b"", ENDED)
    lines = result.errors.decode().splitlines()
    assert lines[0] == "watchdog: it printed nothing for 0.01 s; it is ended after its stacks"
    assert "signal.pause()" in lines[-1]
    assert lines[-1].endswith(": ended, as it printed nothing for 0.01 s")


def test_command_over_its_time_limit_is_ended():
    result = run_watchdog("--all", "0.01", "--", *PYTHON, "while True: print('on')")
    assert result.status == ENDED
    assert result.errors.endswith(b": ended, as it ran for 0.01 s\n")


def test_command_that_ignores_signals_is_ended():
    with start_watchdog("--grace", "0", "--", *PYTHON, IGNORE_SIGNALS + HANG) as process:
        end_hanging_command(process)
        assert process.wait() == ENDED


def test_hanging_processes_are_reported_with_their_stacks():
    shell_command = ["sh", "-c", '"$0" "$@"; true', *PYTHON, HANG]
    with start_watchdog("--grace", "60", "--", *shell_command) as process:
        end_hanging_command(process)
        output, errors = process.communicate()
    assert (output, process.returncode) == (b"", ENDED)
    lines = errors.decode().splitlines()
    shell, python = described_processes(lines)
    assert ": sh -c " in shell
    assert f", child of {process_id(shell)}, " in python
    # Native stacks from gdb or eu-stack, or else the waits of threads in the kernel.
    assert any("LWP" in line or line.startswith(("TID", "thread")) for line in lines)
    # Python's stack.
    assert any("in where_it_hangs" in line for line in lines)
    assert lines[-1].endswith(": ended, as it was to be ended by SIGUSR1")


def test_python_stack_is_reported_if_errors_are_captured():
    parent = "import subprocess, sys; subprocess.run([sys.executable, '-uc', sys.argv[1]], stderr=subprocess.PIPE)"
    with start_watchdog("--grace", "60", "--", *PYTHON, parent, HANG) as process:
        end_hanging_command(process)
        _, errors = process.communicate()
    lines = errors.decode().splitlines()
    child = process_id(described_processes(lines)[1])
    description = lines[lines.index(f"watchdog: process {child}:") :]
    assert any("in where_it_hangs" in line for line in description)


# ---- Processes outside the command's process group ----


def test_hanging_daemon_is_ended():
    with start_watchdog("--", *PYTHON, START_DAEMON + HANG) as process:
        daemon = int(process.stdout.readline())
        with assert_process_ends(daemon):
            end_hanging_command(process)
            _, errors = process.communicate()
    assert process.returncode == ENDED
    assert f"watchdog: process {daemon}, ".encode() in errors


def test_processes_left_behind_are_named_and_ended():
    # The command waits for input, so that the daemon is known to exist before the command ends.
    code = START_DAEMON + "input(); sys.exit(5)"
    with start_watchdog("--grace", "0", "--", *PYTHON, code, stdin=subprocess.PIPE) as process:
        daemon = int(process.stdout.readline())
        with assert_process_ends(daemon):
            output, errors = process.communicate(b"\n")
    assert (output, process.returncode) == (b"", 5)
    [line] = errors.decode().splitlines()
    assert f"left processes behind, which were ended: {daemon} " in line


# ---- Limits ----


def test_output_restarts_the_limit_of_silence(monkeypatch):
    monkeypatch.syspath_prepend(WATCHDOG.parent)
    from watchdog import Limits

    limits = Limits(silent=10, all=100, now=1000)
    assert [limits.left(now) for now in (1000, 1004, 1010, 1200)] == [10, 6, 0, 0]
    assert limits.reached(1009.9) is None
    assert limits.reached(1010) == "it printed nothing for 10 s"

    for now in range(1000, 1100, 9):
        assert limits.reached(now) is None
        limits.output(now)
    assert limits.left(1099) == 1
    assert limits.reached(1100) == "it ran for 100 s"
