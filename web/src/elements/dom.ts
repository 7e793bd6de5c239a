// Helpers to create elements, format numbers and prepare canvases.
//
// Text from files only ever becomes text nodes: nothing here parses markup.

type Child = Node | string | null | undefined | false;

/** Creates an element. Attributes that are `undefined` or `false` are left out; functions become event listeners. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number | boolean | EventListener | undefined> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child): child is Node | string => !!child || child === ""));
  return element;
}

const numberFormat = new Intl.NumberFormat("en-US");

/** Returns a number with separators of thousands, such as `1,234`. */
export const formatCount = (n: number) => numberFormat.format(n);

/** Returns a number of bytes in a decimal unit, such as `1.2 MB`. */
export function formatBytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  // Numbers from 999.95 on would be rounded to 1000.0 of their unit.
  while (n >= 999.95 && unit + 1 < units.length) {
    n /= 1000;
    unit += 1;
  }
  return `${unit ? n.toFixed(1) : n} ${units[unit]}`;
}

/** Returns a number with its noun in singular or plural, such as `1 row` or `1,234 rows`. */
export function plural(n: number, singular: string, pluralForm = `${singular}s`): string {
  return `${formatCount(n)} ${n === 1 ? singular : pluralForm}`;
}

/** Returns the number in `[low, high]` that is closest to `x`. */
export const clamp = (x: number, low: number, high: number) => Math.max(low, Math.min(high, x));

/** Returns the current colour of a CSS variable. */
export function colour(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${variable}`).trim();
}

/** The fonts of the grid, as in view.css. */
const FONTS = { cell: "13px", name: "600 13px", type: "11px" };
const measuringContext = document.createElement("canvas").getContext("2d")!;

/** Returns the width of a text in pixels. */
export function textWidth(text: string, font: keyof typeof FONTS): number {
  measuringContext.font = `${FONTS[font]} system-ui, sans-serif`;
  return measuringContext.measureText(text).width;
}

/** A canvas that is ready to be drawn on: its context draws in CSS pixels, of which it has `width` by `height`. */
export interface Drawing {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
}

/** Clears a canvas and gives it the resolution of the screen. */
export function startDrawing(canvas: HTMLCanvasElement): Drawing {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  // Setting the size clears the canvas.
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  return { context, width, height };
}
