"""Tests tests/campaigns.py: which campaigns are due, where runs continue, and what is recorded as passed."""

import importlib.util
import json
import os
import re
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

# A random campaign that logs its seeds in `seeds_run`. It waits at the seed in `pause_at`, with the process of the wait
# in `sleep_pid`, and fails at the seed in `fail_at`.
SEEDS_COMMAND = """
for seed in $(seq {first} $(({first} + {count} - 1))); do
  echo $seed >> seeds_run
  if [ -f pause_at ] && [ $(cat pause_at) = $seed ]; then sleep 600 & echo $! > sleep_pid; wait; fi
  if [ -f fail_at ] && [ $(cat fail_at) = $seed ]; then echo "seed $seed: wrong"; exit 1; fi
  echo "seed $seed: 10 rows"
done
"""
CAMPAIGNS = f"""
[paths]
code = ["src"]

[seeds]
about = "a | b"
paths = ["@code", "tests/seeds.rs"]
command = '''{SEEDS_COMMAND}'''
total = 10
chunk = 2
unit = "runs"
seed = 'seed (\\d+): wrong'
counts = {{ rows = '(\\d+) rows' }}

[whole]
about = "all at once"
paths = ["other"]
command = "cat output"
counts = {{ tests = '(\\d+) passed' }}
left_out = '^skipped: .*'
"""
RECORD = "docs/campaigns.json"
PAGE = "docs/reliability.md"


def load_program():
    spec = importlib.util.spec_from_file_location("campaigns", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules["campaigns"] = module
    spec.loader.exec_module(module)
    return module


campaigns = load_program()


class Checkout:
    """A repository with a random campaign, ``seeds``, and one that runs at once, ``whole``."""

    def __init__(self, root):
        self.root = root
        self.env = {**os.environ, "CARGO_TARGET_DIR": "target", "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
        self.git("init", "--quiet")
        for name, text in {
            "tests/campaigns.toml": CAMPAIGNS,
            PAGE: f"# What ran when\n{campaigns.BEGIN}\n{campaigns.END}\nThe end.\n",
            "src/deep/one.rs": "one",
            "src/two.rs": "two",
            "tests/seeds.rs": "seeds",
            "other": "other",
            ".gitignore": "/target/\n/seeds_run\n/pause_at\n/sleep_pid\n/fail_at\n/output\n",
        }.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            self.write(name, text)
        self.write("output", "3 passed\n4 passed\n")
        self.commit()

    def git(self, *arguments):
        command = ["git", *arguments]
        return subprocess.run(command, cwd=self.root, env=self.env, check=True, capture_output=True, text=True)

    def commit(self):
        self.git("add", "--all")
        self.git("-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--allow-empty", "-m", "change")

    def read(self, name):
        return (self.root / name).read_text()

    def write(self, name, text):
        (self.root / name).write_text(text)

    def remove(self, name):
        (self.root / name).unlink()

    def commit_file(self, name, text):
        self.write(name, text)
        self.commit()

    def start(self, *arguments):
        command = [sys.executable, str(PROGRAM), "--root", str(self.root), *arguments]
        return subprocess.Popen(command, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *arguments, code=0):
        """Runs the program, asserts its exit code, and returns its output."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, output
        return output

    def due(self):
        """Returns the names of the campaigns that are due."""
        return [line.split()[0] for line in self.run("--due").splitlines()]

    def record(self):
        return json.loads(self.read(RECORD))

    def take_seeds_run(self):
        """Returns the seeds that were run since the last call."""
        path = self.root / "seeds_run"
        seeds = [int(line) for line in path.read_text().split()] if path.exists() else []
        path.unlink(missing_ok=True)
        return seeds

    def wait_for_pause(self, process):
        """Waits until the random campaign that `process` runs pauses, and returns the process of its wait."""
        path = self.root / "sleep_pid"

        def paused():
            assert process.poll() is None, process.stdout.read()
            return path.exists() and path.read_text().strip()

        return int(wait_until(paused, "the campaign pauses"))


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


# ---- what is due ----


def test_campaigns_are_due_until_they_pass(checkout):
    assert checkout.due() == ["seeds", "whole"]
    output = checkout.run()
    assert "tests src tests/seeds.rs" in output and checkout.due() == []
    assert checkout.take_seeds_run() == list(range(10))
    last = checkout.record()["seeds"]["last"]
    assert (last["count"], last["counts"]) == (10, {"rows": 100})
    assert checkout.git("rev-parse", "HEAD").stdout.startswith(last["commit"])
    assert checkout.record()["whole"]["last"]["counts"] == {"tests": 7}
    checkout.run()
    assert checkout.take_seeds_run() == []


def test_changed_file_makes_its_campaigns_due(checkout):
    checkout.run()
    checkout.commit_file("src/deep/one.rs", "another")
    assert checkout.due() == ["seeds"]
    assert "1 of 3 files changed since" in checkout.run("--due")
    states = {state["name"]: state for state in json.loads(checkout.run("--json"))}
    assert states["seeds"]["due"] and states["seeds"]["changed"] == 1 and not states["whole"]["due"]
    checkout.commit_file("src/new.rs", "new")
    assert "2 of 4 files changed since" in checkout.run("--due")


def test_removed_file_makes_its_campaigns_due(checkout):
    checkout.run()
    checkout.remove("src/two.rs")
    checkout.commit()
    assert "files removed since" in checkout.run("--due")


def test_moved_file_makes_nothing_due(checkout):
    checkout.run()
    (checkout.root / "src/other").mkdir()
    checkout.git("mv", "src/deep/one.rs", "src/other/1.rs")
    checkout.git("mv", "tests/seeds.rs", "tests/moved.rs")
    checkout.commit()
    assert "there is no tests/seeds.rs" in checkout.run("--due", code=2)
    moved = checkout.read("tests/campaigns.toml").replace("tests/seeds.rs", "tests/moved.rs")
    checkout.write("tests/campaigns.toml", moved)
    assert checkout.due() == []
    checkout.commit()
    assert checkout.due() == []


# ---- where runs continue ----


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_run_continues_after_the_seeds_that_passed(checkout, number):
    checkout.write("pause_at", "5")
    process = checkout.start("--only", "seeds")
    sleep_pid = checkout.wait_for_pause(process)
    process.send_signal(number)
    if number == signal.SIGKILL:
        # A killed program can't end the command that it runs.
        os.kill(sleep_pid, signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), output
    entry = checkout.record()["seeds"]
    assert (entry["begun"]["count"], entry["begun"]["counts"]) == (4, {"rows": 40}) and "last" not in entry
    assert "4 of 10 runs passed" in checkout.run("--due")
    checkout.remove("pause_at")
    checkout.take_seeds_run()
    checkout.run("--only", "seeds")
    assert checkout.take_seeds_run() == [4, 5, 6, 7, 8, 9]
    entry = checkout.record()["seeds"]
    assert entry["last"]["counts"] == {"rows": 100} and "begun" not in entry


def has_ended(pid):
    """Returns whether a process has ended, also if its parent has not waited for it."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_stopped_run_ends_its_processes(checkout):
    checkout.write("pause_at", "1")
    process = checkout.start("--only", "seeds")
    sleep_pid = checkout.wait_for_pause(process)
    process.terminate()
    process.communicate(timeout=PATIENCE)
    wait_until(lambda: has_ended(sleep_pid), "the process is over")


def test_changed_code_restarts_with_the_first_seed(checkout):
    checkout.run("--only", "seeds=4")
    assert checkout.take_seeds_run() == [0, 1, 2, 3] and checkout.due() == ["seeds", "whole"]
    checkout.commit_file("src/two.rs", "other code")
    checkout.run("--only", "seeds=2")
    assert checkout.take_seeds_run() == [0, 1]


def test_passed_campaign_continues_with_new_seeds(checkout):
    checkout.run("--only", "seeds")
    checkout.take_seeds_run()
    checkout.run("--only", "seeds=3 whole")
    assert checkout.take_seeds_run() == [10, 11, 12]
    last = checkout.record()["seeds"]["last"]
    assert (last["count"], last["counts"]) == (13, {"rows": 130}) and checkout.due() == []


# ---- failures, and runs that do not count as passed ----


def test_failure_is_recorded_with_its_seed_and_fails_the_run(checkout):
    checkout.write("fail_at", "7")
    output = checkout.run(code=1)
    assert "seed 7: wrong" in output and "FAILED at seed 7" in output
    entry = checkout.record()["seeds"]
    assert entry["begun"]["failed"]["seed"] == 7 and entry["begun"]["count"] == 6 and "last" not in entry
    # Other campaigns still run, and the failed one stays due.
    assert "last" in checkout.record()["whole"] and checkout.due() == ["seeds"]
    assert "FAILED at seed 7" in checkout.run("--due")
    assert "**failed** at seed 7" in checkout.read(PAGE)
    checkout.take_seeds_run()
    # The failure stays on record after the campaign has passed.
    checkout.remove("fail_at")
    checkout.run()
    assert checkout.take_seeds_run() == [6, 7, 8, 9]
    assert [failure["seed"] for failure in checkout.record()["seeds"]["last"]["failures"]] == [7]
    assert "**failed** at seed 7" in checkout.read(PAGE)


def test_later_failure_makes_a_passed_campaign_due(checkout):
    checkout.run()
    checkout.write("fail_at", "11")
    checkout.run("--only", "seeds", code=1)
    assert checkout.due() == ["seeds"]
    checkout.write("output", "wrong\n")
    checkout.run("--only", "whole", code=1)
    assert checkout.due() == ["seeds", "whole"]


def test_run_without_tests_has_not_passed(checkout):
    checkout.write("output", "0 passed\n")
    assert "tells of no tests" in checkout.run("--only", "whole", code=1)
    assert "last" not in checkout.record()["whole"]


def test_campaign_that_can_not_run_here_stays_due(checkout):
    checkout.write("output", "skipped: no such program\n")
    assert "whole: left out, skipped: no such program" in checkout.run("--only", "whole")
    assert "whole" in checkout.due() and "whole" not in checkout.record()


def test_partial_run_is_recorded_with_what_was_left_out(checkout):
    checkout.write("output", "2 passed\nskipped: no such disk\n")
    checkout.run("--only", "whole")
    assert checkout.record()["whole"]["last"]["left_out"] == ["skipped: no such disk"]
    assert "without: skipped: no such disk" in checkout.read(PAGE)


def test_uncommitted_changes_are_refused_or_recorded(checkout):
    checkout.write("src/two.rs", "not committed")
    checkout.write("src/three.rs", "not even added")
    output = checkout.run("--only", "seeds", code=2)
    assert "src/three.rs src/two.rs" in output and "ALLOW_DIRTY=1" in output
    assert checkout.take_seeds_run() == [] and not (checkout.root / RECORD).exists()
    checkout.run("--only", "whole")
    checkout.run("--only", "seeds", "--allow-dirty")
    assert checkout.record()["seeds"]["last"]["modified"]
    assert "and changes" in checkout.read(PAGE)
    # The run counts for the same files once they are committed.
    checkout.commit()
    assert checkout.due() == []


def test_committed_links_are_no_changes(checkout):
    (checkout.root / "src/link.rs").symlink_to("two.rs")
    checkout.commit()
    checkout.run("--only", "seeds")
    assert not checkout.record()["seeds"]["last"].get("modified")


def test_files_that_change_during_a_run_are_not_recorded(checkout):
    checkout.write("pause_at", "3")
    process = checkout.start("--only", "seeds")
    sleep_pid = checkout.wait_for_pause(process)
    checkout.write("src/two.rs", "edited meanwhile")
    os.kill(sleep_pid, signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and "files changed meanwhile" in output
    assert checkout.record()["seeds"]["begun"]["count"] == 2


# ---- the order of campaigns, and concurrent runs ----


def test_no_campaign_starts_without_time(checkout):
    assert "no time left for seeds whole" in checkout.run("--minutes", "0")
    assert checkout.take_seeds_run() == []


def test_campaign_with_the_oldest_run_comes_first(checkout):
    checkout.run()
    record = checkout.record()
    record["seeds"]["last"]["date"] = "2001-01-02 00:00"
    record["whole"]["last"]["date"] = "2001-01-01 00:00"
    checkout.write(RECORD, json.dumps(record))
    checkout.commit_file("src/two.rs", "other")
    checkout.commit_file("other", "and another")
    output = checkout.run("--minutes", "5")
    assert output.index(" whole: ...") < output.index(" seeds: 0 to 1")


def test_second_run_in_a_checkout_is_refused(checkout):
    checkout.write("pause_at", "0")
    process = checkout.start("--only", "seeds")
    checkout.wait_for_pause(process)
    assert "running in this checkout already" in checkout.run("--only", "whole", code=2)
    process.terminate()
    process.communicate(timeout=PATIENCE)


# ---- the page ----


def test_page_is_written_from_the_record(checkout):
    checkout.run()
    page = checkout.read(PAGE)
    last = checkout.record()["seeds"]["last"]
    assert f"| `seeds` | a \\| b | {last['date'][:10]}, `{last['commit']}` |" in page and "10 runs; rows 100 |" in page
    assert page.startswith("# What ran when\n") and page.endswith("\nThe end.\n")
    checkout.write(PAGE, page.replace("rows 100", "rows 1,000"))
    checkout.run("--page")
    assert checkout.read(PAGE) == page


def test_page_of_this_repository_is_current():
    ledger = campaigns.Ledger.read(ROOT)
    page = (ROOT / campaigns.PAGE).read_text()
    assert ledger.page(page) == page, "python tests/campaigns.py --page"


def test_campaigns_of_this_repository_name_existing_files_and_targets():
    makefile = (ROOT / "Makefile").read_text()
    for campaign in campaigns.campaigns((ROOT / campaigns.TABLE).read_text()).values():
        assert [path for path in campaign.paths if not (ROOT / path).exists()] == [], campaign.name
        words = f"{campaign.setup} {campaign.command}".split()
        for word, argument in zip(words, words[1:], strict=False):
            if word == "--test":
                assert has_rust_test(argument), argument
            elif word == "--no-print-directory" and not argument.startswith("$"):
                assert f"\n{argument}:" in makefile, argument


def test_weekly_workflow_runs_every_campaign_once():
    table = campaigns.campaigns((ROOT / campaigns.TABLE).read_text())
    workflow = (ROOT / ".github/workflows/campaigns.yml").read_text()
    words = " ".join(re.findall(r" only: (.*) }", workflow)).split()
    weekly = []
    for name in (word.partition("=")[0] for word in words):
        weekly += [name] if name in table else [key for key in table if key.startswith(f"{name}-")] or [name]
    # The head of the workflow says why these two are missing.
    assert sorted(weekly) == sorted(table.keys() - {"borders-large", "instructions"})


def has_rust_test(name):
    """Returns whether a crate has a test of this name, as a file or a folder."""
    folders = [ROOT / crate / "tests" for crate in ("crates/arrowwood", "crates/serve", "crates/cli")]
    return any((folder / file).exists() for folder in folders for file in (f"{name}.rs", name))
