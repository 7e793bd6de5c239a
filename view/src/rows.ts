// Cells by row and column: fetched in blocks as they become visible; requests are aborted when their blocks leave the screen.

import { type Cell, type Cells, get, Refused } from "./api.js";

/** Rows and columns of a block; and the number of blocks in the cache. */
const ROWS = 64;
const COLUMNS = 16;
const KEPT = 400;
/** The maximum number of characters of a cell. */
const WIDTH = 120;

interface Block {
  from: number;
  rows: number[];
  cells: Cell[][];
  /** The row after the last one. A block at the end of a growing table has fewer, and is fetched again when there are more. */
  end: number;
}

export class Rows {
  private blocks = new Map<string, Block>();
  private coming = new Map<string, AbortController>();
  /** Blocks that could not be fetched, with their errors; without one, if the server does not answer. */
  private failed = new Map<string, string | undefined>();

  constructor(
    readonly columns: number,
    readonly view: string | undefined,
    /** The first row, and the row after the last one; counted from 0 in views. */
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

  /** Adds the first rows, which came with the page. */
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

  /** Returns the cell, or `undefined` if it was not fetched yet. */
  cell(row: number, column: number): Cell | undefined {
    const key = this.key(row, column);
    const block = this.blocks.get(key);
    const error = this.failed.get(key);
    if (error !== undefined) return { error };
    return block?.cells[row - block.from]?.[column % COLUMNS];
  }

  /** Returns the number of a row in its table. */
  number(row: number): number | undefined {
    if (this.view === undefined) return row;
    const at = Math.floor(row / ROWS);
    for (const [key, block] of this.blocks) {
      if (key.startsWith(`${at}:`)) return block.rows[row - block.from];
    }
    return undefined;
  }

  /** Returns the keys of the blocks with the given rows and columns. */
  private keys(from: number, to: number, columns: number[]): Set<string> {
    const keys = new Set<string>();
    for (let row = Math.floor(from / ROWS) * ROWS; row < to; row += ROWS) {
      for (const column of columns) keys.add(this.key(row, column));
    }
    return keys;
  }

  /** Fetches missing blocks of the visible rows and columns, then of `ahead` rows, and aborts all other requests. */
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
        // Moves the block to the end, as the least recently used one is dropped first.
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

  /** Fetches rows that are not visible yet; some may be past the current end. */
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

  /** Retries rows that could not be fetched. */
  retry() {
    if (!this.failed.size) return;
    this.failed.clear();
    this.came();
  }
}
