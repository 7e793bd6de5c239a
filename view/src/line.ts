// Draws a line of bins, and the marks of an axis below it.

import type { Bin } from "./api.js";
import { colour, count } from "./dom.js";

/** The area of a line, in pixels. */
export interface Box {
  width: number;
  top: number;
  bottom: number;
}

/** Draws bins from left to right. A bin without a value is a gap over rows; over time (`isJoined`), it only means that no row has such a time. */
export function line(pen: CanvasRenderingContext2D, bins: Bin[], { width, top, bottom }: Box, isJoined = false) {
  const known = bins.filter((bin) => bin !== null);
  const low = known.reduce((least, bin) => Math.min(least, bin[1]), Infinity);
  const high = known.reduce((most, bin) => Math.max(most, bin[2]), -Infinity);
  const y = (value: number) =>
    high > low ? bottom - ((value - low) / (high - low)) * (bottom - top) : (top + bottom) / 2;
  const step = width / Math.max(1, bins.length);
  pen.strokeStyle = pen.fillStyle = colour("accent");
  pen.lineWidth = 1;
  pen.beginPath();
  let isApart = true;
  bins.forEach((bin, i) => {
    if (!bin) {
      isApart ||= !isJoined;
      return;
    }
    const x = (i + 0.5) * step;
    if (isApart) pen.moveTo(x, y(bin[0]));
    else pen.lineTo(x, y(bin[0]));
    for (const value of bin.slice(1)) pen.lineTo(x, y(value));
    isApart = false;
  });
  pen.stroke();
  // Draws rows that are apart as points.
  if (width > 6 * known.length)
    bins.forEach((bin, i) => bin && pen.fillRect((i + 0.5) * step - 2, y(bin[3]) - 2, 4, 4));
}

/** A number that an axis marks, and its label. */
export type Mark = [bigint, string];

const DAY = 86_400;
/** Distances of marks: seconds up to days, then months, as their lengths vary. */
const SECONDS = [
  1,
  2,
  5,
  10,
  15,
  30,
  60,
  120,
  300,
  600,
  900,
  1800,
  3600,
  7200,
  10_800,
  21_600,
  43_200,
  DAY,
  2 * DAY,
  7 * DAY,
  14 * DAY,
];
const MONTHS = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12_000];

/** Returns the smallest of 1, 2, 5, 10, 20, … that is not less than `least`. */
function round(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least * 0.999_999)!;
}

function multiples(from: bigint, to: bigint, step: bigint): bigint[] {
  const found: bigint[] = [];
  const first = (from / step) * step;
  for (let at = first; at < to && found.length < 100; at += step) if (at >= from) found.push(at);
  return found;
}

/** Returns the marks of row numbers. */
export function rowMarks(from: bigint, to: bigint, most: number): Mark[] {
  const step = BigInt(Math.max(1, round(Number(to - from) / most)));
  return multiples(from, to, step).map((at) => [at, count(Number(at))]);
}

/** Returns the number of ticks in a second for a type of times. */
function perSecond(type: string): number {
  const unit = /^timestamp\[(s|ms|us|ns)/.exec(type)?.[1] ?? "";
  return (
    ({ s: 1, ms: 1e3, us: 1e6, ns: 1e9 } as Record<string, number>)[unit] ?? (type.startsWith("date32") ? 1 / DAY : 1e3)
  );
}

/** Returns marks at whole seconds, hours, days or months of UTC, which is the zone of cells, too. */
export function timeMarks(from: bigint, to: bigint, most: number, type: string): Mark[] {
  const second = perSecond(type);
  const milliseconds = (at: bigint) => (Number(at) / second) * 1000;
  // Leaves out years beyond the browser's calendar.
  if (!(Math.abs(milliseconds(from)) < 8e15 && Math.abs(milliseconds(to)) < 8e15)) return [];
  const least = Number(to - from) / second / most;
  const date = (at: bigint) => new Date(milliseconds(at));
  if (least > SECONDS.at(-1)!) {
    const months = MONTHS.find((n) => n * 30 * DAY >= least) ?? 12_000;
    const begin = date(from);
    const found: Mark[] = [];
    let month = Math.ceil((begin.getUTCFullYear() * 12 + begin.getUTCMonth()) / months) * months;
    for (; found.length < 100; month += months) {
      const utc = new Date(0);
      utc.setUTCFullYear(Math.floor(month / 12), month % 12, 1);
      const at = BigInt(Math.round((utc.getTime() / 1000) * second));
      if (at >= to) break;
      const text = utc.toISOString().replace(/-\d\dT.*/, "");
      if (at >= from) found.push([at, months % 12 ? text : text.replace(/-\d\d$/, "")]);
    }
    return found;
  }
  const isShort = least < 1;
  const seconds = isShort ? Math.max(round(least), 1 / second) : SECONDS.find((n) => n >= least && n * second >= 1)!;
  const step = BigInt(Math.max(1, Math.round(seconds * second)));
  let last = date(from).toISOString().replace(/T.*/, "");
  return multiples(from, to, step).map((at) => {
    const [day, time] = date(at).toISOString().split("T");
    const isNew = day !== last;
    last = day;
    if (seconds >= DAY || (isNew && !isShort)) return [at, day];
    if (seconds >= 1) return [at, time.slice(0, seconds < 60 ? 8 : 5)];
    // Splits the number, as a float has too few digits for nanoseconds since 1970.
    const whole = BigInt(second);
    const rest = String(((at % whole) + whole) % whole).padStart(String(second).length - 1, "0");
    return [at, `${time.slice(0, 8)}.${rest.slice(0, Math.max(1, -Math.floor(Math.log10(seconds) + 1e-9)))}`];
  });
}

/** Draws an axis with its marks at the bottom of a picture. */
export function axis(
  pen: CanvasRenderingContext2D,
  marks: Mark[],
  from: bigint,
  to: bigint,
  width: number,
  height: number,
) {
  const x = (at: bigint) => (Number(at - from) / Math.max(1, Number(to - from))) * width;
  pen.strokeStyle = colour("line");
  pen.fillStyle = colour("soft");
  pen.beginPath();
  let end = -Infinity;
  for (const [at, text] of marks) {
    const wide = pen.measureText(text).width;
    const left = Math.min(x(at) + 4, width - wide - 4);
    pen.moveTo(x(at) + 0.5, 0);
    pen.lineTo(x(at) + 0.5, height);
    if (left < end + 8) continue;
    pen.fillText(text, left, height - 6);
    end = left + wide;
  }
  pen.stroke();
}
