"""Tests tests/port/port.py, which runs tests on other processors, and its list of tests that are left out."""

import os
import re
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests/port"
SETTINGS = tomllib.loads((FOLDER / "port.toml").read_text())

sys.path.insert(0, str(FOLDER))
import emulated  # noqa: E402
import port  # noqa: E402
import zig  # noqa: E402

# A program with the command line of Rust's tests. `dies` ends its process, `hangs` never ends, and `bad` prints much.
PROGRAM = """#!{python}
import json, os, sys, time
TESTS = ["good", "bad", "dies", "hangs", "ignored", "late"]
if "--list" in sys.argv:
    print("\\n".join(f"{{test}}: test" for test in TESTS))
    sys.exit()
print("a line that is no event")
for test in sys.argv[sys.argv.index("--") + 1 :]:
    print(json.dumps({{"type": "test", "event": "started", "name": test}}), flush=True)
    if test == "dies":
        os.abort()
    if test == "hangs":
        time.sleep(600)
    event = {{"bad": "failed", "ignored": "ignored"}}.get(test, "ok")
    output = "first" + test * (1 << 20 if test == "bad" else 1) + "last"
    print(json.dumps({{"type": "test", "event": event, "name": test, "stdout": output}}), flush=True)
"""

# A program whose test ends when the other program runs, too.
MEETING = """#!{python}
import json, os, pathlib, sys, time
if "--list" in sys.argv:
    print("good: test")
    sys.exit()
print(json.dumps({{"type": "test", "event": "started", "name": "good"}}), flush=True)
folder = pathlib.Path("{folder}")
(folder / os.environ["NAME"]).touch()
while not all((folder / name).exists() for name in "ab"):
    time.sleep(0.01)
print(json.dumps({{"type": "test", "event": "ok", "name": "good"}}), flush=True)
"""


def target(left_out=(), **settings):
    return port.Target("here", {"triple": "x86_64-test", "packages": [], "linker": "cc", **settings}, left_out)


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return port.Program("crate lib", str(path), tmp_path)


@pytest.fixture(autouse=True)
def short_limit(monkeypatch):
    monkeypatch.setattr(port, "TEST_SECONDS", 1)
    monkeypatch.setattr(port, "EMULATED_TEST_SECONDS", 1)


def report(program, left_out=(), **settings):
    here = target(left_out, **settings)
    here.build = lambda: [program]
    return port.test_target(here, None)


def test_a_test_that_dies_or_hangs_fails_alone(program):
    tests = target().list_tests(program)
    outcomes = port.run_tests(target(), program, tests, time.monotonic() + 300)
    events = {name: outcome.event for name, outcome in outcomes.items()}
    assert events == {
        "good": "ok",
        "bad": "failed",
        "dies": "failed",
        "hangs": "failed",
        "ignored": "ignored",
        "late": "ok",
    }
    assert "status" in outcomes["dies"].output and "seconds" in outcomes["hangs"].output
    assert outcomes["good"].output == "firstgoodlast"
    printed = outcomes["bad"].output
    assert printed.startswith("first") and printed.endswith("last") and len(printed) < 3 * port.OUTPUT_CHARACTERS


@pytest.mark.parametrize(("emulator", "event"), [(None, "failed"), ("qemu", "ok")])
def test_a_test_that_hangs_beside_others_runs_again_under_an_emulator(program, emulator, event):
    path = Path(program.path)
    path.write_text(path.read_text().replace('if test == "hangs"', 'if test == "hangs" and "good" in sys.argv'))
    here = target(emulator=emulator)
    here.command = target().command
    outcomes = port.run_tests(here, program, ["good", "hangs", "late"], time.monotonic() + 300)
    assert {name: outcome.event for name, outcome in outcomes.items()} == {"good": "ok", "hangs": event, "late": "ok"}


@pytest.mark.skipif(os.cpu_count() == 1, reason="one program at a time")
def test_programs_of_python_run_side_by_side(program, tmp_path, monkeypatch):
    monkeypatch.setattr(port, "TEST_SECONDS", 60)
    path = tmp_path / "meets"
    path.write_text(MEETING.format(python=sys.executable, folder=tmp_path))
    path.chmod(0o755)
    programs = [port.Program(f"python {name}", str(path), tmp_path) for name in ("a", "b")]
    here = target()
    here.command = lambda program: ([program.path], {"NAME": program.suite[-1]})
    runs = port.run_programs(here, [*programs, program], "good", time.monotonic() + 300)
    assert [(run.suite, run.built, len(run.outcomes)) for run in runs] == [
        ("crate lib", 6, 1),
        ("python a", 1, 1),
        ("python b", 1, 1),
    ]
    assert all(outcome.event == "ok" for run in runs for outcome in run.outcomes.values())


def test_tests_that_are_not_run_in_time_fail(program):
    outcomes = port.run_tests(target(), program, ["good"], time.monotonic())
    assert outcomes["good"].event == "failed" and "time" in outcomes["good"].output


def test_tests_that_are_left_out_are_counted_and_exist(program, monkeypatch):
    left_out = [{"targets": ["here"], "tests": ["crate lib hangs", "crate lib gone"], "cause": "it hangs"}]
    made = report(program, left_out)
    assert (made["tests"], made["passed"], made["ignored"], made["left_out"]) == (6, 2, 1, 1)
    assert sorted(made["failed"]) == ["crate lib bad", "crate lib dies"]
    assert made["errors"] == [
        "crate lib gone is left out, and does not exist",
        "1 tests are left out, more than 2 % of 6",
    ]
    monkeypatch.setattr(port, "MAX_LEFT_OUT", 20)
    assert len(report(program, left_out)["errors"]) == 1
    made = report(program, only=["crate lib g*"])
    assert (made["tests"], made["passed"], made["failed"], made["errors"]) == (1, 1, {}, [])


@pytest.mark.parametrize("order", [1, 2])
def test_programs_of_a_processor_go_to_its_emulator(tmp_path, order):
    path = tmp_path / "program"
    kind = b"\x03\x00" if order == 1 else b"\x00\x03"
    path.write_bytes(b"\x7fELF\x02" + bytes([order, 1]) + bytes(9) + kind + b"\x01\x02" + bytes(9))
    name, magic, mask, emulator = re.fullmatch(r":(\w+):M::(\S+):(\S+):(\S+):F", port.binfmt(path, "/qemu")).groups()
    magic, mask = (bytes.fromhex(text.replace("\\x", "")) for text in (magic, mask))
    fixed = bytearray(magic)
    fixed[16 if order == 1 else 17] = 2
    assert emulator == "/qemu" and len(magic) == len(mask) == 20
    same = [bytes(a & b for a, b in zip(text, mask)) for text in (magic, fixed, b"\x7fELF" + bytes(16))]
    assert same[0] == same[1] != same[2]


def test_programs_keep_their_users_and_groups():
    assert emulated.same_ids("0 1000 1\n     1  100000  65535\n") == "0 0 1\n1 1 65535"


def test_zig_is_not_told_another_target():
    words = "-O2 -arch arm64 -c a.c -target arm64-apple -mmacosx-version-min=11.0 -liconv -lm -isysroot /sdk -o a.o"
    assert zig.words_for_zig(words.split()) == "-O2 -c a.c -lm -o a.o".split()


def test_tests_on_the_list_exist():
    for entry in SETTINGS["left_out"]:
        assert set(entry["targets"]) <= SETTINGS["target"].keys() and entry["cause"].strip()
        for test in entry["tests"]:
            crate, program, name = test.split(" ")
            if test.startswith(port.PYTHON_SUITE):
                sources = [ROOT / "tests/python" / f"{program}.py"]
            else:
                folder = ROOT / "crates" / crate.removeprefix("arrowwood-")
                sources = (folder / ("src" if program == "lib" else "tests")).rglob("*.rs")
            # Macros make functions of names that begin a line.
            function = re.compile(rf"(fn |def |^ *){name.split('::')[-1]}\b", re.M)
            assert any(function.search(source.read_text()) for source in sources), test


def test_make_has_each_target():
    makefile = (ROOT / "Makefile").read_text()
    ports = re.search(r"^PORTS := (.*)$", makefile, re.M)[1].split()
    assert ports == [f"port-{name}" for name in SETTINGS["target"]]
