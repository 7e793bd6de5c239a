// Opens the last segment of a table that is being written until the time is over, and checks the rows that
// tests/live/rows.py defines.

import { readdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import * as arrow from "apache-arrow";

const PERIOD = 1 << 14;
const START = 1_700_000_000_000_000;

export async function live(folder, seconds) {
  const said = { opens: 0, rows: 0, wrong: 0, complaints: [] };
  const most = {};
  for (const deadline = Date.now() + 1000 * seconds; Date.now() < deadline; ) {
    const name = readdirSync(folder)
      .filter((name) => name.endsWith(".arrow"))
      .sort()
      .at(-1);
    try {
      const rows = await look(join(folder, name), Number(name.slice(0, 20)));
      said.rows += rows;
      if (rows < (most[name] ?? 0)) throw new Error(`${rows} rows after ${most[name]}`);
      most[name] = rows;
    } catch (e) {
      said.wrong++;
      said.complaints = [...said.complaints.slice(0, 4), `${name}: ${e}`];
    }
    said.opens++;
  }
  console.log(JSON.stringify(said));
}

// Not with readFileSync: it copies the front of the file before its end, and the end tells of what came meanwhile.
async function look(path, first) {
  const table = await arrow.tableFromIPC(await open(path));
  let i = first;
  for (const batch of table.batches) {
    const columns = batch.schema.fields.map((_, number) => batch.getChildAt(number));
    // Raw words: a timestamp is made into milliseconds otherwise.
    const times = columns[1].data[0].values;
    for (let row = 0; row < batch.numRows; row++, i++) check(columns, times, row, i);
  }
  return table.numRows;
}

function check([rows, , symbols, prices, texts, lists], times, row, i) {
  const near = i % PERIOD;
  same("row", rows.get(row), BigInt(i));
  same("ts", times[row], BigInt(START + Math.floor(i / 3) * 10));
  same("symbol", symbols.get(row), `S${Math.floor(near / 16)}`);
  same("price", prices.get(row), i % 10 === 3 ? null : i * 0.25);
  same("text", texts.get(row), near % 13 === 5 ? null : near.toString(16).repeat(near % 4));
  const items = lists.get(row);
  const wanted = near % 17 === 3 ? null : Array.from({ length: near % 5 }, (_, k) => near + k).join();
  same("list", items && [...items].join(), wanted);
}

function same(name, got, wanted) {
  if (got !== wanted) throw new Error(`${name}: ${got} instead of ${wanted}`);
}
