"""A case of the differential test: data, a chain of steps, and a question whose answer is compared with the reference.

Cases are written as JSON, so that they stay the same when the generators of cases change.
"""

import base64
import itertools
import json
import random
import shutil
import tempfile
import traceback
from collections.abc import Callable

import aggregates  # noqa: F401, registers its questions
import conditions
import others
import sources
from answers import ANSWERS, names_in, short_form
from reference import AnyOf, Refused, is_same
from steps import RANDOM_STEP_COUNTS, STEPS, random_step_rows

import arrowwood as aw
import engines  # noqa: F401, registers its questions

MAX_TEXT = 1500


class Wrong(Exception):
    """An answer differs from the expected one."""

    def __init__(self, what, actual, expected, case=None):
        super().__init__(f"{what}: {shorten(actual)}, expected {shorten(expected)}")
        self.case = case


def shorten(value) -> str:
    text = repr(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def check_call(what: str, call: Callable, expected):
    """Raises Wrong unless a call returns the expected answer, or raises the expected error of Arrowwood."""
    try:
        actual = call()
    except aw.Error as e:
        if not hasattr(expected, "accepts"):
            raise Wrong(what, e, expected) from e
        actual = Refused(type(e).__name__)
    except (KeyboardInterrupt, SystemExit):
        raise
    # Panics of the library derive from BaseException.
    except BaseException as e:
        raise Wrong(what, "".join(traceback.format_exception_only(e)).strip(), expected) from e
    if not is_same(actual, expected):
        raise Wrong(what, actual, expected)


class Chain:
    """A dataset after some steps, and the reference's rows after the same steps."""

    def __init__(self, dataset, rows, count):
        self.dataset, self.rows, self.count = dataset, rows, count

    def take_step(self, step) -> bool:
        """Applies a step. Returns false if it is refused, as expected."""
        name, *args = step
        expected = self.expected_rows(name, args)
        if isinstance(expected, Refused | AnyOf):
            check_call(name, lambda: STEPS[name].run(self.dataset, *args), expected)
            return False
        results = []

        def run_step():
            results.append(STEPS[name].run(self.dataset, *args))
            return [results[0].columns, len(results[0])]

        check_call(name, run_step, [list(expected.columns), len(expected)])
        self.dataset, self.rows = results[0], expected
        if len(expected):
            number = len(expected) // 3
            expected_row = expected.take([number]).to_dicts()[0]
            check_call(f"{name}, row {number}", lambda: self.dataset[number], expected_row)
        self.count_step(name, args)
        return True

    def expected_rows(self, name, args):
        if name not in RANDOM_STEP_COUNTS:
            return STEPS[name].expect(self.rows, *args)
        expected = random_step_rows(self.rows, name, args)
        if expected is None:
            raise Wrong(name, "rows twice, or too few", "each row once")
        return expected

    def count_step(self, name, args):
        if name == "filter":
            count_condition(self.count, self.rows, args[0], "filter: ")
            return
        for kind in self.rows.kinds.values():
            self.count(kind.label, f"step: {name}")

    def ask(self, question, with_others=False):
        """Compares the answer to a question with the reference, and the reference with other libraries if asked to."""
        name, *args = question
        expected = ANSWERS[name].expect(self.rows, *args)
        check_call(name, lambda: ANSWERS[name].run(self.dataset, *args), expected)
        self.count_question(name, args)
        if not with_others:
            return
        for library, answer, agrees in others.check(self.rows, question, expected):
            if not agrees:
                raise Wrong(f"{library}, {name}", answer, expected)
            self.count(library, name)

    def count_question(self, name, args):
        if name in ("filter", "filter and look"):
            count_condition(self.count, self.rows, args[1], "")
        elif name in ("aggregate", "incremental"):
            self.count_aggregates("group" if name == "aggregate" else "incremental", *args[1:3])
        elif args:
            columns = args[0] if isinstance(args[0], list) else [args[0]]
            for column in columns:
                self.count(self.rows.kinds[column].label, name)

    def count_aggregates(self, prefix, by, functions):
        for key in by:
            self.count(self.rows.kinds[key].label, f"{prefix}: by")
        for _, node, function in functions:
            operation = function if node[0] == "col" else "expression"
            for column in names_in(node):
                self.count(self.rows.kinds[column].label, f"{prefix}: {operation}")
            count_expression(self.count, self.rows, node)


def count_condition(count, rows, node, prefix):
    """Counts each simple part of a condition, for each of its columns."""
    if node[0] in ("and", "or", "not"):
        for part in node[1:]:
            count_condition(count, rows, part, prefix)
        return
    for name in names_in(node):
        count(rows.kinds[name].label, prefix + short_form(node))
    if node[0] in ("computed", "pair"):
        for part in node[1:]:
            count_expression(count, rows, part)


def count_expression(count, rows, node):
    """Counts each operation of an expression, for each of its columns."""
    if not isinstance(node, list) or node[0] in ("col", "value") or not isinstance(node[0], str):
        return
    operation = {"part": node[-1], "cast": f"cast {node[-1]}", "neg": "-"}.get(node[0], node[0])
    for name in names_in(node):
        count(rows.kinds[name].label, f"computed: {operation}")
    for part in node[1:]:
        count_expression(count, rows, part)


def draw_step(rng, rows):
    """Draws a step that is possible with these rows."""
    while True:
        name = rng.choice(list(STEPS))
        args = STEPS[name].draw(rng, rows)
        if args is not None:
            return [name, *args]


# Questions with many variants are drawn more often.
FREQUENT_QUESTIONS = ["filter"] * 4 + ["filter and look"] * 3 + ["aggregate"] * 5 + ["scan"] * 2
MAX_TRIES = 9


def draw_question(rng, rows, preferred=None):
    """Draws a question: the preferred one if it can be asked of these rows."""
    for tries in itertools.count():
        name = preferred if preferred and tries < MAX_TRIES else rng.choice([*ANSWERS, *FREQUENT_QUESTIONS])
        args = ANSWERS[name].draw(rng, rows)
        if args is not None:
            return [name, *args]


class DataSet:
    """Random data, and random chains of steps and questions about it."""

    CHAINS = 6
    # Questions after each chain.
    QUESTIONS = 7
    # The share of questions that Polars and pyarrow are asked too.
    OTHERS = 0.4
    # Data with more rows gets fewer chains.
    LARGE_ROWS = 100

    def __init__(self, seed, folder, count):
        self.rng, self.folder, self.count = random.Random(seed), folder, count
        self.cases = 0
        self.plan = sources.draw(self.rng)
        # The current case, in the form of its JSON.
        self.chain, self.question = [], None

    def play(self):
        """Plays all cases. Raises Wrong with the case at the first wrong answer."""
        try:
            source = sources.Source(self.plan, self.folder)
            self.check_written_rows(source)
            is_large = source.count > self.LARGE_ROWS
            for _ in range(2 if is_large else self.CHAINS):
                self.play_chain(source, is_large)
        except Wrong as e:
            e.case = self.current_case()
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        # Panics of the library derive from BaseException.
        except BaseException as e:
            raise Wrong("failed", traceback.format_exc(), "no error", self.current_case()) from e

    def current_case(self):
        return {"plan": self.plan, "chain": self.chain, "answer": self.question}

    def check_written_rows(self, source):
        """Compares all rows with those that were written, and looks some up in a sorted table."""
        self.cases += 1
        state = Chain(source.dataset, source.rows, self.count)
        state.ask(["rows", list(source.rows.kinds), "to_pylist"])
        name = self.plan["options"].get("sorted_by") if self.plan["place"] == "table" else None
        if name is None:
            return
        kind, values = source.rows.kinds[name], source.rows.columns[name]
        for _ in range(4):
            bounds = [conditions.literal(kind, values, self.rng) for _ in range(2)]
            if kind.family != "integer" or all(spec == kind.spec for spec, _ in bounds):
                self.cases += 1
                self.question = ["between, sorted", name, *bounds]
                state.ask(self.question)

    def play_chain(self, source, is_large):
        self.chain, self.question = [], None
        state = Chain(source.dataset, source.rows, self.count)
        for _ in range(self.rng.choice([0, 1, 1, 2, 3, 5])):
            self.chain.append(draw_step(self.rng, state.rows))
            self.cases += 1
            if not state.take_step(self.chain[-1]):
                break
        for number in range(self.QUESTIONS):
            # Only large data has enough rows per group for an aggregation to keep state.
            preferred = "incremental" if is_large and number < 2 else None
            self.question = draw_question(self.rng, state.rows, preferred)
            self.cases += 1
            state.ask(self.question, self.rng.random() < self.OTHERS)


# ---- JSON ----


def dump_case(case) -> str:
    """Returns a case as JSON, with bytes in base 64."""
    return json.dumps(case, default=lambda value: {"bytes": base64.b64encode(value).decode()}, ensure_ascii=True)


def load_case(text: str):
    return json.loads(text, object_hook=decode_bytes)


def decode_bytes(value: dict):
    return base64.b64decode(value["bytes"]) if list(value) == ["bytes"] else value


def ignore_count(_label, _operation):
    pass


def replay(case, count=ignore_count):
    """Plays a single case. Raises Wrong if its answer is wrong."""
    folder = tempfile.mkdtemp(prefix="arrowwood-differential-")
    try:
        replay_in(folder, case, count)
    except (Wrong, KeyboardInterrupt, SystemExit):
        raise
    # Panics of the library derive from BaseException.
    except BaseException as e:
        raise Wrong("failed", traceback.format_exc(), "no error") from e
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def replay_in(folder, case, count):
    source = sources.Source(case["plan"], folder)
    state = Chain(source.dataset, source.rows, count)
    if case["answer"] is None:
        state.ask(["rows", list(source.rows.kinds), "to_pylist"])
    for step in case["chain"]:
        if not state.take_step(step):
            return
    if case["answer"] is not None:
        state.ask(case["answer"], with_others=True)
