// A plot of a column over rows or time: at most one bin per pixel, with the first, smallest, largest and last of its values.

import { type Bins, type Column, get } from "./api.js";
import { colour, count, el, plural, sheet } from "./dom.js";
import { axis, line, rowMarks, timeMarks } from "./line.js";
import { isDrawn, isTime } from "./types.js";

/** Pixels of the axis, and of the texts above and below the line. */
const AXIS = 20;
const PAD = 16;

export interface PlotEvents {
  /** The first row, and the row after the last one. */
  extent(): [number, number];
  moved(): void;
  go(row: number): void;
  /** Shows the rows that match a condition. */
  only(condition: string): void;
}

const least = (a: bigint, b: bigint) => (a < b ? a : b);
const most = (a: bigint, b: bigint) => (a > b ? a : b);
const within = (x: bigint, low: bigint, high: bigint) => most(low, least(high, x));

export class Plot {
  readonly element: HTMLElement;
  column: number | undefined;
  /** The column of times on the axis; none for rows. */
  over: number | undefined;
  /** The visible range: rows, or times in their column's unit. */
  from = 0n;
  to = 0n;
  private bins: Bins | undefined;
  /** The first time and the end of the times of columns. */
  private times = new Map<number, [bigint, bigint]>();
  private canvas = el("canvas", { class: "plot", role: "img", tabindex: 0 });
  private title = el("span", { class: "basis", "aria-live": "polite" });
  private hint = el("p", { class: "hint" });
  private select: HTMLSelectElement;
  private across: HTMLSelectElement;
  private looking: AbortController | undefined;
  private brush: [number, number] | undefined;
  /** The position of the pointer, in pixels. */
  private pointer: number | undefined;
  /** The same, if there is a value to show there. */
  private pointed: number | undefined;
  private shower = el("button", { click: () => this.rows() }, "Show the rows");
  private readout = el("p", { class: "readout", "aria-hidden": true });

  constructor(
    private columns: Column[],
    sorted: string | null | undefined,
    private events: PlotEvents,
  ) {
    const all = columns.map((column, i) => ({ ...column, i }));
    const drawn = all.filter(({ type }) => isDrawn(type));
    const times = all.filter(({ type }) => isTime(type));
    const option = ({ name, i }: { name: string; i: number }) => el("option", { value: i }, name);
    this.column = (drawn.find(({ type }) => !isTime(type)) ?? drawn[0])?.i;
    this.over = times.find(({ name }) => name === sorted)?.i;
    this.select = el(
      "select",
      { "aria-label": "Column to plot", change: () => this.show(Number(this.select.value)) },
      ...drawn.map(option),
    );
    const chosen = () => (this.across.value ? Number(this.across.value) : undefined);
    this.across = el(
      "select",
      { "aria-label": "Over", change: () => this.along(chosen()) },
      el("option", { value: "" }, "rows"),
      ...times.map(option),
    );
    this.element = el(
      "section",
      { class: "plotting", "aria-label": "Plot" },
      el(
        "p",
        { class: "tools" },
        this.select,
        times.length > 0 && el("span", {}, "over"),
        times.length > 0 && this.across,
        el("button", { click: () => this.all() }, "All"),
        this.shower,
        this.title,
      ),
      el("div", { class: "sheet" }, this.canvas, this.readout),
      this.hint,
    );
    if (!drawn.length) this.element.replaceChildren(el("p", { class: "hint" }, "No column of numbers or times."));
    this.listen();
  }

  private listen() {
    this.canvas.addEventListener("pointerdown", (event) => this.drag(event));
    this.canvas.addEventListener("dblclick", () => this.all());
    this.canvas.addEventListener("pointermove", ({ offsetX }) => this.point(offsetX));
    this.canvas.addEventListener("pointerleave", () => this.point(undefined));
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.scale(event.deltaY > 0 ? 1.5 : 1 / 1.5, event.offsetX / this.canvas.clientWidth);
      },
      { passive: false },
    );
    this.canvas.addEventListener("keydown", (event) => {
      const step = (this.to - this.from) / 4n || 1n;
      if (event.key === "+") this.scale(0.5, 0.5);
      else if (event.key === "-") this.scale(2, 0.5);
      else if (event.key === "ArrowLeft") this.zoom(this.from - step, this.to - step);
      else if (event.key === "ArrowRight") this.zoom(this.from + step, this.to + step);
      else if (event.key === "Enter") this.rows();
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => this.column !== undefined && this.element.isConnected && this.load()).observe(this.canvas);
  }

  /** Returns the full range; nothing for a column of times that was not read yet. */
  private get whole(): [bigint, bigint] | undefined {
    if (this.over !== undefined) return this.times.get(this.over);
    const [first, end] = this.events.extent();
    return [BigInt(first), BigInt(end)];
  }

  show(column: number) {
    this.column = column;
    this.select.value = String(column);
    this.across.value = String(this.over ?? "");
    if (this.to <= this.from && this.whole) [this.from, this.to] = this.whole;
    void this.load();
    this.events.moved();
  }

  /** Plots over rows, or over a column of times. */
  private along(over: number | undefined) {
    this.over = over;
    this.all();
  }

  /** Shows everything there is now. */
  all() {
    if (this.over !== undefined) this.times.delete(this.over);
    [this.from, this.to] = this.whole ?? [0n, 0n];
    void this.load();
    this.events.moved();
  }

  zoom(from: bigint, to: bigint) {
    const { whole } = this;
    if (!whole) return;
    const [first, end] = whole;
    const size = within(to - from, least(2n, end - first), end - first);
    this.from = within(from, first, end - size);
    this.to = this.from + size;
    void this.load();
    this.events.moved();
  }

  /** Returns the position at a fraction of the visible range. */
  private at(share: number) {
    return this.from + BigInt(Math.round(Number(this.to - this.from) * share));
  }

  private scale(factor: number, share: number) {
    this.zoom(this.at(share - share * factor), this.at(share + (1 - share) * factor));
  }

  private drag(event: PointerEvent) {
    const start = event.offsetX;
    this.canvas.setPointerCapture(event.pointerId);
    const move = (next: PointerEvent) => {
      this.brush = [start, Math.max(0, Math.min(this.canvas.clientWidth, next.offsetX))];
      this.draw();
    };
    const place = (x: number) => this.at(x / this.canvas.clientWidth);
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener(
      "lostpointercapture",
      () => {
        this.canvas.removeEventListener("pointermove", move);
        const [a, b] = this.brush ?? [start, start];
        this.brush = undefined;
        if (Math.abs(b - a) > 4) this.zoom(place(Math.min(a, b)), place(Math.max(a, b)));
        else this.draw();
      },
      { once: true },
    );
  }

  /** Goes to the first visible row; rows that are not in order of time are filtered. */
  private rows() {
    const { bins, over } = this;
    if (over === undefined) return this.events.go(Number(this.from));
    if (typeof bins?.first_row === "number") this.events.go(bins.first_row);
    else if (bins?.condition) this.events.only(bins.condition);
  }

  async load() {
    if (this.column === undefined) return;
    this.looking?.abort();
    const looking = (this.looking = new AbortController());
    const [first, end] = this.events.extent();
    const ask = (more: Record<string, string | number | boolean>) =>
      get<Bins>("bins", { at: this.column, over: this.over, ...more }, looking.signal);
    const wide = Math.max(50, Math.floor(this.canvas.clientWidth));
    try {
      if (this.over !== undefined && !this.times.has(this.over)) {
        this.title.textContent = "looking for the first and the last time …";
        const { start, stop } = await ask({ from: first, to: end, count: 1, sample: true });
        this.times.set(this.over, [BigInt(start ?? 0), BigInt(stop ?? 0)]);
        if (this.to <= this.from) {
          [this.from, this.to] = this.whole!;
          this.events.moved();
        }
      }
      for (const sample of [true, false]) {
        const range: Record<string, string | number> =
          this.over === undefined
            ? { from: String(this.from), to: String(this.to) }
            : { from: first, to: end, start: String(this.from), stop: String(this.to) };
        const bins = await ask({ ...range, count: wide, sample });
        this.bins = bins;
        this.point(this.pointer);
        if (bins.exact) break;
      }
    } catch (e) {
      if (!looking.signal.aborted) this.title.textContent = (e as Error).message;
    }
  }

  /** Shows the values at a pixel. */
  private point(x: number | undefined) {
    const { bins } = this;
    this.pointer = x;
    const bin =
      bins && x !== undefined ? Math.floor((x / Math.max(1, this.canvas.clientWidth)) * bins.bins.length) : -1;
    const found = bins?.bins[bin];
    this.pointed = found ? x : undefined;
    this.readout.textContent = found ? this.read(bins, bin) : "";
    this.draw();
  }

  /** Describes the position of a bin, and its content. */
  private read({ bins, from, to }: Bins, bin: number): string {
    const [, low, high] = bins[bin]!;
    const { type } = this.columns[this.column!];
    const at = (bin: number) => from + Math.floor(((to - from) * bin) / bins.length);
    const rows =
      at(bin + 1) - at(bin) > 1 ? `rows ${count(at(bin))} to ${count(at(bin + 1))}` : `row ${count(at(bin))}`;
    const value = (x: number) => String(Number(x.toPrecision(9)));
    const values =
      isTime(type) || /^(time|duration)/.test(type)
        ? ""
        : low === high
          ? value(low)
          : `${value(low)} to ${value(high)}`;
    return [this.over === undefined ? rows : "", values].filter(Boolean).join(": ");
  }

  draw() {
    const { bins } = this;
    if (!bins || this.column === undefined) return;
    const { pen, width, height } = sheet(this.canvas);
    pen.font = "11px system-ui, sans-serif";
    const time = this.over === undefined ? undefined : this.columns[this.over];
    const [from, to] = time ? [BigInt(bins.start ?? 0), BigInt(bins.stop ?? 0)] : [BigInt(bins.from), BigInt(bins.to)];
    const marks = Math.max(2, Math.floor(width / 110));
    if (to > from)
      axis(pen, time ? timeMarks(from, to, marks, time.type) : rowMarks(from, to, marks), from, to, width, height);
    line(pen, bins.bins, { width, top: PAD, bottom: height - AXIS - PAD }, !!time);
    pen.fillStyle = colour("soft");
    if (bins.range) {
      pen.fillText(bins.range[1], 4, 12);
      pen.fillText(bins.range[0], 4, height - AXIS - 3);
    }
    if (this.pointed !== undefined && !this.brush) {
      pen.fillStyle = colour("soft");
      pen.fillRect(Math.floor(this.pointed), 0, 1, height - AXIS);
    }
    if (this.brush) {
      pen.globalAlpha = 0.2;
      pen.fillStyle = colour("accent");
      pen.fillRect(Math.min(...this.brush), 0, Math.abs(this.brush[1] - this.brush[0]), height);
      pen.globalAlpha = 1;
    }
    this.tell(bins, time);
  }

  /** Describes the picture and its controls. */
  private tell(bins: Bins, time: Column | undefined) {
    const { name } = this.columns[this.column!];
    const [low, high] = bins.ends ?? ["", ""];
    const rows = bins.rows === undefined || bins.rows === null ? "" : ` · ${plural(bins.rows, "row")}`;
    const shown = !time
      ? `rows ${count(bins.from)} to ${count(bins.to)}`
      : bins.ends
        ? `${low} to ${high}${rows}`
        : `no row has a time in ${time.name}`;
    this.title.textContent = shown + (bins.exact ? "" : ", from a sample; looking at all …");
    const range = bins.range ? `, from ${bins.range[0]} to ${bins.range[1]}` : "";
    const over = time ? `${time.name} from ${low} to ${high}` : plural(bins.to - bins.from, "row");
    this.canvas.setAttribute("aria-label", `${name} over ${over}${range}`);
    this.shower.disabled = !!time && typeof bins.first_row !== "number" && !bins.condition;
    const order =
      time && bins.sorted === false
        ? ` The rows are not known to be sorted by ${time.name}: each look reads all of them, and a range of times is a filter, as it has no first row.`
        : "";
    this.hint.textContent = `Drag to zoom in, scroll to zoom, double-click for all; Enter shows the rows.${order}`;
  }
}
