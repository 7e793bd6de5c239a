// A cache of cells: fetched in blocks as they become visible; requests are aborted when their blocks leave the screen.

import { type Cell, type Cells, fetchJson, RequestError } from "./api.js";

/** The rows and columns of a block. */
const BLOCK_ROWS = 64;
const BLOCK_COLUMNS = 16;
const MAX_BLOCKS = 400;
/** The maximum number of characters of a cell. */
const MAX_CELL_LENGTH = 120;

interface Block {
  from: number;
  rows: number[];
  cells: Cell[][];
  /** The row after the last one. A block at the end of a growing table has fewer, and is fetched again when there are more. */
  end: number;
}

/** The row and column of a block among all blocks. */
type BlockKey = `${number}:${number}`;

function blockKey(row: number, column: number): BlockKey {
  return `${Math.floor(row / BLOCK_ROWS)}:${Math.floor(column / BLOCK_COLUMNS)}`;
}

/** Returns the first row of a block, and the row after its last one if it is full. */
function blockRows(key: BlockKey): { start: number; end: number } {
  const start = Number(key.split(":")[0]) * BLOCK_ROWS;
  return { start, end: start + BLOCK_ROWS };
}

function firstColumn(key: BlockKey): number {
  return Number(key.split(":")[1]) * BLOCK_COLUMNS;
}

/** Returns the keys of the blocks with the given rows and columns. */
function blockKeys(from: number, to: number, columns: number[]): Set<BlockKey> {
  const keys = new Set<BlockKey>();
  for (let row = Math.floor(from / BLOCK_ROWS) * BLOCK_ROWS; row < to; row += BLOCK_ROWS) {
    for (const column of columns) keys.add(blockKey(row, column));
  }
  return keys;
}

export interface RowCacheEvents {
  /** Cells or errors have arrived: the grid must be painted again. */
  onChange(): void;
  onError(error: RequestError): void;
}

/** The cells of a table, or of a view of it. */
export class RowCache {
  /** Blocks in the order of their last use. */
  private blocks = new Map<BlockKey, Block>();
  private requests = new Map<BlockKey, AbortController>();
  /** Requested blocks that are to become visible, whose requests continue while they are off the screen. */
  private prefetches = new Set<BlockKey>();
  /** Blocks that could not be fetched, with the error to show in their cells; `undefined` if the page shows it elsewhere. */
  private failures = new Map<BlockKey, string | undefined>();

  constructor(
    readonly columnCount: number,
    readonly view: string | undefined,
    /** The first row, and the row after the last one; counted from 0 in views. */
    public first: number,
    public end: number,
    private events: RowCacheEvents,
  ) {}

  /** Adds the first rows, which came with the page. */
  addInitialCells({ from, rows, cells }: Cells) {
    const columns = Math.min(BLOCK_COLUMNS, this.columnCount);
    if (this.view !== undefined || from !== this.first || cells.some((row) => row.length !== columns)) return;
    const count = Math.min(rows.length, BLOCK_ROWS - (from % BLOCK_ROWS));
    const block = { from, rows: rows.slice(0, count), cells: cells.slice(0, count), end: from + count };
    this.blocks.set(blockKey(from, 0), block);
  }

  /** Returns a cell, or `undefined` if it was not fetched yet. */
  cell(row: number, column: number): Cell | undefined {
    const key = blockKey(row, column);
    const error = this.failures.get(key);
    if (error !== undefined) return { error };
    const block = this.blocks.get(key);
    return block?.cells[row - block.from]?.[column % BLOCK_COLUMNS];
  }

  /** Returns the number that a row has in its table, or `undefined` if it was not fetched yet. */
  rowNumber(row: number): number | undefined {
    if (this.view === undefined) return row;
    const start = Math.floor(row / BLOCK_ROWS) * BLOCK_ROWS;
    for (const [key, block] of this.blocks) {
      if (blockRows(key).start === start) return block.rows[row - block.from];
    }
    return undefined;
  }

  /** Fetches missing blocks of the visible rows and columns, then of `ahead` more rows, and aborts all other requests. */
  request(from: number, to: number, columns: number[], ahead: number) {
    const visible = blockKeys(from, to, columns);
    const nearby = blockKeys(Math.max(this.first, from - ahead), Math.min(this.end, to + ahead), columns);
    const needed = new Set([...visible, ...nearby]);
    for (const [key, controller] of this.requests) {
      if (needed.has(key) || this.prefetches.has(key)) continue;
      controller.abort();
      this.requests.delete(key);
    }
    for (const key of needed) {
      const block = this.blocks.get(key);
      const end = Math.min(blockRows(key).end, this.end);
      if (block && block.end >= end) {
        // Moves the block to the end, as the least recently used ones are evicted.
        this.blocks.delete(key);
        this.blocks.set(key, block);
      } else if (!this.requests.has(key) && !this.failures.has(key)) {
        void this.fetchBlock(key, end);
      }
    }
    for (const key of this.blocks.keys()) {
      if (this.blocks.size <= MAX_BLOCKS) break;
      if (!needed.has(key)) this.blocks.delete(key);
    }
  }

  /** Fetches rows that are not visible yet; some may be past the current end. */
  async prefetch(from: number, to: number, columns: number[]) {
    const fetches: Promise<void>[] = [];
    for (const key of blockKeys(from, to, columns)) {
      const end = Math.min(blockRows(key).end, to);
      const block = this.blocks.get(key);
      if (block && block.end >= end) continue;
      this.prefetches.add(key);
      fetches.push(this.fetchBlock(key, end).finally(() => this.prefetches.delete(key)));
    }
    await Promise.all(fetches);
  }

  private async fetchBlock(key: BlockKey, end: number) {
    const controller = new AbortController();
    this.requests.set(key, controller);
    const from = Math.max(blockRows(key).start, this.first);
    const start = firstColumn(key);
    const columns = Array.from({ length: Math.min(BLOCK_COLUMNS, this.columnCount - start) }, (_, i) => start + i);
    try {
      const parameters = { from, to: end, at: columns.join(","), view: this.view, width: MAX_CELL_LENGTH };
      const { rows, cells } = await fetchJson<Cells>("cells", parameters, controller.signal);
      // An older request may end after a newer one, which has more rows.
      const block = this.blocks.get(key);
      if (!block || block.end <= end) this.blocks.set(key, { from, rows, cells, end });
      this.events.onChange();
    } catch (e) {
      // Other errors are aborted requests.
      if (e instanceof RequestError) {
        const isShownByPage = e.code === "gone" || e.code === "file_changed";
        this.failures.set(key, isShownByPage ? undefined : e.message);
        this.events.onError(e);
        this.events.onChange();
      }
    } finally {
      if (this.requests.get(key) === controller) this.requests.delete(key);
    }
  }

  /** Aborts all requests. */
  abort() {
    for (const controller of this.requests.values()) controller.abort();
    this.requests.clear();
  }

  /** Fetches rows again that could not be fetched. */
  retryFailed() {
    if (!this.failures.size) return;
    this.failures.clear();
    this.events.onChange();
  }
}
