"""Operations that give other rows: each drawn at random, done to a dataset, and to the twin's rows.

Steps can be taken one after the other. Each is a list such as `["take", [3, 1, 1]]`.
"""

import conditions
from sources import pickled
from twin import Any, Refused, grouped, sorted_numbers

import arrowwood as aw

STEPS = {}


def step(cls):
    STEPS[cls.__name__.lower().rstrip("_")] = cls
    return cls


def bound(dice, count):
    """A bound of a slice: inside, from the end, or outside."""
    return dice.choice([None, dice.randint(0, count + 2), -dice.randint(1, count + 2), count // 2])


@step
class Slice:
    draw = lambda dice, rows: [bound(dice, len(rows)), bound(dice, len(rows))]
    ours = lambda ds, start, stop: ds[start:stop]
    twin = lambda rows, start, stop: rows.take(range(len(rows))[start:stop])


@step
class Steps:
    draw = lambda dice, rows: [bound(dice, len(rows)), bound(dice, len(rows)), dice.choice([-1, 2, -2, 3, 7])]
    ours = lambda ds, start, stop, each: ds[start:stop:each]
    twin = lambda rows, start, stop, each: rows.take(range(len(rows))[start:stop:each])


@step
class Reverse:
    draw = lambda dice, rows: []
    ours = lambda ds: ds[::-1]
    twin = lambda rows: rows.take(range(len(rows))[::-1])


@step
class Head:
    draw = lambda dice, rows: [dice.choice([0, 1, 5, len(rows), len(rows) + 3])]
    ours = lambda ds, n: ds.head(n)
    twin = lambda rows, n: rows.take(range(len(rows))[:n])


@step
class Tail:
    draw = lambda dice, rows: [dice.choice([0, 1, 5, len(rows), len(rows) + 3])]
    ours = lambda ds, n: ds.tail(n)
    twin = lambda rows, n: rows.take(range(len(rows))[max(len(rows) - n, 0) :])


@step
class Take:
    def draw(dice, rows):
        count = len(rows)
        if not count:
            return [[]]
        if dice.random() < 0.2:
            return [sorted(dice.sample(range(count), dice.randint(0, count)))]
        return [
            [dice.randint(-count, count - 1) for _ in range(dice.choice([0, 1, 3, min(count, 50), min(2 * count, 99)]))]
        ]

    ours = lambda ds, numbers: ds.take(numbers)
    twin = lambda rows, numbers: rows.take(numbers)


@step
class Mask:
    draw = lambda dice, rows: [[dice.random() < 0.5 for _ in range(len(rows))]]
    ours = lambda ds, mask: ds[mask] if mask else ds
    twin = lambda rows, mask: rows.take([n for n, it in enumerate(mask) if it])


@step
class Filter:
    draw = lambda dice, rows: [conditions.condition(rows, dice), dice.random() < 0.3]

    def ours(ds, node, by_column):
        return ds.filter(conditions.predicate(node, (lambda name: ds[name]) if by_column else aw.col))

    def twin(rows, node, _):
        found = conditions.chosen(rows, node)
        return found if isinstance(found, Refused | Any) else rows.take(found)


@step
class Sort:
    def draw(dice, rows):
        names = [name for name, kind in rows.kinds.items() if kind.has_order]
        if not names:
            return None
        return [[[name, dice.random() < 0.5] for name in dice.sample(names, dice.randint(1, min(3, len(names))))]]

    ours = lambda ds, by: ds.sort([name for name, _ in by], descending=[descends for _, descends in by])
    twin = lambda rows, by: rows.take(sorted_numbers(rows, by))


@step
class Select:
    draw = lambda dice, rows: [dice.sample(list(rows.kinds), dice.randint(1, len(rows.kinds)))]
    ours = lambda ds, names: ds.select(names)
    twin = lambda rows, names: rows.select(names)


@step
class Rename:
    def draw(dice, rows):
        name = dice.choice(list(rows.kinds))
        return [name, name + "_"]

    ours = lambda ds, old, new: ds.rename({old: new})
    twin = lambda rows, old, new: rows.named({old: new})


@step
class Collect:
    draw = lambda dice, rows: []
    ours = lambda ds: ds.collect()
    twin = lambda rows: rows


@step
class Concat:
    draw = lambda dice, rows: [bound(dice, len(rows)), dice.random() < 0.5] if len(rows) < 1000 else None
    ours = lambda ds, at, turned: aw.concat([ds[:at], ds[at:]][:: -1 if turned else 1])

    def twin(rows, at, turned):
        numbers = list(range(len(rows)))
        return rows.take(numbers[at:] + numbers[:at] if turned else numbers[:at] + numbers[at:])


@step
class Pickle:
    draw = lambda dice, rows: []
    ours = pickled
    twin = lambda rows: rows


@step
class Rewrite:
    def draw(dice, rows):
        most = dice.choice([None, 1, 4]) if len(rows) < 1000 else None
        return [dice.choice(["file", "stream"]), dice.choice([None, "lz4"]), most]

    def ours(ds, format, compression, max_rows):
        buffer = aw.Buffer()
        aw.write(ds, buffer, format=format, compression=compression, max_rows=max_rows)
        return aw.open(buffer)

    twin = lambda rows, format, compression, max_rows: rows


@step
class Exchange:
    """Through pyarrow, and back."""

    draw = lambda dice, rows: []
    ours = lambda ds: aw.from_arrow(ds.to_arrow())
    twin = lambda rows: rows


@step
class Drop_nulls:
    draw = lambda dice, rows: [dice.sample(list(rows.kinds), dice.randint(1, len(rows.kinds)))]
    ours = lambda ds, names: ds.drop_nulls(names)

    def twin(rows, names):
        from kinds import is_null

        present = lambda n: not any(is_null(rows.kinds[name], rows.columns[name][n]) for name in names)
        return rows.take([n for n in range(len(rows)) if present(n)])


@step
class Unique:
    def draw(dice, rows):
        names = [name for name, kind in rows.kinds.items() if kind.is_key]
        return [dice.sample(names, dice.randint(1, len(names)))] if names else None

    ours = lambda ds, names: ds.unique(names)
    twin = lambda rows, names: rows.take([group[0] for group in grouped(rows, names)])


# ---- those that are random themselves ----


@step
class Shuffle:
    draw = lambda dice, rows: [dice.randrange(2**40)]
    ours = lambda ds, seed: ds.shuffle(seed)


@step
class Sample:
    draw = lambda dice, rows: [dice.randint(0, len(rows)), dice.randrange(2**40)]
    ours = lambda ds, n, seed: ds.sample(n, seed)


@step
class Split:
    draw = lambda dice, rows: [dice.randint(1, len(rows) - 1), dice.randrange(99)] if len(rows) > 2 else None
    ours = lambda ds, n, seed: ds.train_test_split(n, seed)[0]


# How many rows each has of `count`, where chance decides which.
COUNTS = {
    "shuffle": lambda count, seed: count,
    "sample": lambda count, n, seed: n,
    "split": lambda count, n, seed: count - n,
}


def random_order(dataset, rows, name, args):
    """The twin's rows in the order that chance has chosen, by the places that the same call finds of numbers alone."""
    import pyarrow as pa

    places = aw.from_arrow(pa.table({"place": pa.array(range(len(rows)), pa.int64())}))
    numbers = STEPS[name].ours(places, *args)["place"].to_pylist()
    wanted = COUNTS[name](len(rows), *args)
    if len(numbers) != wanted or len(set(numbers)) != wanted:
        return None
    return rows.take(numbers)
