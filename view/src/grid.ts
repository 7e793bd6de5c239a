// A grid of any number of rows and columns. Only what is in sight has elements; the place is a number of a row and not of
// pixels, so that the last of three billion rows is as exact as the first.

import { Column } from "./api.js";
import { clamp, count, el } from "./dom.js";
import { Rows } from "./rows.js";

export const ROW = 24;
const GUTTER = 110;

/** A scroll bar over a range too long for the browser's own. */
class Bar {
  readonly element: HTMLElement;
  private thumb: HTMLElement;
  private size = 1;
  private at = 0;
  private seen = 1;

  constructor(
    private vertical: boolean,
    label: string,
    moved: (at: number) => void,
  ) {
    this.thumb = el("div", { class: "thumb" });
    this.element = el("div", {
      class: vertical ? "bar vertical" : "bar",
      role: "scrollbar",
      "aria-orientation": vertical ? "vertical" : "horizontal",
      "aria-label": label,
      "aria-controls": "grid",
      "aria-valuemin": 0,
    });
    this.element.append(this.thumb);
    const place = (event: PointerEvent, hold: number) => {
      const box = this.element.getBoundingClientRect();
      const long = vertical ? box.height : box.width;
      const thumb = this.length(long);
      const offset = (vertical ? event.clientY - box.top : event.clientX - box.left) - hold;
      return clamp(offset / Math.max(1, long - thumb), 0, 1) * Math.max(0, this.size - this.seen);
    };
    this.element.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const box = this.thumb.getBoundingClientRect();
      const inside = vertical ? event.clientY - box.top : event.clientX - box.left;
      const long = vertical ? box.height : box.width;
      const hold = inside >= 0 && inside <= long ? inside : long / 2;
      moved(place(event, hold));
      const drag = (next: PointerEvent) => moved(place(next, hold));
      this.element.setPointerCapture(event.pointerId);
      this.element.addEventListener("pointermove", drag);
      this.element.addEventListener("lostpointercapture", () => this.element.removeEventListener("pointermove", drag), { once: true });
    });
  }

  private length(long: number) {
    return clamp((this.seen / Math.max(this.size, 1)) * long, Math.min(28, long), long);
  }

  show(at: number, seen: number, size: number) {
    [this.at, this.seen, this.size] = [at, seen, size];
    const long = this.vertical ? this.element.clientHeight : this.element.clientWidth;
    const thumb = this.length(long);
    const offset = (at / Math.max(1e-9, size - seen)) * (long - thumb);
    this.element.hidden = size <= seen;
    this.thumb.style.setProperty(this.vertical ? "height" : "width", `${thumb}px`);
    this.thumb.style.transform = this.vertical ? `translateY(${offset || 0}px)` : `translateX(${offset || 0}px)`;
    this.element.setAttribute("aria-valuemax", String(Math.round(Math.max(0, size - seen))));
    this.element.setAttribute("aria-valuenow", String(Math.round(this.at)));
  }
}

/** The order of columns as the URL has it, `5,0-4,6-9`; empty for that of the file. */
export function orderText(order: number[]): string {
  const runs: string[] = [];
  for (let i = 0; i < order.length; ) {
    let end = i + 1;
    while (end < order.length && order[end] === order[end - 1] + 1) end++;
    runs.push(end - i > 1 ? `${order[i]}-${order[end - 1]}` : String(order[i]));
    i = end;
  }
  return runs.length > 1 ? runs.join() : "";
}

/** What `orderText` gave, of `count` columns; that of the file for anything else. */
export function orderOf(text: string, count: number): number[] {
  const order: number[] = [];
  for (const run of text.split(",")) {
    const ends = /^(\d+)(?:-(\d+))?$/.exec(run);
    const [from, to] = ends ? [Number(ends[1]), Number(ends[2] ?? ends[1])] : [0, -1];
    for (let column = from; column <= to && order.length <= count; column++) order.push(column);
  }
  const isWhole = order.length === count && new Set(order).size === count && order.every((column) => column < count);
  return isWhole ? order : Array.from({ length: count }, (_, column) => column);
}

export interface GridEvents {
  moved(): void;
  arranged(): void;
  picked(row: number, column: number): void;
  header(column: number): void;
  glance(column: number, into: HTMLElement): void;
}

/** Pixels for the values of a type. */
function width(type: string, name: string): number {
  const room = /^timestamp/.test(type) ? (type.includes(",") ? 330 : type.startsWith("timestamp[s") ? 160 : 222) : /^(decimal|interval)/.test(type) ? 170 : /^(bool|u?int(8|16|32)|float16|date)/.test(type) ? 104 : /^(u?int64|float|time|duration|dictionary)/.test(type) ? 132 : 200;
  return clamp(name.length * 8 + 16, room, Math.max(room, 240));
}

const isNumeric = (type: string) => /^(u?int|float|decimal|date|time|duration)/.test(type);

export class Grid {
  readonly element: HTMLElement;
  rows!: Rows;
  /** The first row in sight, with a fraction; pixels to the left of what is in sight. */
  top = 0;
  left = 0;
  active = { row: 0, column: 0 };
  private body: HTMLElement;
  private head: HTMLElement;
  private pool: HTMLElement[] = [];
  private heads = new Map<number, HTMLElement>();
  private vertical: Bar;
  private horizontal: Bar;
  private frame = 0;

  /** The columns from left to right, of which the first stay where they are when the others move. */
  order: number[];
  pinned = 0;
  private wide: number[];
  /** Of each column its place in the order; where each place begins, and the last ends. */
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
    this.body = el("div", { class: "body", role: "rowgroup" });
    this.vertical = new Bar(true, "Rows", (at) => this.scroll(this.rows.first + at));
    this.horizontal = new Bar(false, "Columns", (at) => this.scroll(undefined, at));
    const table = el(
      "div",
      { class: "grid", id: "grid", role: "grid", tabindex: 0, "aria-label": "Rows", "aria-colcount": columns.length + 1 },
      el("div", { role: "rowgroup" }, this.head),
      this.body,
    );
    this.element = el("div", { class: "frame" }, table, this.vertical.element, this.horizontal.element);
    table.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    table.addEventListener("keydown", (event) => this.key(event));
    this.touch(table);
    this.body.addEventListener("click", (event) => {
      const cell = (event.target as HTMLElement).closest<HTMLElement>("[data-column]");
      if (cell) this.pick(Number(cell.parentElement!.dataset.row), Number(cell.dataset.column));
    });
    new ResizeObserver(() => this.paint()).observe(table);
  }

  private arranged() {
    this.starts = [0];
    this.order.forEach((column, place) => {
      this.places[column] = place;
      this.starts.push(this.starts[place] + this.wide[column]);
    });
  }

  /** Puts the columns in an order, of which the first `pinned` stay in sight. */
  arrange(order: number[], pinned: number) {
    this.order = order;
    this.pinned = clamp(pinned, 0, order.length);
    this.arranged();
    if (this.rows) this.scroll(undefined, this.left);
    this.events.arranged();
  }

  /** Moves a column to a place; over the edge of those that are pinned it becomes one of them, or is one no more. */
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

  place_of(column: number) {
    return this.places[column];
  }

  /** Pins a column behind those that are pinned, or lets it go there. */
  pin(column: number) {
    const isPinned = this.isPinned(column);
    const order = this.order.filter((other) => other !== column);
    const pinned = this.pinned + (isPinned ? -1 : 1);
    order.splice(isPinned ? pinned : this.pinned, 0, column);
    this.arrange(order, pinned);
  }

  /** How many columns are held, and their pixels: none if they would leave little room for the others. */
  private get held(): [number, number] {
    const wide = this.starts[this.pinned];
    return wide <= this.across * 0.7 ? [this.pinned, wide] : [0, 0];
  }

  show(rows: Rows) {
    this.rows?.drop();
    this.rows = rows;
    this.scroll(this.top, this.left);
  }

  private get sight() {
    return Math.max(1, this.body.clientHeight / ROW);
  }

  private get across() {
    return Math.max(1, this.body.clientWidth - GUTTER);
  }

  /** Scrolls to a row, a number of pixels, or both, as far as there are any. */
  scroll(top?: number, left?: number) {
    const { first, end } = this.rows;
    if (top !== undefined) this.top = clamp(top, first, Math.max(first, end - Math.floor(this.sight)));
    if (left !== undefined) this.left = clamp(left, 0, Math.max(0, this.starts.at(-1)! - this.across));
    this.paint();
    this.events.moved();
  }

  /** Whether the last row is in sight. */
  get isAtEnd() {
    return this.top + this.sight >= this.rows.end - 1;
  }

  /** Fetches the rows before `end`, so that they are there when they come into sight. */
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
  }

  /** Brings the active cell into sight. */
  private reveal() {
    const { row, column } = this.active;
    const sight = Math.floor(this.sight);
    const top = row < this.top ? row : row >= this.top + sight ? row - sight + 1 : undefined;
    const place = this.places[column];
    const [held, room] = this.held;
    const [at, end] = [this.starts[place] - room, this.starts[place + 1]];
    const left = place < held ? undefined : at < this.left ? at : end > this.left + this.across ? Math.min(at, end - this.across) : undefined;
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
    const unit = event.deltaMode === 1 ? ROW : event.deltaMode === 2 ? this.body.clientHeight : 1;
    const [x, y] = event.shiftKey ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    this.scroll(this.top + (y * unit) / ROW, this.left + x * unit);
  }

  private touch(table: HTMLElement) {
    let last: { x: number; y: number } | undefined;
    table.addEventListener("touchstart", ({ touches: [touch] }) => (last = { x: touch.clientX, y: touch.clientY }), { passive: true });
    table.addEventListener(
      "touchmove",
      (event) => {
        const [touch] = event.touches;
        if (!last || event.touches.length > 1) return;
        event.preventDefault();
        this.scroll(this.top + (last.y - touch.clientY) / ROW, this.left + last.x - touch.clientX);
        last = { x: touch.clientX, y: touch.clientY };
      },
      { passive: false },
    );
  }

  private key(event: KeyboardEvent) {
    const page = Math.max(1, Math.floor(this.sight) - 1);
    const { first, end } = this.rows;
    const control = event.ctrlKey || event.metaKey;
    let { row } = this.active;
    let column = this.places[this.active.column] ?? 0;
    const last = this.columns.length - 1;
    switch (event.key) {
      case "ArrowDown": row += 1; break;
      case "ArrowUp": row -= 1; break;
      case "ArrowRight": column = control ? last : column + 1; break;
      case "ArrowLeft": column = control ? 0 : column - 1; break;
      case "PageDown": case " ": row += page; break;
      case "PageUp": row -= page; break;
      case "Home": if (control) row = first; else column = 0; break;
      case "End": if (control) row = end - 1; else column = last; break;
      case "Enter": this.events.picked(row, this.active.column); event.preventDefault(); return;
      case "p": case "<": case ">":
        if (control || last < 0) return;
        if (event.key === "p") this.pin(this.active.column);
        else this.move(this.active.column, column + (event.key === ">" ? 1 : -1));
        column = this.places[this.active.column];
        break;
      case "h": this.events.header(this.active.column); event.preventDefault(); return;
      default: return;
    }
    event.preventDefault();
    this.active = { row: clamp(row, first, Math.max(first, end - 1)), column: this.order[clamp(column, 0, last)] ?? 0 };
    this.reveal();
  }

  /** Paints with the next frame. */
  paint() {
    if (!this.frame) this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw() {
    if (!this.rows) return;
    const { first, end } = this.rows;
    this.top = clamp(this.top, first, Math.max(first, end - Math.floor(this.sight)));
    const from = Math.floor(this.top);
    const to = Math.min(end, Math.ceil(this.top + this.sight));
    const columns = this.columnsInSight();
    this.rows.want(from, to, columns);
    this.drawHead(columns);
    while (this.pool.length < to - from) {
      const row = el("div", { class: "row", role: "row" }, el("div", { class: "number", role: "rowheader", "aria-colindex": 1 }));
      this.pool.push(row);
      this.body.append(row);
    }
    this.pool.forEach((element, i) => {
      const row = from + i;
      element.hidden = row >= to;
      if (row < to) this.drawRow(element, row, columns, (row - this.top) * ROW);
    });
    this.vertical.show(this.top - first, Math.floor(this.sight), end - first);
    this.horizontal.show(this.left, this.across, this.starts.at(-1)!);
    const grid = this.body.parentElement!;
    grid.setAttribute("aria-rowcount", String(end - first + 1));
    grid.setAttribute("aria-activedescendant", `cell-${this.active.row}-${this.active.column}`);
  }

  private columnsInSight(): number[] {
    const [held, room] = this.held;
    const places = Array.from({ length: held }, (_, place) => place);
    const first = Math.max(held, this.placeAt(this.left + room));
    for (let place = first; place < this.order.length && this.starts[place] < this.left + this.across; place++) places.push(place);
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
    element.style.transform = `translateX(${GUTTER + this.starts[place] - (isHeld ? 0 : this.left)}px)`;
    element.style.width = `${this.starts[place + 1] - this.starts[place]}px`;
    element.classList.toggle("pinned", isHeld);
    element.setAttribute("aria-colindex", String(place + 2));
  }

  /** A head that is dragged moves its column. */
  private drag(element: HTMLElement, column: number) {
    element.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button) return;
      const start = event.clientX;
      let isMoved = false;
      const at = (next: PointerEvent) => {
        const x = next.clientX - this.head.getBoundingClientRect().left - GUTTER;
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
        // The click that ends it asks for nothing.
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

  private drawHead(columns: number[]) {
    for (const [column, element] of this.heads) {
      if (!columns.includes(column)) {
        element.remove();
        this.heads.delete(column);
      }
    }
    for (const column of columns) {
      let element = this.heads.get(column);
      if (!element) {
        const { name, type } = this.columns[column];
        const picture = () => el("canvas", { class: "mini", "aria-hidden": true });
        element = el(
          "button",
          { class: "column", role: "columnheader", title: `${name}: ${type}`, click: () => this.events.header(column) },
          el("span", { class: "name" }, name),
          el("span", { class: "type" }, type),
          picture(),
          picture(),
        );
        this.drag(element, column);
        this.heads.set(column, element);
        this.head.append(element);
        this.events.glance(column, element);
      }
      this.place(element, column);
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

  head_of(column: number): HTMLElement | undefined {
    return this.heads.get(column);
  }
}
