"""Tests that Arrow libraries can read a table while it is written. A short run of ``make live``."""

import subprocess
import sys
from pathlib import Path

import pytest

LIVE = Path(__file__).resolve().parents[1] / "live" / "live.py"
READERS = ["pyarrow-mapped", "pyarrow-copying", "pyarrow-dataset", "polars", "datafusion", "duckdb"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9, and tables don't grow there")
@pytest.mark.parametrize("scenario", ["small", "engines", "killed"])
def test_readers_find_a_prefix_of_the_rows(scenario):
    command = [sys.executable, str(LIVE), "--seconds", "2", "--readers", *READERS, "--", scenario]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
