// A column at a glance: of a sample at once, of all rows when one looks at it.

import { Column, Statistics, get } from "./api.js";
import { colour, count, el, plural, sheet } from "./dom.js";

const samples = new Map<number, Promise<Statistics>>();
let queue: Promise<unknown> = Promise.resolve();

/** One after the other, so that rows don't wait for pictures. */
export function sampled(column: number): Promise<Statistics> {
  let known = samples.get(column);
  if (!known) {
    known = queue.then(() => get<Statistics>("statistics", { at: column, sample: true }));
    queue = known.catch(() => undefined);
    samples.set(column, known);
  }
  return known;
}

export function forget() {
  samples.clear();
}

export function bars(canvas: HTMLCanvasElement, statistics: Statistics) {
  const counts = statistics.histogram?.counts ?? statistics.top?.values.map(([, n]) => n) ?? [];
  const { pen, width, height } = sheet(canvas);
  const most = Math.max(1, ...counts);
  const step = width / Math.max(counts.length, 8);
  pen.fillStyle = colour("accent");
  counts.forEach((n, i) => {
    const high = n ? Math.max(1, (n / most) * height) : 0;
    pen.fillRect(i * step, height - high, Math.max(1, step - 1), high);
  });
}

export interface GlanceActions {
  sort(descending: boolean): void;
  unsorted?: () => void;
  plot(): void;
  isPinned: boolean;
  pin(): void;
  move(by: number): void;
  only(value: string | null): void;
  close(): void;
}

const isDrawn = (type: string) => /^(u?int|float|decimal|date|time|duration)/.test(type) && !type.startsWith("decimal256");

/** What is known of a column, in the panel; `signal` ends the look at all rows. */
export async function panel(into: HTMLElement, number: number, column: Column, actions: GlanceActions, signal: AbortSignal) {
  const told = el("div", { class: "told", "aria-live": "polite" }, "looking …");
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
      el("button", { "aria-pressed": String(actions.isPinned), click: () => actions.pin() }, actions.isPinned ? "Unpin" : "Pin"),
      el("button", { "aria-label": "Move left", title: "Move left", click: () => actions.move(-1) }, "←"),
      el("button", { "aria-label": "Move right", title: "Move right", click: () => actions.move(1) }, "→"),
    ),
    told,
  );
  const show = (statistics: Statistics) => {
    const fact = (name: string, value: string) => [el("dt", {}, name), el("dd", {}, value)];
    const { top, histogram } = statistics;
    const facts = [
      ...fact("rows", count(statistics.of)),
      ...fact("nulls", count(statistics.nulls)),
      ...(statistics.min === null ? [] : fact("min", statistics.min)),
      ...(statistics.max === null ? [] : fact("max", statistics.max)),
      ...(statistics.mean === null ? [] : fact("mean", statistics.mean.toPrecision(8))),
      ...(top ? fact("distinct", count(top.distinct) + (top.of < statistics.of ? ` in ${plural(top.of, "row")}` : "")) : []),
    ];
    const picture = el("canvas", { class: "histogram", role: "img", "aria-label": `Histogram of ${column.name}` });
    told.replaceChildren(
      el("p", { class: "basis" }, statistics.exact ? "of all rows" : `estimated from ${plural(statistics.rows, "row")}; looking at all …`),
      el("dl", {}, ...facts),
      ...(histogram
        ? [picture, el("p", { class: "ends" }, el("span", {}, histogram.ends[0]), el("span", {}, histogram.ends[1]))]
        : []),
      ...(top
        ? [
            el(
              "table",
              { class: "top" },
              ...top.values.map(([value, n]) =>
                el(
                  "tr",
                  {},
                  el("td", {}, el("button", { class: value === null ? "null" : "", title: "Only these rows", click: () => actions.only(value) }, value ?? "null")),
                  el("td", {}, count(n)),
                ),
              ),
            ),
          ]
        : []),
    );
    if (histogram) bars(picture, statistics);
  };
  try {
    const first = await sampled(number);
    if (signal.aborted) return;
    show(first);
    if (!first.exact) {
      const all = await get<Statistics>("statistics", { at: number }, signal);
      samples.set(number, Promise.resolve(all));
      show(all);
    }
  } catch (e) {
    if (!signal.aborted) told.replaceChildren(el("p", { class: "error" }, (e as Error).message));
  }
}
