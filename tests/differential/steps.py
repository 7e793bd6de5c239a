"""Steps: operations that turn a dataset into another one. A step of a case is a list such as `["take", [3, 1, 1]]`.

Each class below is a namespace of three functions, and never instantiated. `draw` returns random arguments, or None if
the step is impossible with these rows. `run` applies the step to a dataset, and `expect` to the rows of the reference.
"""

import conditions
import pyarrow as pa
from kinds import is_null
from reference import AnyOf, Refused, group_rows, sorted_row_numbers
from sources import pickled

import arrowwood as aw

STEPS = {}


def step(name):
    """Registers a step under the name that cases have for it."""

    def register(cls):
        STEPS[name] = cls
        return cls

    return register


def random_bound(rng, count):
    """Returns a bound of a slice: inside the rows, counted from the end, outside, or none."""
    return rng.choice([None, rng.randint(0, count + 2), -rng.randint(1, count + 2), count // 2])


@step("slice")
class Slice:
    draw = lambda rng, rows: [random_bound(rng, len(rows)), random_bound(rng, len(rows))]
    run = lambda dataset, start, stop: dataset[start:stop]
    expect = lambda rows, start, stop: rows.take(range(len(rows))[start:stop])


@step("steps")
class Steps:
    draw = lambda rng, rows: [
        random_bound(rng, len(rows)),
        random_bound(rng, len(rows)),
        rng.choice([-1, -2, -3, -7, 2, 3, 7]),
    ]
    run = lambda dataset, start, stop, each: dataset[start:stop:each]
    expect = lambda rows, start, stop, each: rows.take(range(len(rows))[start:stop:each])


@step("reverse")
class Reverse:
    draw = lambda rng, rows: []
    run = lambda dataset: dataset[::-1]
    expect = lambda rows: rows.take(range(len(rows))[::-1])


@step("head")
class Head:
    draw = lambda rng, rows: [rng.choice([0, 1, 5, len(rows), len(rows) + 3])]
    run = lambda dataset, n: dataset.head(n)
    expect = lambda rows, n: rows.take(range(len(rows))[:n])


@step("tail")
class Tail:
    draw = lambda rng, rows: [rng.choice([0, 1, 5, len(rows), len(rows) + 3])]
    run = lambda dataset, n: dataset.tail(n)
    expect = lambda rows, n: rows.take(range(len(rows))[max(len(rows) - n, 0) :])


@step("take")
class Take:
    def draw(rng, rows):
        count = len(rows)
        if not count:
            return [[]]
        if rng.random() < 0.2:
            return [sorted(rng.sample(range(count), rng.randint(0, count)))]
        length = rng.choice([0, 1, 3, min(count, 50), min(2 * count, 99)])
        return [[rng.randint(-count, count - 1) for _ in range(length)]]

    run = lambda dataset, numbers: dataset.take(numbers)
    expect = lambda rows, numbers: rows.take(numbers)


@step("mask")
class Mask:
    draw = lambda rng, rows: [[rng.random() < 0.5 for _ in range(len(rows))]]
    run = lambda dataset, mask: dataset[mask] if mask else dataset
    expect = lambda rows, mask: rows.take([number for number, is_set in enumerate(mask) if is_set])


@step("filter")
class Filter:
    draw = lambda rng, rows: [conditions.condition(rows, rng), rng.random() < 0.3]

    def run(dataset, node, by_column):
        return dataset.filter(conditions.predicate(node, (lambda name: dataset[name]) if by_column else aw.col))

    def expect(rows, node, _):
        numbers = conditions.matching_rows(rows, node)
        return numbers if isinstance(numbers, Refused | AnyOf) else rows.take(numbers)


@step("sort")
class Sort:
    def draw(rng, rows):
        names = [name for name, kind in rows.kinds.items() if kind.has_order]
        if not names:
            return None
        return [[[name, rng.random() < 0.5] for name in rng.sample(names, rng.randint(1, min(3, len(names))))]]

    run = lambda dataset, by: dataset.sort([name for name, _ in by], descending=[descends for _, descends in by])
    expect = lambda rows, by: rows.take(sorted_row_numbers(rows, by))


@step("select")
class Select:
    draw = lambda rng, rows: [rng.sample(list(rows.kinds), rng.randint(1, len(rows.kinds)))]
    run = lambda dataset, names: dataset.select(names)
    expect = lambda rows, names: rows.select(names)


@step("rename")
class Rename:
    def draw(rng, rows):
        name = rng.choice(list(rows.kinds))
        return [name, name + "_"]

    run = lambda dataset, old, new: dataset.rename({old: new})
    expect = lambda rows, old, new: rows.rename({old: new})


@step("collect")
class Collect:
    draw = lambda rng, rows: []
    run = lambda dataset: dataset.collect()
    expect = lambda rows: rows


@step("concat")
class Concat:
    draw = lambda rng, rows: [random_bound(rng, len(rows)), rng.random() < 0.5] if len(rows) < 1000 else None

    def run(dataset, cut, is_swapped):
        head, tail = dataset[:cut], dataset[cut:]
        return aw.concat([tail, head] if is_swapped else [head, tail])

    def expect(rows, cut, is_swapped):
        numbers = list(range(len(rows)))
        head, tail = numbers[:cut], numbers[cut:]
        return rows.take(tail + head if is_swapped else head + tail)


@step("pickle")
class Pickle:
    draw = lambda rng, rows: []
    run = pickled
    expect = lambda rows: rows


@step("rewrite")
class Rewrite:
    def draw(rng, rows):
        max_rows = rng.choice([None, 1, 4]) if len(rows) < 1000 else None
        return [rng.choice(["file", "stream"]), rng.choice([None, "lz4"]), max_rows]

    def run(dataset, format, compression, max_rows):
        buffer = aw.Buffer()
        aw.write(dataset, buffer, format=format, compression=compression, max_rows=max_rows)
        return aw.open(buffer)

    expect = lambda rows, format, compression, max_rows: rows


@step("exchange")
class Exchange:
    """Converts the rows to pyarrow and back."""

    draw = lambda rng, rows: []
    run = lambda dataset: aw.from_arrow(dataset.to_arrow())
    expect = lambda rows: rows


@step("drop_nulls")
class DropNulls:
    draw = lambda rng, rows: [rng.sample(list(rows.kinds), rng.randint(1, len(rows.kinds)))]
    run = lambda dataset, names: dataset.drop_nulls(names)

    def expect(rows, names):
        return rows.take([number for number in range(len(rows)) if not has_null(rows, number, names)])


def has_null(rows, number, names):
    return any(is_null(rows.kinds[name], rows.columns[name][number]) for name in names)


@step("unique")
class Unique:
    def draw(rng, rows):
        names = [name for name, kind in rows.kinds.items() if kind.is_key]
        return [rng.sample(names, rng.randint(1, len(names)))] if names else None

    run = lambda dataset, names: dataset.unique(names)
    expect = lambda rows, names: rows.take([group[0] for group in group_rows(rows, names)])


# ---- steps with a random result ----


@step("shuffle")
class Shuffle:
    draw = lambda rng, rows: [rng.randrange(2**40)]
    run = lambda dataset, seed: dataset.shuffle(seed)


@step("sample")
class Sample:
    draw = lambda rng, rows: [rng.randint(0, len(rows)), rng.randrange(2**40)]
    run = lambda dataset, n, seed: dataset.sample(n, seed)


@step("split")
class Split:
    draw = lambda rng, rows: [rng.randint(1, len(rows) - 1), rng.randrange(99)] if len(rows) > 2 else None
    run = lambda dataset, n, seed: dataset.train_test_split(n, seed)[0]


# How many of `count` rows the result of a random step has.
RANDOM_STEP_COUNTS = {
    "shuffle": lambda count, seed: count,
    "sample": lambda count, n, seed: n,
    "split": lambda count, n, seed: count - n,
}


def random_step_rows(rows, name, args):
    """Returns the rows that a random step chooses, or None if it repeats some or has too few.

    The choice depends on the seed and the number of rows only, so the same step is applied to a column of row numbers.
    """
    numbered = aw.from_arrow(pa.table({"number": pa.array(range(len(rows)), pa.int64())}))
    numbers = STEPS[name].run(numbered, *args)["number"].to_pylist()
    expected_count = RANDOM_STEP_COUNTS[name](len(rows), *args)
    if len(numbers) != expected_count or len(set(numbers)) != expected_count:
        return None
    return rows.take(numbers)
