// Reads and writes Arrow with Arrow JS for run.py: `read FOLDER` or `write FOLDER`; `live` for tests/live/live.py.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as arrow from "apache-arrow";
import * as zstd from "fzstd";
import lz4 from "lz4js";
import { checkGrowingTable } from "./live.mjs";

const { DataType } = arrow;
const UNITS = ["s", "ms", "us", "ns"];

arrow.compressionRegistry.set(arrow.CompressionType.LZ4_FRAME, { decode: (data) => lz4.decompress(data) });
arrow.compressionRegistry.set(arrow.CompressionType.ZSTD, { decode: (data) => zstd.decompress(data) });

const [command, folder, seconds] = process.argv.slice(2);
if (command === "write") writeFiles(folder);
else if (command === "live") await checkGrowingTable(folder, Number(seconds));
else readFolder(folder);

function readFolder(folder) {
  const files = readdirSync(folder).filter((name) => /\.(arrow|stream)$/.test(name));
  for (const file of files.sort()) {
    let line;
    try {
      line = { file, rows: readRows(readFileSync(join(folder, file))) };
    } catch (e) {
      line = { file, error: String(e) };
    }
    console.log(JSON.stringify(line));
  }
}

function readRows(bytes) {
  const rows = [];
  for (const batch of arrow.tableFromIPC(bytes).batches) {
    const columns = batch.schema.fields.map((_, i) => batch.getChildAt(i));
    for (let row = 0; row < batch.numRows; row++) rows.push(columns.map((column) => spell(column, row)));
  }
  return rows;
}

// Returns a cell in the spelling that examples/samples/main.rs defines. Values that `get` rounds, or whose unit it drops,
// are read from the memory of the vector.
function spell(vector, row) {
  const type = vector.type;
  const value = vector.get(row);
  if (DataType.isUnion(type)) return spellUnion(vector, row);
  if (value === null) return null;
  if (DataType.isBool(type) || DataType.isFloat(type)) return value;
  if (DataType.isInt(type)) return String(value);
  if (typeof value === "string") return DataType.isDictionary(type) ? spellDictionaryValue(vector, row) : value;
  if (DataType.isDictionary(type)) return spellDictionaryValue(vector, row);
  if (value instanceof Uint8Array) return `0x${Buffer.from(value).toString("hex")}`;
  return spellTemporal(vector, row) ?? spellNested(vector, row, value);
}

// Returns the chunk of a vector that has a row, and the index of the row in it.
function locate(vector, row) {
  for (const data of vector.data) {
    if (row < data.length) return [data, row];
    row -= data.length;
  }
  throw new Error("no such row");
}

function spellDictionaryValue(vector, row) {
  const [data, index] = locate(vector, row);
  return spell(data.dictionary, Number(data.values[index]));
}

function spellTemporal(vector, row) {
  const type = vector.type;
  const [data, index] = locate(vector, row);
  const raw = data.values?.[index];
  const count = () => `${raw}${UNITS[type.unit]}`;
  if (DataType.isDate(type)) return `date ${type.unit === 0 ? raw : raw / 86_400_000n}`;
  if (DataType.isTime(type)) return `time ${count()}`;
  if (DataType.isDuration(type)) return `duration ${count()}`;
  if (DataType.isTimestamp(type)) return `timestamp ${count()}${type.timezone ? ` ${type.timezone}` : ""}`;
  if (DataType.isInterval(type)) return spellInterval(type.unit, vector.get(row));
  if (DataType.isDecimal(type)) return `${toInteger(vector.get(row))}e-${type.scale}`;
  return undefined;
}

function spellInterval(unit, words) {
  if (unit === arrow.IntervalUnit.YEAR_MONTH) return `interval ${words[0] * 12 + words[1]} 0 0`;
  if (unit === arrow.IntervalUnit.DAY_TIME) return `interval 0 ${words[0]} ${BigInt(words[1]) * 1_000_000n}`;
  const nanoseconds = (BigInt(words[3]) << 32n) | BigInt(words[2] >>> 0);
  return `interval ${words[0]} ${words[1]} ${nanoseconds}`;
}

// Converts words of 32 bits in two's complement, lowest first, to an integer.
function toInteger(words) {
  const unsigned = [...words].reduceRight((sum, word) => (sum << 32n) | BigInt(word >>> 0), 0n);
  return BigInt.asIntN(32 * words.length, unsigned);
}

function spellNested(vector, row, value) {
  const type = vector.type;
  const [data, index] = locate(vector, row);
  const all = (items) => Array.from({ length: items.length }, (_, i) => spell(items, i));
  if (DataType.isList(type) || DataType.isLargeList(type) || DataType.isFixedSizeList(type)) return all(value);
  if (DataType.isStruct(type)) return Object.fromEntries(spellMembers(data, index));
  if (DataType.isMap(type)) {
    const [start, end] = [data.valueOffsets[index], data.valueOffsets[index + 1]];
    const pair = (i) => spellMembers(data.children[0], start + i).map(([, value]) => value);
    return Array.from({ length: end - start }, (_, i) => pair(i));
  }
  throw new Error(`${type}: not known to interop.mjs`);
}

function spellUnion(vector, row) {
  const [data, index] = locate(vector, row);
  const child = vector.type.typeIdToChildIndex[data.typeIds[index]];
  const childRow = DataType.isDenseUnion(vector.type) ? data.valueOffsets[index] : at;
  return { [vector.type.children[child].name]: spell(new arrow.Vector([data.children[child]]), childRow) };
}

function spellMembers(data, row) {
  const member = (field, i) => [field.name, spell(new arrow.Vector([data.children[i]]), row)];
  return data.type.children.map(member);
}

// Writes the rows that run.py expects, as a file and as a stream.
function writeFiles(folder) {
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
  // A file holds one dictionary, which slices of one table share. In the stream the second batch replaces it.
  const allRows = table([...first, ...second]);
  const shared = new arrow.Table([...allRows.slice(0, 2).batches, ...allRows.slice(2).batches]);
  writeFileSync(join(folder, "js.arrow"), arrow.tableToIPC(shared, "file"));
  writeFileSync(join(folder, "js.stream"), arrow.tableToIPC(table(first).concat(table(second)), "stream"));
}
