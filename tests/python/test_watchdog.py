"""`tests/watchdog.py`, under which `make test` runs: it passes on what a command says, and ends one that hangs."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WATCHDOG = Path(__file__).parents[1] / "watchdog.py"
PYTHON = [sys.executable, "-u", "-c"]
# Prints the number of a process that never ends, in a session of its own.
DAEMON = """
import os, subprocess, sys
sleeper = [sys.executable, "-c", "import signal; signal.pause()"]
print(subprocess.Popen(sleeper, start_new_session=True).pid)
"""
HANGS = """
import signal
def where_it_hangs():
    print("hangs")
    signal.pause()
where_it_hangs()
"""


def watchdog(*words, **others):
    command = [sys.executable, WATCHDOG, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **others)


def run(*words):
    """The status of the watchdog, and what came out of it."""
    with watchdog(*words) as process:
        return *process.communicate(), process.returncode


@contextlib.contextmanager
def ends(process):
    """Asserts that a process, which exists at the beginning, has ended at the end."""
    file = os.pidfd_open(process)
    try:
        yield
        assert select.select([file], [], [], 0)[0], f"process {process} goes on"
    finally:
        os.close(file)


@pytest.mark.parametrize(("end", "status"), [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), 15)", 143)])
def test_output_errors_and_status_are_passed_on(end, status):
    code = rf"import os, sys; os.write(1, b'out\0\xff\r\n' * 50_000); os.write(2, b'errors\n'); {end}"
    assert run("--", *PYTHON, code) == (b"out\0\xff\r\n" * 50_000, b"errors\n", status)


def test_output_and_errors_into_one_file_keep_their_order(tmp_path):
    code = "import os\nfor i in range(100): os.write(1 + i % 2, b'%d ' % i)"
    with open(tmp_path / "both", "wb") as both:
        subprocess.run([sys.executable, WATCHDOG, "--", *PYTHON, code], stdout=both, stderr=both, check=True)
    assert (tmp_path / "both").read_text().split() == [str(i) for i in range(100)]


def test_a_command_at_a_terminal_has_one():
    here, there = pty.openpty()
    code = "import os; print(os.isatty(1), os.isatty(2), flush=True)"
    with subprocess.Popen(
        [sys.executable, WATCHDOG, "--", *PYTHON, code], stdout=there, stderr=subprocess.PIPE
    ) as process:
        os.close(there)
        with open(here, "rb") as output:
            assert output.readline() == b"True False\r\n"
        assert process.communicate() == (None, b"") and process.returncode == 0


def test_a_command_that_is_not_there():
    out, errors, status = run("--", "/nowhere/nothing")
    assert (out, status) == (b"", 127) and b"/nowhere/nothing" in errors


def test_a_command_that_prints_nothing_is_ended():
    out, errors, status = run("--silent", "0.01", "--", *PYTHON, "import signal; signal.pause()")
    lines = errors.decode().splitlines()
    assert (out, status) == (b"", 124)
    assert lines[0] == "watchdog: it printed nothing for 0.01 s; it is ended after its stacks"
    assert lines[-1].endswith(": ended, as it printed nothing for 0.01 s") and "signal.pause()" in lines[-1]


def test_a_command_that_takes_too_long_is_ended():
    _, errors, status = run("--all", "0.01", "--", *PYTHON, "while True: print('on')")
    assert status == 124 and errors.endswith(b": ended, as it ran for 0.01 s\n")


def test_a_command_that_ignores_signals_is_ended():
    ignore = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGABRT, signal.SIG_IGN)"
    )
    with watchdog("--grace", "0", "--", *PYTHON, ignore + HANGS) as process:
        assert process.stdout.readline() == b"hangs\n"
        process.send_signal(signal.SIGUSR1)
        assert process.wait() == 124


def test_what_hangs_is_named_with_its_stacks():
    # SIGUSR1 counts as silence here, so the test doesn't wait.
    with watchdog("--grace", "60", "--", "sh", "-c", '"$0" "$@"; true', *PYTHON, HANGS) as process:
        assert process.stdout.readline() == b"hangs\n"
        process.send_signal(signal.SIGUSR1)
        out, errors = process.communicate()
    assert (out, process.returncode) == (b"", 124)
    lines = errors.decode().splitlines()
    [shell, python] = [line for line in lines if line.startswith("watchdog: process ")]
    assert ": sh -c " in shell and f", child of {shell.split()[2].rstrip(',')}, " in python
    # Native stacks or waits in the kernel, and Python's stacks.
    assert any("LWP" in line or line.startswith(("TID", "thread")) for line in lines)
    assert any("in where_it_hangs" in line for line in lines)
    assert lines[-1].endswith(": ended, as it was to be ended by SIGUSR1")


def test_the_stack_of_a_python_whose_errors_are_captured():
    parent = "import subprocess, sys; subprocess.run([sys.executable, '-uc', sys.argv[1]], stderr=subprocess.PIPE)"
    with watchdog("--grace", "60", "--", *PYTHON, parent, HANGS) as process:
        assert process.stdout.readline() == b"hangs\n"
        process.send_signal(signal.SIGUSR1)
        lines = process.communicate()[1].decode().splitlines()
    child = [line.split()[2].rstrip(",") for line in lines if line.startswith("watchdog: process ")][1]
    assert any("in where_it_hangs" in line for line in lines[lines.index(f"watchdog: process {child}:") :])


def test_a_hanging_process_that_left_its_group_is_ended():
    with watchdog("--", *PYTHON, DAEMON + HANGS) as process:
        daemon = int(process.stdout.readline())
        with ends(daemon):
            assert process.stdout.readline() == b"hangs\n"
            process.send_signal(signal.SIGUSR1)
            _, errors = process.communicate()
    assert process.returncode == 124 and f"watchdog: process {daemon}, ".encode() in errors


def test_processes_that_are_left_behind_are_named_and_ended():
    # The daemon is found to be there before the command ends.
    with watchdog("--grace", "0", "--", *PYTHON, DAEMON + "input(); sys.exit(5)", stdin=subprocess.PIPE) as process:
        daemon = int(process.stdout.readline())
        with ends(daemon):
            out, errors = process.communicate(b"\n")
    assert (out, process.returncode) == (b"", 5)
    [line] = errors.decode().splitlines()
    assert f"left processes behind, which were ended: {daemon} " in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_passed_on(number):
    code = f"""
import signal, sys
# Whether it comes before the wait for it or during it.
signal.pthread_sigmask(signal.SIG_BLOCK, [{number:d}])
print("waits")
signal.sigwait([{number:d}])
sys.exit(9)
"""
    # Restores the default action, which nohup, or a shell that runs these tests in the background, has replaced.
    with watchdog("--", *PYTHON, code, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as process:
        assert process.stdout.readline() == b"waits\n"
        process.send_signal(number)
        assert process.communicate() == (b"", b"") and process.returncode == 9


def test_what_runs_in_the_background_can_be_interrupted():
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with watchdog("--", *PYTHON, code) as process:
            assert process.communicate() == (b"True\n", b"")
    finally:
        signal.signal(signal.SIGINT, before)


def test_silence_begins_anew_with_each_output(monkeypatch):
    monkeypatch.syspath_prepend(WATCHDOG.parent)
    from watchdog import Limits

    limits = Limits(silent=10, all=100, now=1000)
    assert [limits.left(now) for now in (1000, 1004, 1010, 1200)] == [10, 6, 0, 0]
    assert limits.reached(1009.9) is None and limits.reached(1010) == "it printed nothing for 10 s"
    for now in range(1000, 1100, 9):
        assert limits.reached(now) is None
        limits.output(now)
    assert limits.left(1099) == 1 and limits.reached(1100) == "it ran for 100 s"
