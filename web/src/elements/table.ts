// Tables of a few rows, as HTML.

import type { Cell, Column } from "../data/api.js";
import { isNumeric } from "../data/types.js";
import { el } from "./dom.js";

/** Returns the text of a cell, and the class that its element gets: for null or an error. */
export function describeCell(cell: Cell): { text: string; cssClass: "" | "null" | "error" } {
  if (cell === null) return { text: "null", cssClass: "null" };
  if (typeof cell === "object") return { text: cell.error, cssClass: "error" };
  return { text: cell, cssClass: "" };
}

export interface ResultTable {
  columns: Pick<Column, "name" | "type">[];
  cells: Cell[][];
  /** Returns the content of a column's head, and attributes of its cell. */
  head(column: number): { content: Node | string; attributes: Record<string, string> };
  /** Returns the content of the first cell of a row, if it is not just its text. */
  firstCell?(row: number, text: string): Node | string;
}

/** Returns a table of computed rows. */
export function resultTable({ columns, cells, head, firstCell }: ResultTable): HTMLElement {
  const alignments = columns.map(({ type }) => (isNumeric(type) ? "right" : ""));
  const heads = columns.map((_, column) => {
    const { content, attributes } = head(column);
    return el("th", { scope: "col", class: alignments[column], ...attributes }, content);
  });
  const rows = cells.map((values, row) => {
    const elements = values.map((value, column) => {
      const { text, cssClass } = describeCell(value);
      const content = column === 0 && firstCell ? firstCell(row, text) : text;
      return el("td", { class: `${cssClass} ${alignments[column]}`.trim() }, content);
    });
    return el("tr", {}, ...elements);
  });
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows));
}

/** Returns a table of rows below their titles. */
export function titledTable(cssClass: string, titles: string[], rows: HTMLElement[]): HTMLElement {
  const heads = titles.map((title) => el("th", { scope: "col" }, title));
  return el("table", { class: cssClass }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows));
}
