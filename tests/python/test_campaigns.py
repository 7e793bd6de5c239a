"""Tests the record of the long tests: what is due, what runs where, and what never counts as passed."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from waits import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/campaigns.py"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

# Each of a campaign's seeds is written down; `stop` is one at which it waits, and `bad` one that fails.
SEEDS = """
for seed in $(seq {first} $(({first} + {count} - 1))); do
  echo $seed >> tried
  if [ -f stop ] && [ $(cat stop) = $seed ]; then sleep 600 & echo $! > sleeping; wait; fi
  if [ -f bad ] && [ $(cat bad) = $seed ]; then echo "seed $seed: wrong"; exit 1; fi
  echo "seed $seed: 10 rows"
done
"""
TABLE = f"""
[paths]
code = ["src"]

[seeds]
about = "a | b"
paths = ["@code", "tests/seeds.rs"]
command = '''{SEEDS}'''
total = 10
chunk = 2
unit = "runs"
seed = 'seed (\\d+): wrong'
counts = {{ rows = '(\\d+) rows' }}

[whole]
about = "all at once"
paths = ["other"]
command = "cat said"
counts = {{ tests = '(\\d+) passed' }}
left_out = '^skipped: .*'
"""


def load():
    spec = importlib.util.spec_from_file_location("campaigns", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules["campaigns"] = module
    spec.loader.exec_module(module)
    return module


campaigns = load()


class Checkout:
    """A repository with two campaigns."""

    def __init__(self, root):
        self.root = root
        self.env = {**os.environ, "CARGO_TARGET_DIR": "target", "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
        self.git("init", "--quiet")
        for name, text in {
            "tests/campaigns.toml": TABLE,
            "docs/reliability.md": f"# What ran when\n{campaigns.BEGIN}\n{campaigns.END}\nThe end.\n",
            "src/deep/one.rs": "one",
            "src/two.rs": "two",
            "tests/seeds.rs": "seeds",
            "other": "other",
            ".gitignore": "/target/\n/tried\n/stop\n/sleeping\n/bad\n/said\n",
        }.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        (root / "said").write_text("3 passed\n4 passed\n")
        self.commit()

    def git(self, *words):
        return subprocess.run(["git", *words], cwd=self.root, env=self.env, check=True, capture_output=True, text=True)

    def commit(self):
        self.git("add", "--all")
        self.git("-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--allow-empty", "-m", "change")

    def change(self, name, text):
        (self.root / name).write_text(text)
        self.commit()

    def start(self, *words):
        command = [sys.executable, str(PROGRAM), "--root", str(self.root), *words]
        return subprocess.Popen(command, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *words, code=0):
        process = self.start(*words)
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, said
        return said

    def due(self):
        return [line.split()[0] for line in self.run("--due").splitlines()]

    def data(self):
        return json.loads((self.root / "docs/campaigns.json").read_text())

    def tried(self):
        """The seeds that were tried since the last time."""
        path = self.root / "tried"
        found = [int(line) for line in path.read_text().split()] if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def wait_for(self, name):
        path = self.root / name
        wait_until(lambda: path.exists() and path.read_text().strip(), f"there is {name}")


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_all_is_due_until_it_has_passed(checkout):
    assert checkout.due() == ["seeds", "whole"]
    said = checkout.run()
    assert "tests src tests/seeds.rs" in said and checkout.due() == []
    assert checkout.tried() == list(range(10))
    last = checkout.data()["seeds"]["last"]
    assert (last["count"], last["counts"]) == (10, {"rows": 100})
    assert checkout.git("rev-parse", "HEAD").stdout.startswith(last["commit"])
    assert checkout.data()["whole"]["last"]["counts"] == {"tests": 7}
    checkout.run()
    assert checkout.tried() == []


def test_a_change_makes_due_what_tests_it(checkout):
    checkout.run()
    checkout.change("src/deep/one.rs", "another")
    assert checkout.due() == ["seeds"]
    assert "1 of 3 files changed since" in checkout.run("--due")
    listed = {one["name"]: one for one in json.loads(checkout.run("--json"))}
    assert listed["seeds"]["due"] and listed["seeds"]["changed"] == 1 and not listed["whole"]["due"]
    checkout.change("src/new.rs", "new")
    assert "2 of 4 files changed since" in checkout.run("--due")


def test_a_file_that_is_removed_makes_due_what_tests_it(checkout):
    checkout.run()
    (checkout.root / "src/two.rs").unlink()
    checkout.commit()
    assert "files removed since" in checkout.run("--due")


def test_a_move_makes_nothing_due(checkout):
    checkout.run()
    (checkout.root / "src/other").mkdir()
    checkout.git("mv", "src/deep/one.rs", "src/other/1.rs")
    checkout.git("mv", "tests/seeds.rs", "tests/moved.rs")
    table = checkout.root / "tests/campaigns.toml"
    checkout.commit()
    assert "there is no tests/seeds.rs" in checkout.run("--due", code=2)
    table.write_text(table.read_text().replace("tests/seeds.rs", "tests/moved.rs"))
    assert checkout.due() == []
    checkout.commit()
    assert checkout.due() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_is_stopped_goes_on_behind_the_seeds_that_passed(checkout, number):
    (checkout.root / "stop").write_text("5")
    process = checkout.start("--only", "seeds")
    checkout.wait_for("sleeping")
    process.send_signal(number)
    if number == signal.SIGKILL:
        # The command outlives the runner, which can't end it any more.
        os.kill(int((checkout.root / "sleeping").read_text()), signal.SIGKILL)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), said
    begun = checkout.data()["seeds"]["begun"]
    assert (begun["count"], begun["counts"]) == (4, {"rows": 40}) and "last" not in checkout.data()["seeds"]
    assert "4 of 10 runs passed" in checkout.run("--due")
    (checkout.root / "stop").unlink()
    checkout.tried()
    checkout.run("--only", "seeds")
    assert checkout.tried() == [4, 5, 6, 7, 8, 9]
    assert checkout.data()["seeds"]["last"]["counts"] == {"rows": 100} and "begun" not in checkout.data()["seeds"]


def is_over(number):
    try:
        return Path("/proc", str(number), "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_what_is_stopped_ends_with_all_that_it_has_started(checkout):
    (checkout.root / "stop").write_text("1")
    process = checkout.start("--only", "seeds")
    checkout.wait_for("sleeping")
    process.terminate()
    process.communicate(timeout=PATIENCE)
    sleeping = int((checkout.root / "sleeping").read_text())
    wait_until(lambda: is_over(sleeping), "the process is over")


def test_other_code_begins_with_the_first_seed(checkout):
    checkout.run("--only", "seeds=4")
    assert checkout.tried() == [0, 1, 2, 3] and checkout.due() == ["seeds", "whole"]
    checkout.change("src/two.rs", "other code")
    checkout.run("--only", "seeds=2")
    assert checkout.tried() == [0, 1]


def test_what_has_passed_goes_on_with_other_seeds(checkout):
    checkout.run("--only", "seeds")
    checkout.tried()
    checkout.run("--only", "seeds=3 whole")
    assert checkout.tried() == [10, 11, 12]
    last = checkout.data()["seeds"]["last"]
    assert (last["count"], last["counts"]) == (13, {"rows": 130}) and checkout.due() == []


def test_a_failure_is_on_record_with_its_seed_and_fails_the_run(checkout):
    (checkout.root / "bad").write_text("7")
    said = checkout.run(code=1)
    assert "seed 7: wrong" in said and "FAILED at seed 7" in said
    entry = checkout.data()["seeds"]
    assert entry["begun"]["failed"]["seed"] == 7 and entry["begun"]["count"] == 6 and "last" not in entry
    # The others ran, and it is still due.
    assert "last" in checkout.data()["whole"] and checkout.due() == ["seeds"]
    assert "FAILED at seed 7" in checkout.run("--due")
    assert "**failed** at seed 7" in (checkout.root / "docs/reliability.md").read_text()
    checkout.tried()
    # A later pass does not remove the failure.
    (checkout.root / "bad").unlink()
    checkout.run()
    assert checkout.tried() == [6, 7, 8, 9]
    assert [one["seed"] for one in checkout.data()["seeds"]["last"]["failures"]] == [7]
    assert "**failed** at seed 7" in (checkout.root / "docs/reliability.md").read_text()


def test_more_seeds_that_fail_make_what_has_passed_due(checkout):
    checkout.run()
    (checkout.root / "bad").write_text("11")
    checkout.run("--only", "seeds", code=1)
    assert checkout.due() == ["seeds"]
    (checkout.root / "said").write_text("wrong\n")
    checkout.run("--only", "whole", code=1)
    assert checkout.due() == ["seeds", "whole"]


def test_what_did_nothing_has_not_passed(checkout):
    (checkout.root / "said").write_text("0 passed\n")
    assert "tells of no tests" in checkout.run("--only", "whole", code=1)
    assert "last" not in checkout.data()["whole"]


def test_what_can_not_run_here_stays_due(checkout):
    (checkout.root / "said").write_text("skipped: no such program\n")
    assert "whole: left out, skipped: no such program" in checkout.run("--only", "whole")
    assert "whole" in checkout.due() and "whole" not in checkout.data()
    # The record notes runs that were partial.
    (checkout.root / "said").write_text("2 passed\nskipped: no such disk\n")
    checkout.run("--only", "whole")
    assert checkout.data()["whole"]["last"]["left_out"] == ["skipped: no such disk"]
    assert "without: skipped: no such disk" in (checkout.root / "docs/reliability.md").read_text()


def test_what_is_not_committed_is_refused_or_on_record_as_modified(checkout):
    (checkout.root / "src/two.rs").write_text("not committed")
    (checkout.root / "src/three.rs").write_text("not even added")
    said = checkout.run("--only", "seeds", code=2)
    assert "src/three.rs src/two.rs" in said and "ALLOW_DIRTY=1" in said
    assert checkout.tried() == [] and not (checkout.root / "docs/campaigns.json").exists()
    checkout.run("--only", "whole")
    checkout.run("--only", "seeds", "--allow-dirty")
    assert checkout.data()["seeds"]["last"]["modified"]
    assert "and changes" in (checkout.root / "docs/reliability.md").read_text()
    # It is what was tested, once it is committed as it is.
    checkout.commit()
    assert checkout.due() == []


def test_files_that_change_while_it_runs_are_not_on_record(checkout):
    (checkout.root / "stop").write_text("3")
    process = checkout.start("--only", "seeds")
    checkout.wait_for("sleeping")
    (checkout.root / "src/two.rs").write_text("edited meanwhile")
    os.kill(int((checkout.root / "sleeping").read_text()), signal.SIGKILL)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and "files changed meanwhile" in said
    assert checkout.data()["seeds"]["begun"]["count"] == 2


def test_the_longest_owed_comes_first_as_long_as_there_is_time(checkout):
    assert "no time left for seeds whole" in checkout.run("--minutes", "0")
    assert checkout.tried() == []
    checkout.run()
    data = checkout.data()
    data["seeds"]["last"]["date"], data["whole"]["last"]["date"] = "2001-01-02 00:00", "2001-01-01 00:00"
    (checkout.root / "docs/campaigns.json").write_text(json.dumps(data))
    checkout.change("src/two.rs", "other")
    checkout.change("other", "and another")
    said = checkout.run("--minutes", "5")
    assert said.index(" whole: ...") < said.index(" seeds: 0 to 1")


def test_only_one_runs_in_a_checkout(checkout):
    (checkout.root / "stop").write_text("0")
    process = checkout.start("--only", "seeds")
    checkout.wait_for("sleeping")
    assert "running in this checkout already" in checkout.run("--only", "whole", code=2)
    process.terminate()
    process.communicate(timeout=PATIENCE)


def test_the_table_is_what_the_data_says(checkout):
    checkout.run()
    page = (checkout.root / "docs/reliability.md").read_text()
    last = checkout.data()["seeds"]["last"]
    assert f"| `seeds` | a \\| b | {last['date'][:10]}, `{last['commit']}` |" in page and "10 runs; rows 100 |" in page
    assert page.startswith("# What ran when\n") and page.endswith("\nThe end.\n")
    (checkout.root / "docs/reliability.md").write_text(page.replace("rows 100", "rows 1,000"))
    checkout.run("--page")
    assert (checkout.root / "docs/reliability.md").read_text() == page


def test_the_page_has_the_table_of_the_data():
    ledger = campaigns.Ledger.read(ROOT)
    page = (ROOT / campaigns.PAGE).read_text()
    assert ledger.page(page) == page, "python tests/campaigns.py --page"


def test_campaigns_name_what_is_there():
    """Paths are there, and so are the targets of make and the tests of cargo that commands name."""
    makefile = (ROOT / "Makefile").read_text()
    for campaign in campaigns.campaigns((ROOT / campaigns.TABLE).read_text()).values():
        assert [path for path in campaign.paths if not (ROOT / path).exists()] == [], campaign.name
        words = f"{campaign.setup} {campaign.command}".split()
        for word, after in zip(words, words[1:], strict=False):
            if word == "--test":
                places = [ROOT / folder / "tests" for folder in (".", "serve", "cli")]
                assert any((place / name).exists() for place in places for name in (f"{after}.rs", after)), after
            elif word == "--no-print-directory" and not after.startswith("$"):
                assert f"\n{after}:" in makefile, after
