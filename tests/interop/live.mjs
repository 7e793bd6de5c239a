// Opens the newest segment of a growing table again and again, and checks its rows, which tests/live/rows.py defines.

import { readdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import * as arrow from "apache-arrow";

const PERIOD = 1 << 14;
const START = 1_700_000_000_000_000;

export async function checkGrowingTable(folder, seconds) {
  const figures = { opens: 0, rows: 0, wrong: 0, complaints: [] };
  const rowCounts = {};
  for (const deadline = Date.now() + 1000 * seconds; Date.now() < deadline; ) {
    const name = readdirSync(folder)
      .filter((name) => name.endsWith(".arrow"))
      .sort()
      .at(-1);
    try {
      const rows = await checkSegment(join(folder, name), Number(name.slice(0, 20)));
      figures.rows += rows;
      if (rows < (rowCounts[name] ?? 0)) throw new Error(`${rows} rows after ${rowCounts[name]}`);
      rowCounts[name] = rows;
    } catch (e) {
      figures.wrong++;
      figures.complaints = [...figures.complaints.slice(0, 4), `${name}: ${e}`];
    }
    figures.opens++;
  }
  console.log(JSON.stringify(figures));
}

// Reads through a file handle. readFileSync would copy the beginning of the file before the footer at its end, which may
// describe batches that were written in between.
async function checkSegment(path, firstRow) {
  const table = await arrow.tableFromIPC(await open(path));
  let number = firstRow;
  for (const batch of table.batches) {
    const columns = batch.schema.fields.map((_, index) => batch.getChildAt(index));
    // The raw values, as `get` converts timestamps to milliseconds.
    const times = columns[1].data[0].values;
    for (let row = 0; row < batch.numRows; row++, number++) checkRow(columns, times, row, number);
  }
  return table.numRows;
}

function checkRow([rows, , symbols, prices, texts, lists], times, row, number) {
  const periodic = number % PERIOD;
  assertEqual("row", rows.get(row), BigInt(number));
  assertEqual("ts", times[row], BigInt(START + Math.floor(number / 3) * 10));
  assertEqual("symbol", symbols.get(row), `S${Math.floor(periodic / 16)}`);
  assertEqual("price", prices.get(row), number % 10 === 3 ? null : number * 0.25);
  assertEqual("text", texts.get(row), periodic % 13 === 5 ? null : periodic.toString(16).repeat(periodic % 4));
  const items = lists.get(row);
  const expected = periodic % 17 === 3 ? null : Array.from({ length: periodic % 5 }, (_, k) => periodic + k).join();
  assertEqual("list", items && [...items].join(), expected);
}

function assertEqual(name, actual, expected) {
  if (actual !== expected) throw new Error(`${name}: ${actual} instead of ${expected}`);
}
