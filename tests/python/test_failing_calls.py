"""Calls of the system that fail: an error of it is an error, and never taken for absence, damage or an end."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

from waits import PATIENCE

PROGRAM = os.path.join(os.path.dirname(__file__), "..", "failing_calls", "operations.py")
spec = importlib.util.spec_from_file_location("operations", PROGRAM)
operations = importlib.util.module_from_spec(spec)
spec.loader.exec_module(operations)

OF_TABLES = [name for name, (begins_with, *_) in operations.OPERATIONS.items() if "table" in begins_with]


def run(*arguments):
    """Lets some calls of an operation fail; `make failing-calls` has all."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("a library is compiled with cc, and preloaded")
    command = [sys.executable, PROGRAM, *arguments, "--every", "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if "needs root" in done.stderr:
        pytest.skip("root can pretend another boot")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("operation", operations.OPERATIONS)
def test_calls_that_fail_cost_no_row(operation):
    run(operation)


@pytest.mark.parametrize("operation", OF_TABLES)
def test_calls_that_fail_after_a_restart_cost_no_row(operation):
    run(operation, "--rebooted")
