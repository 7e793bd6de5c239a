"""Stock readers of a table that is being written: a few seconds of what `make live` does for minutes."""

import subprocess
import sys
from pathlib import Path

import pytest

LIVE = Path(__file__).resolve().parents[1] / "live" / "live.py"
READERS = ["pyarrow-mapped", "pyarrow-copying", "pyarrow-dataset", "polars", "datafusion", "duckdb"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9, and tables don't grow there")
@pytest.mark.parametrize("scenario", ["small", "engines", "killed"])
def test_every_open_finds_a_prefix(scenario):
    command = [sys.executable, str(LIVE), "--seconds", "2", "--readers", *READERS, "--", scenario]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
