// The columns of the grid from left to right: their order, and their widths in pixels.

import type { Column } from "../data/api.js";
import { clamp } from "../elements/dom.js";

/** Widths for values of types, until some were fetched. The first pattern that matches counts. */
const TYPE_WIDTHS: [pattern: RegExp, width: number][] = [
  [/^timestamp.*,/, 330],
  [/^timestamp\[s/, 160],
  [/^timestamp/, 222],
  [/^(decimal|interval)/, 170],
  [/^(bool|u?int(8|16|32)|float16|date)/, 104],
  [/^(u?int64|float|time|duration|dictionary)/, 132],
];
const DEFAULT_WIDTH = 200;
/** Long names widen a column at first, but not beyond this. */
const MAX_NAME_WIDTH = 240;
/** The share of the available width that pinned columns can take. */
const MAX_PINNED_SHARE = 0.7;

function initialWidth({ name, type }: Column): number {
  const typeWidth = TYPE_WIDTHS.find(([pattern]) => pattern.test(type))?.[1] ?? DEFAULT_WIDTH;
  const nameWidth = name.length * 8 + 16;
  return clamp(nameWidth, typeWidth, Math.max(typeWidth, MAX_NAME_WIDTH));
}

/** Pinned columns that stay in place when others scroll. */
export interface Frozen {
  count: number;
  /** Their width, in pixels. */
  width: number;
}

export class ColumnLayout {
  /** The numbers of the columns from left to right. */
  order: number[];
  /** The number of columns, from the left, that are pinned. */
  pinned = 0;
  private widths: number[];
  /** The position of each column in the order. */
  private positions: number[] = [];
  /** The left edge of each position, and the right edge of the last one. */
  private edges: number[] = [];

  constructor(columns: Column[]) {
    this.widths = columns.map(initialWidth);
    this.order = columns.map((_, column) => column);
    this.update();
  }

  /** Computes positions and edges, after the order or widths have changed. */
  private update() {
    this.edges = [0];
    this.order.forEach((column, position) => {
      this.positions[column] = position;
      this.edges.push(this.edges[position] + this.widths[column]);
    });
  }

  setOrder(order: number[], pinned: number) {
    this.order = order;
    this.pinned = clamp(pinned, 0, order.length);
    this.update();
  }

  /** Sets the widths of some columns. */
  setWidths(widths: Map<number, number>) {
    for (const [column, width] of widths) this.widths[column] = width;
    this.update();
  }

  /** Moves a column to a position; crossing the edge of the pinned columns pins or unpins it. */
  move(column: number, to: number) {
    const target = clamp(to, 0, this.order.length - 1);
    const wasPinned = this.isPinned(column);
    const isPinned = target < this.pinned;
    const order = this.order.filter((other) => other !== column);
    order.splice(target, 0, column);
    this.setOrder(order, this.pinned + Number(isPinned) - Number(wasPinned));
  }

  /** Pins a column after the pinned ones, or unpins it and moves it before the others. */
  togglePin(column: number) {
    const order = this.order.filter((other) => other !== column);
    const pinned = this.isPinned(column) ? this.pinned - 1 : this.pinned + 1;
    const position = Math.min(pinned, this.pinned);
    order.splice(position, 0, column);
    this.setOrder(order, pinned);
  }

  isPinned(column: number): boolean {
    return this.positions[column] < this.pinned;
  }

  positionOf(column: number): number {
    return this.positions[column] ?? 0;
  }

  widthOf(column: number): number {
    return this.widths[column] ?? 0;
  }

  get totalWidth(): number {
    return this.edges.at(-1)!;
  }

  /** Returns the left edge of a position, if nothing is scrolled; 0 if there is no such position. */
  leftEdge(position: number): number {
    return this.edges[position] ?? 0;
  }

  rightEdge(position: number): number {
    return this.edges[position + 1] ?? 0;
  }

  /** Returns the position at a distance from the left edge of the first column. */
  positionAt(x: number): number {
    let low = 0;
    let high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.edges[middle + 1] > x) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Returns the pinned columns: none if they would leave little of `available` pixels for others. */
  frozen(available: number): Frozen {
    const width = this.edges[this.pinned];
    return width <= available * MAX_PINNED_SHARE ? { count: this.pinned, width } : { count: 0, width: 0 };
  }

  /** Returns the columns in `available` pixels of which the first `left` are scrolled away, in their order. */
  visibleColumns(left: number, available: number): number[] {
    const frozen = this.frozen(available);
    const first = Math.max(frozen.count, this.positionAt(left + frozen.width));
    const columns = this.order.slice(0, frozen.count);
    for (let position = first; position < this.order.length; position++) {
      if (this.edges[position] >= left + available) break;
      columns.push(this.order[position]);
    }
    return columns;
  }
}
