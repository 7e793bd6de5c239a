// The place in the page, as stored after the # of the URL, so that links lead to the same rows.

import { type Grouping, groupingOf } from "./group.js";

export const TABS = ["rows", "plot", "group", "file", "sql"] as const;
export type Tab = (typeof TABS)[number];

export interface Place {
  tab: Tab;
  row?: number;
  column?: number;
  /** The order of columns, the number of pinned ones, and the widths that were set. */
  columns: string;
  pinned: number;
  widths: string;
  where: string;
  sort: string;
  descending: boolean;
  plot?: number;
  over?: number;
  /** Rows, or times in their column's unit, which may have more digits than a float. */
  from?: string;
  to?: string;
  grouping: Grouping;
  query: string;
}

export function placeOf(hash: string, columns: number): Place {
  const parameters = new URLSearchParams(hash.slice(1));
  const number = (name: string) => {
    const value = parameters.get(name);
    return value !== null && /^\d+$/.test(value) ? Number(value) : undefined;
  };
  const whole = (name: string) => /^-?\d{1,20}$/.exec(parameters.get(name) ?? "")?.[0];
  return {
    tab: TABS.find((tab) => tab === parameters.get("tab")) ?? "rows",
    row: number("row"),
    column: number("column"),
    columns: parameters.get("columns") ?? "",
    pinned: number("pinned") ?? 0,
    widths: parameters.get("widths") ?? "",
    where: parameters.get("where") ?? "",
    sort: parameters.get("sort") ?? "",
    descending: parameters.get("descending") === "true",
    plot: number("plot"),
    over: number("over"),
    from: whole("from"),
    to: whole("to"),
    grouping: groupingOf(parameters, columns),
    query: parameters.get("query") ?? "",
  };
}

/** Returns the place as text after the URL's #; empty for the first rows. */
export function placeText({ tab, grouping, ...place }: Place): string {
  const parameters = new URLSearchParams();
  const set = (name: string, value: string | number | boolean | undefined) => {
    if (value !== undefined && value !== "" && value !== false && !(name === "pinned" && !value))
      parameters.set(name, String(value));
  };
  if (tab !== "rows") set("tab", tab);
  for (const name of [
    "row",
    "column",
    "columns",
    "pinned",
    "widths",
    "where",
    "sort",
    "descending",
    "plot",
    "over",
    "from",
    "to",
  ] as const)
    set(name, place[name]);
  const { by, of, order, descending } = grouping;
  set("by", by.join(","));
  set("of", of.map(([name, at]) => `${name}:${at}`).join(","));
  if (order !== undefined) set("order", (descending ? "-" : "") + order);
  set("query", place.query);
  return parameters.toString();
}

/** Returns the order of columns as in the URL, `5,0-4,6-9`; empty for the file's order. */
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

/** Parses `orderText` for `count` columns; the file's order if the text is not valid. */
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

/** Returns widths of columns as in the URL, `3:240,7:90`. */
export const widthsText = (widths: Map<number, number>) => Array.from(widths, (pair) => pair.join(":")).join();

/** Parses `widthsText` for `count` columns. */
export function widthsOf(text: string, count: number): Map<number, number> {
  const pairs = text.split(",").map((pair) => /^(\d+):(\d{2,4})$/.exec(pair));
  return new Map(
    pairs.flatMap((pair) => (pair && Number(pair[1]) < count ? [[Number(pair[1]), Number(pair[2])]] : [])),
  );
}
