// Reads and writes Arrow with Arrow JS for run.py: `read FOLDER` or `write FOLDER`; `live` for tests/live/live.py.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as arrow from "apache-arrow";
import * as zstd from "fzstd";
import lz4 from "lz4js";
import { live } from "./live.mjs";

const { DataType } = arrow;
const UNITS = ["s", "ms", "us", "ns"];

arrow.compressionRegistry.set(arrow.CompressionType.LZ4_FRAME, { decode: (data) => lz4.decompress(data) });
arrow.compressionRegistry.set(arrow.CompressionType.ZSTD, { decode: (data) => zstd.decompress(data) });

const [what, folder, seconds] = process.argv.slice(2);
if (what === "write") writeBoth(folder);
else if (what === "live") await live(folder, Number(seconds));
else readAll(folder);

function readAll(folder) {
  for (const file of readdirSync(folder)
    .filter((name) => /\.(arrow|stream)$/.test(name))
    .sort()) {
    let line;
    try {
      line = { file, rows: rowsOf(readFileSync(join(folder, file))) };
    } catch (e) {
      line = { file, error: String(e) };
    }
    console.log(JSON.stringify(line));
  }
}

function rowsOf(bytes) {
  const rows = [];
  for (const batch of arrow.tableFromIPC(bytes).batches) {
    const columns = batch.schema.fields.map((_, i) => batch.getChildAt(i));
    for (let row = 0; row < batch.numRows; row++) rows.push(columns.map((column) => spelled(column, row)));
  }
  return rows;
}

// A cell in the spelling that examples/samples/main.rs defines. What `get` rounds or drops the unit of is taken from
// the vector's own numbers.
function spelled(vector, row) {
  const type = vector.type;
  const value = vector.get(row);
  if (DataType.isUnion(type)) return member(vector, row);
  if (value === null) return null;
  if (DataType.isBool(type) || DataType.isFloat(type)) return value;
  if (DataType.isInt(type)) return String(value);
  if (typeof value === "string") return DataType.isDictionary(type) ? inDictionary(vector, row) : value;
  if (DataType.isDictionary(type)) return inDictionary(vector, row);
  if (value instanceof Uint8Array) return `0x${Buffer.from(value).toString("hex")}`;
  return temporal(vector, row) ?? nested(vector, row, value);
}

// Where row `row` lies: one of the vector's chunks, and the row there.
function place(vector, row) {
  for (const data of vector.data) {
    if (row < data.length) return [data, row];
    row -= data.length;
  }
  throw new Error("no such row");
}

function inDictionary(vector, row) {
  const [data, at] = place(vector, row);
  return spelled(data.dictionary, Number(data.values[at]));
}

function temporal(vector, row) {
  const type = vector.type;
  const [data, at] = place(vector, row);
  const raw = data.values?.[at];
  const count = () => `${raw}${UNITS[type.unit]}`;
  if (DataType.isDate(type)) return `date ${type.unit === 0 ? raw : raw / 86_400_000n}`;
  if (DataType.isTime(type)) return `time ${count()}`;
  if (DataType.isDuration(type)) return `duration ${count()}`;
  if (DataType.isTimestamp(type)) return `timestamp ${count()}${type.timezone ? ` ${type.timezone}` : ""}`;
  if (DataType.isInterval(type)) return interval(type.unit, vector.get(row));
  if (DataType.isDecimal(type)) return `${digits(vector.get(row))}e-${type.scale}`;
  return undefined;
}

function interval(unit, words) {
  if (unit === arrow.IntervalUnit.YEAR_MONTH) return `interval ${words[0] * 12 + words[1]} 0 0`;
  if (unit === arrow.IntervalUnit.DAY_TIME) return `interval 0 ${words[0]} ${BigInt(words[1]) * 1_000_000n}`;
  const nanoseconds = (BigInt(words[3]) << 32n) | BigInt(words[2] >>> 0);
  return `interval ${words[0]} ${words[1]} ${nanoseconds}`;
}

// Words of 32 bits, the lowest first, in two's complement.
function digits(words) {
  const whole = [...words].reduceRight((sum, word) => (sum << 32n) | BigInt(word >>> 0), 0n);
  return BigInt.asIntN(32 * words.length, whole);
}

function nested(vector, row, value) {
  const type = vector.type;
  const [data, at] = place(vector, row);
  const all = (items) => Array.from({ length: items.length }, (_, i) => spelled(items, i));
  if (DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type)) return all(value);
  if (DataType.isStruct(type)) return Object.fromEntries(members(data, at));
  if (DataType.isMap(type)) {
    const [start, end] = [data.valueOffsets[at], data.valueOffsets[at + 1]];
    const pair = (i) => members(data.children[0], start + i).map(([, value]) => value);
    return Array.from({ length: end - start }, (_, i) => pair(i));
  }
  throw new Error(`${type}: not known to read.mjs`);
}

function member(vector, row) {
  const [data, at] = place(vector, row);
  const child = vector.type.typeIdToChildIndex[data.typeIds[at]];
  const inside = DataType.isDenseUnion(vector.type) ? data.valueOffsets[at] : at;
  return { [vector.type.children[child].name]: spelled(new arrow.Vector([data.children[child]]), inside) };
}

function members(data, row) {
  const member = (field, i) => [field.name, spelled(new arrow.Vector([data.children[i]]), row)];
  return data.type.children.map(member);
}

// The rows that run.py expects, as a file and as a stream.
function writeBoth(folder) {
  const words = new arrow.Dictionary(new arrow.Utf8(), new arrow.Int8());
  const item = new arrow.Field("item", new arrow.Int32(), true);
  const types = {
    i: new arrow.Int32(),
    n: new arrow.Int64(),
    f: new arrow.Float64(),
    s: new arrow.Utf8(),
    d: words,
    l: new arrow.List(item),
    b: new arrow.Bool(),
  };
  const first = [[1, 2n ** 53n + 1n, 0.5, "a", "x", [1, 2], true], Array(7).fill(null)];
  const second = [[-3, -1n, -1.5, "ünï", "y", [], false]];
  const table = (rows) => {
    const column = ([name, type], i) => [
      name,
      arrow.vectorFromArray(
        rows.map((row) => row[i]),
        type,
      ),
    ];
    return new arrow.Table(Object.fromEntries(Object.entries(types).map(column)));
  };
  // A file holds one dictionary: slices of one table share it. In the stream the second batch replaces it.
  const whole = table([...first, ...second]);
  const shared = new arrow.Table([...whole.slice(0, 2).batches, ...whole.slice(2).batches]);
  writeFileSync(join(folder, "js.arrow"), arrow.tableToIPC(shared, "file"));
  writeFileSync(join(folder, "js.stream"), arrow.tableToIPC(table(first).concat(table(second)), "stream"));
}
