// The panel of a cell: its full value, and its bytes.

import {
  type BufferLocation,
  type CellDetail,
  fetchCellText,
  fetchJson,
  imageUrl,
  isEmbedded,
  type NestedItem,
  type NestedValue,
} from "../data/api.js";
import { localTime, timeZone } from "../data/types.js";
import { el, formatBytes, formatCount, plural } from "../elements/dom.js";

/** Levels of a nested value that are expanded at first. */
const EXPANDED_LEVELS = 2;
/** The number of bytes that the server sends of a buffer. */
const MAX_HEX_BYTES = 64;

export interface CellActions {
  close(): void;
  /** Shows the cell's bytes in the file. */
  showInFile(cell: CellDetail): void;
  /** Filters the rows by a condition. */
  filter(condition: string): void;
}

/** Returns the title of a nested value, such as `list of 3 items`. */
function nestedTitle({ kind, count }: NestedValue): string {
  switch (kind) {
    case "list":
      return `list of ${plural(count, "item")}`;
    case "map":
      return `map of ${plural(count, "entry", "entries")}`;
    default:
      return `${kind} of ${plural(count, "field")}`;
  }
}

/** Returns a nested value as a tree. */
function valueTree(value: NestedItem, level = 0): HTMLElement {
  if (value === null) return el("span", { class: "null" }, "null");
  if (typeof value === "string") return el("span", { class: "leaf" }, value);
  if ("error" in value) return el("span", { class: "error" }, value.error);
  const items = value.items.map(([name, item]) =>
    el("li", {}, el("span", { class: "key" }, name), valueTree(item, level + 1)),
  );
  const hidden = value.count - items.length;
  return el(
    "details",
    { class: "tree", open: level < EXPANDED_LEVELS },
    el("summary", {}, nestedTitle(value)),
    el("ul", {}, ...items, hidden > 0 && el("li", { class: "hint" }, `and ${formatCount(hidden)} more`)),
  );
}

/** Returns the location of a buffer, and the cell's bytes in it as hexadecimal digits. */
function bufferElement({ name, offset, length, at, bytes, hex, bit }: BufferLocation): HTMLElement {
  const element = el(
    "div",
    { class: "buffer" },
    el("strong", {}, name),
    ` at ${formatCount(offset)}, ${formatBytes(length)}`,
  );
  if (hex !== undefined) {
    let text = `${formatCount(at!)}: ${hex}`;
    if (bytes! > MAX_HEX_BYTES) text += " …";
    if (bit !== undefined) text += `  (bit ${bit})`;
    element.append(el("code", {}, text));
  }
  return element;
}

function locationElements({ place }: CellDetail): HTMLElement[] {
  if (!place) {
    const text = "No footer leads to this row yet: it is committed, and other Arrow readers find it a moment later.";
    return [el("p", { class: "hint" }, text)];
  }
  const location = [
    place.name,
    `message ${formatCount(place.message)} at ${formatCount(place.message_offset)}`,
    `row ${formatCount(place.row_in_batch)} of the batch`,
  ].join(" · ");
  const elements: HTMLElement[] = [el("h3", {}, "Its bytes"), el("p", { class: "basis" }, location)];
  if (place.compressed) {
    elements.push(el("p", { class: "hint" }, "The body is compressed: single values have no place of their own."));
  }
  elements.push(...place.buffers.map(bufferElement));
  return elements;
}

/** Returns a cell's value; for a long one its beginning, and a button that fetches the rest with `fetchText`. */
function valueElements(cell: CellDetail, fetchText: () => Promise<string>): HTMLElement[] {
  const { error, value, inside, type, whole } = cell;
  if (error !== undefined) return [el("p", { class: "error" }, error)];
  if (value === null || value === undefined) return [el("pre", { class: "value null" }, "null")];
  const valueElement = inside ? el("div", { class: "value" }, valueTree(inside)) : el("pre", { class: "value" }, value);
  const elements = [valueElement];
  if (!whole || inside) {
    const hint = el("p", { class: "hint rest" });
    if (!inside) hint.append(`The first ${plural(value.length, "character")}; there are more. `);
    const label = inside ? "As JSON" : "All of it";
    hint.append(el("button", { click: () => void showText(valueElement, hint, fetchText) }, label));
    elements.push(hint);
  }
  const zone = timeZone(type);
  const local = zone && localTime(value, zone);
  if (local) elements.push(el("p", { class: "basis" }, local));
  if (value === "") elements.push(el("p", { class: "hint" }, "Text of no characters."));
  return elements;
}

/** Replaces the beginning of a value by its whole text; `hint` reports it. */
async function showText(valueElement: HTMLElement, hint: HTMLElement, fetchText: () => Promise<string>) {
  hint.replaceChildren("loading the rest …");
  try {
    const text = await fetchText();
    valueElement.replaceWith(el("pre", { class: "value" }, text));
    hint.replaceChildren(`all ${plural(text.length, "character")}`);
  } catch (e) {
    hint.replaceChildren((e as Error).message);
  }
}

/** Copies a cell's whole text to the clipboard; the button reports it. */
async function copyText(button: HTMLElement, fetchText: () => Promise<string>) {
  try {
    await navigator.clipboard.writeText(await fetchText());
    button.textContent = "Copied";
  } catch (e) {
    button.textContent = (e as Error).message;
  }
}

/** Shows a cell in `panel`; `signal` aborts this when something else is selected. */
export async function showCellPanel(
  panel: HTMLElement,
  row: number,
  column: number,
  actions: CellActions,
  signal: AbortSignal,
) {
  const cell = await fetchJson<CellDetail>("cell", { row, at: column }, signal);
  let image: HTMLElement | undefined;
  if (cell.image) {
    const src = await imageUrl(row, column);
    image = el("img", { class: "picture", src, alt: `The picture in this cell, ${cell.image}` });
  }
  if (signal.aborted) return;

  const { value, condition } = cell;
  const fetchText = () => fetchCellText(row, column);
  const buttons = el("p", { class: "actions" });
  if (condition) buttons.append(el("button", { click: () => actions.filter(condition) }, "Only these rows"));
  // A notebook's frame has no access to the clipboard.
  if (typeof value === "string" && !isEmbedded) {
    const copyButton = el("button", { click: () => void copyText(copyButton, fetchText) }, "Copy");
    buttons.append(copyButton);
  }
  if (cell.place) buttons.append(el("button", { click: () => actions.showInFile(cell) }, "Show in the file"));

  panel.replaceChildren(
    el("button", { class: "close", "aria-label": "Close", click: actions.close }, "×"),
    el("h2", {}, cell.column),
    el("p", { class: "type" }, `${cell.type} · row ${formatCount(cell.row)}`),
    ...(image ? [image] : []),
    ...valueElements(cell, fetchText),
    buttons,
    ...locationElements(cell),
  );
}
