// A column over its rows: never more points than pixels, each of them the first, least, greatest and last of its rows.

import { Bins, Column, get } from "./api.js";
import { clamp, colour, count, el, plural, sheet } from "./dom.js";

export class Plot {
  readonly element: HTMLElement;
  column: number | undefined;
  from = 0;
  to = 0;
  private bins: Bins | undefined;
  private canvas: HTMLCanvasElement;
  private title: HTMLElement;
  private select: HTMLSelectElement;
  private looking: AbortController | undefined;
  private brush: [number, number] | undefined;

  constructor(
    private columns: Column[],
    private extent: () => [number, number],
    private moved: () => void,
    private go: (row: number) => void,
  ) {
    const drawn = columns.map((column, i) => ({ ...column, i })).filter(({ type }) => /^(u?int|float|decimal(32|64|128)|date|time|duration)/.test(type));
    this.select = el("select", { "aria-label": "Column to plot", change: () => this.show(Number(this.select.value)) }, ...drawn.map(({ name, i }) => el("option", { value: i }, name)));
    this.column = drawn[0]?.i;
    this.title = el("span", { class: "basis", "aria-live": "polite" });
    this.canvas = el("canvas", { class: "plot", role: "img", tabindex: 0 });
    this.element = el(
      "section",
      { class: "plotting", "aria-label": "Plot" },
      el("p", { class: "tools" }, this.select, el("button", { click: () => this.zoom(...this.extent()) }, "All rows"), this.title),
      this.canvas,
      el("p", { class: "hint" }, "Drag to zoom in, scroll to zoom, double-click for all rows; Enter shows the rows."),
    );
    if (!drawn.length) this.element.replaceChildren(el("p", { class: "hint" }, "No column of numbers or times."));
    this.canvas.addEventListener("pointerdown", (event) => this.drag(event));
    this.canvas.addEventListener("dblclick", () => this.zoom(...this.extent()));
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.scale(event.deltaY > 0 ? 1.5 : 1 / 1.5, event.offsetX / this.canvas.clientWidth);
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const step = (this.to - this.from) / 4;
      if (event.key === "+") this.scale(0.5, 0.5);
      else if (event.key === "-") this.scale(2, 0.5);
      else if (event.key === "ArrowLeft") this.zoom(this.from - step, this.to - step);
      else if (event.key === "ArrowRight") this.zoom(this.from + step, this.to + step);
      else if (event.key === "Enter") this.go(this.from);
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => this.column !== undefined && this.element.isConnected && this.load()).observe(this.canvas);
  }

  show(column: number) {
    this.column = column;
    this.select.value = String(column);
    if (this.to <= this.from) [this.from, this.to] = this.extent();
    void this.load();
    this.moved();
  }

  zoom(from: number, to: number) {
    const [first, end] = this.extent();
    const size = clamp(Math.round(to - from), Math.min(2, end - first), end - first);
    this.from = clamp(Math.round(from), first, end - size);
    this.to = this.from + size;
    void this.load();
    this.moved();
  }

  private scale(factor: number, at: number) {
    const middle = this.from + (this.to - this.from) * at;
    this.zoom(middle - (middle - this.from) * factor, middle + (this.to - middle) * factor);
  }

  private drag(event: PointerEvent) {
    const start = event.offsetX;
    this.canvas.setPointerCapture(event.pointerId);
    const move = (next: PointerEvent) => {
      this.brush = [start, clamp(next.offsetX, 0, this.canvas.clientWidth)];
      this.draw();
    };
    const row = (x: number) => this.from + ((this.to - this.from) * x) / this.canvas.clientWidth;
    this.canvas.addEventListener("pointermove", move);
    this.canvas.addEventListener("lostpointercapture", () => {
      this.canvas.removeEventListener("pointermove", move);
      const [a, b] = this.brush ?? [start, start];
      this.brush = undefined;
      if (Math.abs(b - a) > 4) this.zoom(row(Math.min(a, b)), row(Math.max(a, b)));
      else this.draw();
    }, { once: true });
  }

  async load() {
    if (this.column === undefined || this.to <= this.from) return;
    this.looking?.abort();
    const looking = (this.looking = new AbortController());
    const { from, to, column } = this;
    const wide = Math.max(50, Math.floor(this.canvas.clientWidth));
    try {
      for (const sample of [true, false]) {
        const bins = await get<Bins>("bins", { at: column, from, to, count: wide, sample }, looking.signal);
        this.bins = bins;
        this.draw();
        if (bins.exact) break;
      }
    } catch (e) {
      if (!looking.signal.aborted) this.title.textContent = (e as Error).message;
    }
  }

  draw() {
    const { bins } = this;
    if (!bins || this.column === undefined) return;
    const { pen, width, height } = sheet(this.canvas);
    const known = bins.bins.filter((bin) => bin !== null);
    const low = Math.min(...known.map((bin) => bin[1]));
    const high = Math.max(...known.map((bin) => bin[2]));
    const pad = 14;
    const y = (value: number) => (high > low ? height - pad - ((value - low) / (high - low)) * (height - 2 * pad) : height / 2);
    const step = width / Math.max(1, bins.bins.length);
    pen.strokeStyle = colour("accent");
    pen.lineWidth = 1;
    pen.beginPath();
    let isApart = true;
    bins.bins.forEach((bin, i) => {
      if (!bin) {
        isApart = true;
        return;
      }
      const x = (i + 0.5) * step;
      if (isApart) pen.moveTo(x, y(bin[0]));
      else pen.lineTo(x, y(bin[0]));
      pen.lineTo(x, y(bin[1]));
      pen.lineTo(x, y(bin[2]));
      pen.lineTo(x, y(bin[3]));
      isApart = false;
    });
    pen.stroke();
    if (step > 6) {
      pen.fillStyle = colour("accent");
      bins.bins.forEach((bin, i) => bin && pen.fillRect((i + 0.5) * step - 2, y(bin[0]) - 2, 4, 4));
    }
    pen.fillStyle = colour("soft");
    pen.font = "11px system-ui, sans-serif";
    if (bins.range) {
      pen.fillText(bins.range[1], 4, 11);
      pen.fillText(bins.range[0], 4, height - 3);
    }
    if (this.brush) {
      pen.globalAlpha = 0.2;
      pen.fillRect(Math.min(...this.brush), 0, Math.abs(this.brush[1] - this.brush[0]), height);
      pen.globalAlpha = 1;
    }
    const { name } = this.columns[this.column];
    const text = `rows ${count(bins.from)} to ${count(bins.to)}` + (bins.exact ? "" : ", from a sample; looking at all …");
    this.title.textContent = text;
    const range = bins.range ? `, from ${bins.range[0]} to ${bins.range[1]}` : "";
    this.canvas.setAttribute("aria-label", `${name} over ${plural(bins.to - bins.from, "row")}${range}`);
  }
}
