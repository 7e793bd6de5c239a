// Cells by row and column, fetched in blocks as they come into sight, and given up when they leave it before they came.

import { type Cell, type Cells, get, Refused } from "./api.js";

/** Rows and columns of a block; blocks that are kept. */
const ROWS = 64;
const COLUMNS = 16;
const KEPT = 400;
/** Characters of a cell. */
const WIDTH = 120;

interface Block {
  from: number;
  rows: number[];
  cells: Cell[][];
  /** A block at the end of a growing table has fewer rows, and is fetched anew when there are more. */
  end: number;
}

export class Rows {
  private blocks = new Map<string, Block>();
  private coming = new Map<string, AbortController>();
  /** Blocks that could not be had, and what is wrong with them; nothing, if the server is not there. */
  private failed = new Map<string, string | undefined>();

  constructor(
    readonly columns: number,
    readonly view: string | undefined,
    /** First row and the row behind the last; of a view, counted from 0. */
    public first: number,
    public end: number,
    private came: () => void,
    private lost: (e: Refused) => void,
  ) {}

  get length() {
    return this.end - this.first;
  }

  private key(row: number, column: number) {
    return `${Math.floor(row / ROWS)}:${Math.floor(column / COLUMNS)}`;
  }

  /** Takes over the first rows, which came with the page. */
  seed({ from, rows, cells }: Cells) {
    const columns = Math.min(COLUMNS, this.columns);
    if (this.view === undefined && from === this.first && cells.every((row) => row.length === columns)) {
      const inBlock = Math.min(rows.length, ROWS - (from % ROWS));
      this.blocks.set(this.key(from, 0), {
        from,
        rows: rows.slice(0, inBlock),
        cells: cells.slice(0, inBlock),
        end: from + inBlock,
      });
    }
  }

  /** The cell; `undefined` if it has not come yet. */
  cell(row: number, column: number): Cell | undefined {
    const key = this.key(row, column);
    const block = this.blocks.get(key);
    const error = this.failed.get(key);
    if (error !== undefined) return { error };
    return block?.cells[row - block.from]?.[column % COLUMNS];
  }

  /** The number that the row has in its table. */
  number(row: number): number | undefined {
    if (this.view === undefined) return row;
    const at = Math.floor(row / ROWS);
    for (const [key, block] of this.blocks) {
      if (key.startsWith(`${at}:`)) return block.rows[row - block.from];
    }
    return undefined;
  }

  /** The blocks of rows and columns. */
  private keys(from: number, to: number, columns: number[]): Set<string> {
    const keys = new Set<string>();
    for (let row = Math.floor(from / ROWS) * ROWS; row < to; row += ROWS) {
      for (const column of columns) keys.add(this.key(row, column));
    }
    return keys;
  }

  /** Fetches what is missing of the rows and columns in sight, then of those `ahead` of them, and gives up all else. */
  want(from: number, to: number, columns: number[], ahead: number) {
    const around = this.keys(Math.max(this.first, from - ahead), Math.min(this.end, to + ahead), columns);
    const wanted = new Set([...this.keys(from, to, columns), ...around]);
    for (const [key, controller] of this.coming) {
      if (!wanted.has(key)) {
        controller.abort();
        this.coming.delete(key);
      }
    }
    for (const key of wanted) {
      const block = this.blocks.get(key);
      const [at, chunk] = key.split(":").map(Number);
      const end = Math.min((at + 1) * ROWS, this.end);
      if (block && block.end >= end) {
        // The latest in use is the last to go.
        this.blocks.delete(key);
        this.blocks.set(key, block);
      } else if (!this.coming.has(key) && !this.failed.has(key)) {
        void this.fetch(key, at, chunk, end);
      }
    }
    for (const key of this.blocks.keys()) {
      if (this.blocks.size <= KEPT) break;
      if (!wanted.has(key)) this.blocks.delete(key);
    }
  }

  /** Fetches rows that are not in sight yet, of which some may be behind the present end. */
  async bring(from: number, to: number, columns: number[]) {
    const coming: Promise<void>[] = [];
    for (const key of this.keys(from, to, columns)) {
      const [at, chunk] = key.split(":").map(Number);
      const end = Math.min((at + 1) * ROWS, to);
      if ((this.blocks.get(key)?.end ?? 0) < end) coming.push(this.fetch(key, at, chunk, end));
    }
    await Promise.all(coming);
  }

  private async fetch(key: string, at: number, chunk: number, end: number) {
    const controller = new AbortController();
    this.coming.set(key, controller);
    const from = Math.max(at * ROWS, this.first);
    const start = chunk * COLUMNS;
    const numbers = Array.from({ length: Math.min(COLUMNS, this.columns - start) }, (_, i) => start + i);
    try {
      const parameters = { from, to: end, at: numbers.join(","), view: this.view, width: WIDTH };
      const { rows, cells } = await get<Cells>("cells", parameters, controller.signal);
      this.blocks.set(key, { from, rows, cells, end });
      this.came();
    } catch (e) {
      if (e instanceof Refused) {
        this.failed.set(key, e.code === "gone" || e.code === "file_changed" ? undefined : e.message);
        this.lost(e);
        this.came();
      }
    } finally {
      if (this.coming.get(key) === controller) this.coming.delete(key);
    }
  }

  drop() {
    this.coming.forEach((controller) => controller.abort());
    this.coming.clear();
  }

  /** Rows that could not be had are asked for again. */
  retry() {
    if (!this.failed.size) return;
    this.failed.clear();
    this.came();
  }
}
