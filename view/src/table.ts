// A table for a few computed rows.

import type { Cell, Column } from "./api.js";
import { el } from "./dom.js";
import { isNumeric } from "./types.js";

const text = (cell: Cell) => (cell === null ? "null" : typeof cell === "object" ? cell.error : cell);

/** Returns a table. `head` returns the content of a column's head, and attributes of its cell; `lead` the first cell of a row, by its number and text. */
export function table(
  columns: Pick<Column, "name" | "type">[],
  cells: Cell[][],
  head: (column: number) => [Node | string, Record<string, string>],
  lead: (row: number, text: string) => Node | string = (_, text) => text,
): HTMLElement {
  const isRight = columns.map(({ type }) => isNumeric(type));
  const title = (_: unknown, i: number) => {
    const [inside, attributes] = head(i);
    return el("th", { scope: "col", class: isRight[i] ? "right" : "", ...attributes }, inside);
  };
  const row = (cells: Cell[], number: number) => {
    const one = (cell: Cell, i: number) => {
      const kind = cell === null ? "null" : typeof cell === "object" ? "error" : "";
      const into = el("td", { class: `${kind}${isRight[i] ? " right" : ""}` });
      into.append(i === 0 ? lead(number, text(cell)) : text(cell));
      return into;
    };
    return el("tr", {}, ...cells.map(one));
  };
  return el("table", {}, el("thead", {}, el("tr", {}, ...columns.map(title))), el("tbody", {}, ...cells.map(row)));
}

/** Returns a table of rows below their titles. */
export const records = (name: string, titles: string[], rows: HTMLElement[]) =>
  el(
    "table",
    { class: name },
    el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)))),
    el("tbody", {}, ...rows),
  );
