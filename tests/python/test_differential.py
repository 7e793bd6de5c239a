"""The short form of `make differential`: random cases, those that found something once, and the faults to plant."""

import json
import subprocess
import sys
from pathlib import Path

from waits import PATIENCE

FOLDER = Path(__file__).parents[1] / "differential"


def run(*arguments):
    done = subprocess.run(
        [sys.executable, str(FOLDER / "differential.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
    return done.stdout


def test_answers_are_those_of_a_naive_twin(tmp_path):
    counts = tmp_path / "counts.json"
    run("--seed", "1", "--cases", "6000", "--json", str(counts))
    cells = {(label, operation) for label, operation, number in json.loads(counts.read_text())["counts"] if number}
    # The generator of cases covers all operations and all kinds of columns.
    assert len({operation for _, operation in cells}) > 100
    assert len({label for label, _ in cells}) > 45


def test_what_went_wrong_once_is_right():
    assert "regressions" in run("--regressions")


def test_faults_to_plant_stand_in_their_files():
    sys.path.insert(0, str(FOLDER / "planted"))
    try:
        import plant
    finally:
        sys.path.remove(str(FOLDER / "planted"))
    texts = plant.planted_files()
    for name, bug in plant.bugs().items():
        assert f'planted::is_on("{name}")' in texts[bug["file"]], name


def test_a_set_of_data_follows_from_its_seed(tmp_path):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for path in (first, second):
        run("--seed", "7", "--datasets", "5", "--json", str(path))
    assert json.loads(first.read_text())["counts"] == json.loads(second.read_text())["counts"]
