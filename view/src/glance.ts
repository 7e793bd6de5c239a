// Statistics of a column: of a sample at once, and of all rows on demand.

import { type Bins, type Column, get, type Statistics } from "./api.js";
import { colour, count, el, plural, sheet } from "./dom.js";
import { line } from "./line.js";
import { isDrawn } from "./types.js";

/** The content of a column's head: statistics of a sample, and bins over the rows for columns that are drawn. */
interface Sample {
  statistics: Statistics;
  bins?: Bins;
}

const samples = new Map<number, Sample>();
/** Points of a line in a head, and in the panel. */
const POINTS = [100, 300] as const;

/** The number of columns in one request. */
const AT_ONCE = 16;

/** A head that waits for its column's sample: shown with the statistics, and again with the line. */
interface Waiting {
  column: number;
  isWanted(): boolean;
  show(sample: Sample): void;
}

let waiting: Waiting[] = [];
let isLooking = false;

/** Shows statistics of a sample of a column's rows, unless its head has left the screen by then. */
export function sampled(column: number, isWanted: () => boolean, show: (sample: Sample) => void) {
  const known = samples.get(column);
  if (known) show(known);
  if (known?.bins || (known && !isDrawn(known.statistics.type))) return;
  waiting.push({ column, isWanted, show });
  if (!isLooking) void look();
}

/** Requests the statistics of all waiting columns together, then one line after the other, so that rows don't wait. */
async function look() {
  isLooking = true;
  // Collects all heads that become visible together, after the rows are painted.
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  for (;;) {
    waiting = waiting.filter(({ isWanted }) => isWanted());
    const some = waiting.splice(0, AT_ONCE);
    if (!some.length) break;
    try {
      await lookAt(some);
    } catch {
      // The panel shows the error of a damaged column.
    }
  }
  isLooking = false;
}

async function lookAt(some: Waiting[]) {
  const missing = [...new Set(some.map(({ column }) => column))].filter((column) => !samples.has(column));
  for (const [column, statistics] of await statisticsOf(missing)) samples.set(column, { statistics });
  const known = some.flatMap((waiting) => {
    const sample = samples.get(waiting.column);
    return sample ? [{ ...waiting, sample }] : [];
  });
  known.forEach(({ sample, show, isWanted }) => isWanted() && show(sample));
  for (const { column, sample, show, isWanted } of known) {
    if (sample.bins || !isDrawn(sample.statistics.type) || !isWanted()) continue;
    sample.bins = await get<Bins>("bins", { at: column, count: POINTS[0], sample: true }).catch(() => undefined);
    if (sample.bins && isWanted()) show(sample);
  }
}

/** Returns statistics of samples of columns; if one is damaged, of the others. */
async function statisticsOf(columns: number[]): Promise<[number, Statistics][]> {
  if (!columns.length) return [];
  try {
    const told = await get<{ columns: Statistics[] }>("statistics", { at: `${columns.join(",")},`, sample: true });
    return told.columns.map((statistics, i) => [columns[i], statistics]);
  } catch (e) {
    if (columns.length === 1) throw e;
    const each = await Promise.allSettled(columns.map((column) => statisticsOf([column])));
    return each.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  }
}

export function forget() {
  samples.clear();
}

/** Draws the line of a column over its rows. */
export function spark(canvas: HTMLCanvasElement, { bins }: Bins) {
  const { pen, width, height } = sheet(canvas);
  line(pen, bins, { width, top: 1.5, bottom: height - 1.5 });
}

export function bars(canvas: HTMLCanvasElement, statistics: Statistics) {
  const counts = statistics.histogram?.counts ?? statistics.top?.values.map(([, n]) => n) ?? [];
  const { pen, width, height } = sheet(canvas);
  const most = Math.max(1, ...counts);
  const step = width / Math.max(counts.length, 8);
  const gap = step > 2.5 ? 1 : 0;
  pen.fillStyle = colour("accent");
  counts.forEach((n, i) => {
    const high = n ? Math.max(1, (n / most) * height) : 0;
    const [left, right] = [Math.round(i * step), Math.round((i + 1) * step)];
    pen.fillRect(left, height - high, Math.max(1, right - left - gap), high);
  });
}

export interface GlanceActions {
  sort(descending: boolean): void;
  unsorted?: () => void;
  plot(): void;
  isPinned: boolean;
  pin(): void;
  move(by: number): void;
  only(condition: string): void;
  close(): void;
}

/** The functions that redraw the pictures of the panel, by canvas. */
const pictures = new Map<HTMLCanvasElement, () => void>();

/** Redraws the panel in the current colours. */
export function repaint() {
  for (const [canvas, draw] of pictures) {
    if (canvas.isConnected) draw();
    else pictures.delete(canvas);
  }
}

/** Shows the statistics of a column in the panel; `signal` aborts reading all rows. */
export async function panel(
  into: HTMLElement,
  number: number,
  column: Column,
  actions: GlanceActions,
  signal: AbortSignal,
) {
  const told = el("div", { class: "told", "aria-live": "polite" }, "looking …");
  const over = el("div", { hidden: true });
  into.replaceChildren(
    el("button", { class: "close", "aria-label": "Close", click: actions.close }, "×"),
    el("h2", {}, column.name),
    el("p", { class: "type" }, column.type + (column.nullable ? "" : ", not null")),
    el(
      "p",
      { class: "actions" },
      el("button", { click: () => actions.sort(false) }, "Sort ↑"),
      el("button", { click: () => actions.sort(true) }, "Sort ↓"),
      actions.unsorted && el("button", { click: actions.unsorted }, "Unsorted"),
      isDrawn(column.type) && el("button", { click: () => actions.plot() }, "Plot"),
      el(
        "button",
        { "aria-pressed": String(actions.isPinned), click: () => actions.pin() },
        actions.isPinned ? "Unpin" : "Pin",
      ),
      el("button", { "aria-label": "Move left", title: "Move left", click: () => actions.move(-1) }, "←"),
      el("button", { "aria-label": "Move right", title: "Move right", click: () => actions.move(1) }, "→"),
    ),
    told,
    over,
  );
  const labelOf = ([value, , condition]: [string | null, number, string | null]) => {
    const kind = value === null ? "null" : "";
    const only = () => actions.only(condition!);
    return condition === null
      ? el("span", { class: kind }, value ?? "null")
      : el("button", { class: kind, title: "Only these rows", click: only }, value ?? "null");
  };
  const show = (statistics: Statistics) => {
    const fact = (name: string, value: string) => [el("dt", {}, name), el("dd", {}, value)];
    const { top, histogram } = statistics;
    const unique = top ?? statistics.unique;
    const facts = [
      ...fact("rows", count(statistics.of)),
      ...fact("nulls", count(statistics.nulls)),
      ...(statistics.min === null ? [] : fact("min", statistics.min)),
      ...(statistics.max === null ? [] : fact("max", statistics.max)),
      ...(statistics.mean === null ? [] : fact("mean", statistics.mean.toPrecision(8))),
      ...(unique
        ? fact(
            "distinct",
            count(unique.distinct) + (unique.of < statistics.of ? ` in ${plural(unique.of, "row")}` : ""),
          )
        : []),
    ];
    const picture = el("canvas", { class: "histogram", role: "img", "aria-label": `Histogram of ${column.name}` });
    told.replaceChildren(
      el(
        "p",
        { class: "basis" },
        statistics.exact ? "of all rows" : `estimated from ${plural(statistics.rows, "row")}; looking at all …`,
      ),
      el("dl", {}, ...facts),
      ...(histogram
        ? [picture, el("p", { class: "ends" }, el("span", {}, histogram.ends[0]), el("span", {}, histogram.ends[1]))]
        : []),
      ...(top
        ? [
            el(
              "table",
              { class: "top" },
              ...top.values.map((value) => el("tr", {}, el("td", {}, labelOf(value)), el("td", {}, count(value[1])))),
            ),
          ]
        : []),
    );
    if (histogram) pictures.set(picture, () => bars(picture, statistics));
    repaint();
  };
  const draw = (bins: Bins) => {
    if (!bins.bins.length) return;
    const picture = el("canvas", {
      class: "spark",
      role: "img",
      "aria-label": `${column.name} over ${plural(bins.to - bins.from, "row")}`,
    });
    over.replaceChildren(
      el("h3", {}, "Over the rows"),
      picture,
      el(
        "p",
        { class: "ends" },
        el("span", {}, count(bins.from)),
        el("span", {}, bins.exact ? "" : "from a sample"),
        el("span", {}, count(bins.to)),
      ),
    );
    over.hidden = false;
    pictures.set(picture, () => spark(picture, bins));
    repaint();
  };
  try {
    const first =
      samples.get(number)?.statistics ?? (await get<Statistics>("statistics", { at: number, sample: true }, signal));
    if (signal.aborted) return;
    show(first);
    const line = (sample: boolean) => get<Bins>("bins", { at: number, count: POINTS[1], sample }, signal);
    const bins = isDrawn(column.type) ? await line(true) : undefined;
    if (bins) draw(bins);
    if (!first.exact) show(await get<Statistics>("statistics", { at: number }, signal));
    if (bins && !bins.exact) draw(await line(false));
  } catch (e) {
    if (!signal.aborted) told.replaceChildren(el("p", { class: "error" }, (e as Error).message));
  }
}
