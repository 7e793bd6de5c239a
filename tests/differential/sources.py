"""Random data: `draw` makes a plan of columns, batches and their place, and Source makes a dataset of a plan."""

import io
import os
import pickle

import pyarrow as pa
from arrays import Layout, record_batches, unique_entries
from kinds import entry_key, parse_kind, random_kind, random_values
from reference import Rows

import arrowwood as aw

# The places that data comes from, with the weights by which they are drawn.
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

# The shares of large and medium sets of data, cumulated. Large ones span several blocks of rows and take a hundred
# times as long; medium ones have more rows than a word has bits.
LARGE, MEDIUM = 0.01, 0.1

# Places that rows are appended to, which not all types support.
APPENDABLE = ("table", "partitions", "builder")


def draw(rng):
    """Draws a plan: `columns` of `[name, type, values]`, the lengths of `batches`, their `layout`, and the `place`."""
    place = rng.choices(list(PLACES), list(PLACES.values()))[0]
    size = rng.random()
    if size < LARGE:
        rows = rng.choice([4097, 4097, 4200, 8200, 66_000])
    elif size < MEDIUM:
        rows = rng.choice([130, 300, 600])
    else:
        rows = rng.choice([0, 1, 2, 3, 8, 9, 17, 40, 64, 65])
    specs = []
    while len(specs) < (rng.randint(1, 5) if rows < 1000 else 2):
        spec = random_kind(rng, 2 if rows < 1000 else 0)
        # The order of categories in a partition depends on which values it gets first.
        has_sure_order = place != "partitions" or not has_ranks(parse_kind(spec))
        if has_sure_order and (place not in APPENDABLE or parse_kind(spec).can_grow):
            specs.append(spec)
    columns = [[f"c{n}", spec, random_values(parse_kind(spec), rng, rows)] for n, spec in enumerate(specs)]
    plan = {"columns": columns, "batches": draw_batches(rng, rows), "place": place, "options": {}}
    plan["layout"] = {
        "cut": rng.choice([0, 0, 1, 3, 8]),
        # Tables can't hold null entries of dictionaries.
        "null_entries": place not in (*APPENDABLE, "received") and rng.random() < 0.3,
        "growing": place in ("stream", "memory", "received") and rng.random() < 0.5,
    }
    if place in ("file", "several") and any(has_inner_dictionary(parse_kind(spec)) for spec in specs):
        # pyarrow can write a file only if an inner dictionary is the same in all batches, and can't unify them.
        plan["place"] = "stream"
    draw_options(plan, rng, rows)
    return plan


def has_ranks(kind):
    return kind.has_ranks or any(map(has_ranks, kind.parts))


def has_inner_dictionary(kind):
    return any(part.family == "dictionary" or has_inner_dictionary(part) for part in kind.parts)


def draw_batches(rng, rows):
    """Draws the lengths of batches, some of which are empty."""
    lengths, left = [], rows
    while left:
        count = min(left, rng.choice([1, 2, 3, 7, 8, 30, rows]) if rows < 1000 else rng.choice([1, 1000, rows]))
        lengths.append(count)
        left -= count
        if rng.random() < 0.1:
            lengths.append(0)
    return lengths or [0] * rng.choice([0, 1, 2])


def draw_options(plan, rng, rows):
    options = plan["options"]
    match plan["place"]:
        case "file" | "stream":
            options["compression"] = rng.choice([None, None, None, "lz4", "zstd"])
            options["bytes"] = rng.random() < 0.7
            options["validate"] = rng.choice(["lazy", "lazy", "full"])
        case "received":
            options["at_once"] = rng.random() < 0.6
        case "ours":
            options["compression"] = rng.choice([None, None, "lz4", "zstd"])
            options["format"] = rng.choice(["file", "stream"])
            options["max_rows"] = rng.choice([None, None, 1, 5]) if rows < 1000 else None
        case "table":
            options["segment_rows"] = rng.choice([None, 2, 4, 16]) if rows < 1000 else 30_000
            # The Python objects of some types don't determine the values.
            specs = str([spec for _, spec, _ in plan["columns"]])
            options["by_row"] = (
                rng.random() < 0.2
                and rows < 1000
                and not any(word in specs for word in ("union", "interval", "_view", "dictionary"))
            )
            sortable = [name for name, spec, _ in plan["columns"] if isinstance(spec, str) and can_sort(spec)]
            if sortable and rng.random() < 0.5:
                sort_table(plan, rng.choice(sortable), rng, rows)
            options["index"] = [
                name
                for name, spec, _ in plan["columns"]
                if can_index(spec) and rng.random() < (0.8 if spec == "utf8" else 0.3)
            ]
            options["compact"] = rng.random() < 0.3
        case "partitions":
            names = [rng.choice(["a", "b", "c d", "ż/x"]) for _ in range(rows)]
            numbers = [rng.choice([1, 20, -3]) for _ in range(rows)]
            is_text = rng.random() < 0.5
            plan["columns"].append(["p", "utf8", names] if is_text else ["p", "int32", numbers])


def can_sort(spec):
    kind = parse_kind(spec)
    return kind.family in ("integer", "date", "timestamp", "time", "duration", "text") and spec != "date64"


def can_index(spec):
    kind = parse_kind(spec)
    return kind.has_order and kind.family != "bool" and (kind.family != "dictionary" or kind.parts[0].spec == "utf8")


def sort_table(plan, name, rng, rows):
    """Sorts the values of a column, and moves some to the end if late rows are accepted."""
    options = plan["options"]
    options["sorted_by"], options["late"] = name, rng.choice(["refuse", "accept"])
    column = next(column for column in plan["columns"] if column[0] == name)
    is_text = parse_kind(column[1]).family == "text"
    # Nulls are replaced, as they can't be sorted.
    values = [value for value in column[2] if value is not None]
    values += [""] * (rows - len(values)) if is_text else [0] * (rows - len(values))
    values.sort(key=lambda value: value.encode() if is_text else value)
    if options["late"] == "accept":
        for _ in range(rows // 4):
            values.append(values.pop(rng.randrange(rows)))
    column[2] = values


class Source:
    """The rows of a plan, as a dataset and as rows of the reference. Each place is a method that makes the dataset."""

    def __init__(self, plan, folder):
        self.plan, self.folder = plan, folder
        self.options = plan["options"]
        self.count = sum(plan["batches"])
        self.rows = Rows.from_columns(plan["columns"], self.count)
        layout = Layout(plan["layout"])
        for name, kind in self.rows.kinds.items():
            if kind.has_ranks:
                entries = unique_entries(kind, self.rows.columns[name], layout)
                kind.ranks = {entry_key(value): rank for rank, value in enumerate(entries)}
        self.schema, self.batches = record_batches(plan["columns"], plan["batches"], layout)
        self.dataset = getattr(self, plan["place"])()
        if plan["place"] == "partitions":
            self.rows = self.rows.take(self.dataset["id_"].to_pylist())
            self.dataset = self.dataset.select([name for name, _, _ in plan["columns"]])

    def memory(self):
        return aw.from_arrow(pa.RecordBatchReader.from_batches(self.schema, self.batches))

    def encode(self, open_writer, **options):
        sink = io.BytesIO()
        write_options = pa.ipc.IpcWriteOptions(compression=self.options.get("compression"), **options)
        with open_writer(sink, self.schema, options=write_options) as writer:
            for batch in self.batches:
                writer.write_batch(batch)
        return sink.getvalue()

    def open_encoded(self, data):
        if self.options.get("bytes"):
            return aw.open(data, validate=self.options["validate"])
        path = self.path("data.arrow")
        with open(path, "wb") as file:
            file.write(data)
        return aw.open(path, validate=self.options.get("validate", "lazy"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self):
        return self.open_encoded(self.encode(pa.ipc.new_file))

    def stream(self):
        return self.open_encoded(self.encode(pa.ipc.new_stream, emit_dictionary_deltas=True))

    def received(self):
        """Writes a stream with Arrowwood and reads it as it arrives, at once or batch by batch."""
        sink = io.BytesIO()
        with aw.stream_writer(sink, self.schema) as writer:
            for batch in self.batches:
                writer.write(batch)
        reader = aw.read_stream(io.BytesIO(sink.getvalue()))
        if self.options["at_once"]:
            return reader.read_all()
        return aw.concat([self.memory()[:0], *reader])

    def ours(self):
        """Writes a file or stream with Arrowwood."""
        path, options = self.path("ours.arrow"), self.options
        aw.write(
            self.memory(),
            path,
            format=options["format"],
            compression=options["compression"],
            max_rows=options["max_rows"],
        )
        return aw.open(path)

    def several(self):
        """Writes each batch to a file, and opens the files as one dataset."""
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
        options = self.options
        names = {name: options[name] for name in ("segment_rows", "sorted_by", "late") if options.get(name)}
        with aw.writer(
            self.path("table"), self.schema, sync="never", index=options["index"] or None, **names
        ) as writer:
            for batch in self.batches:
                rows = as_rows(batch) if options["by_row"] else None
                if rows is None:
                    writer.append(batch)
                else:
                    for row in rows:
                        writer.append_row(**row)
                writer.commit()
            if options["compact"]:
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
    """Returns a batch as dicts, or None if a value is one of NumPy's, from which its type can't be inferred."""
    rows = aw.from_arrow(batch).to_pylist()
    return None if "np." in repr(rows) else rows


def pickled(dataset):
    return pickle.loads(pickle.dumps(dataset))
