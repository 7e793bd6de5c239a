// A plot of a column over rows or time: at most one bin per pixel, with the first, smallest, largest and last of its values.

import { type Bins, type Column, fetchJson } from "../data/api.js";
import { isPlottable, isTime } from "../data/types.js";
import { type AxisRange, drawAxis, drawLine, rowMarks, timeMarks } from "../elements/chart.js";
import { clamp, colour, type Drawing, el, formatCount, plural, startDrawing } from "../elements/dom.js";

/** The height of the axis, and of the text above and below the line, in pixels. */
const AXIS_HEIGHT = 20;
const TEXT_HEIGHT = 16;
/** The pixels for each mark of the axis. */
const MARK_WIDTH = 110;
const MIN_MARKS = 2;
const MIN_BINS = 50;
/** The factor of a step of the wheel, and of a key. */
const WHEEL_ZOOM = 1.5;
const KEY_ZOOM = 2;
/** The pixels that a drag must have to select a range. */
const MIN_DRAG = 4;
/** The minimum length of the visible range: rows, or units of time. */
const MIN_RANGE = 2n;

export interface PlotEvents {
  /** Returns the first row, and the row after the last one. */
  getRowRange(): [number, number];
  /** Called when the plotted column or range changes. */
  onChange(): void;
  /** Shows the grid from a row on. */
  showRow(row: number): void;
  /** Shows the rows that match a condition. */
  showMatches(condition: string): void;
}

interface PlottedColumn extends Column {
  number: number;
}

const minBigInt = (a: bigint, b: bigint) => (a < b ? a : b);
const maxBigInt = (a: bigint, b: bigint) => (a > b ? a : b);
const clampBigInt = (x: bigint, low: bigint, high: bigint) => maxBigInt(low, minBigInt(high, x));

function columnOption({ name, number }: PlottedColumn): HTMLOptionElement {
  return el("option", { value: number }, name);
}

/** Formats a value with at most nine digits. */
function formatValue(value: number): string {
  return String(Number(value.toPrecision(9)));
}

export class Plot {
  readonly element: HTMLElement;
  column: number | undefined;
  /** The column of times on the axis; `undefined` for rows. */
  over: number | undefined;
  /** The visible range: rows, or times in their column's unit. */
  from = 0n;
  to = 0n;
  private bins: Bins | undefined;
  /** The ranges of columns of times that were read. */
  private timeRanges = new Map<number, AxisRange>();
  private canvas = el("canvas", { class: "plot", role: "img", tabindex: 0 });
  private title = el("span", { class: "basis", "aria-live": "polite" });
  private hint = el("p", { class: "hint" });
  private columnSelect: HTMLSelectElement;
  private overSelect: HTMLSelectElement;
  private loading: AbortController | undefined;
  /** The start and end of the range that is being selected, in pixels. */
  private selection: [number, number] | undefined;
  /** The position of the pointer, in pixels; and the same if there is a value. */
  private pointerX: number | undefined;
  private cursorX: number | undefined;
  private rowsButton = el("button", { click: () => this.showRows() }, "Show the rows");
  private readout = el("p", { class: "readout", "aria-hidden": true });

  /** Creates a plot of the first column of numbers; over time if the rows are sorted by the column of times `sortedBy`. */
  constructor(
    private columns: Column[],
    sortedBy: string | null | undefined,
    private events: PlotEvents,
  ) {
    const numbered = columns.map((column, number) => ({ ...column, number }));
    const plottable = numbered.filter(({ type }) => isPlottable(type));
    const times = numbered.filter(({ type }) => isTime(type));
    const defaultColumn = plottable.find(({ type }) => !isTime(type)) ?? plottable[0];
    this.column = defaultColumn?.number;
    this.over = times.find(({ name }) => name === sortedBy)?.number;
    this.columnSelect = el(
      "select",
      { "aria-label": "Column to plot", change: () => this.show(Number(this.columnSelect.value)) },
      ...plottable.map(columnOption),
    );
    this.overSelect = el(
      "select",
      { "aria-label": "Over", change: () => this.changeAxis() },
      el("option", { value: "" }, "rows"),
      ...times.map(columnOption),
    );
    const hasTimes = times.length > 0;
    this.element = el(
      "section",
      { class: "plotting", "aria-label": "Plot" },
      el(
        "p",
        { class: "tools" },
        this.columnSelect,
        hasTimes && el("span", {}, "over"),
        hasTimes && this.overSelect,
        el("button", { click: () => this.showAll() }, "All"),
        this.rowsButton,
        this.title,
      ),
      el("div", { class: "sheet" }, this.canvas, this.readout),
      this.hint,
    );
    if (!plottable.length) this.element.replaceChildren(el("p", { class: "hint" }, "No column of numbers or times."));
    this.listen();
  }

  private listen() {
    this.canvas.addEventListener("pointerdown", (event) => this.startSelection(event));
    this.canvas.addEventListener("dblclick", () => this.showAll());
    this.canvas.addEventListener("pointermove", ({ offsetX }) => this.movePointer(offsetX));
    this.canvas.addEventListener("pointerleave", () => this.movePointer(undefined));
    this.canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.onKeyDown(event));
    const observer = new ResizeObserver(() => {
      if (this.column !== undefined && this.element.isConnected) void this.load();
    });
    observer.observe(this.canvas);
  }

  private onWheel(event: WheelEvent) {
    event.preventDefault();
    this.zoomAt(event.offsetX / this.canvas.clientWidth, event.deltaY > 0 ? WHEEL_ZOOM : 1 / WHEEL_ZOOM);
  }

  private onKeyDown(event: KeyboardEvent) {
    const step = (this.to - this.from) / 4n || 1n;
    switch (event.key) {
      case "+":
        this.zoomAt(0.5, 1 / KEY_ZOOM);
        break;
      case "-":
        this.zoomAt(0.5, KEY_ZOOM);
        break;
      case "ArrowLeft":
        this.setRange(this.from - step, this.to - step);
        break;
      case "ArrowRight":
        this.setRange(this.from + step, this.to + step);
        break;
      case "Enter":
        this.showRows();
        break;
      default:
        return;
    }
    event.preventDefault();
  }

  /** Returns the full range; `undefined` for a column of times that was not read yet. */
  private get fullRange(): AxisRange | undefined {
    if (this.over !== undefined) return this.timeRanges.get(this.over);
    const [first, end] = this.events.getRowRange();
    return { from: BigInt(first), to: BigInt(end) };
  }

  /** Plots a column, over the visible range if there is one. */
  show(column: number) {
    this.column = column;
    this.columnSelect.value = String(column);
    this.overSelect.value = String(this.over ?? "");
    const { fullRange } = this;
    if (this.to <= this.from && fullRange) {
      this.from = fullRange.from;
      this.to = fullRange.to;
    }
    void this.load();
    this.events.onChange();
  }

  /** Plots over rows or the column of times that the user has chosen. */
  private changeAxis() {
    const { value } = this.overSelect;
    this.over = value ? Number(value) : undefined;
    this.showAll();
  }

  /** Shows the full range, which may have grown. */
  showAll() {
    if (this.over !== undefined) this.timeRanges.delete(this.over);
    const { fullRange } = this;
    this.from = fullRange?.from ?? 0n;
    this.to = fullRange?.to ?? 0n;
    void this.load();
    this.events.onChange();
  }

  /** Shows a range, moved and resized as far as the full range demands. */
  private setRange(from: bigint, to: bigint) {
    const { fullRange } = this;
    if (!fullRange) return;
    const fullSize = fullRange.to - fullRange.from;
    const size = clampBigInt(to - from, minBigInt(MIN_RANGE, fullSize), fullSize);
    this.from = clampBigInt(from, fullRange.from, fullRange.to - size);
    this.to = this.from + size;
    void this.load();
    this.events.onChange();
  }

  /** Returns the row or time at a fraction of the visible range. */
  private positionAt(fraction: number): bigint {
    return this.from + BigInt(Math.round(Number(this.to - this.from) * fraction));
  }

  /** Multiplies the length of the visible range; the position at a fraction of it stays in place. */
  private zoomAt(fraction: number, factor: number) {
    this.setRange(this.positionAt(fraction - fraction * factor), this.positionAt(fraction + (1 - fraction) * factor));
  }

  private startSelection(event: PointerEvent) {
    const start = event.offsetX;
    this.canvas.setPointerCapture(event.pointerId);
    const select = (next: PointerEvent) => {
      this.selection = [start, clamp(next.offsetX, 0, this.canvas.clientWidth)];
      this.draw();
    };
    this.canvas.addEventListener("pointermove", select);
    this.canvas.addEventListener(
      "lostpointercapture",
      () => {
        this.canvas.removeEventListener("pointermove", select);
        this.endSelection();
      },
      { once: true },
    );
  }

  /** Zooms in to the selected range. */
  private endSelection() {
    if (!this.selection) return this.draw();
    const left = Math.min(...this.selection);
    const right = Math.max(...this.selection);
    this.selection = undefined;
    if (right - left <= MIN_DRAG) return this.draw();
    const width = this.canvas.clientWidth;
    this.setRange(this.positionAt(left / width), this.positionAt(right / width));
  }

  /** Goes to the first visible row; rows that are not in order of time are filtered. */
  private showRows() {
    const { bins, over } = this;
    if (over === undefined) this.events.showRow(Number(this.from));
    else if (typeof bins?.first_row === "number") this.events.showRow(bins.first_row);
    else if (bins?.condition) this.events.showMatches(bins.condition);
  }

  /** Fetches and draws bins: first from a sample, then from all rows. */
  async load() {
    if (this.column === undefined) return;
    this.loading?.abort();
    const controller = new AbortController();
    this.loading = controller;
    const [first, end] = this.events.getRowRange();
    const common = { at: this.column, over: this.over };
    const count = Math.max(MIN_BINS, Math.floor(this.canvas.clientWidth));
    try {
      if (this.over !== undefined && !this.timeRanges.has(this.over)) {
        this.title.textContent = "looking for the first and the last time …";
        const parameters = { ...common, from: first, to: end, count: 1, sample: true };
        const { start, stop } = await fetchJson<Bins>("bins", parameters, controller.signal);
        const range = { from: BigInt(start ?? 0), to: BigInt(stop ?? 0) };
        this.timeRanges.set(this.over, range);
        if (this.to <= this.from) {
          this.from = range.from;
          this.to = range.to;
          this.events.onChange();
        }
      }
      for (const sample of [true, false]) {
        const range =
          this.over === undefined
            ? { from: String(this.from), to: String(this.to) }
            : { from: first, to: end, start: String(this.from), stop: String(this.to) };
        const bins = await fetchJson<Bins>("bins", { ...common, ...range, count, sample }, controller.signal);
        this.bins = bins;
        this.movePointer(this.pointerX);
        if (bins.exact) break;
      }
    } catch (e) {
      if (!controller.signal.aborted) this.title.textContent = (e as Error).message;
    }
  }

  /** Shows the values at a pixel, or none if the pointer has left. */
  private movePointer(x: number | undefined) {
    this.pointerX = x;
    this.cursorX = undefined;
    this.readout.textContent = "";
    const { bins } = this;
    if (bins && x !== undefined) {
      const bin = Math.floor((x / Math.max(1, this.canvas.clientWidth)) * bins.bins.length);
      if (bins.bins[bin]) {
        this.cursorX = x;
        this.readout.textContent = this.describeBin(bins, bin);
      }
    }
    this.draw();
  }

  /** Describes the rows of a bin, and its values. */
  private describeBin({ bins, from, to }: Bins, bin: number): string {
    const parts: string[] = [];
    if (this.over === undefined) {
      const start = from + Math.floor(((to - from) * bin) / bins.length);
      const end = from + Math.floor(((to - from) * (bin + 1)) / bins.length);
      const isRange = end - start > 1;
      parts.push(isRange ? `rows ${formatCount(start)} to ${formatCount(end)}` : `row ${formatCount(start)}`);
    }
    const { type } = this.columns[this.column!];
    // The server sends times and durations as numbers of their unit, which say little.
    if (!isTime(type) && !/^(time|duration)/.test(type)) {
      const [, low, high] = bins[bin]!;
      parts.push(low === high ? formatValue(low) : `${formatValue(low)} to ${formatValue(high)}`);
    }
    return parts.join(": ");
  }

  draw() {
    const { bins } = this;
    if (!bins || this.column === undefined) return;
    const drawing = startDrawing(this.canvas);
    const { context, width, height } = drawing;
    context.font = "11px system-ui, sans-serif";
    const timeColumn = this.over === undefined ? undefined : this.columns[this.over];
    this.drawAxis(drawing, bins, timeColumn);
    const area = { width, top: TEXT_HEIGHT, bottom: height - AXIS_HEIGHT - TEXT_HEIGHT };
    drawLine(context, bins.bins, area, timeColumn !== undefined);
    context.fillStyle = colour("soft");
    if (bins.range) {
      const [low, high] = bins.range;
      context.fillText(high, 4, 12);
      context.fillText(low, 4, height - AXIS_HEIGHT - 3);
    }
    if (this.selection) {
      const [start, end] = this.selection;
      context.globalAlpha = 0.2;
      context.fillStyle = colour("accent");
      context.fillRect(Math.min(start, end), 0, Math.abs(end - start), height);
      context.globalAlpha = 1;
    } else if (this.cursorX !== undefined) {
      context.fillRect(Math.floor(this.cursorX), 0, 1, height - AXIS_HEIGHT);
    }
    this.describe(bins, timeColumn);
  }

  private drawAxis(drawing: Drawing, bins: Bins, timeColumn: Column | undefined) {
    const range = timeColumn
      ? { from: BigInt(bins.start ?? 0), to: BigInt(bins.stop ?? 0) }
      : { from: BigInt(bins.from), to: BigInt(bins.to) };
    if (range.to <= range.from) return;
    const count = Math.max(MIN_MARKS, Math.floor(drawing.width / MARK_WIDTH));
    const marks = timeColumn ? timeMarks(range, count, timeColumn.type) : rowMarks(range, count);
    drawAxis(drawing, marks, range);
  }

  /** Returns the visible range as text. */
  private describeRange(bins: Bins, timeColumn: Column | undefined): string {
    if (!timeColumn) return `rows ${formatCount(bins.from)} to ${formatCount(bins.to)}`;
    if (!bins.ends) return `no row has a time in ${timeColumn.name}`;
    const [start, end] = bins.ends;
    const rows = typeof bins.rows === "number" ? ` · ${plural(bins.rows, "row")}` : "";
    return `${start} to ${end}${rows}`;
  }

  /** Updates the texts and buttons around the picture, and its description for screen readers. */
  private describe(bins: Bins, timeColumn: Column | undefined) {
    const { name } = this.columns[this.column!];
    this.title.textContent =
      this.describeRange(bins, timeColumn) + (bins.exact ? "" : ", from a sample; looking at all …");
    const [start, end] = bins.ends ?? ["", ""];
    const axis = timeColumn ? `${timeColumn.name} from ${start} to ${end}` : plural(bins.to - bins.from, "row");
    const values = bins.range ? `, from ${bins.range[0]} to ${bins.range[1]}` : "";
    this.canvas.setAttribute("aria-label", `${name} over ${axis}${values}`);
    this.rowsButton.disabled = timeColumn !== undefined && typeof bins.first_row !== "number" && !bins.condition;
    let hint = "Drag to zoom in, scroll to zoom, double-click for all; Enter shows the rows.";
    if (timeColumn && bins.sorted === false) {
      hint += ` The rows are not known to be sorted by ${timeColumn.name}: each look reads all of them, and a range of times is a filter, as it has no first row.`;
    }
    this.hint.textContent = hint;
  }
}
