#!/usr/bin/env python3
"""Runs a file of Python's tests with the arguments and the events of a program of Rust's tests: see port.py.

    pytest_program.py FILE --list …
    pytest_program.py FILE [OPTION…] -- TEST…

A test is a function, with all of its cases. A function that is skipped, or that writes a table on a system where tables
are only read, counts as ignored. Options other than `--list` do nothing.
"""

import json
import os
import sys
from collections import defaultdict

import pytest

import arrowwood

# What the writer answers where tables are only read.
ONLY_READ = "tables can only be read on this system"


class Events:
    """A plugin of pytest that prints events as Rust's tests do."""

    def __init__(self, output, tests):
        self.output = output
        # The functions that are run; `None` if they are only listed.
        self.tests = tests
        # The number of cases that have not ended, by function.
        self.left = defaultdict(int)
        self.outcomes = defaultdict(set)
        self.texts = defaultdict(list)

    def pytest_collection_modifyitems(self, items):
        for item in list(items):
            name = name_of(item.nodeid)
            if self.tests is not None and name not in self.tests:
                items.remove(item)
            else:
                self.left[name] += 1

    def pytest_collection_finish(self):
        if self.tests is None:
            for name in self.left:
                print(f"{name}: test", file=self.output, flush=True)

    def pytest_runtest_logstart(self, nodeid):
        name = name_of(nodeid)
        if not self.outcomes[name]:
            self.print_event(name, "started")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        error = call.excinfo and call.excinfo.value
        if isinstance(error, arrowwood.Unsupported) and ONLY_READ in str(error):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), None, ONLY_READ)
        return report

    def pytest_runtest_logreport(self, report):
        name = name_of(report.nodeid)
        self.outcomes[name].add(report.outcome)
        if report.failed:
            self.texts[name].append(f"{report.nodeid}: {report.longreprtext}")

    def pytest_runtest_logfinish(self, nodeid):
        name = name_of(nodeid)
        self.left[name] -= 1
        if self.left[name] == 0:
            outcomes = self.outcomes[name]
            event = "failed" if "failed" in outcomes else "ignored" if "skipped" in outcomes else "ok"
            self.print_event(name, event, stdout="\n".join(self.texts[name]))

    def print_event(self, name, event, **more):
        print(json.dumps({"type": "test", "event": event, "name": name, **more}), file=self.output, flush=True)


def name_of(nodeid):
    """Returns the name of a function, without the file and the case."""
    return nodeid.split("::", 1)[1].split("[")[0]


def main():
    path, *words = sys.argv[1:]
    # What is printed by tests and pytest itself goes to stderr.
    output = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr
    is_list = "--list" in words
    tests = None if is_list else set(words[words.index("--") + 1 :])
    options = ["--capture=sys", "-p", "no:cacheprovider", "--quiet", *(["--collect-only"] if is_list else [])]
    return pytest.main([*options, path], plugins=[Events(output, tests)])


if __name__ == "__main__":
    sys.exit(main())
