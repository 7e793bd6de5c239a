// Helpers for elements. Text from files only ever becomes text nodes: nothing here parses markup.

type Child = Node | string | null | undefined | false;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number | boolean | EventListener | undefined> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child): child is Node | string => !!child || child === ""));
  return made;
}

const english = new Intl.NumberFormat("en-US");
export const count = (n: number) => english.format(n);

export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (n >= 999.95 && unit + 1 < units.length) {
    n /= 1000;
    unit += 1;
  }
  return `${unit ? n.toFixed(1) : n} ${units[unit]}`;
}

export const plural = (n: number, one: string, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export const clamp = (x: number, low: number, high: number) => Math.max(low, Math.min(high, x));

/** Returns the current colour of a CSS variable. */
export const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** The fonts of rows, as in view.css. */
const FONTS = { cell: "13px", name: "600 13px", type: "11px" };
const ruler = document.createElement("canvas").getContext("2d")!;

/** Returns a context that measures text in a font. */
export function pen(kind: keyof typeof FONTS): CanvasRenderingContext2D {
  ruler.font = `${FONTS[kind]} system-ui, sans-serif`;
  return ruler;
}

/** Gives a canvas the screen's resolution; returns its context, which draws in CSS pixels, and its size in them. */
export function sheet(canvas: HTMLCanvasElement): { pen: CanvasRenderingContext2D; width: number; height: number } {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const pen = canvas.getContext("2d")!;
  pen.scale(scale, scale);
  return { pen, width, height };
}
