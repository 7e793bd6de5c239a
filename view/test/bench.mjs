// Measures the page: MINUTES=10 node test/bench.mjs
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { CHROMIUM, growTable, makeSamples, SAMPLES, View } from "./browser.mjs";

const MINUTES = Number(process.env.MINUTES ?? 1);
const LARGE = 5_600_000;
const BINNED = 100_000_000;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const printFigure = (name, figure) => console.log(`${name.padEnd(72)} ${figure}`);
const ms = (x) => `${x.toFixed(x < 10 ? 1 : 0)} ms`;

const folder = makeSamples();
const large = join(folder, "large.arrow");
const sparse = join(folder, "sparse.arrows");
execFileSync(SAMPLES, ["walk", large, String(LARGE)]);
const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--enable-precise-memory-info"],
});

async function waitForCells(page) {
  await page.waitForFunction(() => document.querySelector(".row:not([hidden]) .cell:not(.coming)")?.textContent);
}

async function openView(path) {
  const view = await View.open(path);
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(view.url);
  await waitForCells(page);
  return { view, page, close: async () => (await page.close(), view.close()) };
}

/** Returns the milliseconds of a request that the page makes. */
const timeRequest = (page, route) =>
  page.evaluate(async (route) => {
    const { tables } = await (await fetch("/v1/tables")).json();
    const start = performance.now();
    await (await fetch(`/v1/tables/${tables[0].name}/${route}`)).json();
    return performance.now() - start;
  }, route);

const privateMebibytes = (pid) =>
  Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;

/** Returns the milliseconds until an empty page is painted, which is the time that the browser itself takes. */
async function timeEmptyPage() {
  const server = createServer((_, answer) =>
    answer.setHeader("content-type", "text/html").end('<!doctype html><p class="row"><span class="cell">x</span>'),
  );
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const times = [];
  for (let run = 0; run < 7; run++) {
    const page = await browser.newPage();
    const start = performance.now();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await waitForCells(page);
    times.push(performance.now() - start);
    await page.close();
  }
  server.close();
  return median(times);
}

printFigure("a page of nothing, painted", ms(await timeEmptyPage()));
for (const [name, path] of [
  ["180 MB, 5.6 M rows", large],
  ["100 GB, 3·10⁹ rows, sparse", sparse],
]) {
  const times = [];
  for (let run = 0; run < 7; run++) {
    const page = await browser.newPage();
    const start = performance.now();
    const view = await View.open(path);
    await page.goto(view.url);
    await waitForCells(page);
    times.push(performance.now() - start);
    await page.close();
    view.close();
  }
  printFigure(`arrowwood view to first rows painted, ${name}`, ms(median(times)));
}

{
  const { page, close, view } = await openView(sparse);
  const jumps = await page.evaluate(async () => {
    const input = document.querySelector(".goto");
    const times = [];
    for (let jump = 0; jump < 40; jump++) {
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
  });
  printFigure(
    "jump anywhere in 3·10⁹ rows, painted: median, worst of 40",
    `${ms(median(jumps))}, ${ms(Math.max(...jumps))}`,
  );

  const scroll = (seconds) =>
    page.evaluate(async (seconds) => {
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
  const frames = (await scroll(Math.min(20, 60 * MINUTES))).slice(5);
  const late = frames.filter((frame) => frame > 25).length / frames.length;
  printFigure(
    "scrolling for 20 s: frames a second, share of frames over 25 ms",
    `${(1000 / (frames.reduce((a, b) => a + b, 0) / frames.length)).toFixed(1)}, ${(100 * late).toFixed(1)} %`,
  );
  for (let minute = 0; minute < MINUTES * 2; minute++) await scroll(30);
  const heap = await page.evaluate(() => {
    globalThis.gc?.();
    return performance.memory.usedJSHeapSize / 2 ** 20;
  });
  printFigure(
    `memory after ${MINUTES} min of scrolling: page (JavaScript), server (private)`,
    `${heap.toFixed(1)} MiB, ${privateMebibytes(view.pid).toFixed(1)} MiB`,
  );

  const bins = [];
  for (let run = 0; run < 5; run++) bins.push(await timeRequest(page, `bins?at=1&from=0&to=${BINNED}&count=1200`));
  const sum = Number(execFileSync(SAMPLES, ["sum", sparse, "b", String(BINNED)], { encoding: "utf8" }));
  printFigure(
    "bins of 10⁸ float64: best of 5, beside sum",
    `${ms(Math.min(...bins))}, ${ms(sum)} (${(Math.min(...bins) / sum).toFixed(2)} ×)`,
  );
  printFigure(
    "  the same from a sample",
    ms(await timeRequest(page, `bins?at=1&from=0&to=${BINNED}&count=1200&sample=true`)),
  );
  await close();
}

{
  const { page, close, view } = await openView(large);
  for (const [name, sample] of [
    ["first estimate", "&sample=true"],
    ["exact", ""],
  ]) {
    const times = [];
    for (let run = 0; run < 5; run++) times.push(await timeRequest(page, `statistics?at=0,1,2,3,4${sample}`));
    printFigure(
      `column statistics of 5.6 M rows, all 5 columns in one request, ${name}: median of 5`,
      ms(median(times)),
    );
  }
  for (const [name, sample] of [
    ["a sample", "&sample=true"],
    ["exact", ""],
  ]) {
    const times = [];
    for (let run = 0; run < 5; run++) times.push(await timeRequest(page, `bins?at=3&over=1&count=1200${sample}`));
    printFigure(`bins of 5.6 M rows over time, in no known order, ${name}: best of 5`, ms(Math.min(...times)));
  }
  const start = performance.now();
  await page.fill(".filter", "volume > 990 and price > 50");
  await page.press(".filter", "Enter");
  await page.waitForFunction(() => / of 5,600,000/.test(document.querySelector(".status").textContent));
  printFigure("filter of 5.6 M rows by two conditions, painted", ms(performance.now() - start));
  printFigure("  server, private", `${privateMebibytes(view.pid).toFixed(1)} MiB`);
  await close();
}

{
  const rate = 1_000_000;
  const alone = await growTable(join(folder, "alone"), rate, 10);
  const table = join(folder, "live");
  const growing = growTable(table, rate, 10);
  while (!existsSync(join(table, "00000000000000000000.arrow"))) await pause(20);
  const { page, close } = await openView(table);
  await page.locator(".follow").click();
  const frames = await page.evaluate(async () => {
    const frames = [];
    const start = performance.now();
    let last = start;
    while (performance.now() - start < 6000) {
      await new Promise(requestAnimationFrame);
      frames.push(performance.now() - last);
      last = performance.now();
    }
    return frames;
  });
  const watched = await growing;
  const late = frames.filter((frame) => frame > 25).length / frames.length;
  printFigure(
    "live table at 1 M rows/s: frames over 25 ms; writer beside itself alone",
    `${(100 * late).toFixed(1)} %, ${(watched / alone).toFixed(3)} ×`,
  );
  await close();
}

await browser.close();
rmSync(folder, { recursive: true });
