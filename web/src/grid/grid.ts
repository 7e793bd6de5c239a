// A grid of any number of rows and columns.
//
// Only visible cells have elements. The scroll position is a row number instead of pixels, so that the last of three
// billion rows is as exact as the first.

import type { Column } from "../data/api.js";
import type { RowCache } from "../data/row_cache.js";
import { isNumeric, isPlottable } from "../data/types.js";
import { clamp, el, formatCount, textWidth } from "../elements/dom.js";
import { describeCell } from "../elements/table.js";
import { ColumnLayout, type Frozen } from "./column_layout.js";
import { Scrollbar } from "./scrollbar.js";
import { listenForTouch } from "./touch.js";

/** The height of a row in pixels, as in view.css. */
const ROW_HEIGHT = 24;
/** The widths in pixels of columns that are fitted to their values, and of columns that the user resizes. */
const MIN_FITTED_WIDTH = 56;
const MAX_FITTED_WIDTH = 340;
const MIN_USER_WIDTH = 40;
const MAX_USER_WIDTH = 2000;
/** The parts of names and types for which columns are fitted, in pixels. */
const MAX_FITTED_NAME = 200;
const MAX_FITTED_TYPE = 130;
/** The padding and border of cells, names and the gutter, in pixels. */
const CELL_PADDING = 15;
const NAME_PADDING = 14;
const GUTTER_PADDING = 20;
/** The pixels by which a key makes a column wider or narrower. */
const KEY_RESIZE = 24;
/** The pixels that a drag must have to be more than a click. */
const MIN_DRAG = 8;
/** Rows that are fetched before and after the visible ones, except after jumps over more than `MAX_SCROLL` rows. */
const ROWS_AHEAD = 24;
const MAX_SCROLL = 200;

export interface GridEvents {
  onScroll(): void;
  /** The order, the pinning or the widths of columns have changed. */
  onLayoutChange(): void;
  /** A cell was clicked, or chosen by Enter. */
  onCellSelect(row: number, column: number): void;
  /** The head of a column was clicked, or chosen by its key. */
  onHeadSelect(column: number): void;
  /** The keyboard has moved the active cell. */
  onActiveChange(row: number, column: number): void;
  /** A cell is to be copied to the clipboard. */
  onCopy(row: number, column: number): void;
  /** Draws the pictures in a column's head. */
  drawHead(column: number, head: HTMLElement): void;
}

/** The column and direction that rows are sorted by. */
export interface SortOrder {
  column: number;
  isDescending: boolean;
}

export class Grid {
  readonly element: HTMLElement;
  readonly layout: ColumnLayout;
  /** Widths that the user set. */
  readonly userWidths = new Map<number, number>();
  rows!: RowCache;
  /** The first visible row, with a fraction; and the pixels scrolled to the right. */
  top = 0;
  left = 0;
  active = { row: 0, column: 0 };
  /** The gutter has room for the row numbers before this one. */
  rowNumberEnd = 0;
  sortOrder: SortOrder | undefined;

  private table: HTMLElement;
  private head: HTMLElement;
  private body: HTMLElement;
  /** The message if there are no rows. */
  private emptyMessage = el("p", { class: "nothing", hidden: true });
  private vertical: Scrollbar;
  private horizontal: Scrollbar;
  /** The elements of rows, which are reused as the grid scrolls. */
  private rowElements: HTMLElement[] = [];
  /** The heads of visible columns, and the widths for which their pictures were drawn. */
  private heads = new Map<number, HTMLElement>();
  private pictureWidths = new Map<number, number>();
  /** Columns whose width suits their values, or was set by the user. */
  private fitted = new Set<number>();
  /** The size in pixels: of the rows, and of the grid including the heads. */
  private size = { width: 1, bodyHeight: 1, height: 1 };
  /** True once rows were painted, however small the window was. */
  private isPainted = false;
  private gutterWidth = 0;
  /** The first visible row at the last paint. */
  private lastPaintedRow = 0;
  /** The animation frame that will paint; 0 if none is scheduled. */
  private frame = 0;

  constructor(
    readonly columns: Column[],
    private events: GridEvents,
  ) {
    this.layout = new ColumnLayout(columns);
    this.head = el("div", { class: "head", role: "row", "aria-rowindex": 1 });
    this.body = el("div", { class: "body", role: "rowgroup" }, this.emptyMessage);
    this.vertical = new Scrollbar(true, "Rows", (start) => this.scrollTo(this.rows.first + start));
    this.horizontal = new Scrollbar(false, "Columns", (start) => this.scrollTo(undefined, start));
    this.table = el(
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
    this.element = el("div", { class: "frame" }, this.table, this.vertical.element, this.horizontal.element);
    this.listen();
  }

  private listen() {
    this.table.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.table.addEventListener("keydown", (event) => {
      if (this.runCommand(event) || this.moveActive(event)) event.preventDefault();
    });
    listenForTouch(this.table, (x, y) => this.scrollTo(this.top + y / ROW_HEIGHT, this.left + x));
    this.body.addEventListener("click", (event) => {
      const cell = (event.target as HTMLElement).closest<HTMLElement>("[data-column]");
      if (cell) this.selectCell(Number(cell.parentElement!.dataset.row), Number(cell.dataset.column));
    });
    new ResizeObserver(() => this.measure()).observe(this.table);
  }

  /** Measures the available room and paints, unless the grid is hidden. */
  measure() {
    const { clientWidth: width, clientHeight: height } = this.table;
    if (!height) return;
    this.size = { width, bodyHeight: this.body.clientHeight, height };
    this.schedulePaint();
  }

  /** The number of rows that are visible, with a fraction. */
  private get visibleRows(): number {
    return Math.max(1, this.size.bodyHeight / ROW_HEIGHT);
  }

  /** The width that columns have, in pixels. */
  private get availableWidth(): number {
    return Math.max(1, this.size.width - this.gutterWidth);
  }

  private get frozen(): Frozen {
    return this.layout.frozen(this.availableWidth);
  }

  private get visibleColumns(): number[] {
    return this.layout.visibleColumns(this.left, this.availableWidth);
  }

  /** Returns the nearest `top` that leaves no room after the last row. */
  private clampTop(top: number): number {
    const { first, end } = this.rows;
    return clamp(top, first, Math.max(first, end - Math.floor(this.visibleRows)));
  }

  private clampLeft(left: number): number {
    return clamp(left, 0, Math.max(0, this.layout.totalWidth - this.availableWidth));
  }

  private clampRow(row: number): number {
    const { first, end } = this.rows;
    return clamp(row, first, Math.max(first, end - 1));
  }

  // Rows and scrolling

  /** Shows other rows, from the current position on. */
  showRows(rows: RowCache) {
    this.rows?.abort();
    this.rows = rows;
    this.scrollTo(this.top, this.left);
    // Paints at once: until the next frame the status would describe these rows, and the cells other rows. The first rows
    // are painted once the room for them was measured.
    if (this.isPainted) this.paint();
  }

  /** Sets the message for no rows. */
  setEmptyMessage(...message: (Node | string)[]) {
    this.emptyMessage.replaceChildren(...message);
  }

  /** Scrolls to a row, a number of pixels, or both, as far as possible. */
  scrollTo(top?: number, left?: number) {
    if (top !== undefined) this.top = this.clampTop(top);
    if (left !== undefined) this.left = this.clampLeft(left);
    this.schedulePaint();
    this.events.onScroll();
  }

  scrollToEnd() {
    this.scrollTo(this.rows.end);
  }

  /** True if the last row is visible. */
  get isAtEnd() {
    return this.top + this.visibleRows >= this.rows.end - 1;
  }

  /** Fetches the rows before `end`, so that they are there when they become visible. */
  async prefetch(end: number) {
    const from = Math.max(this.rows.first, end - Math.ceil(this.visibleRows));
    await this.rows.prefetch(from, end, this.visibleColumns);
  }

  /** Makes a cell active, and scrolls it into view. */
  goTo(row: number, column = this.active.column) {
    this.active = { row: this.clampRow(row), column };
    this.scrollTo(this.active.row - Math.floor(this.visibleRows / 3));
    this.revealActive();
    // Requests the rows now, without waiting for the next frame.
    this.paint();
  }

  /** Scrolls the active cell into view. */
  private revealActive() {
    this.scrollTo(this.topToReveal(this.active.row), this.leftToReveal(this.active.column));
  }

  /** Returns the nearest `top` that makes a row visible; `undefined` if it is visible. */
  private topToReveal(row: number): number | undefined {
    const visibleRows = Math.floor(this.visibleRows);
    if (row < this.top) return row;
    if (row >= this.top + visibleRows) return row - visibleRows + 1;
    return undefined;
  }

  /** Returns the nearest `left` that makes a column visible; `undefined` if it is visible. */
  private leftToReveal(column: number): number | undefined {
    const position = this.layout.positionOf(column);
    const { frozen, availableWidth } = this;
    if (position < frozen.count) return undefined;
    const leftEdge = this.layout.leftEdge(position) - frozen.width;
    const rightEdge = this.layout.rightEdge(position);
    if (leftEdge < this.left) return leftEdge;
    if (rightEdge > this.left + availableWidth) return Math.min(leftEdge, rightEdge - availableWidth);
    return undefined;
  }

  private selectCell(row: number, column: number) {
    this.active = { row, column };
    this.revealActive();
    this.events.onCellSelect(row, column);
  }

  private onWheel(event: WheelEvent) {
    // The browser zooms the page.
    if (event.ctrlKey) return;
    event.preventDefault();
    let pixels = 1;
    if (event.deltaMode === WheelEvent.DOM_DELTA_LINE) pixels = ROW_HEIGHT;
    if (event.deltaMode === WheelEvent.DOM_DELTA_PAGE) pixels = this.size.bodyHeight;
    const [x, y] = event.shiftKey ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    this.scrollTo(this.top + (y * pixels) / ROW_HEIGHT, this.left + x * pixels);
  }

  /** Runs the command of a key on the active cell or its column; returns false if the key has none. */
  private runCommand(event: KeyboardEvent): boolean {
    const { row, column } = this.active;
    const isControl = event.ctrlKey || event.metaKey;
    switch (event.key) {
      case "Enter":
        this.events.onCellSelect(row, column);
        return true;
      case "h":
        this.events.onHeadSelect(column);
        return true;
      case "c":
        // Text that the user has selected is copied by the browser.
        if (!isControl || String(getSelection())) return false;
        this.events.onCopy(row, column);
        this.revealActive();
        return true;
      case "p":
      case "<":
      case ">":
        if (isControl || !this.columns.length) return false;
        if (event.key === "p") this.togglePin(column);
        else this.moveColumn(column, this.layout.positionOf(column) + (event.key === ">" ? 1 : -1));
        this.revealActive();
        return true;
      case "[":
      case "]":
        this.setUserWidth(column, this.layout.widthOf(column) + (event.key === "]" ? KEY_RESIZE : -KEY_RESIZE));
        return true;
      default:
        return false;
    }
  }

  /** Moves the active cell by a key; returns false if the key doesn't move it. */
  private moveActive(event: KeyboardEvent): boolean {
    const isControl = event.ctrlKey || event.metaKey;
    const page = Math.max(1, Math.floor(this.visibleRows) - 1);
    const lastPosition = this.columns.length - 1;
    const before = this.active;
    let { row } = before;
    let position = this.layout.positionOf(before.column);
    switch (event.key) {
      case "ArrowDown":
        row += 1;
        break;
      case "ArrowUp":
        row -= 1;
        break;
      case "ArrowRight":
        position = isControl ? lastPosition : position + 1;
        break;
      case "ArrowLeft":
        position = isControl ? 0 : position - 1;
        break;
      case "PageDown":
      case " ":
        row += page;
        break;
      case "PageUp":
        row -= page;
        break;
      case "Home":
        if (isControl) row = this.rows.first;
        else position = 0;
        break;
      case "End":
        if (isControl) row = this.rows.end - 1;
        else position = lastPosition;
        break;
      default:
        return false;
    }
    const column = this.layout.order[clamp(position, 0, lastPosition)] ?? 0;
    this.active = { row: this.clampRow(row), column };
    this.revealActive();
    if (before.row !== this.active.row || before.column !== column) this.events.onActiveChange(this.active.row, column);
    return true;
  }

  // Columns

  /** Sets the order of columns, of which the first `pinned` are pinned. */
  setOrder(order: number[], pinned: number) {
    this.layout.setOrder(order, pinned);
    this.onOrderChange();
  }

  /** Moves a column to a position; crossing the edge of the pinned columns pins or unpins it. */
  moveColumn(column: number, to: number) {
    this.layout.move(column, to);
    this.onOrderChange();
  }

  /** Pins a column after the pinned ones, or unpins it. */
  togglePin(column: number) {
    this.layout.togglePin(column);
    this.onOrderChange();
  }

  private onOrderChange() {
    if (this.rows) this.scrollTo(undefined, this.left);
    this.events.onLayoutChange();
  }

  /** Sets widths from the URL, in place of all widths that the user set. */
  restoreWidths(widths: Map<number, number>) {
    for (const column of this.userWidths.keys()) this.fitted.delete(column);
    this.userWidths.clear();
    for (const [column, width] of widths) {
      this.userWidths.set(column, clamp(width, MIN_USER_WIDTH, MAX_USER_WIDTH));
      this.fitted.add(column);
    }
    this.layout.setWidths(this.userWidths);
    this.schedulePaint();
  }

  private setUserWidth(column: number, width: number) {
    const userWidth = clamp(Math.round(width), MIN_USER_WIDTH, MAX_USER_WIDTH);
    this.userWidths.set(column, userWidth);
    this.fitted.add(column);
    this.setWidths(new Map([[column, userWidth]]), column);
    this.schedulePaint();
    this.events.onLayoutChange();
  }

  /** Fits a column to its visible cells. */
  private refit(column: number) {
    const from = Math.floor(this.top);
    const to = Math.min(this.rows.end, Math.ceil(this.top + this.visibleRows));
    this.userWidths.delete(column);
    this.setWidths(new Map([[column, this.fittedWidth(column, from, to)]]), column);
    this.schedulePaint();
    this.events.onLayoutChange();
  }

  /** Fits visible columns when their first values have arrived; returns true if there were any. */
  private fitColumns(from: number, to: number): boolean {
    const widths = new Map<number, number>();
    for (const column of this.visibleColumns) {
      if (this.fitted.has(column) || this.rows.cell(from, column) === undefined) continue;
      this.fitted.add(column);
      widths.set(column, this.userWidths.get(column) ?? this.fittedWidth(column, from, to));
    }
    if (!widths.size) return false;
    this.setWidths(widths, this.active.column);
    return true;
  }

  /** Returns the width of a column's name and of its values in a range of rows. */
  private fittedWidth(column: number, from: number, to: number): number {
    const { name, type } = this.columns[column];
    const nameWidth = Math.min(MAX_FITTED_NAME, textWidth(name, "name") + NAME_PADDING);
    const typeWidth = Math.min(MAX_FITTED_TYPE, textWidth(type, "type"));
    let width = Math.max(nameWidth, typeWidth);
    for (let row = from; row < to; row++) {
      const cell = this.rows.cell(row, column);
      if (cell !== undefined) width = Math.max(width, textWidth(describeCell(cell).text, "cell"));
    }
    return clamp(Math.ceil(width) + CELL_PADDING, MIN_FITTED_WIDTH, MAX_FITTED_WIDTH);
  }

  /** Sets widths, and scrolls so that a column stays in place: `anchorColumn`, or the first one if it isn't visible. */
  private setWidths(widths: Map<number, number>, anchorColumn: number) {
    const { layout, frozen } = this;
    const firstPixel = this.left + frozen.width;
    let anchor = layout.positionOf(anchorColumn);
    const isVisible =
      anchor >= frozen.count &&
      layout.rightEdge(anchor) > firstPixel &&
      layout.leftEdge(anchor) < this.left + this.availableWidth;
    if (!isVisible) anchor = Math.max(frozen.count, layout.positionAt(firstPixel));
    const before = layout.leftEdge(anchor);
    layout.setWidths(widths);
    if (this.left > 0) this.left = this.clampLeft(this.left + layout.leftEdge(anchor) - before);
  }

  // Painting

  /** Paints in the next frame. */
  schedulePaint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  /** Paints now. */
  paint() {
    if (!this.rows) return;
    this.isPainted = true;
    const { first, end } = this.rows;
    this.updateGutter();
    this.top = this.clampTop(this.top);
    const from = Math.floor(this.top);
    const to = Math.min(end, Math.ceil(this.top + this.visibleRows));
    // Columns that become narrower reveal others, which are fitted in turn.
    while (this.fitColumns(from, to));
    const columns = this.visibleColumns;
    const isJump = Math.abs(from - this.lastPaintedRow) >= MAX_SCROLL;
    this.rows.request(from, to, columns, isJump ? 0 : ROWS_AHEAD);
    this.lastPaintedRow = from;
    this.paintHeads(columns);
    this.paintRows(from, to, columns);
    this.emptyMessage.hidden = end > first;
    this.vertical.update(this.top - first, Math.floor(this.visibleRows), end - first, this.size.height);
    this.horizontal.update(this.left, this.availableWidth, this.layout.totalWidth, this.size.width);
    this.table.setAttribute("aria-rowcount", String(end - first + 1));
    this.table.setAttribute("aria-activedescendant", `cell-${this.active.row}-${this.active.column}`);
  }

  /** Makes room for the largest row number. */
  private updateGutter() {
    const text = formatCount(Math.max(0, this.rowNumberEnd - 1));
    const width = Math.ceil(textWidth(text, "cell")) + GUTTER_PADDING;
    if (width === this.gutterWidth) return;
    this.gutterWidth = width;
    this.table.style.setProperty("--gutter", `${width}px`);
  }

  private paintHeads(columns: number[]) {
    for (const [column, head] of this.heads) {
      if (columns.includes(column)) continue;
      head.remove();
      this.heads.delete(column);
      this.pictureWidths.delete(column);
    }
    for (const column of columns) {
      let head = this.heads.get(column);
      if (!head) {
        head = this.createHead(column);
        this.heads.set(column, head);
        this.head.append(head);
      }
      this.placeElement(head, column);
      const width = this.layout.widthOf(column);
      if (this.pictureWidths.get(column) !== width) {
        this.pictureWidths.set(column, width);
        this.events.drawHead(column, head);
      }
      if (this.sortOrder?.column === column) {
        head.setAttribute("aria-sort", this.sortOrder.isDescending ? "descending" : "ascending");
      } else {
        head.removeAttribute("aria-sort");
      }
    }
  }

  private paintRows(from: number, to: number, columns: number[]) {
    while (this.rowElements.length < to - from) {
      const number = el("div", { class: "number", role: "rowheader", "aria-colindex": 1 });
      const element = el("div", { class: "row", role: "row" }, number);
      this.rowElements.push(element);
      this.body.append(element);
    }
    this.rowElements.forEach((element, i) => {
      const row = from + i;
      element.hidden = row >= to;
      if (!element.hidden) this.paintRow(element, row, columns);
    });
  }

  private paintRow(element: HTMLElement, row: number, columns: number[]) {
    element.style.transform = `translateY(${(row - this.top) * ROW_HEIGHT}px)`;
    element.dataset.row = String(row);
    element.setAttribute("aria-rowindex", String(row - this.rows.first + 2));
    element.classList.toggle("odd", row % 2 === 1);
    const number = this.rows.rowNumber(row);
    element.firstChild!.textContent = number === undefined ? "" : formatCount(number);
    // The first child is the row's number.
    while (element.children.length <= columns.length) element.append(el("div", { role: "gridcell" }));
    for (let i = 1; i < element.children.length; i++) {
      const cell = element.children[i] as HTMLElement;
      cell.hidden = i > columns.length;
      if (!cell.hidden) this.paintCell(cell, row, columns[i - 1]);
    }
  }

  private paintCell(element: HTMLElement, row: number, column: number) {
    const value = this.rows.cell(row, column);
    const { text, cssClass } = value === undefined ? { text: "", cssClass: "coming" } : describeCell(value);
    const isActive = row === this.active.row && column === this.active.column;
    const alignment = isNumeric(this.columns[column].type) ? " right" : "";
    element.className = `cell ${cssClass}${alignment}${isActive ? " active" : ""}`;
    if (element.textContent !== text) element.textContent = text;
    this.placeElement(element, column);
    element.dataset.column = String(column);
    element.id = `cell-${row}-${column}`;
    if (isActive) element.setAttribute("aria-selected", "true");
    else element.removeAttribute("aria-selected");
  }

  /** Moves a head or cell to its column's position. */
  private placeElement(element: HTMLElement, column: number) {
    const position = this.layout.positionOf(column);
    const isFrozen = position < this.frozen.count;
    const x = this.gutterWidth + this.layout.leftEdge(position) - (isFrozen ? 0 : this.left);
    element.style.transform = `translateX(${x}px)`;
    element.style.width = `${this.layout.widthOf(column)}px`;
    element.classList.toggle("pinned", isFrozen);
    element.setAttribute("aria-colindex", String(position + 2));
  }

  /** Returns the head of a column, if it is visible. */
  headOf(column: number): HTMLElement | undefined {
    return this.heads.get(column);
  }

  // Heads

  private createHead(column: number): HTMLElement {
    const { name, type } = this.columns[column];
    const head = el(
      "button",
      {
        class: "column",
        role: "columnheader",
        title: `${name}: ${type}`,
        click: () => this.events.onHeadSelect(column),
      },
      el("span", { class: "name" }, name),
      el("span", { class: "type" }, type),
      // The bars of the values, and a line over the rows.
      el("canvas", { class: "mini", "aria-hidden": true }),
      el("canvas", { class: "mini", "aria-hidden": true, hidden: !isPlottable(type) }),
      this.createResizer(column),
    );
    head.addEventListener("pointerdown", (event) => this.startMove(head, column, event));
    return head;
  }

  /** Returns the right edge of a head: dragging it resizes the column, and a double click fits it. */
  private createResizer(column: number): HTMLElement {
    const resizer = el("span", {
      class: "edge",
      "aria-hidden": true,
      dblclick: () => this.refit(column),
      click: (event) => event.stopPropagation(),
    });
    resizer.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      const startX = event.clientX;
      const startWidth = this.layout.widthOf(column);
      const resize = (next: PointerEvent) => this.setUserWidth(column, startWidth + next.clientX - startX);
      resizer.setPointerCapture(event.pointerId);
      resizer.addEventListener("pointermove", resize);
      resizer.addEventListener("lostpointercapture", () => resizer.removeEventListener("pointermove", resize), {
        once: true,
      });
    });
    return resizer;
  }

  /** Moves a column by dragging its head with the mouse, as touching scrolls. */
  private startMove(head: HTMLElement, column: number, event: PointerEvent) {
    if (event.pointerType !== "mouse" || event.button) return;
    const startX = event.clientX;
    let isDragging = false;
    const drag = (next: PointerEvent) => {
      const distance = next.clientX - startX;
      if (!isDragging) {
        if (Math.abs(distance) < MIN_DRAG) return;
        isDragging = true;
        head.setPointerCapture(next.pointerId);
        head.classList.add("dragged");
      }
      head.style.translate = `${distance}px`;
    };
    const drop = (next: PointerEvent) => {
      window.removeEventListener("pointermove", drag);
      head.classList.remove("dragged");
      head.style.translate = "";
      if (!isDragging) return;
      const position = this.positionAtPointer(next);
      // Ignores the click that ends a drag.
      const ignoreClick = (click: MouseEvent) => click.stopImmediatePropagation();
      head.addEventListener("click", ignoreClick, { capture: true });
      setTimeout(() => {
        head.removeEventListener("click", ignoreClick, { capture: true });
        this.moveColumn(column, position);
      });
    };
    window.addEventListener("pointermove", drag);
    window.addEventListener("pointerup", drop, { once: true });
  }

  private positionAtPointer({ clientX }: PointerEvent): number {
    const x = clientX - this.head.getBoundingClientRect().left - this.gutterWidth;
    // Frozen columns don't scroll.
    return this.layout.positionAt(x < this.frozen.width ? Math.max(0, x) : x + this.left);
  }
}
