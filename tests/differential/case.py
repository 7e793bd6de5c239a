"""A case: data, a chain of operations on it, and a question, whose answer is compared with the twin's.

It is written down as JSON, so that it stays the same when the ways in which cases are drawn change.
"""

import base64
import itertools
import json
import random
import shutil
import tempfile
import traceback

import aggregates  # noqa: F401, it adds its answers
import conditions
import others
import sources
from answers import ANSWERS, names_in, short_form
from kinds import is_null, shown
from steps import COUNTS, STEPS, random_order
from twin import Any, Refused, same

import arrowwood as aw
import engines  # noqa: F401


class Wrong(Exception):
    """An answer that is not the expected one."""

    def __init__(self, what, found, expected, case=None):
        super().__init__(f"{what}: {short(found)}, expected {short(expected)}")
        self.case = case


def short(value, most=1500):
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def asked(what, call, expected, *args):
    """The answer of a call, compared with the expected one; what raises an error of Arrowwood's is refused."""
    try:
        found = call(*args)
    except aw.Error as e:
        found = Refused(type(e).__name__)
        found.error = e
        if not hasattr(expected, "accepts"):
            raise Wrong(what, e, expected) from e
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt | SystemExit):
            raise
        raise Wrong(what, "".join(traceback.format_exception_only(e)).strip(), expected) from e
    if not same(found, expected):
        raise Wrong(what, found, expected)


class Chain:
    """A dataset and the twin's rows, after some steps."""

    def __init__(self, dataset, rows, count):
        self.dataset, self.rows, self.count = dataset, rows, count

    def step(self, step):
        """Takes a step; False if it is refused, as it should be."""
        name, *args = step
        cls, rows = STEPS[name], self.rows
        if name in COUNTS:
            expected = random_order(self.dataset, rows, name, args)
            if expected is None:
                raise Wrong(name, "rows twice, or too few", "each row once")
        else:
            expected = cls.twin(rows, *args)
        if isinstance(expected, Refused | Any):
            asked(name, lambda: cls.ours(self.dataset, *args), expected)
            return False
        after = []

        def look():
            after.append(cls.ours(self.dataset, *args))
            return [after[0].columns, len(after[0])]

        asked(name, look, [list(expected.columns), len(expected)])
        self.dataset, self.rows = after[0], expected
        if len(expected):
            number = len(expected) // 3
            asked(f"{name}, row {number}", lambda: self.dataset[number], expected.take([number]).dicts()[0])
        self.count_step(name, args)
        return True

    def count_step(self, name, args):
        if name == "filter":
            count_condition(self.count, self.rows, args[0], "filter: ")
            return
        for kind in self.rows.kinds.values():
            self.count(kind.label, f"step: {name}")

    def ask(self, answer, with_others=False):
        name, *args = answer
        cls = ANSWERS[name]
        expected = cls.twin(self.rows, *args)
        asked(name, lambda: cls.ours(self.dataset, *args), expected)
        self.count_answer(name, args)
        if with_others:
            for who, found, is_same in others.check(self.rows, answer, expected):
                if not is_same:
                    raise Wrong(f"{who}, {name}", found, expected)
                self.count(who, name)

    def count_answer(self, name, args):
        of = args[0] if isinstance(args[0], list) else [args[0]] if args else []
        if name in ("filter", "filter and look"):
            count_condition(self.count, self.rows, args[1], "")
        elif name in ("aggregate", "incremental"):
            what = "group" if name == "aggregate" else "incremental"
            for key in args[1]:
                self.count(self.rows.kinds[key].label, f"{what}: by")
            for _, node, function in args[2]:
                for it in names_in(node):
                    self.count(self.rows.kinds[it].label, f"{what}: {function if node[0] == 'col' else 'expression'}")
                count_expression(self.count, self.rows, node)
        for it in of:
            if name not in ("filter", "filter and look", "aggregate", "incremental"):
                self.count(self.rows.kinds[it].label, name)


def count_condition(count, rows, node, where):
    """Counts each simple part of a condition, for each of its columns."""
    if node[0] in ("and", "or", "not"):
        for part in node[1:]:
            count_condition(count, rows, part, where)
        return
    for name in names_in(node):
        count(rows.kinds[name].label, where + short_form(node))
    for part in node[1:] if node[0] in ("computed", "pair") else []:
        count_expression(count, rows, part)


def count_expression(count, rows, node):
    """Counts each operation, for each column that it is about."""
    if not isinstance(node, list) or node[0] in ("col", "value") or not isinstance(node[0], str):
        return
    operation = {"part": node[-1], "cast": f"cast {node[-1]}", "neg": "-"}.get(node[0], node[0])
    for name in names_in(node):
        count(rows.kinds[name].label, f"computed: {operation}")
    for part in node[1:]:
        count_expression(count, rows, part)


def draw_steps(dice, rows, most):
    """A step that is possible for these rows."""
    while True:
        name = dice.choice(list(STEPS))
        args = STEPS[name].draw(dice, rows)
        if args is not None:
            return [name, *args]


# Questions that have more to ask than others.
OFTEN = ["filter"] * 4 + ["filter and look"] * 3 + ["aggregate"] * 5 + ["scan"] * 2


def draw_answer(dice, rows, wanted=None):
    """A question, which is the wanted one if that can be asked."""
    for tries in itertools.count():
        name = wanted if wanted and tries < 9 else dice.choice([*ANSWERS, *OFTEN])
        args = ANSWERS[name].draw(dice, rows)
        if args is not None:
            return [name, *args]


class DataSet:
    """Random data, and random chains of operations on it."""

    CHAINS = 6
    ANSWERS = 7
    # How often Polars and pyarrow are asked, too.
    OTHERS = 0.4

    def __init__(self, seed, folder, count):
        self.dice, self.folder, self.count, self.asked = random.Random(seed), folder, count, 0
        self.plan = sources.draw(self.dice)

    def play(self):
        """Plays all of it. Raises Wrong with the case at the first answer that is wrong."""
        chain, answer, self.answer = [], None, None
        try:
            source = sources.Source(self.plan, self.folder)
            self.look(source)
            self.answer = None
            large = source.count > 100
            for _ in range(2 if large else self.CHAINS):
                chain, answer = [], None
                now = Chain(source.dataset, source.rows, self.count)
                for _ in range(self.dice.choice([0, 1, 1, 2, 3, 5])):
                    chain.append(draw_steps(self.dice, now.rows, 0))
                    self.asked += 1
                    if not now.step(chain[-1]):
                        break
                for number in range(self.ANSWERS):
                    # Only those of many rows keep any groups.
                    name = "incremental" if large and number < 2 else None
                    answer = draw_answer(self.dice, now.rows, name)
                    self.asked += 1
                    now.ask(answer, self.dice.random() < self.OTHERS)
        except Wrong as e:
            e.case = {"plan": self.plan, "chain": chain, "answer": answer or self.answer}
            raise
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt | SystemExit):
                raise
            case = {"plan": self.plan, "chain": chain, "answer": answer}
            raise Wrong("failed", traceback.format_exc(), "no error", case) from e

    def look(self, source):
        """The rows as they were written."""
        self.asked += 1
        now = Chain(source.dataset, source.rows, self.count)
        now.ask(["rows", list(source.rows.kinds), "to_pylist"])
        name = self.plan["options"].get("sorted_by") if self.plan["place"] == "table" else None
        if name is None:
            return
        kind, values = source.rows.kinds[name], source.rows.columns[name]
        for _ in range(4):
            ends = [conditions.literal(kind, values, self.dice) for _ in range(2)]
            if kind.family not in ("integer",) or all(spec == kind.spec for spec, _ in ends):
                self.asked += 1
                self.answer = ["between, sorted", name, *ends]
                now.ask(self.answer)


# ---- written down ----


def dumped(case):
    """A case as JSON; bytes in base 64."""
    return json.dumps(case, default=lambda value: {"bytes": base64.b64encode(value).decode()}, ensure_ascii=True)


def loaded(text):
    return json.loads(text, object_hook=lambda it: base64.b64decode(it["bytes"]) if list(it) == ["bytes"] else it)


def replay(case, count=lambda *_: None):
    """Plays one case again; raises Wrong as it did before."""
    folder = tempfile.mkdtemp(prefix="arrowwood-differential-")
    try:
        try:
            source = sources.Source(case["plan"], folder)
            now = Chain(source.dataset, source.rows, count)
            if case["answer"] is None:
                now.ask(["rows", list(source.rows.kinds), "to_pylist"])
            for step in case["chain"]:
                if not now.step(step):
                    return
            if case["answer"] is not None:
                now.ask(case["answer"], True)
        except Wrong:
            raise
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt | SystemExit):
                raise
            raise Wrong("failed", traceback.format_exc(), "no error") from e
    finally:
        shutil.rmtree(folder, ignore_errors=True)


__all__ = ["is_null", "shown"]
