// The help on keyboard shortcuts and conditions.

import { el } from "./elements/dom.js";

/** Keys, separated by three spaces, and their effect. */
const SHORTCUTS: [string, string][] = [
  ["↑ ↓ ← →   Page Up   Page Down", "move; Ctrl-Home and Ctrl-End: to the ends"],
  ["g", "go to a row, or a time: 2024-05-17 09:30"],
  ["c", "find a column; Enter again for the next one"],
  ["/", "filter; Esc ends a search"],
  ["Enter", "the cell: its value in full, and its bytes"],
  ["h", "the column at a glance: sort, plot, pin"],
  ["p   <   >", "pin the column, move it"],
  ["[   ]", "make the column narrower, wider"],
  ["Ctrl C", "copy the cell"],
  ["f", "follow a table that grows, or freeze it"],
  ["1 2 3 4 5", "rows, plot, groups, the file, SQL"],
  ["+   -", "in a plot: zoom; arrows move it, Enter shows its rows"],
];

const CONDITIONS = [
  'price > 100 and symbol in ("IBM", "MSFT")',
  "time >= '2024-05-17' and note is not null",
  "price is not nan and note is as in row 17",
  "not (volume == 0 or price < 1)",
];

export function helpDialog(): HTMLDialogElement {
  const shortcuts = SHORTCUTS.map(([keys, effect]) => {
    const names = keys.split("   ");
    const keyElements = names.flatMap((name) => [el("kbd", {}, name), " "]);
    return el("tr", {}, el("td", {}, ...keyElements), el("td", {}, effect));
  });
  const dialog = el(
    "dialog",
    { class: "help", "aria-label": "Keys" },
    el("button", { class: "close", "aria-label": "Close", click: () => dialog.close() }, "×"),
    el("h2", {}, "Keys"),
    el("table", {}, el("tbody", {}, ...shortcuts)),
    el("h2", {}, "Conditions"),
    ...CONDITIONS.map((condition) => el("code", {}, condition)),
    el(
      "p",
      { class: "hint" },
      "Drag a column's head to move it, its right edge to make it wider; a double click on the edge fits it.",
    ),
  );
  // A click outside of the dialog's content closes it.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return dialog;
}
