"""Random data: columns, batches and where they are, as a plan that can be written down; and that plan as a dataset."""

import io
import os
import pickle

import pyarrow as pa
from arrays import Layout, batches_of, entries_of
from kinds import key_of, made, random_values, some_kind
from twin import Rows

import arrowwood as aw

# Where rows are, and how often.
PLACES = {
    "memory": 5,
    "file": 5,
    "stream": 4,
    "ours": 4,
    "table": 5,
    "partitions": 2,
    "builder": 2,
    "several": 2,
    "url": 0,
}

# How many sets of data are large: they reach the ends of blocks, and take a hundred times as long. Others have rows for
# more than a word of bits.
LARGE, MIDDLE = 0.01, 0.1

# Those whose columns grow.
GROWING = ("table", "partitions", "builder")


def draw(dice):
    """A plan: `columns` of `[name, type, values]`, the `batches`' rows, their `layout`, and the `place`."""
    place = dice.choices(list(PLACES), list(PLACES.values()))[0]
    size = dice.random()
    if size < LARGE:
        rows = dice.choice([4097, 4097, 4200, 8200, 66_000])
    elif size < MIDDLE:
        rows = dice.choice([130, 300, 600])
    else:
        rows = dice.choice([0, 1, 2, 3, 8, 9, 17, 40, 64, 65])
    specs = []
    while len(specs) < (dice.randint(1, 5) if rows < 1000 else 2):
        spec = some_kind(dice, 2 if rows < 1000 else 0)
        # Partitions that get other values first have other orders.
        is_sure = place != "partitions" or not has_ranks(made(spec))
        if is_sure and (place not in GROWING or made(spec).can_grow):
            specs.append(spec)
    columns = [[f"c{n}", spec, random_values(made(spec), dice, rows)] for n, spec in enumerate(specs)]
    plan = {"columns": columns, "batches": batches(dice, rows), "place": place, "options": {}}
    plan["layout"] = {
        "cut": dice.choice([0, 0, 1, 3, 8]),
        # Tables can't hold them.
        "null_entries": place not in (*GROWING, "received") and dice.random() < 0.3,
        "growing": place in ("stream", "memory", "received") and dice.random() < 0.5,
    }
    if place in ("file", "several") and any(has_inner_dictionary(made(spec)) for spec in specs):
        # pyarrow can't write more than one dictionary of those, nor make one of all.
        plan["place"] = "stream"
    options(plan, dice, rows)
    return plan


def has_ranks(kind):
    return kind.has_ranks or any(map(has_ranks, kind.parts))


def has_inner_dictionary(kind):
    return any(part.family == "dictionary" or has_inner_dictionary(part) for part in kind.parts)


def batches(dice, rows):
    """Lengths of batches; some are empty."""
    lengths, left = [], rows
    while left:
        count = min(left, dice.choice([1, 2, 3, 7, 8, 30, rows]) if rows < 1000 else dice.choice([1, 1000, rows]))
        lengths.append(count)
        left -= count
        if dice.random() < 0.1:
            lengths.append(0)
    return lengths or [0] * dice.choice([0, 1, 2])


def options(plan, dice, rows):
    own = plan["options"]
    match plan["place"]:
        case "file" | "stream":
            own["compression"] = dice.choice([None, None, None, "lz4", "zstd"])
            own["bytes"] = dice.random() < 0.7
            own["validate"] = dice.choice(["lazy", "lazy", "full"])
        case "received":
            own["at_once"] = dice.random() < 0.6
        case "ours":
            own["compression"] = dice.choice([None, None, "lz4", "zstd"])
            own["format"] = dice.choice(["file", "stream"])
            own["max_rows"] = dice.choice([None, None, 1, 5]) if rows < 1000 else None
        case "table":
            own["segment_rows"] = dice.choice([None, 2, 4, 16]) if rows < 1000 else 30_000
            # No Python objects stand for some.
            specs = str([spec for _, spec, _ in plan["columns"]])
            own["by_row"] = (
                dice.random() < 0.2
                and rows < 1000
                and not any(word in specs for word in ("union", "interval", "_view", "dictionary"))
            )
            by = [name for name, spec, _ in plan["columns"] if isinstance(spec, str) and can_sort(spec)]
            if by and dice.random() < 0.5:
                sort_table(plan, dice.choice(by), dice, rows)
            own["index"] = [
                name
                for name, spec, _ in plan["columns"]
                if can_index(spec) and dice.random() < (0.8 if spec == "utf8" else 0.3)
            ]
            own["compact"] = dice.random() < 0.3
        case "partitions":
            names = [dice.choice(["a", "b", "c d", "ż/x"]) for _ in range(rows)]
            numbers = [dice.choice([1, 20, -3]) for _ in range(rows)]
            text = dice.random() < 0.5
            plan["columns"].append(["p", "utf8" if text else "int32", names if text else numbers])


def can_sort(spec):
    kind = made(spec)
    return kind.family in ("integer", "date", "timestamp", "time", "duration", "text") and spec != "date64"


def can_index(spec):
    kind = made(spec)
    return kind.has_order and kind.family != "bool" and (kind.family != "dictionary" or kind.parts[0].spec == "utf8")


def sort_table(plan, name, dice, rows):
    """Rows in the order of a column, or, where they may be late, but for some."""
    own = plan["options"]
    own["sorted_by"], own["late"] = name, dice.choice(["refuse", "accept"])
    for column in plan["columns"]:
        if column[0] == name:
            values = [value for value in column[2] if value is not None]
            kind = made(column[1])
            values += random_values(kind, dice, 0) + [0 if kind.family != "text" else ""] * (rows - len(values))
            values.sort(key=lambda value: value.encode() if isinstance(value, str) else value)
            if own["late"] == "accept":
                for _ in range(rows // 4):
                    values.append(values.pop(dice.randrange(rows)))
            column[2] = values


class Source:
    """A plan's rows: as a dataset, and as the twin has them."""

    def __init__(self, plan, folder):
        self.plan, self.folder = plan, folder
        self.own = plan["options"]
        self.count = sum(plan["batches"])
        self.rows = Rows.of(plan["columns"], self.count)
        layout = Layout(plan["layout"])
        for name, kind in self.rows.kinds.items():
            if kind.has_ranks:
                kind.ranks = {
                    key_of(value): n for n, value in enumerate(entries_of(kind, self.rows.columns[name], layout))
                }
        self.schema, self.batches = batches_of(plan["columns"], plan["batches"], layout)
        self.dataset = getattr(self, plan["place"])()
        if plan["place"] == "partitions":
            self.rows = self.rows.take(self.dataset["id_"].to_pylist())
            self.dataset = self.dataset.select([name for name, _, _ in plan["columns"]])

    def memory(self):
        return aw.from_arrow(pa.RecordBatchReader.from_batches(self.schema, self.batches))

    def bytes(self, new, **options):
        sink = io.BytesIO()
        with new(
            sink, self.schema, options=pa.ipc.IpcWriteOptions(compression=self.own.get("compression"), **options)
        ) as writer:
            for batch in self.batches:
                writer.write_batch(batch)
        return sink.getvalue()

    def opened(self, data):
        if self.own.get("bytes"):
            return aw.open(data, validate=self.own["validate"])
        path = self.path("data.arrow")
        with open(path, "wb") as file:
            file.write(data)
        return aw.open(path, validate=self.own.get("validate", "lazy"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self):
        return self.opened(self.bytes(pa.ipc.new_file))

    def stream(self):
        return self.opened(self.bytes(pa.ipc.new_stream, emit_dictionary_deltas=True))

    def received(self):
        """Sent by Arrowwood, and read as it arrives: all at once, or batch by batch."""
        sink = io.BytesIO()
        with aw.stream_writer(sink, self.schema) as writer:
            for batch in self.batches:
                writer.write(batch)
        reader = aw.read_stream(io.BytesIO(sink.getvalue()))
        if self.own["at_once"]:
            return reader.read_all()
        return aw.concat([self.memory()[:0], *reader])

    def ours(self):
        """Written by Arrowwood."""
        path, own = self.path("ours.arrow"), self.own
        aw.write(self.memory(), path, format=own["format"], compression=own["compression"], max_rows=own["max_rows"])
        return aw.open(path)

    def several(self):
        """Batches in files of their own, opened as one."""
        paths = []
        for number, batch in enumerate(self.batches):
            paths.append(self.path(f"{number}.arrow"))
            with pa.ipc.new_file(paths[-1], self.schema) as writer:
                writer.write_batch(batch)
        return aw.open(paths) if paths else self.memory()

    def builder(self):
        builder = aw.Builder(self.schema)
        for batch in self.batches:
            builder.append(batch)
        return builder.finish()

    def table(self):
        own = self.own
        names = {name: own[name] for name in ("segment_rows", "sorted_by", "late") if own.get(name)}
        with aw.writer(self.path("table"), self.schema, sync="never", index=own["index"] or None, **names) as writer:
            for batch in self.batches:
                if own["by_row"] and (found := as_rows(batch)) is not None:
                    for row in found:
                        writer.append_row(**row)
                else:
                    writer.append(batch)
                writer.commit()
            if own["compact"]:
                writer.compact()
        return aw.open(self.path("table"))

    def partitions(self):
        schema = self.schema.append(pa.field("id_", pa.int64()))
        first = 0
        with aw.writer(self.path("parts"), schema, sync="never", partition_by="p") as writer:
            for batch in self.batches:
                ids = pa.array(range(first, first + len(batch)), pa.int64())
                writer.append(pa.record_batch([*batch.columns, ids], schema=schema))
                writer.commit()
                first += len(batch)
        if not self.count:
            return aw.from_arrow(pa.Table.from_batches([], schema))
        types = {"p": "utf8" if self.plan["columns"][-1][1] == "utf8" else "int32"}
        return aw.open(self.path("parts"), partitioning=types)


def as_rows(batch):
    """The rows as dicts; None where a value is one of NumPy's, as those don't tell of what they are."""
    found = aw.from_arrow(batch).to_pylist()
    return None if "np." in repr(found) else found


def pickled(dataset):
    return pickle.loads(pickle.dumps(dataset))
