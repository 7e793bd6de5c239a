// The panel of a cell: its full value, and its bytes.

import { type BufferPlace, type CellDetail, get, type Inside, isEmbedded, picture, wholeText } from "./api.js";
import { bytes, count, el, plural } from "./dom.js";
import { localTime, zoneOf } from "./types.js";

/** Levels of a nested value that are expanded at first. */
const OPEN = 2;

export interface CellActions {
  close(): void;
  show(cell: CellDetail): void;
  only(condition: string): void;
}

/** A nested value as a tree. */
function tree(value: Inside, level = 0): HTMLElement {
  if (value === null) return el("span", { class: "null" }, "null");
  if (typeof value === "string") return el("span", { class: "leaf" }, value);
  if ("error" in value) return el("span", { class: "error" }, value.error);
  const { kind, count: all, items } = value;
  const item = ([name, inside]: [string, Inside]) =>
    el("li", {}, el("span", { class: "key" }, name), tree(inside, level + 1));
  const title = `${kind} of ${plural(all, kind === "list" ? "item" : kind === "map" ? "entry" : "field", kind === "map" ? "entries" : undefined)}`;
  const rest = all > items.length && el("li", { class: "hint" }, `and ${count(all - items.length)} more`);
  return el(
    "details",
    { class: "tree", open: level < OPEN },
    el("summary", {}, title),
    el("ul", {}, ...items.map(item), rest),
  );
}

function bufferOf({ name, offset, length, at, bytes: all, hex, bit }: BufferPlace): HTMLElement {
  const shown =
    hex !== undefined &&
    el("code", {}, `${count(at!)}: ${hex}${all! > 64 ? " …" : ""}${bit === undefined ? "" : `  (bit ${bit})`}`);
  return el("div", { class: "buffer" }, el("strong", {}, name), ` at ${count(offset)}, ${bytes(length)}`, shown);
}

function placeOf({ place }: CellDetail): HTMLElement[] {
  if (!place)
    return [
      el(
        "p",
        { class: "hint" },
        "No footer leads to this row yet: it is committed, and other Arrow readers find it a moment later.",
      ),
    ];
  return [
    el("h3", {}, "Its bytes"),
    el(
      "p",
      { class: "basis" },
      `${place.name} · message ${count(place.message)} at ${count(place.message_offset)} · row ${count(place.row_in_batch)} of the batch`,
    ),
    ...(place.compressed
      ? [el("p", { class: "hint" }, "The body is compressed: single values have no place of their own.")]
      : []),
    ...place.buffers.map(bufferOf),
  ];
}

/** Returns a cell's value; of a long one the beginning, and a button that fetches the rest. */
function shownValue(cell: CellDetail, whole: () => Promise<string>): HTMLElement[] {
  const { error, value, inside, type, whole: isWhole } = cell;
  if (error !== undefined) return [el("p", { class: "error" }, error)];
  if (value === null || value === undefined) return [el("pre", { class: "value null" }, "null")];
  const zone = zoneOf(type);
  const local = zone && localTime(value, zone);
  const shown = inside ? el("div", { class: "value" }, tree(inside)) : el("pre", { class: "value" }, value);
  const rest = el("p", { class: "hint rest" });
  const all = async () => {
    rest.replaceChildren("loading the rest …");
    try {
      const text = await whole();
      shown.replaceWith(el("pre", { class: "value" }, text));
      rest.replaceChildren(`all ${plural(text.length, "character")}`);
    } catch (e) {
      rest.replaceChildren((e as Error).message);
    }
  };
  if (!isWhole && !inside) rest.append(`The first ${plural(value.length, "character")}; there are more. `);
  if (!isWhole || inside) rest.append(el("button", { click: () => void all() }, inside ? "As JSON" : "All of it"));
  return [
    shown,
    ...(rest.childNodes.length ? [rest] : []),
    ...(local ? [el("p", { class: "basis" }, local)] : []),
    ...(value === "" ? [el("p", { class: "hint" }, "Text of no characters.")] : []),
  ];
}

/** Copies a cell's whole text to the clipboard; the button reports it. */
async function copy(button: HTMLElement, whole: () => Promise<string>) {
  try {
    await navigator.clipboard.writeText(await whole());
    button.textContent = "Copied";
  } catch (e) {
    button.textContent = (e as Error).message;
  }
}

/** Shows a cell; `signal` aborts this when another cell is selected. */
export async function cellPanel(
  into: HTMLElement,
  row: number,
  at: number,
  { close, show, only }: CellActions,
  signal: AbortSignal,
) {
  const cell = await get<CellDetail>("cell", { row, at }, signal);
  const image =
    cell.image &&
    el("img", { class: "picture", src: await picture(row, at), alt: `The picture in this cell, ${cell.image}` });
  if (signal.aborted) return;
  const { value, condition } = cell;
  const whole = () => wholeText(row, at);
  const copies = typeof value === "string" && !isEmbedded && el("button", {}, "Copy");
  if (copies) copies.addEventListener("click", () => void copy(copies, whole));
  into.replaceChildren(
    el("button", { class: "close", "aria-label": "Close", click: close }, "×"),
    el("h2", {}, cell.column),
    el("p", { class: "type" }, `${cell.type} · row ${count(cell.row)}`),
    ...(image ? [image] : []),
    ...shownValue(cell, whole),
    el(
      "p",
      { class: "actions" },
      condition && el("button", { click: () => only(condition) }, "Only these rows"),
      copies,
      cell.place && el("button", { click: () => show(cell) }, "Show in the file"),
    ),
    ...placeOf(cell),
  );
}
