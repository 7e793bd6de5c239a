// A grid of any number of rows and columns. Only what is in sight has elements; the place is a number of a row and not of
// pixels, so that the last of three billion rows is as exact as the first.

import type { Column } from "./api.js";
import { Bar } from "./bar.js";
import { clamp, count, el, pen } from "./dom.js";
import type { Rows } from "./rows.js";
import { touched } from "./touch.js";
import { isDrawn, isNumeric } from "./types.js";

/** Pixels: of a row; of a column, fitted or widened at most; around the text of a cell. */
const ROW = 24;
const FITTED = [56, 340] as const;
const WIDEST = 2000;
const BESIDE = 15;
/** Rows to fetch ahead of scrolling, except after jumps of more rows. */
const AHEAD = 24;
const JUMP = 200;

export interface GridEvents {
  moved(): void;
  arranged(): void;
  picked(row: number, column: number): void;
  header(column: number): void;
  glance(column: number, into: HTMLElement): void;
  /** Reports that the keyboard has moved the active cell. */
  activated(row: number, column: number): void;
  copied(row: number, column: number): void;
}

/** The column and direction that rows are sorted by. */
export interface Sorted {
  column: number;
  isDescending: boolean;
}

/** Pixels for the values of a type until some were fetched. */
function width(type: string, name: string): number {
  const room = /^timestamp/.test(type)
    ? type.includes(",")
      ? 330
      : type.startsWith("timestamp[s")
        ? 160
        : 222
    : /^(decimal|interval)/.test(type)
      ? 170
      : /^(bool|u?int(8|16|32)|float16|date)/.test(type)
        ? 104
        : /^(u?int64|float|time|duration|dictionary)/.test(type)
          ? 132
          : 200;
  return clamp(name.length * 8 + 16, room, Math.max(room, 240));
}

export class Grid {
  readonly element: HTMLElement;
  rows!: Rows;
  /** The first visible row, with a fraction; and the pixels scrolled to the right. */
  top = 0;
  left = 0;
  active = { row: 0, column: 0 };
  /** The largest row number to make room for. */
  most = 0;
  sorted: Sorted | undefined;
  /** Widths that the user set. */
  readonly given = new Map<number, number>();
  private body: HTMLElement;
  private head: HTMLElement;
  private pool: HTMLElement[] = [];
  private heads = new Map<number, HTMLElement>();
  /** The widths for which the pictures of heads were drawn. */
  private drawn = new Map<number, number>();
  private vertical: Bar;
  private horizontal: Bar;
  private frame = 0;
  private gutter = 0;
  /** The message if there are no rows. */
  private nothing = el("p", { class: "nothing", hidden: true });
  /** Pixels of the rows, and of the grid including the heads. */
  private size = { width: 1, height: 1, all: 1 };
  private fitted = new Set<number>();
  /** The first visible row at the last paint. */
  private before = 0;

  /** The columns from left to right; the first ones are pinned, and stay when others scroll. */
  order: number[];
  pinned = 0;
  private wide: number[];
  /** The position of each column; and the left edge of each position, with the right edge of the last. */
  private places: number[] = [];
  private starts: number[] = [];

  constructor(
    readonly columns: Column[],
    private events: GridEvents,
  ) {
    this.wide = columns.map(({ type, name }) => width(type, name));
    this.order = columns.map((_, column) => column);
    this.arranged();
    this.head = el("div", { class: "head", role: "row", "aria-rowindex": 1 });
    this.body = el("div", { class: "body", role: "rowgroup" }, this.nothing);
    this.vertical = new Bar(true, "Rows", (at) => this.scroll(this.rows.first + at));
    this.horizontal = new Bar(false, "Columns", (at) => this.scroll(undefined, at));
    const table = el(
      "div",
      {
        class: "grid",
        id: "grid",
        role: "grid",
        tabindex: 0,
        "aria-label": "Rows",
        "aria-colcount": columns.length + 1,
      },
      el("div", { role: "rowgroup" }, this.head),
      this.body,
    );
    this.element = el("div", { class: "frame" }, table, this.vertical.element, this.horizontal.element);
    table.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    table.addEventListener("keydown", (event) => this.key(event));
    touched(table, (x, y) => this.scroll(this.top + y / ROW, this.left + x));
    this.body.addEventListener("click", (event) => {
      const cell = (event.target as HTMLElement).closest<HTMLElement>("[data-column]");
      if (cell) this.pick(Number(cell.parentElement!.dataset.row), Number(cell.dataset.column));
    });
    new ResizeObserver(() => this.measure()).observe(table);
  }

  private get table() {
    return this.body.parentElement!;
  }

  /** Measures the available room, unless the grid is hidden. */
  measure() {
    if (!this.table.clientHeight) return;
    this.size = { width: this.table.clientWidth, height: this.body.clientHeight, all: this.table.clientHeight };
    this.paint();
  }

  private arranged() {
    this.starts = [0];
    this.order.forEach((column, place) => {
      this.places[column] = place;
      this.starts.push(this.starts[place] + this.wide[column]);
    });
  }

  /** Sets the order of columns, of which the first `pinned` are pinned. */
  arrange(order: number[], pinned: number) {
    this.order = order;
    this.pinned = clamp(pinned, 0, order.length);
    this.arranged();
    if (this.rows) this.scroll(undefined, this.left);
    this.events.arranged();
  }

  /** Moves a column to a position; crossing the edge of the pinned columns pins or unpins it. */
  move(column: number, to: number) {
    const from = this.places[column];
    to = clamp(to, 0, this.order.length - 1);
    const order = this.order.filter((other) => other !== column);
    order.splice(to, 0, column);
    const isLess = from < this.pinned && to >= this.pinned;
    const isMore = from >= this.pinned && to < this.pinned;
    this.arrange(order, this.pinned + (isMore ? 1 : isLess ? -1 : 0));
  }

  isPinned(column: number) {
    return this.places[column] < this.pinned;
  }

  placeOf(column: number) {
    return this.places[column];
  }

  /** Pins a column after the pinned ones, or unpins it there. */
  pin(column: number) {
    const isPinned = this.isPinned(column);
    const order = this.order.filter((other) => other !== column);
    const pinned = this.pinned + (isPinned ? -1 : 1);
    order.splice(isPinned ? pinned : this.pinned, 0, column);
    this.arrange(order, pinned);
  }

  /** Returns the number of pinned columns that stay, and their pixels: none if they would leave little room for others. */
  private get held(): [number, number] {
    const wide = this.starts[this.pinned];
    return wide <= this.across * 0.7 ? [this.pinned, wide] : [0, 0];
  }

  show(rows: Rows) {
    this.rows?.drop();
    this.rows = rows;
    this.scroll(this.top, this.left);
    // Paints at once, or until the next frame the status would describe these rows, and the cells other rows.
    if (this.size.height > ROW) this.draw();
  }

  private get sight() {
    return Math.max(1, this.size.height / ROW);
  }

  private get across() {
    return Math.max(1, this.size.width - this.gutter);
  }

  /** Scrolls to a row, a number of pixels, or both, as far as possible. */
  scroll(top?: number, left?: number) {
    const { first, end } = this.rows;
    if (top !== undefined) this.top = clamp(top, first, Math.max(first, end - Math.floor(this.sight)));
    if (left !== undefined) this.left = clamp(left, 0, Math.max(0, this.starts.at(-1)! - this.across));
    this.paint();
    this.events.moved();
  }

  /** True if the last row is visible. */
  get isAtEnd() {
    return this.top + this.sight >= this.rows.end - 1;
  }

  /** Fetches the rows before `end`, so that they are there when they become visible. */
  async bring(end: number) {
    await this.rows.bring(Math.max(this.rows.first, end - Math.ceil(this.sight)), end, this.columnsInSight());
  }

  toEnd() {
    this.scroll(this.rows.end);
  }

  go(row: number, column = this.active.column) {
    this.active = { row: clamp(row, this.rows.first, Math.max(this.rows.first, this.rows.end - 1)), column };
    this.scroll(this.active.row - Math.floor(this.sight / 3));
    this.reveal();
    // Requests the rows now, without waiting for the next frame.
    this.draw();
  }

  /** Scrolls the active cell into view. */
  private reveal() {
    const { row, column } = this.active;
    const sight = Math.floor(this.sight);
    const top = row < this.top ? row : row >= this.top + sight ? row - sight + 1 : undefined;
    const place = this.places[column];
    const [held, room] = this.held;
    const [at, end] = [this.starts[place] - room, this.starts[place + 1]];
    const left =
      place < held
        ? undefined
        : at < this.left
          ? at
          : end > this.left + this.across
            ? Math.min(at, end - this.across)
            : undefined;
    this.scroll(top, left);
  }

  private pick(row: number, column: number) {
    this.active = { row, column };
    this.reveal();
    this.events.picked(row, column);
  }

  private wheel(event: WheelEvent) {
    if (event.ctrlKey) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? ROW : event.deltaMode === 2 ? this.size.height : 1;
    const [x, y] = event.shiftKey ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    this.scroll(this.top + (y * unit) / ROW, this.left + x * unit);
  }

  private key(event: KeyboardEvent) {
    const page = Math.max(1, Math.floor(this.sight) - 1);
    const { first, end } = this.rows;
    const control = event.ctrlKey || event.metaKey;
    let { row } = this.active;
    let column = this.places[this.active.column] ?? 0;
    const last = this.columns.length - 1;
    switch (event.key) {
      case "ArrowDown":
        row += 1;
        break;
      case "ArrowUp":
        row -= 1;
        break;
      case "ArrowRight":
        column = control ? last : column + 1;
        break;
      case "ArrowLeft":
        column = control ? 0 : column - 1;
        break;
      case "PageDown":
      case " ":
        row += page;
        break;
      case "PageUp":
        row -= page;
        break;
      case "Home":
        if (control) row = first;
        else column = 0;
        break;
      case "End":
        if (control) row = end - 1;
        else column = last;
        break;
      case "Enter":
        this.events.picked(row, this.active.column);
        event.preventDefault();
        return;
      case "p":
      case "<":
      case ">":
        if (control || last < 0) return;
        if (event.key === "p") this.pin(this.active.column);
        else this.move(this.active.column, column + (event.key === ">" ? 1 : -1));
        column = this.places[this.active.column];
        break;
      case "[":
      case "]":
        this.widen(this.active.column, event.key === "]" ? 24 : -24);
        return;
      case "c":
        if (!control || String(getSelection())) return;
        this.events.copied(row, this.active.column);
        break;
      case "h":
        this.events.header(this.active.column);
        event.preventDefault();
        return;
      default:
        return;
    }
    event.preventDefault();
    const before = this.active;
    this.active = { row: clamp(row, first, Math.max(first, end - 1)), column: this.order[clamp(column, 0, last)] ?? 0 };
    this.reveal();
    if (before.row !== this.active.row || before.column !== this.active.column)
      this.events.activated(this.active.row, this.active.column);
  }

  /** Paints in the next frame. */
  paint() {
    if (!this.frame)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
  }

  /** Paints now. */
  draw() {
    if (!this.rows) return;
    const { first, end } = this.rows;
    this.widenGutter();
    this.top = clamp(this.top, first, Math.max(first, end - Math.floor(this.sight)));
    const from = Math.floor(this.top);
    const to = Math.min(end, Math.ceil(this.top + this.sight));
    // Columns that become narrower reveal others, which are fitted in turn.
    while (this.fit(from, to));
    const columns = this.columnsInSight();
    this.rows.want(from, to, columns, Math.abs(from - this.before) < JUMP ? AHEAD : 0);
    this.before = from;
    this.drawHead(columns);
    while (this.pool.length < to - from) {
      const row = el(
        "div",
        { class: "row", role: "row" },
        el("div", { class: "number", role: "rowheader", "aria-colindex": 1 }),
      );
      this.pool.push(row);
      this.body.append(row);
    }
    this.pool.forEach((element, i) => {
      const row = from + i;
      element.hidden = row >= to;
      if (row < to) this.drawRow(element, row, columns, (row - this.top) * ROW);
    });
    this.nothing.hidden = end > first;
    this.vertical.show(this.top - first, Math.floor(this.sight), end - first, this.size.all);
    this.horizontal.show(this.left, this.across, this.starts.at(-1)!, this.size.width);
    this.table.setAttribute("aria-rowcount", String(end - first + 1));
    this.table.setAttribute("aria-activedescendant", `cell-${this.active.row}-${this.active.column}`);
  }

  /** Shows why there are no rows. */
  explain(...why: (Node | string)[]) {
    this.nothing.replaceChildren(...why);
  }

  /** Makes room for the largest row number. */
  private widenGutter() {
    const gutter = Math.ceil(pen("cell").measureText(count(Math.max(0, this.most - 1))).width) + 20;
    if (gutter === this.gutter) return;
    this.gutter = gutter;
    this.table.style.setProperty("--gutter", `${gutter}px`);
  }

  /** Fits columns to the first of their values that are visible, if there are new ones; the visible part stays in place. */
  private fit(from: number, to: number): boolean {
    const seen = this.columnsInSight().filter(
      (column) => !this.fitted.has(column) && this.rows.cell(from, column) !== undefined,
    );
    for (const column of seen) {
      this.fitted.add(column);
      this.wide[column] = this.given.get(column) ?? this.fitting(column, from, to);
    }
    if (seen.length) this.rearranged(this.active.column);
    return seen.length > 0;
  }

  /** Returns the pixels of a column's name and of its visible values. */
  private fitting(column: number, from: number, to: number): number {
    const { name, type } = this.columns[column];
    const text = (row: number) => {
      const cell = this.rows.cell(row, column);
      return cell === undefined ? "" : cell === null ? "null" : typeof cell === "object" ? cell.error : cell;
    };
    let wide = Math.max(
      Math.min(200, pen("name").measureText(name).width + 14),
      Math.min(130, pen("type").measureText(type).width),
    );
    for (let row = from; row < to; row++) wide = Math.max(wide, pen("cell").measureText(text(row)).width);
    return clamp(Math.ceil(wide) + BESIDE, ...FITTED);
  }

  /** Applies changed widths, and keeps `column` in place. */
  private rearranged(column: number) {
    const place = this.places[column] ?? 0;
    const isSeen =
      place >= this.held[0] &&
      this.starts[place + 1] > this.left + this.held[1] &&
      this.starts[place] < this.left + this.across;
    const anchor = isSeen ? place : Math.max(this.held[0], this.placeAt(this.left + this.held[1]));
    const before = this.starts[anchor] ?? 0;
    this.arranged();
    if (this.left > 0)
      this.left = clamp(
        this.left + (this.starts[anchor] ?? 0) - before,
        0,
        Math.max(0, this.starts.at(-1)! - this.across),
      );
  }

  /** Widens a column by some pixels. */
  widen(column: number, by: number) {
    this.give(column, (this.wide[column] ?? 0) + by);
  }

  private give(column: number, width: number) {
    this.given.set(column, clamp(Math.round(width), 40, WIDEST));
    this.wide[column] = this.given.get(column)!;
    this.fitted.add(column);
    this.rearranged(column);
    this.paint();
    this.events.arranged();
  }

  /** Restores widths from the URL. */
  resize(widths: Map<number, number>) {
    for (const column of this.given.keys()) {
      this.given.delete(column);
      this.fitted.delete(column);
    }
    widths.forEach((width, column) => {
      this.given.set(column, clamp(width, 40, WIDEST));
      this.wide[column] = this.given.get(column)!;
      this.fitted.add(column);
    });
    this.arranged();
    this.paint();
  }

  /** Fits a column to its visible cells. */
  private refit(column: number) {
    const from = Math.floor(this.top);
    this.given.delete(column);
    this.wide[column] = this.fitting(column, from, Math.min(this.rows.end, Math.ceil(this.top + this.sight)));
    this.rearranged(column);
    this.paint();
    this.events.arranged();
  }

  private columnsInSight(): number[] {
    const [held, room] = this.held;
    const places = Array.from({ length: held }, (_, place) => place);
    const first = Math.max(held, this.placeAt(this.left + room));
    for (let place = first; place < this.order.length && this.starts[place] < this.left + this.across; place++)
      places.push(place);
    return places.map((place) => this.order[place]);
  }

  private placeAt(x: number): number {
    let [low, high] = [0, this.order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.starts[middle + 1] > x) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  private place(element: HTMLElement, column: number) {
    const place = this.places[column];
    const isHeld = place < this.held[0];
    element.style.transform = `translateX(${this.gutter + this.starts[place] - (isHeld ? 0 : this.left)}px)`;
    element.style.width = `${this.starts[place + 1] - this.starts[place]}px`;
    element.classList.toggle("pinned", isHeld);
    element.setAttribute("aria-colindex", String(place + 2));
  }

  /** Moves a column by dragging its head. */
  private drag(element: HTMLElement, column: number) {
    element.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button) return;
      const start = event.clientX;
      let isMoved = false;
      const at = (next: PointerEvent) => {
        const x = next.clientX - this.head.getBoundingClientRect().left - this.gutter;
        return this.placeAt(x < this.held[1] ? Math.max(0, x) : x + this.left);
      };
      const move = (next: PointerEvent) => {
        if (!isMoved && Math.abs(next.clientX - start) < 8) return;
        if (!isMoved) element.setPointerCapture(next.pointerId);
        isMoved = true;
        element.classList.add("dragged");
        element.style.translate = `${next.clientX - start}px`;
      };
      const end = (next: PointerEvent) => {
        window.removeEventListener("pointermove", move);
        element.classList.remove("dragged");
        element.style.translate = "";
        if (!isMoved || next.type === "pointercancel") return;
        // Ignores the click that ends a drag.
        const still = (click: MouseEvent) => click.stopImmediatePropagation();
        element.addEventListener("click", still, { capture: true });
        setTimeout(() => {
          element.removeEventListener("click", still, { capture: true });
          this.move(column, at(next));
        });
      };
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup", end, { once: true });
    });
  }

  /** Resizes a column by the right edge of its head; a double click fits it. */
  private edge(column: number): HTMLElement {
    const edge = el("span", {
      class: "edge",
      "aria-hidden": true,
      dblclick: () => this.refit(column),
      click: (event) => event.stopPropagation(),
    });
    edge.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      const [start, wide] = [event.clientX, this.wide[column]];
      const move = (next: PointerEvent) => this.give(column, wide + next.clientX - start);
      edge.setPointerCapture(event.pointerId);
      edge.addEventListener("pointermove", move);
      edge.addEventListener("lostpointercapture", () => edge.removeEventListener("pointermove", move), { once: true });
    });
    return edge;
  }

  private makeHead(column: number): HTMLElement {
    const { name, type } = this.columns[column];
    const picture = (hidden: boolean) => el("canvas", { class: "mini", "aria-hidden": true, hidden });
    const head = el(
      "button",
      { class: "column", role: "columnheader", title: `${name}: ${type}`, click: () => this.events.header(column) },
      el("span", { class: "name" }, name),
      el("span", { class: "type" }, type),
      picture(false),
      // Draws a line over the rows, for columns that have one.
      picture(!isDrawn(type)),
      this.edge(column),
    );
    this.drag(head, column);
    return head;
  }

  private drawHead(columns: number[]) {
    for (const [column, element] of this.heads) {
      if (!columns.includes(column)) {
        element.remove();
        this.heads.delete(column);
        this.drawn.delete(column);
      }
    }
    for (const column of columns) {
      let element = this.heads.get(column);
      if (!element) {
        element = this.makeHead(column);
        this.heads.set(column, element);
        this.head.append(element);
      }
      this.place(element, column);
      if (this.drawn.get(column) !== this.wide[column]) {
        this.drawn.set(column, this.wide[column]);
        this.events.glance(column, element);
      }
      const { sorted } = this;
      if (sorted?.column === column)
        element.setAttribute("aria-sort", sorted.isDescending ? "descending" : "ascending");
      else element.removeAttribute("aria-sort");
    }
  }

  private drawRow(element: HTMLElement, row: number, columns: number[], y: number) {
    element.style.transform = `translateY(${y}px)`;
    element.dataset.row = String(row);
    element.setAttribute("aria-rowindex", String(row - this.rows.first + 2));
    element.classList.toggle("odd", row % 2 === 1);
    const number = this.rows.number(row);
    const gutter = element.firstChild as HTMLElement;
    gutter.textContent = number === undefined ? "" : count(number);
    while (element.children.length <= columns.length) element.append(el("div", { role: "gridcell" }));
    for (let i = 1; i < element.children.length; i++) {
      const cell = element.children[i] as HTMLElement;
      const column = columns[i - 1];
      cell.hidden = column === undefined;
      if (column === undefined) continue;
      const value = this.rows.cell(row, column);
      let text = "";
      let kind = "";
      if (value === undefined) kind = "coming";
      else if (value === null) [text, kind] = ["null", "null"];
      else if (typeof value === "object") [text, kind] = [value.error, "error"];
      else text = value;
      const isActive = row === this.active.row && column === this.active.column;
      cell.className = `cell ${kind}${isNumeric(this.columns[column].type) ? " right" : ""}${isActive ? " active" : ""}`;
      if (cell.textContent !== text) cell.textContent = text;
      this.place(cell, column);
      cell.dataset.column = String(column);
      cell.id = `cell-${row}-${column}`;
      if (isActive) cell.setAttribute("aria-selected", "true");
      else cell.removeAttribute("aria-selected");
    }
  }

  headOf(column: number): HTMLElement | undefined {
    return this.heads.get(column);
  }
}
