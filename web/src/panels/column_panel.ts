// The panel of a column: statistics of a sample at once, and then of all rows.

import { type Bins, type Column, fetchJson, type Statistics } from "../data/api.js";
import { isPlottable } from "../data/types.js";
import { el, formatCount, plural } from "../elements/dom.js";
import { drawBars, drawSparkline, sampledStatistics } from "./column_samples.js";

/** The number of bins of the line. */
const PANEL_BINS = 300;

export interface ColumnActions {
  sort(descending: boolean): void;
  /** Ends sorting; missing if rows are not sorted. */
  unsort?: () => void;
  plot(): void;
  isPinned: boolean;
  togglePin(): void;
  /** Moves the column by a number of positions to the right. */
  move(by: number): void;
  /** Filters the rows by a condition. */
  filter(condition: string): void;
  close(): void;
}

/** The functions that draw the canvases of the panel. */
const drawFunctions = new Map<HTMLCanvasElement, () => void>();

/** Draws the pictures of the panel, in the current colours. */
export function redrawColumnPanel() {
  for (const [canvas, draw] of drawFunctions) {
    if (canvas.isConnected) draw();
    else drawFunctions.delete(canvas);
  }
}

/** Shows a column in `panel`; `signal` aborts reading all of its rows. */
export async function showColumnPanel(
  panel: HTMLElement,
  number: number,
  column: Column,
  actions: ColumnActions,
  signal: AbortSignal,
) {
  const statisticsElement = el("div", { class: "told", "aria-live": "polite" }, "looking …");
  const lineElement = el("div", { hidden: true });
  panel.replaceChildren(
    el("button", { class: "close", "aria-label": "Close", click: actions.close }, "×"),
    el("h2", {}, column.name),
    el("p", { class: "type" }, column.type + (column.nullable ? "" : ", not null")),
    actionButtons(column, actions),
    statisticsElement,
    lineElement,
  );

  const fetchStatistics = (sample: boolean) => fetchJson<Statistics>("statistics", { at: number, sample }, signal);
  const fetchBins = (sample: boolean) => fetchJson<Bins>("bins", { at: number, count: PANEL_BINS, sample }, signal);
  try {
    const sampled = sampledStatistics(number) ?? (await fetchStatistics(true));
    if (signal.aborted) return;
    showStatistics(statisticsElement, column, sampled, actions);
    const sampledBins = isPlottable(column.type) ? await fetchBins(true) : undefined;
    if (sampledBins) showLine(lineElement, column, sampledBins);
    if (!sampled.exact) showStatistics(statisticsElement, column, await fetchStatistics(false), actions);
    if (sampledBins && !sampledBins.exact) showLine(lineElement, column, await fetchBins(false));
  } catch (e) {
    if (!signal.aborted) statisticsElement.replaceChildren(el("p", { class: "error" }, (e as Error).message));
  }
}

function actionButtons(column: Column, actions: ColumnActions): HTMLElement {
  return el(
    "p",
    { class: "actions" },
    el("button", { click: () => actions.sort(false) }, "Sort ↑"),
    el("button", { click: () => actions.sort(true) }, "Sort ↓"),
    actions.unsort && el("button", { click: actions.unsort }, "Unsorted"),
    isPlottable(column.type) && el("button", { click: () => actions.plot() }, "Plot"),
    el(
      "button",
      { "aria-pressed": String(actions.isPinned), click: () => actions.togglePin() },
      actions.isPinned ? "Unpin" : "Pin",
    ),
    el("button", { "aria-label": "Move left", title: "Move left", click: () => actions.move(-1) }, "←"),
    el("button", { "aria-label": "Move right", title: "Move right", click: () => actions.move(1) }, "→"),
  );
}

function showStatistics(into: HTMLElement, column: Column, statistics: Statistics, { filter }: ColumnActions) {
  const { histogram, top } = statistics;
  const basis = statistics.exact ? "of all rows" : `estimated from ${plural(statistics.rows, "row")}; looking at all …`;
  into.replaceChildren(el("p", { class: "basis" }, basis), factList(statistics));
  if (histogram) {
    const label = `Histogram of ${column.name}`;
    const canvas = el("canvas", { class: "histogram", role: "img", "aria-label": label });
    const [low, high] = histogram.ends;
    into.append(canvas, el("p", { class: "ends" }, el("span", {}, low), el("span", {}, high)));
    drawFunctions.set(canvas, () => drawBars(canvas, statistics));
  }
  if (top) {
    const rows = top.values.map(([value, count, condition]) =>
      el("tr", {}, el("td", {}, valueLabel(value, condition, filter)), el("td", {}, formatCount(count))),
    );
    into.append(el("table", { class: "top" }, ...rows));
  }
  redrawColumnPanel();
}

function factList(statistics: Statistics): HTMLElement {
  const { of, nulls, min, max, mean, top } = statistics;
  const list = el("dl");
  const add = (name: string, value: string) => list.append(el("dt", {}, name), el("dd", {}, value));
  add("rows", formatCount(of));
  add("nulls", formatCount(nulls));
  if (min !== null) add("min", min);
  if (max !== null) add("max", max);
  if (mean !== null) add("mean", mean.toPrecision(8));
  const unique = top ?? statistics.unique;
  if (unique) {
    const basis = unique.of < of ? ` in ${plural(unique.of, "row")}` : "";
    add("distinct", formatCount(unique.distinct) + basis);
  }
  return list;
}

/** Returns a frequent value; a button that selects its rows if there is a condition for them. */
function valueLabel(value: string | null, condition: string | null, filter: (condition: string) => void): HTMLElement {
  const text = value ?? "null";
  const cssClass = value === null ? "null" : "";
  if (condition === null) return el("span", { class: cssClass }, text);
  return el("button", { class: cssClass, title: "Only these rows", click: () => filter(condition) }, text);
}

function showLine(into: HTMLElement, column: Column, bins: Bins) {
  if (!bins.bins.length) return;
  const label = `${column.name} over ${plural(bins.to - bins.from, "row")}`;
  const canvas = el("canvas", { class: "spark", role: "img", "aria-label": label });
  into.replaceChildren(
    el("h3", {}, "Over the rows"),
    canvas,
    el(
      "p",
      { class: "ends" },
      el("span", {}, formatCount(bins.from)),
      el("span", {}, bins.exact ? "" : "from a sample"),
      el("span", {}, formatCount(bins.to)),
    ),
  );
  into.hidden = false;
  drawFunctions.set(canvas, () => drawSparkline(canvas, bins));
  redrawColumnPanel();
}
