// Draws a line of bins, and an axis of rows or times below it.

import type { Bin } from "../data/api.js";
import { colour, type Drawing, formatCount } from "./dom.js";

/** The area of a line, in pixels. */
export interface LineArea {
  width: number;
  top: number;
  bottom: number;
}

/** A line with fewer values than one per so many pixels is drawn with points. */
const POINT_DISTANCE = 6;
const POINT_SIZE = 4;

/**
 * Draws bins from left to right.
 *
 * A bin without a value is a gap in a line over rows. In a line over time it only means that no row has such a time, so
 * that its neighbours are joined (`joinGaps`).
 */
export function drawLine(
  context: CanvasRenderingContext2D,
  bins: Bin[],
  { width, top, bottom }: LineArea,
  joinGaps = false,
) {
  const values = bins.filter((bin) => bin !== null);
  const low = values.reduce((low, bin) => Math.min(low, bin[1]), Infinity);
  const high = values.reduce((high, bin) => Math.max(high, bin[2]), -Infinity);
  const y = (value: number) =>
    high > low ? bottom - ((value - low) / (high - low)) * (bottom - top) : (top + bottom) / 2;
  const binWidth = width / Math.max(1, bins.length);
  context.strokeStyle = context.fillStyle = colour("accent");
  context.lineWidth = 1;
  context.beginPath();
  let startsLine = true;
  bins.forEach((bin, i) => {
    if (!bin) {
      if (!joinGaps) startsLine = true;
      return;
    }
    const [first, ...rest] = bin;
    const x = (i + 0.5) * binWidth;
    if (startsLine) context.moveTo(x, y(first));
    else context.lineTo(x, y(first));
    for (const value of rest) context.lineTo(x, y(value));
    startsLine = false;
  });
  context.stroke();
  if (width > POINT_DISTANCE * values.length) {
    bins.forEach((bin, i) => {
      if (!bin) return;
      const [x, lastY] = [(i + 0.5) * binWidth, y(bin[3])];
      context.fillRect(x - POINT_SIZE / 2, lastY - POINT_SIZE / 2, POINT_SIZE, POINT_SIZE);
    });
  }
}

/** A mark of an axis: a row, or a time in its column's unit. */
export interface Mark {
  position: bigint;
  label: string;
}

/** A range of an axis, without its end. */
export interface AxisRange {
  from: bigint;
  to: bigint;
}

/** Limits the marks of an axis, whatever its range is. */
const MAX_MARKS = 100;
/** The maximum distance of a time from 1970, in milliseconds, for which `Date` has a calendar; rounded down. */
const MAX_DATE = 8e15;

const DAY = 86_400;
/** Distances between marks in seconds, up to some weeks. */
const SECOND_STEPS = [
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
/** Longer distances in months, as their lengths vary. */
const MONTH_STEPS = [1, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12_000];

/** Returns the smallest of 1, 2, 5, 10, 20, … that is not less than `min`. */
function roundUp(min: number): number {
  const power = 10 ** Math.floor(Math.log10(min));
  // The tolerance is for rounding errors of the logarithm.
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= min * 0.999_999)!;
}

/** Returns the multiples of `step` in a range. */
function multiples({ from, to }: AxisRange, step: bigint): bigint[] {
  const positions: bigint[] = [];
  const first = (from / step) * step;
  for (let position = first; position < to && positions.length < MAX_MARKS; position += step) {
    if (position >= from) positions.push(position);
  }
  return positions;
}

/** Returns marks of an axis of rows, at about `count` places. */
export function rowMarks(range: AxisRange, count: number): Mark[] {
  const step = BigInt(Math.max(1, roundUp(Number(range.to - range.from) / count)));
  return multiples(range, step).map((position) => ({ position, label: formatCount(Number(position)) }));
}

/** Returns the number of a type's units in a second. */
function unitsPerSecond(type: string): number {
  const unit = /^timestamp\[(s|ms|us|ns)/.exec(type)?.[1];
  switch (unit) {
    case "s":
      return 1;
    case "ms":
      return 1e3;
    case "us":
      return 1e6;
    case "ns":
      return 1e9;
    default:
      return type.startsWith("date32") ? 1 / DAY : 1e3;
  }
}

/** Returns marks of an axis of times at whole seconds, hours, days or months of UTC, as cells show UTC, too. */
export function timeMarks(range: AxisRange, count: number, type: string): Mark[] {
  const perSecond = unitsPerSecond(type);
  if (
    Math.abs(toMilliseconds(range.from, perSecond)) >= MAX_DATE ||
    Math.abs(toMilliseconds(range.to, perSecond)) >= MAX_DATE
  ) {
    return [];
  }
  const minSeconds = Number(range.to - range.from) / perSecond / count;
  if (minSeconds > SECOND_STEPS.at(-1)!) return monthMarks(range, minSeconds, perSecond);
  return secondMarks(range, minSeconds, perSecond);
}

function toMilliseconds(time: bigint, perSecond: number): number {
  return (Number(time) / perSecond) * 1000;
}

/** Returns marks at the beginning of months that are at least `minSeconds` apart. */
function monthMarks({ from, to }: AxisRange, minSeconds: number, perSecond: number): Mark[] {
  const step = MONTH_STEPS.find((months) => months * 30 * DAY >= minSeconds) ?? MONTH_STEPS.at(-1)!;
  const start = new Date(toMilliseconds(from, perSecond));
  const marks: Mark[] = [];
  let month = Math.ceil((start.getUTCFullYear() * 12 + start.getUTCMonth()) / step) * step;
  for (; marks.length < MAX_MARKS; month += step) {
    const date = new Date(0);
    date.setUTCFullYear(Math.floor(month / 12), month % 12, 1);
    const position = BigInt(Math.round((date.getTime() / 1000) * perSecond));
    if (position >= to) break;
    const yearAndMonth = date.toISOString().replace(/-\d\dT.*/, "");
    const label = step % 12 ? yearAndMonth : yearAndMonth.replace(/-\d\d$/, "");
    if (position >= from) marks.push({ position, label });
  }
  return marks;
}

/** Returns marks that are at least `minSeconds` apart. The first of a day is labelled with its date. */
function secondMarks(range: AxisRange, minSeconds: number, perSecond: number): Mark[] {
  const isFraction = minSeconds < 1;
  const stepSeconds = isFraction
    ? Math.max(roundUp(minSeconds), 1 / perSecond)
    : SECOND_STEPS.find((seconds) => seconds >= minSeconds && seconds * perSecond >= 1)!;
  const step = BigInt(Math.max(1, Math.round(stepSeconds * perSecond)));
  const [firstDay] = new Date(toMilliseconds(range.from, perSecond)).toISOString().split("T");
  let lastDay = firstDay;
  return multiples(range, step).map((position) => {
    const [day, clock] = new Date(toMilliseconds(position, perSecond)).toISOString().split("T");
    const isNewDay = day !== lastDay;
    lastDay = day;
    if (stepSeconds >= DAY || (isNewDay && !isFraction)) return { position, label: day };
    if (stepSeconds >= 60) return { position, label: clock.slice(0, "hh:mm".length) };
    const time = clock.slice(0, "hh:mm:ss".length);
    if (stepSeconds >= 1) return { position, label: time };
    return { position, label: `${time}.${fractionOf(position, stepSeconds, perSecond)}` };
  });
}

/** Returns the digits of a time after its second, as many as multiples of `stepSeconds` need. */
function fractionOf(time: bigint, stepSeconds: number, perSecond: number): string {
  // Splits the integer, as a float has too few digits for nanoseconds since 1970.
  const units = BigInt(perSecond);
  const fraction = ((time % units) + units) % units;
  const maxDigits = String(perSecond).length - 1;
  // The tolerance is for rounding errors of the logarithm.
  const digits = Math.max(1, -Math.floor(Math.log10(stepSeconds) + 1e-9));
  return String(fraction).padStart(maxDigits, "0").slice(0, digits);
}

/** Draws an axis at the bottom, and its marks over the whole height. Labels that would overlap are left out. */
export function drawAxis({ context, width, height }: Drawing, marks: Mark[], { from, to }: AxisRange) {
  context.strokeStyle = colour("line");
  context.fillStyle = colour("soft");
  context.beginPath();
  let labelEnd = -Infinity;
  for (const { position, label } of marks) {
    const x = (Number(position - from) / Math.max(1, Number(to - from))) * width;
    context.moveTo(x + 0.5, 0);
    context.lineTo(x + 0.5, height);
    const labelWidth = context.measureText(label).width;
    const left = Math.min(x + 4, width - labelWidth - 4);
    if (left < labelEnd + 8) continue;
    context.fillText(label, left, height - 6);
    labelEnd = left + labelWidth;
  }
  context.stroke();
}
