"""The short form of `make chaos`: some rounds, and those whose seeds found something once."""

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
def test_nothing_is_lost_while_things_go_wrong(arguments):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        # Each call ends within its own limit; this is for all of them.
        timeout=10 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
