"""Tests `tests/loaded.py`, which runs copies of a command beside busy processes."""

import os
import subprocess
import sys
from pathlib import Path

LOADED = Path(__file__).parents[1] / "loaded.py"
# Prints its priority, and the commands of the processes beside it.
LOOK = """
import os
from pathlib import Path
parent = os.getppid()
beside = []
for process in Path("/proc").iterdir():
    if process.name.isdigit():
        try:
            status = (process / "stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == parent and int(process.name) != os.getpid():
                beside.append(process.name)
        except OSError:
            pass
print("priority", os.nice(0), "beside", *beside)
"""


def run_loaded(*arguments):
    return subprocess.run([sys.executable, LOADED, *arguments], capture_output=True, text=True)


def test_command_has_the_lowest_priority_beside_busy_processes():
    result = run_loaded("--busy", "3", "--", sys.executable, "-c", LOOK)
    assert result.returncode == 0, result.stderr
    words = result.stdout.splitlines()[0].split()
    assert words[:3] == ["priority", "19", "beside"]
    busy = words[3:]
    assert len(busy) == 3
    assert not [process for process in busy if os.path.exists(f"/proc/{process}")], (
        "a busy process outlives the command"
    )


def test_each_copy_is_run_and_reported():
    result = run_loaded("--copies", "3", "--busy", "0", "--", "echo", "one line")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines.count("one line") == 3
    assert [line.split(" after ")[0] for line in lines if line.startswith("loaded: ")] == [
        f"loaded: copy {number} of 3: exit status 0" for number in (1, 2, 3)
    ]


def test_a_failed_copy_fails_the_run(tmp_path):
    # Only the first of both copies can make the directory.
    result = run_loaded("--copies", "2", "--busy", "0", "--", "mkdir", tmp_path / "one")
    assert result.returncode == 1
    assert "exit status 0" in result.stdout and "exit status 1" in result.stdout
