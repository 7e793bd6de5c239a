"""Runs long tests again when the code that they test has changed, and records in docs/campaigns.json what ran when.

    python tests/campaigns.py [--due] [--json] [--only "NAME NAME=COUNT ..."] [--minutes N] [--allow-dirty] [--page]

tests/campaigns.toml lists the campaigns: the command that each one runs, and the paths that it tests. A campaign is due
until all of it has passed with the files that are under these paths now. Files are compared by their contents, so a
moved or renamed file makes no campaign due.

Random campaigns run in chunks of seeds, and each passed chunk is recorded. A run that is stopped continues after its
last chunk as long as the files are the same, and --only continues after the seeds of a complete run. A failed chunk is
recorded as failed. A chunk that was stopped, could not run here, or did nothing is never recorded as passed.

--due lists the campaigns that are due, and --json everything that is known of all campaigns; neither runs anything.
--only runs campaigns, due or not, with COUNT of their seeds. --minutes starts nothing after that time. --page writes
the table of docs/reliability.md.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

TABLE = "tests/campaigns.toml"
DATA = "docs/campaigns.json"
PAGE = "docs/reliability.md"
BEGIN, END = "<!-- campaigns: made by tests/campaigns.py -->", "<!-- end of campaigns -->"
# How many lines of the output of a failed command are printed.
MAX_FAILURE_LINES = 130
SECONDS_BETWEEN_LINES = 60


class CampaignError(Exception):
    """A request can't be carried out; the text says why."""


class StopRequested(BaseException):
    """A signal asked the program to stop."""

    def __init__(self, number):
        self.number = number


@dataclass(frozen=True)
class Campaign:
    name: str
    about: str
    paths: list[str]
    command: str
    # Patterns by name. Each must match the output, and the numbers that it finds are added up.
    counts: dict[str, str]
    # A command that builds what the chunks need.
    setup: str = ""
    # A command that fails on machines that can't run the campaign.
    needs: str = ""
    # A pattern for lines of the output that name parts which could not run here.
    left_out: str = ""
    # How many seeds, rounds or seconds the campaign has in total, and in a chunk.
    total: int = 1
    chunk: int = 1
    unit: str = ""
    # A pattern for the seed in the output of a failure.
    seed: str = ""

    @property
    def is_random(self):
        """Returns whether there are more seeds to try after the campaign has passed."""
        return "{first}" in self.command and self.unit != "parts"


def campaigns(text):
    """Parses the table of campaigns, and returns them by name.

    A path "@name" stands for a set of paths. An entry with `each` makes a campaign for each of its keys.
    """
    table = tomllib.loads(text)
    path_sets = table.pop("paths", {})
    parsed = {}
    for name, entry in table.items():
        variants = entry.pop("each", {"": []})
        for key, extra_paths in variants.items():
            fields = {"name": f"{name}-{key}" if key else name, "chunk": entry.get("total", 1)}
            for field_name, value in entry.items():
                fields[field_name] = value.replace("{each}", key) if isinstance(value, str) else value
            fields["paths"] = []
            for path in [*entry["paths"], *extra_paths]:
                path = path.replace("{each}", key)
                fields["paths"] += path_sets[path[1:]] if path.startswith("@") else [path]
            parsed[fields["name"]] = Campaign(**fields)
    return parsed


def git(root, *words, text=None):
    process = subprocess.run(["git", *words], cwd=root, input=text, capture_output=True, text=True)
    if process.returncode:
        raise CampaignError(f"git {words[0]} fails: {process.stderr.strip()}")
    return process.stdout


def head_commit(root):
    return git(root, "rev-parse", "--short=10", "HEAD").strip()


def committed_files(root, commit):
    """Returns the hash of each file of a commit, by path. Links are left out."""
    lines = git(root, "ls-tree", "-r", "-z", commit).split("\0")[:-1]
    entries = [line.split("\t", 1) for line in lines]
    return {path: info.split()[2] for info, path in entries if info.startswith("100")}


def is_plain_file(path):
    return path.is_file() and not path.is_symlink()


def work_tree_files(root, paths):
    """Returns the hash of each file under `paths` as it is now, by path. Links are left out."""
    output = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths)
    files = sorted({path for path in output.split("\0") if path and is_plain_file(root / path)})
    hashes = git(root, "hash-object", "--stdin-paths", text="".join(f"{path}\n" for path in files)).split()
    return dict(zip(files, hashes, strict=True))


def files_under(files, paths):
    """Returns the files that are one of `paths`, or are in a directory of `paths`."""
    selected = {}
    for path, file_hash in files.items():
        if any(path == prefix or path.startswith(f"{prefix}/") for prefix in paths):
            selected[path] = file_hash
    return selected


def content_hash(files):
    """Returns a hash of the contents of files, independent of their names."""
    return hashlib.sha256("\n".join(sorted(files.values())).encode()).hexdigest()[:16]


@dataclass
class Ledger:
    """The record of each campaign's last complete run, and of the run that has begun since."""

    root: Path
    all: dict[str, Campaign]
    data: dict = field(default_factory=dict)

    @staticmethod
    def read(root):
        data = json.loads((root / DATA).read_text()) if (root / DATA).exists() else {}
        return Ledger(root, campaigns((root / TABLE).read_text()), data)

    def write(self):
        self.data = {name: self.data[name] for name in self.all if self.data.get(name)}
        write_atomically(self.root / DATA, json.dumps(self.data, indent=1) + "\n")
        if (self.root / PAGE).exists():
            write_atomically(self.root / PAGE, self.page((self.root / PAGE).read_text()))

    def page(self, text):
        """Returns the text of the page with the current table."""
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise CampaignError(f"{PAGE} has no place for the table between {BEGIN} and {END}")
        return f"{before}{BEGIN}\n{self.table()}{END}{after}"

    def table(self):
        rows = [self.row(campaign, self.data.get(name, {})) for name, campaign in self.all.items()]
        return "\n".join(["| campaign | | last whole run | took | counts |", "|---|---|---|---:|---|", *rows, ""])

    @staticmethod
    def row(campaign, entry):
        last, unfinished = entry.get("last"), entry.get("begun")
        when = f"{format_day(last)}, `{last['commit']}`{format_modified(last)}" if last else "not yet"
        results = []
        if last and campaign.unit:
            results.append(format_amount(campaign, last["count"]))
        if last:
            results += [f"{name} {number:,}" for name, number in last["counts"].items()]
            results += [f"without: {text}" for text in last.get("left_out", [])]
        if unfinished and not unfinished.get("failed"):
            so_far = f"{unfinished['count']:,} of {format_amount(campaign, campaign.total)}"
            results.append(
                f"begun: {so_far} ({format_day(unfinished)}, `{unfinished['commit']}`{format_modified(unfinished)})"
            )
        for run in filter(None, (last, unfinished)):
            results += [f"**failed**{format_failure(failure)}" for failure in run.get("failures", [])]
        took = format_duration(last["seconds"]) if last else ""
        cells = [f"`{campaign.name}`", campaign.about, when, took, "; ".join(results)]
        escaped = [cell.replace("|", "\\|") for cell in cells]
        return f"| {' | '.join(escaped)} |".replace("  |", " |")


def format_amount(campaign, count):
    return f"{count:,} {campaign.unit}".rstrip()


def format_day(run):
    return run["date"][:10]


def format_modified(run):
    return " and changes" if run.get("modified") else ""


def format_failure(failure):
    seed = f" at seed {failure['seed']}" if "seed" in failure else ""
    return f"{seed} ({format_day(failure)}, `{failure['commit']}`)"


def format_duration(seconds):
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def write_atomically(path, text):
    """Writes a file in one step, so that a stopped program leaves the old file or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)


@dataclass
class CampaignState:
    """A campaign, its record, and the files that it tests as they are now."""

    campaign: Campaign
    entry: dict
    files: dict[str, str]
    # The files that differ from the last commit.
    dirty: list[str]

    @property
    def code(self):
        return content_hash(self.files)

    @property
    def is_due(self):
        last = self.entry.get("last", {})
        has_failed = last.get("failed") or (self.unfinished or {}).get("failed")
        return last.get("code") != self.code or bool(has_failed)

    @property
    def unfinished(self):
        """Returns the unfinished run if its files are the same as now."""
        unfinished = self.entry.get("begun", {})
        return unfinished if unfinished.get("code") == self.code else None

    @property
    def due_since(self):
        runs = [self.entry[name]["date"] for name in ("last", "begun") if name in self.entry]
        return "" if self.unfinished and not self.unfinished.get("failed") else max(runs, default="")


def read_states(ledger):
    files = work_tree_files(ledger.root, sorted({path for campaign in ledger.all.values() for path in campaign.paths}))
    committed = committed_files(ledger.root, "HEAD")
    all_states = {}
    for name, campaign in ledger.all.items():
        missing = [path for path in campaign.paths if not files_under(files, [path])]
        if missing:
            raise CampaignError(f"{name}: there is no {missing[0]}; {TABLE} has to say where it is now")
        tested_files = files_under(files, campaign.paths)
        clean = content_hash(tested_files) == content_hash(files_under(committed, campaign.paths))
        dirty = [] if clean else [path for path, file_hash in tested_files.items() if committed.get(path) != file_hash]
        removed = [] if clean else [path for path in files_under(committed, campaign.paths) if path not in tested_files]
        all_states[name] = CampaignState(campaign, ledger.data.get(name, {}), tested_files, dirty + removed)
    return all_states


def count_changed_files(root, state, trees):
    """Returns how many files are new or changed since the last run, or None if the commit of that run is not here."""
    last = state.entry["last"]
    if last["code"] == state.code:
        return 0
    commit = last["commit"]
    if commit not in trees:
        try:
            trees[commit] = set(committed_files(root, commit).values())
        except CampaignError:
            trees[commit] = None
    return None if trees[commit] is None else sum(file_hash not in trees[commit] for file_hash in state.files.values())


def explain_due(root, state, trees):
    last, unfinished = state.entry.get("last"), state.unfinished
    if not last:
        reason = "never ran to its end"
    else:
        reason = f"last run {format_day(last)} at {last['commit']}{format_modified(last)}"
        changed = count_changed_files(root, state, trees)
        if changed is None:
            reason += ", a commit that is not here"
        elif last["code"] != state.code:
            reason += f", {changed} of {len(state.files)} files changed since" if changed else ", files removed since"
    if unfinished:
        reason += f"; {unfinished['count']:,} of {format_amount(state.campaign, state.campaign.total)} passed"
    for run in filter(None, (last, unfinished)):
        reason += f"; FAILED{format_failure(run['failed'])}" if run.get("failed") else ""
    return reason


def as_json(root, state, trees):
    """Returns what --json prints about a campaign."""
    campaign, last = state.campaign, state.entry.get("last")
    return {
        "name": campaign.name,
        "about": campaign.about,
        "paths": campaign.paths,
        "command": campaign.command,
        "due": state.is_due,
        "why": explain_due(root, state, trees) if state.is_due else None,
        "files": len(state.files),
        "changed": count_changed_files(root, state, trees) if last else None,
        "modified": state.dirty,
        **state.entry,
    }


@dataclass
class Runner:
    ledger: Ledger
    # The time after which no chunk is started, on the monotonic clock.
    deadline: float
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def run(self, state, more):
        """Runs the chunks of a campaign that have not passed, or `more` of its seeds if that is not 0."""
        campaign = state.campaign
        self.log_path(campaign).unlink(missing_ok=True)
        if campaign.needs and self.run_shell(campaign, campaign.needs)[0]:
            self.report_left_out(campaign, f"as this fails: {campaign.needs}")
            return
        run = self.start_run(state)
        if more:
            goal = run["count"] + more
        else:
            goal = campaign.total if run["count"] < campaign.total else run["count"] + campaign.total
        if campaign.setup and self.run_logged(campaign, "setup", campaign.setup)[0]:
            self.record_failure(state, run, {})
            return
        may_continue = self.are_files_unchanged(campaign, run)
        while may_continue and run["count"] < goal and time.monotonic() < self.deadline:
            may_continue = self.run_chunk(state, run, goal)

    def are_files_unchanged(self, campaign, run):
        """Returns whether the files are the same as when the run began, and reports if not."""
        if content_hash(work_tree_files(self.ledger.root, campaign.paths)) == run["code"]:
            return True
        self.failed.append(campaign.name)
        print(f"{campaign.name}: files changed meanwhile, so it is not on record", flush=True)
        return False

    def run_chunk(self, state, run, goal):
        """Runs a chunk and records it. Returns whether another may follow."""
        campaign, first = state.campaign, run["count"]
        count = min(campaign.chunk, goal - first)
        chunk = f"{first:,} to {first + count - 1:,} of {format_amount(campaign, goal)}" if campaign.unit else ""
        command = campaign.command.replace("{first}", str(first)).replace("{count}", str(count))
        code, output, seconds = self.run_logged(campaign, chunk, command)
        if not self.are_files_unchanged(campaign, run):
            return False
        left_out = [match[0].strip() for match in re.finditer(campaign.left_out, output, re.M) if match[0]]
        counts = {name: sum_matches(pattern, output) for name, pattern in campaign.counts.items()}
        missing_counts = [name for name, number in counts.items() if not number]
        if missing_counts and left_out and not code:
            self.report_left_out(campaign, left_out[0])
            return False
        self.update_run(state, run, seconds)
        if missing_counts and not code:
            print(f"{campaign.name}: its output tells of no {', '.join(missing_counts)}", flush=True)
        if code or missing_counts:
            failure = {}
            if "{first}" in campaign.command:
                seed = re.search(campaign.seed, output) if campaign.seed else None
                failure["seed"] = int(seed[1]) if seed else first
            self.record_failure(state, run, failure)
            return False
        run.pop("failed", None)
        run["count"] += count
        run["counts"] = {name: run["counts"].get(name, 0) + number for name, number in counts.items()}
        if left_out:
            run["left_out"] = sorted({*run.get("left_out", []), *left_out})
        self.save(state, run)
        return True

    def start_run(self, state):
        """Returns the run to continue, or a new one."""
        last = state.entry.get("last", {})
        if state.unfinished:
            return state.unfinished
        if last.get("code") == state.code and state.campaign.is_random:
            return last
        run = {"code": state.code, "commit": "", "date": "", "seconds": 0, "count": 0, "counts": {}}
        if last.get("code") == state.code and "failures" in last:
            # A failure with these files remains on record, even if the new run passes.
            run["failures"] = last["failures"]
        return run

    def update_run(self, state, run, seconds):
        run["commit"] = head_commit(self.ledger.root)
        run["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        run["seconds"] = round(run["seconds"] + seconds, 1)
        run.pop("modified", None)
        if state.dirty:
            run["modified"] = True

    def record_failure(self, state, run, failure):
        self.update_run(state, run, 0)
        run["failed"] = {"date": run["date"], "commit": run["commit"], **failure}
        run["failures"] = [*run.get("failures", []), run["failed"]]
        self.failed.append(state.campaign.name)
        print(f"{state.campaign.name}: FAILED{format_failure(run['failed'])}", flush=True)
        self.save(state, run)

    def save(self, state, run):
        if run["count"] < state.campaign.total:
            state.entry["begun"] = run
        else:
            state.entry.pop("begun", None)
            state.entry["last"] = run
        self.ledger.data[state.campaign.name] = state.entry
        self.ledger.write()

    def report_left_out(self, campaign, why):
        self.left_out.append(campaign.name)
        print(f"{campaign.name}: left out, {why}", flush=True)

    def run_logged(self, campaign, chunk, command):
        """Runs a command, and prints a line before and after it. Returns its exit status, output and seconds."""
        now = datetime.now().strftime("%H:%M")
        print(" ".join(filter(None, (f"{now} {campaign.name}:", chunk, "..."))), flush=True)
        start = time.monotonic()
        code, output = self.run_shell(campaign, command)
        seconds = time.monotonic() - start
        if code:
            lines = output.splitlines()[-MAX_FAILURE_LINES:]
            print("\n".join(f"  {line}" for line in lines), flush=True)
        result = f"ended with {code}" if code else "passed"
        print(
            " ".join(filter(None, (f"      {campaign.name}:", chunk, f"{result}, {format_duration(seconds)}"))),
            flush=True,
        )
        return code, output, seconds

    def log_path(self, campaign):
        return self.ledger.root / target_directory() / "campaigns" / f"{campaign.name}.log"

    def run_shell(self, campaign, command):
        """Runs a command, which never outlives this program, and logs its output. Returns its status and output."""
        log_path = self.log_path(campaign)
        log_path.parent.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.ledger.root,
            env=command_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        output = []
        start = time.monotonic()
        last_progress = 0
        try:
            with log_path.open("a") as log_file:
                log_file.write(f"$ {command.strip()}\n")
                for line in process.stdout:
                    output.append(line)
                    log_file.write(line)
                    log_file.flush()
                    if time.monotonic() - start >= last_progress + SECONDS_BETWEEN_LINES:
                        last_progress = time.monotonic() - start
                        print(
                            f"      {campaign.name}: {format_duration(last_progress)}, {line.strip()[:80]}", flush=True
                        )
            return process.wait(), "".join(output)
        finally:
            end_process_group(process)


def target_directory():
    return os.environ.get("CARGO_TARGET_DIR") or "target"


def command_environment():
    """Returns the environment of commands, without the flags of the `make` that started this program."""
    inherited = {name: text for name, text in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    fixed = {"CARGO_TERM_COLOR": "never", "PYTHONUNBUFFERED": "1"}
    return {**inherited, **fixed, "TARGET": target_directory(), "VENV": os.environ.get("VENV") or ".venv"}


def end_process_group(process):
    """Ends a process and its group, unless it has ended already."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        # The process is not reaped before its group is killed, so its number can't be reused for another group.
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not os.waitid(
            os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def sum_matches(pattern, output):
    """Returns the sum of the numbers that a pattern's group matches, or the number of matches if it has no group."""
    matches = re.findall(pattern, output, re.M)
    return sum(int(text.replace(",", "")) for text in matches) if re.compile(pattern).groups else len(matches)


def select_campaigns(all_states, only):
    """Returns the states of the campaigns that --only names, each with the number of seeds, or 0."""
    campaign_states = []
    for word in only.split():
        name, _, count = word.partition("=")
        names = (
            [name]
            if name in all_states
            else [full_name for full_name in all_states if full_name.startswith(f"{name}-")]
        )
        if not names:
            raise CampaignError(f"no campaign {name}; there are: {' '.join(all_states)}")
        for selected in names:
            if count and not (count.isdigit() and int(count) and all_states[selected].campaign.unit):
                raise CampaignError(f"{selected} has no seeds to count: {word}")
            campaign_states.append((all_states[selected], int(count or 0)))
    return campaign_states


def print_states(all_states, root):
    """Prints each campaign, the paths that it tests, and why it is due."""
    trees = {}
    for name, state in all_states.items():
        print(f"{name}: {state.campaign.about}\n    tests {' '.join(state.campaign.paths)}")
        print(f"    {'due: ' + explain_due(root, state, trees) if state.is_due else 'passed with these files'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--due", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", metavar="NAMES")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--allow-dirty", action="store_true")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="another checkout")
    args = parser.parse_args()
    try:
        return run_command(args)
    except CampaignError as why:
        print(f"campaigns: {why}", file=sys.stderr)
        return 2
    except StopRequested as signalled:
        print("\ncampaigns: stopped; what passed is on record, and the next run goes on behind it", flush=True)
        return 128 + signalled.number


def run_command(args):
    ledger, trees = Ledger.read(args.root), {}
    if args.page:
        ledger.write()
        return 0
    all_states = read_states(ledger)
    due = [(state, 0) for state in all_states.values() if state.is_due]
    selected = due if args.only is None else select_campaigns(all_states, args.only)
    if args.json:
        print(json.dumps([as_json(ledger.root, state, trees) for state in all_states.values()], indent=1))
        return 0
    if args.due:
        for state, _ in selected:
            print(f"{state.campaign.name:20} {explain_due(ledger.root, state, trees)}")
        return 0
    if args.only is None:
        print_states(all_states, ledger.root)
        selected.sort(key=lambda state_and_count: state_and_count[0].due_since)
    dirty = sorted({path for state, _ in selected for path in state.dirty})
    if dirty and not args.allow_dirty:
        raise CampaignError(
            f"not committed: {' '.join(dirty)}. A run of it could not be traced: commit it, "
            "or say ALLOW_DIRTY=1, and the record says that the files were modified"
        )
    return run_all(ledger, selected, args.minutes)


def run_all(ledger, selected, minutes):
    # Campaigns share the machine and the record, so only one program may run them.
    with (ledger.root / TABLE).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CampaignError("campaigns are running in this checkout already") from None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, request_stop)
        ledger.write()
        runner = Runner(ledger, time.monotonic() + 60 * minutes)
        for number, (state, more) in enumerate(selected):
            if time.monotonic() >= runner.deadline:
                print(f"no time left for {' '.join(state.campaign.name for state, _ in selected[number:])}")
                break
            runner.run(state, more)
        for what, names in (("left out", runner.left_out), ("FAILED", runner.failed)):
            if names:
                print(f"{what}: {' '.join(names)}")
        print(f"{DATA} and the table of {PAGE} have what ran")
        return int(bool(runner.failed))


def request_stop(number, _frame):
    raise StopRequested(number)


if __name__ == "__main__":
    sys.exit(main())
