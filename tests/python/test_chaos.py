"""Tests tables under faults with a short run of tests/chaos/chaos.py, see `make chaos`."""

import subprocess
import sys
from pathlib import Path

import pytest

from waits import PATIENCE

PROGRAM = Path(__file__).parents[1] / "chaos/chaos.py"


@pytest.mark.skipif(sys.platform != "linux", reason="mounts, and a library that is preloaded")
@pytest.mark.parametrize(
    "arguments", [["--seed", "1", "--rounds", "30"], ["--regressions"]], ids=["rounds", "regressions"]
)
def test_no_row_is_lost_under_faults(arguments):
    process = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        # Calls of the program have limits of their own; this one is for the whole run.
        timeout=10 * PATIENCE,
    )
    assert process.returncode == 0, process.stdout[-20000:] + process.stderr[-2000:]
