"""Long tests, each run again once the code that it tests has changed; docs/campaigns.json says what ran when.

    python tests/campaigns.py [--due] [--json] [--only "NAME NAME=COUNT ..."] [--minutes N] [--allow-dirty] [--page]

tests/campaigns.toml has the campaigns: what each one runs, and the paths that it tests. A campaign is due until all of
it has passed with the files that are under these paths now. Files are compared by their contents: moved and renamed
files make nothing due.

Random campaigns run in chunks of seeds. What passed is on record after each chunk: a run that is stopped goes on behind
it, as long as the files are the same, and --only goes on behind the seeds of a whole run. A chunk that fails is on
record as failed; what was stopped, could not run here, or did nothing is never on record as passed.

--due lists what is due, --json all that is known of each campaign; neither runs anything. --only runs these, due or
not, as many of their seeds as COUNT says. --minutes starts nothing after that time. --page writes the table of
docs/reliability.md.
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
SHOWN_OF_A_FAILURE = 130


class Refused(Exception):
    """What was asked for can't be done; the text says why."""


class Stopped(BaseException):
    """A signal asks to stop."""

    def __init__(self, number):
        self.number = number


@dataclass(frozen=True)
class Campaign:
    name: str
    about: str
    paths: list[str]
    command: str
    # What must be found in the output: by each name a pattern, whose numbers are added up.
    counts: dict[str, str]
    # What is done before the first chunk, so that chunks only test.
    setup: str = ""
    # What has to succeed, or this machine can't run it.
    needs: str = ""
    # What the output says of parts that could not run here.
    left_out: str = ""
    # How many seeds, rounds or seconds all of it has, and how many of them a chunk.
    total: int = 1
    chunk: int = 1
    unit: str = ""
    # Where the output of a failure has the seed.
    seed: str = ""

    @property
    def is_random(self):
        """Whether there is more to try once all of it has passed."""
        return "{first}" in self.command and self.unit != "parts"


def campaigns(text):
    """The campaigns of a table in TOML, by name."""
    table = tomllib.loads(text)
    sets = table.pop("paths", {})
    found = {}
    for name, entry in table.items():
        each = entry.pop("each", {"": []})
        for key, more in each.items():
            of = {"name": f"{name}-{key}" if key else name, "chunk": entry.get("total", 1)}
            for what, value in entry.items():
                of[what] = value.replace("{each}", key) if isinstance(value, str) else value
            paths = [path.replace("{each}", key) for path in [*entry["paths"], *more]]
            of["paths"] = [one for path in paths for one in (sets[path[1:]] if path.startswith("@") else [path])]
            found[of["name"]] = Campaign(**of)
    return found


def git(root, *words, text=None):
    done = subprocess.run(["git", *words], cwd=root, input=text, capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"git {words[0]} fails: {done.stderr.strip()}")
    return done.stdout


def commit_of(root):
    return git(root, "rev-parse", "--short=10", "HEAD").strip()


def tree(root, commit):
    """The hash of each file of a commit, by path."""
    lines = git(root, "ls-tree", "-r", "-z", commit).split("\0")[:-1]
    entries = [line.split("\t", 1) for line in lines]
    return {path: info.split()[2] for info, path in entries if info.split()[1] == "blob"}


def work_tree(root, paths):
    """The hash of each file under `paths` as it is now, by path."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths)
    files = sorted({path for path in listed.split("\0") if path and (root / path).is_file()})
    hashes = git(root, "hash-object", "--stdin-paths", text="".join(f"{path}\n" for path in files)).split()
    return dict(zip(files, hashes, strict=True))


def under(files, paths):
    return {path: it for path, it in files.items() if any(path == of or path.startswith(f"{of}/") for of in paths)}


def code_of(files):
    """What files contain, whatever their names and places are."""
    return hashlib.sha256("\n".join(sorted(files.values())).encode()).hexdigest()[:16]


@dataclass
class Ledger:
    """What ran when: of each campaign the last whole run, and what is under way since."""

    root: Path
    all: dict[str, Campaign]
    data: dict = field(default_factory=dict)

    @staticmethod
    def read(root):
        data = json.loads((root / DATA).read_text()) if (root / DATA).exists() else {}
        return Ledger(root, campaigns((root / TABLE).read_text()), data)

    def write(self):
        self.data = {name: self.data[name] for name in self.all if self.data.get(name)}
        replace(self.root / DATA, json.dumps(self.data, indent=1) + "\n")
        if (self.root / PAGE).exists():
            replace(self.root / PAGE, self.page((self.root / PAGE).read_text()))

    def page(self, text):
        """The page with the table of now."""
        before, found, rest = text.partition(BEGIN)
        _, ended, after = rest.partition(END)
        if not found or not ended:
            raise Refused(f"{PAGE} has no place for the table between {BEGIN} and {END}")
        return f"{before}{BEGIN}\n{self.table()}{END}{after}"

    def table(self):
        rows = [self.row(campaign, self.data.get(name, {})) for name, campaign in self.all.items()]
        return "\n".join(["| campaign | | last whole run | took | counts |", "|---|---|---|---:|---|", *rows, ""])

    @staticmethod
    def row(campaign, entry):
        last, begun = entry.get("last"), entry.get("begun")
        when = f"{day(last)}, `{last['commit']}`{modified(last)}" if last else "not yet"
        said = [f"{what} {number:,}" for what, number in last["counts"].items()] if last else []
        if last and campaign.unit:
            said.insert(0, amount(campaign, last["count"]))
        for text in last.get("left_out", []) if last else []:
            said.append(f"without: {text}")
        if begun and not begun.get("failed"):
            so_far = f"{begun['count']:,} of {amount(campaign, campaign.total)}"
            said.append(f"begun: {so_far} ({day(begun)}, `{begun['commit']}`{modified(begun)})")
        for run in filter(None, (last, begun)):
            said += [f"**failed**{at(failure)}" for failure in run.get("failures", [])]
        took = duration(last["seconds"]) if last else ""
        cells = [f"`{campaign.name}`", campaign.about, when, took, "; ".join(said)]
        escaped = [cell.replace("|", "\\|") for cell in cells]
        return f"| {' | '.join(escaped)} |".replace("  |", " |")


def amount(campaign, count):
    return f"{count:,} {campaign.unit}".rstrip()


def day(run):
    return run["date"][:10]


def modified(run):
    return " and changes" if run.get("modified") else ""


def at(failure):
    seed = f" at seed {failure['seed']}" if "seed" in failure else ""
    return f"{seed} ({day(failure)}, `{failure['commit']}`)"


def duration(seconds):
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def replace(path, text):
    """Writes a file in one step: who is stopped leaves the old one or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)


@dataclass
class State:
    """Where a campaign stands with the files of now."""

    campaign: Campaign
    entry: dict
    files: dict[str, str]
    # Those of the files that are not as they were committed.
    dirty: list[str]

    @property
    def code(self):
        return code_of(self.files)

    @property
    def is_due(self):
        last = self.entry.get("last", {})
        has_failed = last.get("failed") or (self.begun or {}).get("failed")
        return last.get("code") != self.code or bool(has_failed)

    @property
    def begun(self):
        """The unfinished run, where its files are those of now."""
        begun = self.entry.get("begun", {})
        return begun if begun.get("code") == self.code else None

    @property
    def owed_since(self):
        runs = [self.entry[name]["date"] for name in ("last", "begun") if name in self.entry]
        return "" if self.begun and not self.begun.get("failed") else max(runs, default="")


def states(ledger):
    files = work_tree(ledger.root, sorted({path for campaign in ledger.all.values() for path in campaign.paths}))
    committed = tree(ledger.root, "HEAD")
    found = {}
    for name, campaign in ledger.all.items():
        missing = [path for path in campaign.paths if not under(files, [path])]
        if missing:
            raise Refused(f"{name}: there is no {missing[0]}; {TABLE} has to say where it is now")
        own = under(files, campaign.paths)
        clean = code_of(own) == code_of(under(committed, campaign.paths))
        dirty = [] if clean else [path for path, it in own.items() if committed.get(path) != it]
        gone = [] if clean else [path for path in under(committed, campaign.paths) if path not in own]
        found[name] = State(campaign, ledger.data.get(name, {}), own, dirty + gone)
    return found


def changed_since(root, state, trees):
    """How many of the files are new or have other contents than at the last run; None where its commit is not here."""
    last = state.entry["last"]
    if last["code"] == state.code:
        return 0
    commit = last["commit"]
    if commit not in trees:
        try:
            trees[commit] = set(tree(root, commit).values())
        except Refused:
            trees[commit] = None
    return None if trees[commit] is None else sum(it not in trees[commit] for it in state.files.values())


def why_due(root, state, trees):
    last, begun = state.entry.get("last"), state.begun
    if not last:
        said = "never ran to its end"
    else:
        said = f"last run {day(last)} at {last['commit']}{modified(last)}"
        changed = changed_since(root, state, trees)
        if changed is None:
            said += ", a commit that is not here"
        elif last["code"] != state.code:
            said += f", {changed} of {len(state.files)} files changed since" if changed else ", files removed since"
    if begun:
        said += f"; {begun['count']:,} of {amount(state.campaign, state.campaign.total)} passed"
    for run in filter(None, (last, begun)):
        said += f"; FAILED{at(run['failed'])}" if run.get("failed") else ""
    return said


def listed(root, state, trees):
    """What --json says of a campaign."""
    campaign, last = state.campaign, state.entry.get("last")
    return {
        "name": campaign.name,
        "about": campaign.about,
        "paths": campaign.paths,
        "command": campaign.command,
        "due": state.is_due,
        "why": why_due(root, state, trees) if state.is_due else None,
        "files": len(state.files),
        "changed": changed_since(root, state, trees) if last else None,
        "modified": state.dirty,
        **state.entry,
    }


@dataclass
class Runner:
    ledger: Ledger
    # When the last chunk may be started.
    until: float
    failed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def run(self, state, more):
        """Runs the chunks of a campaign that have not passed, or those of so many more of its seeds."""
        campaign = state.campaign
        self.log(campaign).unlink(missing_ok=True)
        if campaign.needs and self.shell(campaign, campaign.needs)[0]:
            self.leave_out(campaign, f"as this fails: {campaign.needs}")
            return
        run = self.begin(state)
        if more:
            goal = run["count"] + more
        else:
            goal = campaign.total if run["count"] < campaign.total else run["count"] + campaign.total
        if campaign.setup and self.say(campaign, "setup", campaign.setup)[0]:
            self.fail(state, run, {})
            return
        going_on = self.is_same(campaign, run)
        while going_on and run["count"] < goal and time.monotonic() < self.until:
            going_on = self.step(state, run, goal)

    def is_same(self, campaign, run):
        """Whether the files are still those of the run."""
        if code_of(work_tree(self.ledger.root, campaign.paths)) == run["code"]:
            return True
        self.failed.append(campaign.name)
        print(f"{campaign.name}: files changed meanwhile, so it is not on record", flush=True)
        return False

    def step(self, state, run, goal):
        """Runs a chunk and puts it on record; whether another may follow."""
        campaign, first = state.campaign, run["count"]
        count = min(campaign.chunk, goal - first)
        chunk = f"{first:,} to {first + count - 1:,} of {amount(campaign, goal)}" if campaign.unit else ""
        command = campaign.command.replace("{first}", str(first)).replace("{count}", str(count))
        code, output, seconds = self.say(campaign, chunk, command)
        if not self.is_same(campaign, run):
            return False
        without = [found[0].strip() for found in re.finditer(campaign.left_out, output, re.M) if found[0]]
        counts = {what: total_of(pattern, output) for what, pattern in campaign.counts.items()}
        silent = [what for what, number in counts.items() if not number]
        if silent and without and not code:
            self.leave_out(campaign, without[0])
            return False
        self.stamp(state, run, seconds)
        if silent and not code:
            print(f"{campaign.name}: its output tells of no {', '.join(silent)}", flush=True)
        if code or silent:
            seed = re.search(campaign.seed, output) if campaign.seed else None
            self.fail(state, run, {"seed": int(seed[1]) if seed else first} if "{first}" in campaign.command else {})
            return False
        run.pop("failed", None)
        run["count"] += count
        run["counts"] = {what: run["counts"].get(what, 0) + number for what, number in counts.items()}
        if without:
            run["left_out"] = sorted({*run.get("left_out", []), *without})
        self.save(state, run)
        return True

    def begin(self, state):
        """The run that goes on, or a new one."""
        last = state.entry.get("last", {})
        if state.begun:
            return state.begun
        if last.get("code") == state.code and state.campaign.is_random:
            return last
        run = {"code": state.code, "commit": "", "date": "", "seconds": 0, "count": 0, "counts": {}}
        if last.get("code") == state.code and "failures" in last:
            # Whatever it does now, it has failed with these files.
            run["failures"] = last["failures"]
        return run

    def stamp(self, state, run, seconds):
        run["commit"] = commit_of(self.ledger.root)
        run["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        run["seconds"] = round(run["seconds"] + seconds, 1)
        run.pop("modified", None)
        if state.dirty:
            run["modified"] = True

    def fail(self, state, run, failure):
        self.stamp(state, run, 0)
        run["failed"] = {"date": run["date"], "commit": run["commit"], **failure}
        run["failures"] = [*run.get("failures", []), run["failed"]]
        self.failed.append(state.campaign.name)
        print(f"{state.campaign.name}: FAILED{at(run['failed'])}", flush=True)
        self.save(state, run)

    def save(self, state, run):
        if run["count"] < state.campaign.total:
            state.entry["begun"] = run
        else:
            state.entry.pop("begun", None)
            state.entry["last"] = run
        self.ledger.data[state.campaign.name] = state.entry
        self.ledger.write()

    def leave_out(self, campaign, why):
        self.left_out.append(campaign.name)
        print(f"{campaign.name}: left out, {why}", flush=True)

    def say(self, campaign, chunk, command):
        """Runs a command, and says so before and after."""
        now = datetime.now().strftime("%H:%M")
        print(" ".join(filter(None, (f"{now} {campaign.name}:", chunk, "..."))), flush=True)
        begun = time.monotonic()
        code, output = self.shell(campaign, command)
        seconds = time.monotonic() - begun
        if code:
            lines = output.splitlines()[-SHOWN_OF_A_FAILURE:]
            print("\n".join(f"  {line}" for line in lines), flush=True)
        ended = f"ended with {code}" if code else "passed"
        print(" ".join(filter(None, (f"      {campaign.name}:", chunk, f"{ended}, {duration(seconds)}"))), flush=True)
        return code, output, seconds

    def log(self, campaign):
        return self.ledger.root / target() / "campaigns" / f"{campaign.name}.log"

    def shell(self, campaign, command):
        """Runs a command, which never outlives this program; its exit status and its output, which the log has too."""
        log = self.log(campaign)
        log.parent.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.ledger.root,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        output, begun, shown = [], time.monotonic(), 0
        try:
            with log.open("a") as kept:
                kept.write(f"$ {command.strip()}\n")
                for line in process.stdout:
                    output.append(line)
                    kept.write(line)
                    kept.flush()
                    if time.monotonic() - begun >= shown + 60:
                        shown = time.monotonic() - begun
                        print(f"      {campaign.name}: {duration(shown)}, {line.strip()[:80]}", flush=True)
            return process.wait(), "".join(output)
        finally:
            kill(process)


def target():
    return os.environ.get("CARGO_TARGET_DIR") or "target"


def environment():
    """That of commands, in which make's own flags have no place."""
    inherited = {name: text for name, text in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    plain = {"CARGO_TERM_COLOR": "never", "PYTHONUNBUFFERED": "1"}
    return {**inherited, **plain, "TARGET": target(), "VENV": os.environ.get("VENV") or ".venv"}


def kill(process):
    """Ends a process with all that it has started, if it has not ended."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        # As long as nobody has waited for it, its number is that of its group, and of no other.
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not os.waitid(
            os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def total_of(pattern, output):
    """The sum of the numbers that a pattern finds; without a group, how often it is there."""
    found = re.findall(pattern, output, re.M)
    return sum(int(text.replace(",", "")) for text in found) if re.compile(pattern).groups else len(found)


def chosen(all_states, only):
    """The states of the campaigns that --only names, and how many of their seeds."""
    found = []
    for word in only.split():
        name, _, count = word.partition("=")
        names = [it for it in all_states if it == name or it.startswith(f"{name}-") and name not in all_states]
        if not names:
            raise Refused(f"no campaign {name}; there are: {' '.join(all_states)}")
        for it in names:
            if count and not (count.isdigit() and int(count) and all_states[it].campaign.unit):
                raise Refused(f"{it} has no seeds to count: {word}")
            found.append((all_states[it], int(count or 0)))
    return found


def show(all_states, root):
    """Prints each campaign, what it tests, and why it is due."""
    trees = {}
    for name, state in all_states.items():
        print(f"{name}: {state.campaign.about}\n    tests {' '.join(state.campaign.paths)}")
        print(f"    {'due: ' + why_due(root, state, trees) if state.is_due else 'passed with these files'}")


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
        return work(args)
    except Refused as why:
        print(f"campaigns: {why}", file=sys.stderr)
        return 2
    except Stopped as signalled:
        print("\ncampaigns: stopped; what passed is on record, and the next run goes on behind it", flush=True)
        return 128 + signalled.number


def work(args):
    ledger, trees = Ledger.read(args.root), {}
    if args.page:
        ledger.write()
        return 0
    found = states(ledger)
    due = [(state, 0) for state in found.values() if state.is_due]
    wanted = due if args.only is None else chosen(found, args.only)
    if args.json:
        print(json.dumps([listed(ledger.root, state, trees) for state in found.values()], indent=1))
        return 0
    if args.due:
        for state, _ in wanted:
            print(f"{state.campaign.name:20} {why_due(ledger.root, state, trees)}")
        return 0
    if args.only is None:
        show(found, ledger.root)
        wanted.sort(key=lambda one: one[0].owed_since)
    dirty = sorted({path for state, _ in wanted for path in state.dirty})
    if dirty and not args.allow_dirty:
        raise Refused(
            f"not committed: {' '.join(dirty)}. A run of it could not be traced: commit it, "
            "or say ALLOW_DIRTY=1, and the record says that the files were modified"
        )
    return run_all(ledger, wanted, args.minutes)


def run_all(ledger, wanted, minutes):
    # One at a time: they share the machine, and the record.
    with (ledger.root / TABLE).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("campaigns are running in this checkout already") from None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        ledger.write()
        runner = Runner(ledger, time.monotonic() + 60 * minutes)
        for number, (state, more) in enumerate(wanted):
            if time.monotonic() >= runner.until:
                print(f"no time left for {' '.join(state.campaign.name for state, _ in wanted[number:])}")
                break
            runner.run(state, more)
        for what, names in (("left out", runner.left_out), ("FAILED", runner.failed)):
            if names:
                print(f"{what}: {' '.join(names)}")
        print(f"{DATA} and the table of {PAGE} have what ran")
        return int(bool(runner.failed))


def stop(number, _frame):
    raise Stopped(number)


if __name__ == "__main__":
    sys.exit(main())
