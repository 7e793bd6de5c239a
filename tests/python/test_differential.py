"""Runs a short form of ``make differential`` and checks the faults that ``planted/bugs.toml`` lists."""

import json
import subprocess
import sys
from pathlib import Path

from waits import PATIENCE

FOLDER = Path(__file__).parents[1] / "differential"


def run_differential(*arguments: str) -> str:
    """Runs ``differential.py`` and returns its output."""
    command = [sys.executable, str(FOLDER / "differential.py"), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2000:]
    return result.stdout


def read_counts(path: Path) -> list:
    return json.loads(path.read_text())["counts"]


def test_random_cases_agree_with_the_reference(tmp_path):
    path = tmp_path / "counts.json"
    run_differential("--seed", "1", "--cases", "6000", "--json", str(path))
    operations = set()
    column_kinds = set()
    for column_kind, operation, count in read_counts(path):
        if count:
            column_kinds.add(column_kind)
            operations.add(operation)
    # The generated cases have to cover the operations and the kinds of columns.
    assert len(operations) > 100
    assert len(column_kinds) > 45


def test_regressions_pass():
    assert "regressions" in run_differential("--regressions")


def test_planted_faults_are_in_their_files(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER / "planted")
    import plant

    texts = plant.planted_files()
    for name, bug in plant.bugs().items():
        library = "crate" if bug["file"].startswith("crates/arrowwood/src/") else "arrowwood"
        assert f'if {library}::planted::is_on("{name}")' in texts[bug["file"]], name


def test_equal_seeds_generate_equal_datasets(tmp_path):
    first = tmp_path / "first.json"
    second = tmp_path / "second.json"
    for path in (first, second):
        run_differential("--seed", "7", "--datasets", "5", "--json", str(path))
    assert read_counts(first) == read_counts(second)
