// Benchmarks the page: MINUTES=10 node test/bench.mjs
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { CHROMIUM, growTable, makeSamples, SAMPLES, ViewServer } from "./browser.mjs";

const MINUTES = Number(process.env.MINUTES ?? 1);
const LARGE_ROWS = 5_600_000;
const BINNED_ROWS = 100_000_000;
const PAGE_LOADS = 7;
const REQUESTS = 5;
/** A frame that took longer was missed at 60 frames a second. */
const LATE_FRAME_MS = 25;

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

function mean(numbers) {
  return numbers.reduce((a, b) => a + b, 0) / numbers.length;
}

function lateShare(frames) {
  return frames.filter((frame) => frame > LATE_FRAME_MS).length / frames.length;
}

function formatMs(ms) {
  return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
}

function formatPercent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function report(what, figure) {
  console.log(`${what.padEnd(72)} ${figure}`);
}

async function waitForRows(page) {
  await page.waitForFunction(() => document.querySelector(".row:not([hidden]) .cell:not(.coming)")?.textContent);
}

async function openPage(path) {
  const server = await ViewServer.start(path);
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(server.url);
  await waitForRows(page);
  return { server, page };
}

async function closePage({ server, page }) {
  await page.close();
  server.close();
}

/** Returns the milliseconds of a request of the page, from its own side. */
function timeRequest(page, route) {
  return page.evaluate(async (route) => {
    const { tables } = await (await fetch("/v1/tables")).json();
    const start = performance.now();
    await (await fetch(`/v1/tables/${tables[0].name}/${route}`)).json();
    return performance.now() - start;
  }, route);
}

async function timeRequests(page, route) {
  const times = [];
  for (let run = 0; run < REQUESTS; run++) times.push(await timeRequest(page, route));
  return times;
}

/** Returns the private memory of a process, in MiB. */
function privateMemory(pid) {
  return Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
}

/** Returns the milliseconds until an empty page is painted, which the browser itself takes. */
async function timeEmptyPage() {
  const html = '<!doctype html><p class="row"><span class="cell">x</span>';
  const server = createServer((_, response) => response.setHeader("content-type", "text/html").end(html));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const times = [];
  for (let run = 0; run < PAGE_LOADS; run++) {
    const page = await browser.newPage();
    const start = performance.now();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await waitForRows(page);
    times.push(performance.now() - start);
    await page.close();
  }
  server.close();
  return median(times);
}

/** Returns the milliseconds from the start of a server until its first rows are painted. */
async function timeFirstRows(path) {
  const times = [];
  for (let run = 0; run < PAGE_LOADS; run++) {
    const page = await browser.newPage();
    const start = performance.now();
    const server = await ViewServer.start(path);
    await page.goto(server.url);
    await waitForRows(page);
    times.push(performance.now() - start);
    await closePage({ server, page });
  }
  return median(times);
}

/** Jumps to random rows; returns the milliseconds until each is painted. */
function timeJumps(page, count) {
  return page.evaluate(async (count) => {
    const input = document.querySelector(".goto");
    const times = [];
    for (let jump = 0; jump < count; jump++) {
      const row = Math.floor(Math.random() * 2.9e9);
      const start = performance.now();
      input.value = String(row);
      input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
      for (;;) {
        await new Promise(requestAnimationFrame);
        const cell = document.getElementById(`cell-${row}-0`);
        if (cell && !cell.classList.contains("coming")) break;
      }
      times.push(performance.now() - start);
    }
    return times;
  }, count);
}

/** Scrolls with the wheel for some seconds; returns the milliseconds of each frame. */
function timeScrolling(page, seconds) {
  return page.evaluate(async (seconds) => {
    const grid = document.getElementById("grid");
    const frames = [];
    const start = performance.now();
    let last = start;
    while (performance.now() - start < seconds * 1000) {
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      frames.push(now - last);
      last = now;
      grid.dispatchEvent(new WheelEvent("wheel", { deltaY: 130, cancelable: true }));
    }
    return frames;
  }, seconds);
}

/** Returns the milliseconds of each frame for some seconds. */
function timeFrames(page, seconds) {
  return page.evaluate(async (seconds) => {
    const frames = [];
    const start = performance.now();
    let last = start;
    while (performance.now() - start < seconds * 1000) {
      await new Promise(requestAnimationFrame);
      frames.push(performance.now() - last);
      last = performance.now();
    }
    return frames;
  }, seconds);
}

async function benchmarkOpening(largeFile, sparseFile) {
  report("a page of nothing, painted", formatMs(await timeEmptyPage()));
  for (const [name, path] of [
    ["180 MB, 5.6 M rows", largeFile],
    ["100 GB, 3·10⁹ rows, sparse", sparseFile],
  ]) {
    report(`arrowwood view to first rows painted, ${name}`, formatMs(await timeFirstRows(path)));
  }
}

async function benchmarkSparseFile(sparseFile) {
  const { page, server } = await openPage(sparseFile);
  const jumps = await timeJumps(page, 40);
  report(
    "jump anywhere in 3·10⁹ rows, painted: median, worst of 40",
    `${formatMs(median(jumps))}, ${formatMs(Math.max(...jumps))}`,
  );

  // Leaves out the first frames, in which the jumps end.
  const frames = (await timeScrolling(page, Math.min(20, 60 * MINUTES))).slice(5);
  report(
    "scrolling for 20 s: frames a second, share of frames over 25 ms",
    `${(1000 / mean(frames)).toFixed(1)}, ${formatPercent(lateShare(frames))}`,
  );

  for (let halfMinute = 0; halfMinute < MINUTES * 2; halfMinute++) await timeScrolling(page, 30);
  const heap = await page.evaluate(() => {
    globalThis.gc?.();
    return performance.memory.usedJSHeapSize / 2 ** 20;
  });
  report(
    `memory after ${MINUTES} min of scrolling: page (JavaScript), server (private)`,
    `${heap.toFixed(1)} MiB, ${privateMemory(server.pid).toFixed(1)} MiB`,
  );

  const route = `bins?at=1&from=0&to=${BINNED_ROWS}&count=1200`;
  const bins = Math.min(...(await timeRequests(page, route)));
  const sum = Number(execFileSync(SAMPLES, ["sum", sparseFile, "b", String(BINNED_ROWS)], { encoding: "utf8" }));
  report(
    "bins of 10⁸ float64: best of 5, beside sum",
    `${formatMs(bins)}, ${formatMs(sum)} (${(bins / sum).toFixed(2)} ×)`,
  );
  report("  the same from a sample", formatMs(await timeRequest(page, `${route}&sample=true`)));
  await closePage({ server, page });
}

async function benchmarkLargeFile(largeFile) {
  const { page, server } = await openPage(largeFile);
  for (const [name, sample] of [
    ["first estimate", "&sample=true"],
    ["exact", ""],
  ]) {
    const times = await timeRequests(page, `statistics?at=0,1,2,3,4${sample}`);
    const what = `column statistics of 5.6 M rows, all 5 columns in one request, ${name}: median of 5`;
    report(what, formatMs(median(times)));
  }
  for (const [name, sample] of [
    ["a sample", "&sample=true"],
    ["exact", ""],
  ]) {
    const times = await timeRequests(page, `bins?at=3&over=1&count=1200${sample}`);
    const what = `bins of 5.6 M rows over time, in no known order, ${name}: best of 5`;
    report(what, formatMs(Math.min(...times)));
  }
  const start = performance.now();
  await page.fill(".filter", "volume > 990 and price > 50");
  await page.press(".filter", "Enter");
  await page.waitForFunction(() => / of 5,600,000/.test(document.querySelector(".status").textContent));
  report("filter of 5.6 M rows by two conditions, painted", formatMs(performance.now() - start));
  report("  server, private", `${privateMemory(server.pid).toFixed(1)} MiB`);
  await closePage({ server, page });
}

async function benchmarkLiveTable(folder) {
  const rowsPerSecond = 1_000_000;
  const rowsAlone = await growTable(join(folder, "alone"), rowsPerSecond, 10);
  const table = join(folder, "live");
  const growing = growTable(table, rowsPerSecond, 10);
  while (!existsSync(join(table, "00000000000000000000.arrow"))) await sleep(20);
  const { page, server } = await openPage(table);
  await page.locator(".follow").click();
  const frames = await timeFrames(page, 6);
  const rowsWatched = await growing;
  report(
    "live table at 1 M rows/s: frames over 25 ms; writer beside itself alone",
    `${formatPercent(lateShare(frames))}, ${(rowsWatched / rowsAlone).toFixed(3)} ×`,
  );
  await closePage({ server, page });
}

const folder = makeSamples();
const largeFile = join(folder, "large.arrow");
const sparseFile = join(folder, "sparse.arrows");
execFileSync(SAMPLES, ["walk", largeFile, String(LARGE_ROWS)]);
const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--enable-precise-memory-info"],
});
await benchmarkOpening(largeFile, sparseFile);
await benchmarkSparseFile(sparseFile);
await benchmarkLargeFile(largeFile);
await benchmarkLiveTable(folder);
await browser.close();
rmSync(folder, { recursive: true });
