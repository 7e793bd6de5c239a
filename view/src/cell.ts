// A cell in full, and its bytes, in the panel.

import { type BufferPlace, type CellDetail, get, type Inside, isEmbedded, picture } from "./api.js";
import { bytes, count, el, plural } from "./dom.js";
import { localTime, zoneOf } from "./types.js";

/** Levels of a nested value that are open at first. */
const OPEN = 2;

export interface CellActions {
  close(): void;
  show(cell: CellDetail): void;
  only(text: string | null): void;
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

function shownValue(cell: CellDetail): HTMLElement[] {
  const { error, value, inside, type } = cell;
  if (error !== undefined) return [el("p", { class: "error" }, error)];
  if (value === null || value === undefined) return [el("pre", { class: "value null" }, "null")];
  const zone = zoneOf(type);
  const local = zone && localTime(value, zone);
  return [
    inside ? el("div", { class: "value" }, tree(inside)) : el("pre", { class: "value" }, value),
    ...(local ? [el("p", { class: "basis" }, local)] : []),
    ...(value === "" ? [el("p", { class: "hint" }, "Text of no characters.")] : []),
  ];
}

/** Puts a text on the clipboard; the button says so. */
async function copy(button: HTMLElement, text: string) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch (e) {
    button.textContent = (e as Error).message;
  }
}

/** Shows a cell; `signal` ends that when another is looked at. */
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
  const { value, error } = cell;
  const copies = typeof value === "string" && !isEmbedded && el("button", {}, "Copy");
  if (copies) copies.addEventListener("click", () => void copy(copies, value));
  into.replaceChildren(
    el("button", { class: "close", "aria-label": "Close", click: close }, "×"),
    el("h2", {}, cell.column),
    el("p", { class: "type" }, `${cell.type} · row ${count(cell.row)}`),
    ...(image ? [image] : []),
    ...shownValue(cell),
    el(
      "p",
      { class: "actions" },
      error === undefined && el("button", { click: () => only(value ?? null) }, "Only these rows"),
      copies,
      cell.place && el("button", { click: () => show(cell) }, "Show in the file"),
    ),
    ...placeOf(cell),
  );
}
