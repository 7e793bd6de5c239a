// Statistics of samples of columns, for the pictures in their heads.

import { type Bins, fetchJson, type Statistics } from "../data/api.js";
import { isPlottable } from "../data/types.js";
import { drawLine } from "../elements/chart.js";
import { colour, startDrawing } from "../elements/dom.js";

/** The number of bins of a line in a head. */
const HEAD_BINS = 100;
/** The maximum number of columns in one request. */
const MAX_COLUMNS = 16;
/** The number of bars of a full picture: fewer of them leave room on the right. */
const MIN_BARS = 8;

/** Statistics of a sample of a column, and bins over its rows if it can be plotted. */
export interface Sample {
  statistics: Statistics;
  bins?: Bins;
}

/** A head that waits for its column's sample. */
interface SampleRequest {
  column: number;
  isVisible(): boolean;
  /** Called with the statistics, and again when the bins have arrived. */
  show(sample: Sample): void;
}

const samples = new Map<number, Sample>();
let queue: SampleRequest[] = [];
let isFetching = false;

/** Returns the statistics of a column's sample, if they were fetched. */
export function sampledStatistics(column: number): Statistics | undefined {
  return samples.get(column)?.statistics;
}

/** Forgets all samples, as the rows have changed. */
export function clearSamples() {
  samples.clear();
}

function isComplete({ statistics, bins }: Sample): boolean {
  return bins !== undefined || !isPlottable(statistics.type);
}

/** Shows a sample of a column's rows in its head, unless the head has left the screen by then. */
export function requestSample(request: SampleRequest) {
  const sample = samples.get(request.column);
  if (sample) {
    request.show(sample);
    if (isComplete(sample)) return;
  }
  queue.push(request);
  if (!isFetching) void fetchQueue();
}

async function fetchQueue() {
  isFetching = true;
  // Collects all heads that become visible together, after the rows are painted.
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  for (;;) {
    queue = queue.filter(({ isVisible }) => isVisible());
    const requests = queue.splice(0, MAX_COLUMNS);
    if (!requests.length) break;
    try {
      await fetchSamples(requests);
    } catch {
      // The panel shows the error of a damaged column.
    }
  }
  isFetching = false;
}

/** Fetches the statistics of all columns together, then one line after the other, so that requests for rows don't wait. */
async function fetchSamples(requests: SampleRequest[]) {
  const columns = [...new Set(requests.map(({ column }) => column))];
  for (const [column, statistics] of await fetchStatistics(columns.filter((column) => !samples.has(column)))) {
    samples.set(column, { statistics });
  }
  for (const { column, isVisible, show } of requests) {
    const sample = samples.get(column);
    if (sample && isVisible()) show(sample);
  }
  for (const { column, isVisible, show } of requests) {
    const sample = samples.get(column);
    if (!sample || isComplete(sample) || !isVisible()) continue;
    const parameters = { at: column, count: HEAD_BINS, sample: true };
    sample.bins = await fetchJson<Bins>("bins", parameters).catch(() => undefined);
    if (sample.bins && isVisible()) show(sample);
  }
}

/** Returns statistics of samples of columns; if some columns are damaged, of the others. */
async function fetchStatistics(columns: number[]): Promise<[column: number, statistics: Statistics][]> {
  if (!columns.length) return [];
  try {
    // The comma at the end asks for a list, even for a single column.
    const parameters = { at: `${columns.join(",")},`, sample: true };
    const response = await fetchJson<{ columns: Statistics[] }>("statistics", parameters);
    return response.columns.map((statistics, i) => [columns[i], statistics]);
  } catch (e) {
    if (columns.length === 1) throw e;
    const results = await Promise.allSettled(columns.map((column) => fetchStatistics([column])));
    return results.flatMap((result) => (result.status === "fulfilled" ? result.value : []));
  }
}

/** Draws the line of a column over its rows. */
export function drawSparkline(canvas: HTMLCanvasElement, { bins }: Bins) {
  const { context, width, height } = startDrawing(canvas);
  drawLine(context, bins, { width, top: 1.5, bottom: height - 1.5 });
}

/** Draws the histogram of a column, or its most frequent values. */
export function drawBars(canvas: HTMLCanvasElement, { histogram, top }: Statistics) {
  const counts = histogram?.counts ?? top?.values.map(([, rows]) => rows) ?? [];
  const { context, width, height } = startDrawing(canvas);
  const maxCount = Math.max(1, ...counts);
  const barWidth = width / Math.max(counts.length, MIN_BARS);
  const gap = barWidth > 2.5 ? 1 : 0;
  context.fillStyle = colour("accent");
  counts.forEach((count, i) => {
    const barHeight = count ? Math.max(1, (count / maxCount) * height) : 0;
    const left = Math.round(i * barWidth);
    const right = Math.round((i + 1) * barWidth);
    context.fillRect(left, height - barHeight, Math.max(1, right - left - gap), barHeight);
  });
}
