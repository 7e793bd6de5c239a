// The state of the page that the URL keeps after its #, so that links lead to the same rows.

import { type Grouping, parseGrouping } from "./tabs/group_tab.js";

export const TABS = ["rows", "plot", "group", "file", "sql"] as const;
export type Tab = (typeof TABS)[number];

export interface PageState {
  tab: Tab;
  row?: number;
  column?: number;
  /** The order of columns, the number of pinned ones, and the widths that the user set. */
  columns: string;
  pinned: number;
  widths: string;
  where: string;
  sort: string;
  descending: boolean;
  /** The plotted column, and the column of times that it is plotted over. */
  plot?: number;
  over?: number;
  /** The plotted range: rows, or times in their column's unit. These are integers that may not fit in a float. */
  from?: string;
  to?: string;
  grouping: Grouping;
  query: string;
}

/** The parameters that are fields of the state with the same name. */
const SIMPLE_PARAMETERS = [
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
] as const;

function parseNumber(text: string | null): number | undefined {
  return text !== null && /^\d+$/.test(text) ? Number(text) : undefined;
}

/** Returns a text if it is an integer, of which it may have more digits than a float. */
function checkInteger(text: string | null): string | undefined {
  return text !== null && /^-?\d{1,20}$/.test(text) ? text : undefined;
}

/** Parses the part of the URL from # on, for a table of `columnCount` columns. Parameters that are not valid are ignored. */
export function parsePageState(hash: string, columnCount: number): PageState {
  const parameters = new URLSearchParams(hash.slice(1));
  return {
    tab: TABS.find((tab) => tab === parameters.get("tab")) ?? "rows",
    row: parseNumber(parameters.get("row")),
    column: parseNumber(parameters.get("column")),
    columns: parameters.get("columns") ?? "",
    pinned: parseNumber(parameters.get("pinned")) ?? 0,
    widths: parameters.get("widths") ?? "",
    where: parameters.get("where") ?? "",
    sort: parameters.get("sort") ?? "",
    descending: parameters.get("descending") === "true",
    plot: parseNumber(parameters.get("plot")),
    over: parseNumber(parameters.get("over")),
    from: checkInteger(parameters.get("from")),
    to: checkInteger(parameters.get("to")),
    grouping: parseGrouping(parameters, columnCount),
    query: parameters.get("query") ?? "",
  };
}

/** Formats the state for the URL, without #; empty for the first rows. */
export function formatPageState(state: PageState): string {
  const parameters = new URLSearchParams();
  if (state.tab !== "rows") parameters.set("tab", state.tab);
  for (const name of SIMPLE_PARAMETERS) {
    const value = state[name];
    const isDefault = value === undefined || value === "" || value === false || (name === "pinned" && value === 0);
    if (!isDefault) parameters.set(name, String(value));
  }
  const { by, of, order, descending } = state.grouping;
  if (by.length) parameters.set("by", by.join(","));
  if (of.length) parameters.set("of", of.map(([name, column]) => `${name}:${column}`).join(","));
  if (order !== undefined) parameters.set("order", (descending ? "-" : "") + order);
  if (state.query) parameters.set("query", state.query);
  return parameters.toString();
}

/** Formats an order of columns as runs, `5,0-4,6-9`; empty for the file's order. */
export function formatOrder(order: number[]): string {
  const runs: string[] = [];
  let start = 0;
  while (start < order.length) {
    let end = start + 1;
    while (end < order.length && order[end] === order[end - 1] + 1) end++;
    runs.push(end - start > 1 ? `${order[start]}-${order[end - 1]}` : String(order[start]));
    start = end;
  }
  return runs.length > 1 ? runs.join() : "";
}

/** Parses the text of `formatOrder` for `count` columns; returns the file's order if the text is not valid. */
export function parseOrder(text: string, count: number): number[] {
  const fileOrder = Array.from({ length: count }, (_, column) => column);
  const order: number[] = [];
  for (const run of text.split(",")) {
    const ends = /^(\d+)(?:-(\d+))?$/.exec(run);
    if (!ends) return fileOrder;
    const last = Number(ends[2] ?? ends[1]);
    // The text is not to be trusted: a run may be very long.
    for (let column = Number(ends[1]); column <= last && order.length <= count; column++) order.push(column);
  }
  const isPermutation =
    order.length === count && new Set(order).size === count && order.every((column) => column < count);
  return isPermutation ? order : fileOrder;
}

/** Formats widths of columns, `3:240,7:90`. */
export function formatWidths(widths: Map<number, number>): string {
  return Array.from(widths, ([column, width]) => `${column}:${width}`).join();
}

/** Parses the text of `formatWidths` for `count` columns. */
export function parseWidths(text: string, count: number): Map<number, number> {
  const widths = new Map<number, number>();
  for (const pair of text.split(",")) {
    const match = /^(\d+):(\d{2,4})$/.exec(pair);
    if (match && Number(match[1]) < count) widths.set(Number(match[1]), Number(match[2]));
  }
  return widths;
}
