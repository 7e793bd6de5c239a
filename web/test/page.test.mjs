// Tests of the page in a browser, with real files and a real server.
import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  ARROWWOOD_WITH_SQL,
  cellAt,
  launchBrowser,
  makeSamples,
  newPage,
  parseCount,
  SCREENSHOTS,
  servesCurrentPage,
  startGrowing,
  statusText,
  ViewServer,
  waitUntil,
  withPage,
} from "./browser.mjs";

let folder;
let browser;
before(async () => {
  folder = makeSamples();
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

/** Returns the path of a sample; other paths are absolute. */
function samplePath(path) {
  return path.startsWith("/") ? path : join(folder, path);
}

/** Runs a test with the page of a sample. */
function withSample(path, test, options) {
  return withPage(browser, samplePath(path), test, options);
}

function takeScreenshot(page, name) {
  return page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}

function cellText(page, row, column) {
  return cellAt(page, row, column).textContent();
}

async function waitForStatus(page, pattern) {
  await waitUntil(`status ${pattern}`, async () => pattern.test(await statusText(page)));
}

async function waitForUrl(page, pattern) {
  await waitUntil(`URL ${pattern}`, () => pattern.test(page.url()));
}

async function filterRows(page, condition) {
  await page.fill(".filter", condition);
  await page.press(".filter", "Enter");
}

/** Enters a row or time to go to. */
async function goTo(page, text) {
  await page.fill(".goto", text);
  await page.press(".goto", "Enter");
}

async function openColumnPanel(page, name) {
  await page.locator(".column", { hasText: name }).click();
}

/** Loads a URL again, and not only its part after the #. */
async function reopen(page, url) {
  await page.goto("about:blank");
  await page.goto(url);
}

function plotTitle(page) {
  return page.locator(".plotting .basis").textContent();
}

function plotDescription(page) {
  return page.locator("canvas.plot").getAttribute("aria-label");
}

/** Selects the second quarter of a plot with the mouse. */
async function zoomToSecondQuarter(page) {
  const box = await page.locator("canvas.plot").boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
  await page.mouse.up();
}

/** Zooms a plot by key, and waits for its exact bins. */
async function zoomByKey(page) {
  const before = await plotTitle(page);
  await page.keyboard.press("+");
  await waitUntil("the exact plot of another range", async () => {
    const title = await plotTitle(page);
    return title !== before && !/sample/.test(title);
  });
}

/** Returns the address of the active cell, such as `cell-3-0`. */
function activeCell(page) {
  return page.locator("#grid").getAttribute("aria-activedescendant");
}

/** Returns the error of groups or SQL; empty if there is none. */
function groupingError(page) {
  return page
    .locator(".grouping .error")
    .textContent()
    .catch(() => "");
}

test("the grid scrolls through three billion rows by keys, wheel, bar and number", () =>
  withSample("sparse.arrows", async (page) => {
    assert.match(await statusText(page), /^3,000,000,000 rows · 5 columns/);
    await page.keyboard.press("Control+End");
    await cellAt(page, 2_999_999_999, 0).waitFor();
    assert.deepEqual([await cellText(page, 2_999_999_999, 0), await cellText(page, 2_999_999_999, 1)], ["7", "0.5"]);
    await takeScreenshot(page, "last-row");
    // One notch of the wheel moves three rows, as exactly as at the start.
    await page.mouse.move(400, 300);
    await page.mouse.wheel(0, -72);
    await waitUntil(
      "the last row has left the screen",
      async () => !(await cellAt(page, 2_999_999_999, 0).isVisible()),
    );
    assert.equal(await page.locator("#cell-2999999996-0").count(), 1);
    // A click on the middle of the scroll bar.
    const bar = await page.locator(".bar.vertical").boundingBox();
    await page.mouse.click(bar.x + 6, bar.y + bar.height / 2);
    const middle = async () => parseCount(await page.locator(".row:not([hidden]) .number").first().textContent());
    await waitUntil("the grid shows the middle", async () => Math.abs((await middle()) - 1.5e9) < 1e8);
    await goTo(page, "1,234,567,890");
    await cellAt(page, 1_234_567_890, 0).waitFor();
    await page.keyboard.press("PageDown");
    await page.keyboard.press("Control+Home");
    await cellAt(page, 0, 0).waitFor();
    assert.equal(await page.locator("#grid").getAttribute("aria-rowcount"), "3000000001");
  }));

test("values are never markup, and values of all types are shown exactly", () =>
  withSample("hostile.arrow", async (page) => {
    const texts = [];
    for (let row = 0; row < 5; row++) {
      await cellAt(page, row, 0).waitFor();
      texts.push(await cellText(page, row, 0));
    }
    assert.deepEqual(texts.slice(0, 4), [
      '<img src=x onerror="window.hacked=1">',
      "</td><script>window.hacked=1</script>",
      "null",
      "null",
    ]);
    // The text "null" is shown differently from a null.
    assert.match(await cellAt(page, 3, 0).getAttribute("class"), /null/);
    assert.doesNotMatch(await cellAt(page, 2, 0).getAttribute("class"), /null/);
    assert.equal(await cellText(page, 0, 1), "NaN");
    assert.equal(await cellText(page, 0, 2), "9223372036854775807");
    assert.equal(await cellText(page, 3, 2), "9007199254740993");
    assert.equal(await cellText(page, 0, 3), "-123.45");
    await page.locator("#grid").focus();
    await page.keyboard.press("End");
    await cellAt(page, 1, 12).waitFor();
    const otherTexts = [];
    for (const column of [7, 9, 10, 11, 12]) otherTexts.push(await cellText(page, 2, column));
    assert.deepEqual(otherTexts, ["0x616263", "false", "[0, 1]", "{k2: 2}", "{x: 3}"]);
    // Images are shown, but not bytes that only look like an image or are markup.
    const image = page.locator(".panel img.picture");
    await cellAt(page, 0, 8).click();
    await waitUntil(
      "an image of one pixel is shown",
      async () => (await image.count()) === 1 && (await image.evaluate(({ naturalWidth }) => naturalWidth)) === 1,
    );
    for (const row of [1, 3, 4]) {
      await cellAt(page, row, 8).click();
      await page.locator(".panel .type", { hasText: `row ${row}` }).waitFor();
      assert.equal(await image.count(), 0);
    }
    await cellAt(page, 2, 8).click();
    await waitUntil(
      "an invalid image",
      async () =>
        (await image.count()) === 1 &&
        (await image.evaluate(({ complete, naturalWidth }) => complete && !naturalWidth)),
    );
    // The column with the hostile name, and one of its cells.
    await page.keyboard.press("Home");
    await page.getByRole("columnheader", { name: "<img" }).click();
    await page.locator(".panel .top").waitFor();
    await takeScreenshot(page, "hostile");
    await cellAt(page, 0, 0).click();
    await page.locator(".panel pre").waitFor();
    assert.equal(await page.locator(".panel pre").textContent(), '<img src=x onerror="window.hacked=1">');
    await page.locator(".panel button", { hasText: "Only these rows" }).click();
    await waitForStatus(page, /^1 row of 5/);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("img, iframe, body script").count(), 0);
    // Plots over the first and last representable times, and over times with a zone. NaN has no point.
    await page.locator("#grid").focus();
    await page.keyboard.press("2");
    for (const [over, expectedTitle] of [
      ["time", /^1969-12-31 23:59:59.999999999Z to 2262-04-11 23:47:16.854775807Z · 4 rows$/],
      ["date", /^1969-12-31 to 2024-10-04 · 4 rows$/],
    ]) {
      await page.getByLabel("Over", { exact: true }).selectOption({ label: over });
      for (const column of ["float", "large", "decimal", "time", "date"]) {
        await page.getByLabel("Column to plot").selectOption({ label: column });
        await waitUntil(
          `plot of ${column} over ${over}`,
          async () =>
            expectedTitle.test(await plotTitle(page)) &&
            (await plotDescription(page)).startsWith(`${column} over ${over} from `),
        );
      }
      await takeScreenshot(page, `hostile-${over}`);
    }
  }));

test("rows are filtered by typing, and sorted by the column's panel", () =>
  withSample("walk.arrow", async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type('volume > 990 and symbol == "IBM"');
    await page.keyboard.press("Enter");
    await waitForStatus(page, /^\d[\d,]* rows of 200,000/);
    const rowCount = parseCount(await statusText(page));
    assert.ok(rowCount > 100 && rowCount < 2_000, String(rowCount));
    await cellAt(page, 0, 4).waitFor();
    assert.equal(await cellText(page, 0, 2), "IBM");
    await openColumnPanel(page, "price");
    await page.locator(".panel button", { hasText: "Sort ↓" }).click();
    await waitForUrl(page, /sort=price/);
    await cellAt(page, 1, 3).waitFor();
    assert.ok(Number(await cellText(page, 0, 3)) >= Number(await cellText(page, 1, 3)));
    assert.equal(parseCount(await statusText(page)), rowCount);
    // The URL restores the filter and the order.
    const url = page.url();
    const firstValue = await cellText(page, 0, 0);
    await reopen(page, url);
    await waitUntil("the same rows", async () => parseCount((await statusText(page)) || "0") === rowCount);
    await cellAt(page, 0, 0).waitFor();
    assert.equal(await cellText(page, 0, 0), firstValue);
    // An invalid filter is reported with the library's message, and keeps the sort order.
    await filterRows(page, "prise > 3");
    await page.locator(".message:not([hidden])").waitFor();
    assert.match(await page.locator(".message").textContent(), /prise/);
    await filterRows(page, "");
    await waitForStatus(page, /^200,000 rows of 200,000/);
    await openColumnPanel(page, "price");
    await page.locator(".panel button", { hasText: "Unsorted" }).click();
    await waitForStatus(page, /^200,000 rows ·/);
  }));

test("the panel of a column shows statistics, and leads to its plot", () =>
  withSample("walk.arrow", async (page) => {
    await openColumnPanel(page, "symbol");
    await page.locator(".panel .basis", { hasText: "of all rows" }).waitFor();
    assert.equal(await page.locator(".panel .top tr").count(), 4);
    assert.equal(await page.locator(".panel dd").first().textContent(), "200,000");
    await page.locator(".panel .top button", { hasText: "NVDA" }).click();
    await waitForStatus(page, /rows of 200,000/);
    await openColumnPanel(page, "price");
    await page.locator(".panel .basis", { hasText: "of all rows" }).waitFor();
    await takeScreenshot(page, "glance");
    await page.locator(".panel button", { hasText: "Plot" }).click();
    await page.locator(".plotting .basis", { hasText: "rows 0 to 200,000" }).waitFor();
    await waitUntil("the exact plot", async () => !/sample/.test(await plotTitle(page)));
    assert.match(await plotDescription(page), /price over 200,000 rows, from .* to /);
    await takeScreenshot(page, "plot");
    // The readout shows the values at the pointer.
    const plot = await page.locator("canvas.plot").boundingBox();
    await page.mouse.move(plot.x + plot.width / 2, plot.y + 60);
    await waitUntil("the readout", async () =>
      /^rows (99,\d{3}|100,\d{3}) to 100,\d{3}: [\d.]+ to [\d.]+$/.test(await page.locator(".readout").textContent()),
    );
    await zoomToSecondQuarter(page);
    await waitForUrl(page, /tab=plot.*from=(49|50)\d{3}&to=(99|100)\d{3}/);
  }));

/** Returns the painted columns of pixels of a canvas, with their highest and lowest pixel; all as shares of its size. */
function paintedColumns(canvas) {
  return canvas.evaluate((element) => {
    const { width, height } = element;
    const { data } = element.getContext("2d").getImageData(0, 0, width, height);
    const columns = [];
    for (let x = 0; x < width; x++) {
      const alpha = (y) => data[4 * (y * width + x) + 3];
      const rows = Array.from({ length: height }, (_, y) => y).filter((y) => alpha(y) > 100);
      if (rows.length) columns.push({ x: x / width, top: rows[0] / height, bottom: rows.at(-1) / height });
    }
    return columns;
  });
}

/** Waits until a canvas has a line; returns its painted columns. */
async function waitForLine(canvas) {
  const isDrawn = async () => (await canvas.isVisible()) && (await paintedColumns(canvas)).length > 30;
  await waitUntil("a line is drawn", isDrawn);
  return paintedColumns(canvas);
}

/** Returns the line in a column's head. */
function headLine(page, name) {
  return page.locator(".column", { hasText: name }).locator("canvas").nth(1);
}

/** Fetches the prices of the sample `walk.arrow`. */
async function fetchPrices(page) {
  const csv = await page.evaluate(async () => {
    const response = await fetch("/v1/tables/walk.arrow/rows?format=csv&columns=price");
    return response.text();
  });
  return csv.trim().split("\n").slice(1).map(Number);
}

/** Returns the place of a value among others, as a share of their number. */
function placeOf(value, values) {
  return values.indexOf(value) / values.length;
}

function maxOf(values) {
  return values.reduce((a, b) => Math.max(a, b));
}

function minOf(values) {
  return values.reduce((a, b) => Math.min(a, b));
}

test("a column's head and panel draw its values over its rows", () =>
  withSample("walk.arrow", async (page) => {
    // The column of row numbers rises from left to right.
    const rising = await waitForLine(headLine(page, "int64"));
    const ends = [rising[0], rising.at(-1)];
    assert.ok(ends[0].bottom > 0.8 && ends[1].top < 0.2, JSON.stringify(ends));
    for (let i = 1; i < rising.length; i++) assert.ok(rising[i].top <= rising[i - 1].top + 0.1);
    // The line is highest and lowest at the rows with these prices; the head's line is from a sample, the panel's exact.
    const prices = await fetchPrices(page);
    const highest = placeOf(maxOf(prices), prices);
    const lowest = placeOf(minOf(prices), prices);
    await openColumnPanel(page, "price");
    await page.locator(".panel .ends", { hasText: "200,000" }).waitFor();
    await waitUntil(
      "the exact line",
      async () => !(await page.locator(".panel .ends").last().textContent()).includes("sample"),
    );
    assert.equal(await page.locator(".panel canvas.spark").getAttribute("aria-label"), "price over 200,000 rows");
    for (const canvas of [headLine(page, "price"), page.locator(".panel canvas.spark")]) {
      const columns = await waitForLine(canvas);
      const top = columns.reduce((a, b) => (a.top <= b.top ? a : b));
      const bottom = columns.reduce((a, b) => (a.bottom >= b.bottom ? a : b));
      assert.ok(Math.abs(top.x - highest) < 0.03, `the highest is at ${highest}`);
      assert.ok(Math.abs(bottom.x - lowest) < 0.03, `the lowest is at ${lowest}`);
    }
    // Columns of text have no line.
    assert.equal(await headLine(page, "symbol").isVisible(), false);
    await openColumnPanel(page, "volume");
    await page.locator(".panel .basis", { hasText: "of all rows" }).waitFor();
    assert.match(await page.locator(".panel dl").textContent(), /distinct1,000$/);
    await takeScreenshot(page, "line");
  }));

test("a plot over time zooms to single rows, and its URL restores it", () =>
  withSample("sorted", async (page) => {
    await page.locator("#grid").focus();
    await page.keyboard.press("2");
    // Rows that are sorted by time are plotted over it by default.
    assert.equal(await page.getByLabel("Over", { exact: true }).inputValue(), "1");
    await waitUntil(
      "all times",
      async () => (await plotTitle(page)) === "2023-11-14 22:13:20 to 2023-11-15 12:06:39.750000 · 200,000 rows",
    );
    await takeScreenshot(page, "time");
    await zoomToSecondQuarter(page);
    const plottedRows = async () => parseCount(/· ([\d,]+) rows?/.exec(await plotTitle(page))?.[1] ?? "0");
    await waitUntil("a quarter of the rows", async () => Math.abs((await plottedRows()) - 50_000) < 500);
    await waitForUrl(page, /tab=plot&plot=\d+&over=1&from=170001[23]\d{9}&to=170002[45]\d{9}/);
    const url = page.url();
    const title = await plotTitle(page);
    await reopen(page, url);
    await waitUntil("the same range", async () => (await plotTitle(page)) === title);
    assert.match(
      await plotDescription(page),
      /^n over time from 2023-11-15 01:41:\S+ to 2023-11-15 05:\S+, from \d+ to \d+$/,
    );
    // Zooms until single rows are points.
    await page.locator("canvas.plot").focus();
    for (let i = 0; i < 30 && (await plottedRows()) > 5; i++) {
      await zoomByKey(page);
    }
    const rowCount = await plottedRows();
    assert.ok(rowCount >= 2 && rowCount <= 5, String(rowCount));
    await takeScreenshot(page, "points");
    // Enter goes to the first plotted row.
    const startTime = /^\S+ (\S+) to/.exec(await plotTitle(page))[1];
    await page.keyboard.press("Enter");
    await page.locator(".cell.active").waitFor();
    const row = Number((await activeCell(page)).split("-")[1]);
    await cellAt(page, row - 1, 1).waitFor();
    const timeOf = async (row) => (await cellText(page, row, 1)).slice("yyyy-mm-dd ".length);
    assert.ok((await timeOf(row)) >= startTime && (await timeOf(row - 1)) < startTime);
    await page.keyboard.press("2");
    await page.getByLabel("Over", { exact: true }).selectOption({ label: "rows" });
    await waitUntil("a plot over rows", async () => (await plotTitle(page)) === "rows 0 to 200,000");
    await page.getByLabel("Over", { exact: true }).selectOption({ label: "time" });
    await waitUntil("all times again", async () => (await plottedRows()) === 200_000);
  }));

test("a range of an unsorted time column becomes a filter", () =>
  withSample("walk.arrow", async (page) => {
    await page.locator("#grid").focus();
    await page.keyboard.press("2");
    await page.getByLabel("Column to plot").selectOption({ label: "price" });
    await waitUntil("a plot over rows", async () => (await plotTitle(page)) === "rows 0 to 200,000");
    await page.getByLabel("Over", { exact: true }).selectOption({ label: "time" });
    await waitUntil("all times", async () => /· 200,000 rows$/.test(await plotTitle(page)));
    assert.match(
      await page.locator(".plotting .hint").textContent(),
      /not known to be sorted by time: each look reads all of them/,
    );
    // Times have equal distances, so that the highest price has the same place over time as over rows.
    const prices = await fetchPrices(page);
    const highest = placeOf(maxOf(prices), prices);
    const drawnAt = await page.locator("canvas.plot").evaluate((element) => {
      const { width, height } = element;
      const { data } = element.getContext("2d").getImageData(0, 0, width, height);
      // Only the line is green.
      const isGreen = (pixel) => data[pixel + 3] > 100 && data[pixel + 1] > data[pixel] + 40;
      // The text above the line has 16 pixels.
      for (let y = 16; y < height; y++) {
        for (let x = 0; x < width; x++) {
          if (isGreen(4 * (y * width + x))) return x / width;
        }
      }
    });
    assert.ok(Math.abs(drawnAt - highest) < 0.01, `the highest is at ${highest}, and was drawn at ${drawnAt}`);
    await page.locator("canvas.plot").focus();
    for (let i = 0; i < 4; i++) {
      await zoomByKey(page);
    }
    const rowCount = parseCount(/· ([\d,]+) rows?/.exec(await plotTitle(page))[1]);
    assert.ok(Math.abs(rowCount - 12_500) < 5, String(rowCount));
    await page.getByRole("button", { name: "Show the rows" }).press("Enter");
    await waitUntil("the rows of the plot", async () =>
      (await statusText(page)).startsWith(`${rowCount.toLocaleString("en-US")} rows of 200,000`),
    );
    assert.match(await page.locator(".filter").inputValue(), /^time >= '2023-11-15T.*' and time <= '2023-11-15T.*'$/);
    // The URL restores the filter and the plot.
    await page.locator("#grid").focus();
    await page.keyboard.press("2");
    await waitForUrl(page, /where=time.*tab=plot|tab=plot.*where=time/);
    const url = page.url();
    await reopen(page, url);
    await waitUntil("the plot again", async () =>
      new RegExp(`· ${rowCount.toLocaleString("en-US")} rows$`).test(await plotTitle(page)),
    );
    assert.equal(new URL(page.url()).hash, new URL(url).hash);
  }));

/** Downloads rows by a link in the element `container`; returns the file's name and bytes. */
async function download(page, container, format) {
  const link = page.locator(container).getByRole("link", { name: format, exact: true });
  const [file] = await Promise.all([page.waitForEvent("download"), link.press("Enter")]);
  return { name: file.suggestedFilename(), bytes: readFileSync(await file.path()) };
}

function linesOf({ bytes }) {
  return bytes.toString().trim().split("\n");
}

test("rows, filtered and sorted rows, and groups are downloaded", () =>
  withSample("walk.arrow", async (page) => {
    const allRows = await download(page, "footer", "csv");
    assert.equal(allRows.name, "walk.arrow.csv");
    const [, ...allLines] = linesOf(allRows);
    assert.equal(allLines.length, 200_000);
    await page.keyboard.press("/");
    await page.keyboard.type('volume > 990 and symbol == "IBM"');
    await page.keyboard.press("Enter");
    await waitForStatus(page, /^[\d,]+ rows of 200,000/);
    const expected = allLines.filter((line) => Number(line.split(",")[4]) > 990 && line.includes("IBM"));
    assert.deepEqual(linesOf(await download(page, "footer", "csv")).slice(1), expected);
    await openColumnPanel(page, "price");
    await page.locator(".panel button", { hasText: "Sort ↓" }).click();
    await waitForUrl(page, /sort=price/);
    const price = (line) => Number(line.split(",")[3]);
    const sorted = linesOf(await download(page, "footer", "csv")).slice(1);
    assert.deepEqual(
      sorted.map(price),
      expected.map(price).toSorted((a, b) => b - a),
    );
    assert.deepEqual(sorted.toSorted(), expected.toSorted());
    const rows = linesOf(await download(page, "footer", "jsonl")).map((line) => JSON.parse(line));
    assert.deepEqual([rows.length, rows[0].price], [sorted.length, price(sorted[0])]);
    // An Arrow stream begins with the continuation marker of a message, and ends with the end-of-stream marker.
    const { name, bytes } = await download(page, "footer", "arrow");
    assert.deepEqual(
      [name, bytes.readUInt32LE(0), bytes.readUInt32LE(bytes.length - 8), bytes.readUInt32LE(bytes.length - 4)],
      ["walk.arrow.arrows", 0xffffffff, 0xffffffff, 0],
    );
    // The binary can't write Parquet.
    assert.equal(await page.getByRole("link", { name: "parquet" }).count(), 0);
    // A download has all groups, of which the page shows only the first thousand.
    await page.keyboard.press("Escape");
    await filterRows(page, "");
    await waitForStatus(page, /^200,000 rows/);
    await page.goto(`${new URL(page.url()).origin}/#tab=group&by=0&of=sum%3A4&order=-0`);
    await waitUntil("groups", async () =>
      /^200,000 groups, the first 1,000/.test(await page.locator(".grouping .basis").textContent()),
    );
    assert.equal(await page.locator("footer .saves").isVisible(), false);
    const groups = await download(page, ".grouping", "csv");
    assert.equal(groups.name, "walk.arrow.groups.csv");
    const expectedGroups = allLines.map((line) => {
      const [n, , , , volume] = line.split(",");
      return `${n},1,${volume}`;
    });
    assert.deepEqual(linesOf(groups), ["n,rows,sum of volume", ...expectedGroups.toReversed()]);
    await takeScreenshot(page, "save");
  }));

test("groups are summed, sorted and opened by keys", () =>
  withSample("walk.arrow", async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type("volume >= 500");
    await page.keyboard.press("Enter");
    await waitForStatus(page, /^100,000 rows of 200,000/);
    await page.locator("#grid").focus();
    await page.keyboard.press("3");
    // By default, the filtered rows are grouped by the first column of text.
    const groupCount = () => page.locator(".groups tbody tr").count();
    await waitUntil("four groups", async () => (await groupCount()) === 4);
    const columnTexts = (number) => page.locator(`.groups tbody td:nth-child(${number})`).allTextContents();
    const columnNumbers = async (number) => (await columnTexts(number)).map(Number);
    assert.deepEqual((await columnTexts(1)).sort(), ["AAPL", "IBM", "MSFT", "NVDA"]);
    assert.equal(
      (await columnNumbers(2)).reduce((a, b) => a + b),
      100_000,
    );
    await page.getByLabel("Function", { exact: true }).selectOption("sum");
    await page.getByLabel("Column of the function").selectOption({ label: "volume" });
    await page.getByRole("button", { name: "Add" }).press("Enter");
    await waitUntil("a column of sums", async () => (await page.locator(".groups th").count()) === 3);
    // The volumes are 500 to 999, each of them 200 times.
    assert.equal(
      (await columnNumbers(3)).reduce((a, b) => a + b),
      (100 * 2 * ((500 + 999) * 500)) / 2,
    );
    await page.locator(".groups th button", { hasText: "sum of volume" }).press("Enter");
    await waitUntil(
      "sorted",
      async () => (await page.locator(".groups th").nth(2).getAttribute("aria-sort")) === "descending",
    );
    const sums = await columnNumbers(3);
    assert.deepEqual(
      sums,
      sums.toSorted((a, b) => b - a),
    );
    assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "sum of volume ↓");
    await takeScreenshot(page, "groups");
    assert.ok((await page.locator("body").ariaSnapshot()).includes('columnheader "sum of volume ↓"'));
    // The URL restores the groups and their order.
    await waitForUrl(page, /tab=group.*by=2&of=sum%3A4&order=-2/);
    const url = page.url();
    await reopen(page, url);
    await waitUntil("the same groups", async () => (await groupCount()) === 4);
    const isSame = async () => JSON.stringify(await columnNumbers(3)) === JSON.stringify(sums);
    await waitUntil("the same order", isSame);
    const [name] = await columnTexts(1);
    const [rowCount] = await columnNumbers(2);
    await page.locator(".groups td button").first().press("Enter");
    await waitUntil("the rows of the group", async () =>
      (await statusText(page)).startsWith(`${rowCount.toLocaleString("en-US")} rows of 200,000`),
    );
    assert.equal(await cellText(page, 0, 2), name);
    // The sum of a text column is refused with the library's message.
    await page.keyboard.press("3");
    await page.getByLabel("Function", { exact: true }).selectOption("sum");
    await page.getByLabel("Column of the function").selectOption({ label: "symbol" });
    await page.getByRole("button", { name: "Add" }).click();
    await waitUntil("refused", async () => /sum of column 'symbol'/.test(await groupingError(page)));
  }));

test("grouping three billion rows reports its progress, and is aborted by Escape", () =>
  withSample("sparse.arrows", async (page) => {
    await page.keyboard.press("3");
    await page.getByRole("button", { name: "Add" }).click();
    const groupingStatus = () => page.locator(".grouping .basis").textContent();
    await waitUntil("progress", async () => /^read [\d,]+ of 3,000,000,000 rows/.test(await groupingStatus()));
    await page.keyboard.press("Escape");
    await waitUntil("the grouping has ended", async () => (await groupingStatus()) === "ended");
  }));

test("SQL without an engine names the package to install", () =>
  withSample("walk.arrow", async (page) => {
    await page.keyboard.press("5");
    await page.keyboard.type("select count(*) from self");
    await page.keyboard.press("Control+Enter");
    await page.locator(".grouping .error", { hasText: "pip install 'arrowwood[sql]'" }).waitFor();
    // Keys in the input are no shortcuts of the page.
    assert.equal(await page.locator("textarea").inputValue(), "select count(*) from self");
    await waitUntil("in the URL", async () =>
      decodeURIComponent(page.url()).includes("tab=sql&query=select+count(*)+from+self"),
    );
  }));

test("SQL results are shown, downloaded, and restored by their URL", {
  skip: !ARROWWOOD_WITH_SQL && "needs the Python package's command with DuckDB and pyarrow: set ARROWWOOD_SQL",
}, async (t) => {
  if (!(await servesCurrentPage(ARROWWOOD_WITH_SQL, join(folder, "walk.arrow"))))
    return t.skip("the Python package is older than the page: make test-python");
  await withSample(
    "walk.arrow",
    async (page) => {
      const sqlStatus = page.locator(".grouping .basis");
      await page.keyboard.press("5");
      await page.keyboard.type(
        'select symbol, count(*) as rows, sum(volume) as traded, \'<img src=x onerror="window.hacked=1">\' as "<b>bold</b>" from self group by symbol order by symbol',
      );
      await page.keyboard.press("Control+Enter");
      await waitUntil("a result", async () => (await sqlStatus.textContent()) === "4 rows · 4 columns");
      const cells = await page.locator(".groups tbody td").allTextContents();
      assert.equal(cells[3], '<img src=x onerror="window.hacked=1">');
      assert.deepEqual(await page.locator(".groups th").allTextContents(), ["symbol", "rows", "traded", "<b>bold</b>"]);
      assert.equal(await page.evaluate(() => window.hacked), undefined);
      // Compares with sums of the rows.
      const [, ...resultLines] = linesOf(await download(page, ".grouping", "csv"));
      const csv = await page.evaluate(async () => (await fetch("/v1/tables/walk.arrow/rows?format=csv")).text());
      const [, ...rows] = csv.trim().split("\n");
      for (const [i, symbol] of ["AAPL", "IBM", "MSFT", "NVDA"].entries()) {
        const volumes = rows
          .map((row) => row.split(","))
          .filter((row) => row[2] === symbol)
          .map((row) => Number(row[4]));
        const count = volumes.length;
        const traded = volumes.reduce((sum, volume) => sum + volume, 0);
        assert.deepEqual(cells.slice(4 * i, 4 * i + 3), [symbol, String(count), String(traded)]);
        assert.ok(resultLines[i].startsWith(`${symbol},${count},${traded},`), resultLines[i]);
      }
      const { name, bytes } = await download(page, ".grouping", "parquet");
      assert.deepEqual(
        [name, bytes.subarray(0, 4).toString(), bytes.subarray(-4).toString()],
        ["walk.arrow.sql.parquet", "PAR1", "PAR1"],
      );
      await takeScreenshot(page, "sql");
      // The URL restores the query and its result.
      await waitUntil("in the URL", async () => page.url().includes("tab=sql&query=select"));
      const url = page.url();
      await reopen(page, url);
      await waitUntil(
        "the same result",
        async () => (await page.locator(".groups tbody td").allTextContents()).join() === cells.join(),
      );
      // Queries of other tables, other statements and unknown columns are refused.
      for (const [query, expectedError] of [
        ["select * from 'walk.arrow'", /walk.arrow/],
        ["drop table self", /one statement that only asks/],
        ["select volum from self", /volum/],
      ]) {
        await page.fill("textarea", query);
        await page.press("textarea", "Control+Enter");
        await waitUntil("refused", async () => expectedError.test(await groupingError(page)));
        assert.equal(await page.locator(".grouping .saves a").count(), 0);
      }
      // Filtered rows are downloaded as Parquet.
      await filterRows(page, "volume > 990");
      await waitForStatus(page, /^1,800 rows of 200,000/);
      const filtered = await download(page, "footer", "parquet");
      assert.equal(filtered.bytes.subarray(0, 4).toString(), "PAR1");
      // The page shows the first rows of a long result, and reports that it is too long to download.
      await page.keyboard.press("5");
      await page.fill("textarea", "select a.n from self a, self b where b.n < 20");
      await page.press("textarea", "Control+Enter");
      await waitUntil(
        "the first rows",
        async () => (await sqlStatus.textContent()) === "the first 1,000 rows · 1 column",
      );
      await page.locator(".grouping").getByRole("link", { name: "csv" }).click();
      await page.locator(".grouping .error", { hasText: "more than 2000000 rows" }).waitFor();
    },
    { command: ARROWWOOD_WITH_SQL },
  );
});

test("the file tab shows messages, buffers and the bytes of a cell", () =>
  withSample("walk.arrow", async (page) => {
    await cellAt(page, 3, 3).click();
    await page.locator(".panel code").first().waitFor();
    assert.match(
      await page.locator(".panel .buffer", { hasText: "values" }).locator("code").textContent(),
      /: ([0-9a-f]{2} ){7}[0-9a-f]{2}$/,
    );
    await page.locator(".panel button", { hasText: "Show in the file" }).click();
    await page.locator(".buffers tbody tr").first().waitFor();
    assert.match(await page.locator(".file-tab .basis").first().textContent(), /MB · \d+ messages/);
    assert.match(await page.locator("canvas.strip").first().getAttribute("aria-label"), /are in memory/);
    // All messages are listed.
    assert.deepEqual(await page.locator(".messages tbody td:first-child").allTextContents(), [
      "0 schema",
      "1 dictionary batch",
      "2 record batch",
    ]);
    await page.locator(".messages button", { hasText: "1 dictionary batch" }).click();
    await page.locator(".detail h3", { hasText: "Message 1: dictionary batch, 4 rows" }).waitFor();
    assert.equal(
      await page
        .locator(".messages [aria-current]")
        .textContent()
        .then((text) => text.slice(0, 2)),
      "1 ",
    );
    await takeScreenshot(page, "file");
  }));

test("a growing table is counted, followed and frozen", async () => {
  const table = join(folder, "ticks");
  const stop = await startGrowing(table, 20_000);
  await withSample(table, async (page) => {
    // At first the page shows a snapshot, and counts new rows.
    const before = parseCount(await statusText(page));
    await page.locator(".fresh:not([hidden])").waitFor();
    assert.match(await page.locator(".fresh").textContent(), /^[\d,]+ new rows?$/);
    assert.equal(parseCount(await statusText(page)), before);
    await page.locator(".fresh").click();
    await waitUntil("more rows", async () => parseCount(await statusText(page)) > before + 5_000);
    await takeScreenshot(page, "live");
    const lastRow = async () => parseCount(await page.locator(".row:not([hidden]) .number").last().textContent());
    const lastBefore = await lastRow();
    await waitUntil("newer rows", async () => (await lastRow()) > lastBefore);
    // Rows are fetched before they become visible.
    assert.equal(await page.locator(".row:not([hidden]) .cell.coming").count(), 0);
    await page.locator(".follow").click();
    const frozen = parseCount(await statusText(page));
    await page.locator(".fresh:not([hidden])").waitFor();
    assert.equal(parseCount(await statusText(page)), frozen);
    await page.keyboard.press("4");
    await waitUntil("the durable rows", async () =>
      /durable up to/.test(await page.locator(".file-tab .basis").first().textContent()),
    );
    // The commit records: two for readers, and at least one on disk.
    const records = page.locator(".records tbody tr");
    await waitUntil("records", async () => (await records.count()) >= 3);
    assert.equal(await records.filter({ hasText: "visible" }).count(), 2);
    assert.match(await records.first().textContent(), /open.*this boot/);
    const commitSummary = () => page.locator(".file-tab .hint", { hasText: "visible, to" }).textContent();
    const visibleEnd = async () => parseCount(/to ([\d,]+) visible/.exec(await commitSummary())[1]);
    const endBefore = await visibleEnd();
    await waitUntil("further commits", async () => (await visibleEnd()) > endBefore);
    assert.match(await commitSummary(), /process \d+ writes/);
    await takeScreenshot(page, "commits");
    await waitUntil("a hundred thousand rows", async () => (await visibleEnd()) > 100_000);
  }).finally(stop);
});

test("columns are found by name, and only visible ones have elements", () =>
  withSample("wide.arrow", async (page) => {
    assert.match(await statusText(page), /3,000 columns/);
    await page.fill(".finder", "column 2718");
    await page.press(".finder", "Enter");
    await cellAt(page, 0, 2718).waitFor();
    assert.equal(await cellText(page, 7, 2718), "2718007");
    assert.ok((await page.locator(".column").count()) < 40);
    // Enter goes to the next match: the equal name is first, then names that begin with the text.
    await page.fill(".finder", "column 99");
    for (const expected of [99, 990, 991]) {
      await page.press(".finder", "Enter");
      await waitUntil("the next match", async () => (await activeCell(page)) === `cell-0-${expected}`);
      await page.keyboard.press("c");
    }
    assert.ok((await page.locator(".cell").count()) < 2_000);
    await page.locator("#grid").focus();
    await page.keyboard.press("End");
    await cellAt(page, 0, 2999).waitFor();
  }));

test("the first rows come with the page, and a jump requests only visible rows", () =>
  withSample("sparse.arrows", async (page) => {
    const requests = [];
    page.on("request", (request) => requests.push(new URL(request.url())));
    const cellRequests = () => requests.filter(({ pathname }) => pathname.endsWith("/cells"));
    await page.reload();
    await cellAt(page, 0, 4).waitFor();
    await waitUntil("pictures of heads are requested", async () =>
      requests.some(({ pathname }) => pathname.endsWith("/bins")),
    );
    assert.deepEqual(cellRequests(), []);
    assert.equal(requests.filter(({ pathname }) => /tables(\/[^/]+)?$/.test(pathname)).length, 0);
    await goTo(page, "2,000,000,000");
    await cellAt(page, 2_000_000_000, 0).waitFor();
    const blockRows = cellRequests().map(
      ({ searchParams }) => Number(searchParams.get("to")) - Number(searchParams.get("from")),
    );
    assert.ok(blockRows.length <= 2 && blockRows.every((rows) => rows <= 64), JSON.stringify(blockRows));
  }));

test("columns are fitted to their values, and resized by the user", () =>
  withSample("hostile.arrow", async (page) => {
    // Columns are wide enough for their longest values.
    await cellAt(page, 0, 2).waitFor();
    const fits = (row, column) =>
      cellAt(page, row, column).evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth);
    await waitUntil("values fit in their columns", async () => (await fits(0, 2)) && (await fits(4, 3)));
    const head = page.getByRole("columnheader", { name: "large" });
    const headWidth = async () => Math.round((await head.boundingBox()).width);
    const fittedWidth = await headWidth();
    const edgePosition = async () => {
      const { x, y, width } = await head.boundingBox();
      return [x + width - 4, y + 20];
    };
    const [x, y] = await edgePosition();
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x + 60, y, { steps: 3 });
    await page.mouse.up();
    await waitUntil("wider", async () => (await headWidth()) === fittedWidth + 60);
    assert.equal(await page.locator(".panel").isVisible(), false);
    // The picture in its head is drawn again for the new width.
    const mini = head.locator("canvas").first();
    await waitUntil("the picture has the new size", async () =>
      mini.evaluate(({ width, clientWidth }) => Math.abs(width - clientWidth * devicePixelRatio) <= 1),
    );
    await cellAt(page, 0, 2).click();
    await page.keyboard.press("[");
    await waitUntil("narrower", async () => (await headWidth()) === fittedWidth + 36);
    await waitUntil("in the URL", async () => decodeURIComponent(page.url()).includes(`widths=2:${fittedWidth + 36}`));
    await page.reload();
    await cellAt(page, 0, 2).waitFor();
    assert.equal(await headWidth(), fittedWidth + 36);
    await page.mouse.dblclick(...(await edgePosition()));
    await waitUntil("fitted again", async () => (await headWidth()) === fittedWidth);
  }));

test("the panel of a cell shows trees and local times, and follows the active cell", () =>
  withSample("hostile.arrow", async (page) => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await cellAt(page, 3, 4).click();
    await page
      .locator(".panel .basis", { hasText: "2023-11-14 23:13:20.123456789 Europe/Paris (UTC+01:00)" })
      .waitFor();
    await takeScreenshot(page, "zone");
    await page.keyboard.press("Control+c");
    await waitUntil(
      "copied",
      async () => (await page.evaluate(() => navigator.clipboard.readText())) === "2023-11-14 22:13:20.123456789Z",
    );
    await page.keyboard.press("ArrowUp");
    await page.locator(".panel .type", { hasText: "row 2" }).waitFor();
    await page.keyboard.press("End");
    await cellAt(page, 2, 12).waitFor();
    await page.locator(".panel .tree summary", { hasText: "struct of 1 field" }).waitFor();
    assert.equal(await page.locator(".panel .tree li").textContent(), "x3");
    await page.keyboard.press("ArrowLeft");
    await page.locator(".panel .tree summary", { hasText: "map of 1 entry" }).waitFor();
    assert.equal(await page.locator(".panel .tree li").textContent(), "k22");
    await page.keyboard.press("ArrowLeft");
    await page.locator(".panel .tree summary", { hasText: "list of 2 items" }).waitFor();
    await takeScreenshot(page, "nested");
  }));

test("an empty result is explained, and a failed request can be repeated", () =>
  withSample(
    "walk.arrow",
    async (page) => {
      await filterRows(page, "volume > 5000");
      await page.locator(".nothing", { hasText: "No row meets the condition." }).waitFor();
      await takeScreenshot(page, "nothing");
      await page.getByRole("button", { name: "All rows" }).click();
      await waitForStatus(page, /^200,000 rows ·/);
      await page.route("**/cells?*", (route) => route.abort());
      await goTo(page, "150000");
      await page.locator(".message", { hasText: "the server does not answer" }).waitFor();
      await takeScreenshot(page, "gone");
      await page.unroute("**/cells?*");
      await page.getByRole("button", { name: "Try again" }).click();
      await cellAt(page, 150_000, 0).waitFor();
      await waitUntil("the row", async () => (await cellText(page, 150_000, 0)) === "150000");
      assert.equal(await page.locator(".message").isVisible(), false);
    },
    { allowedErrors: /status of 4\d\d|ERR_FAILED/ },
  ));

test("help lists keys, arrows select tabs, and heads show the sort order", () =>
  withSample("walk.arrow", async (page) => {
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await takeScreenshot(page, "keys");
    // Shortcuts do nothing while the dialog is open.
    await page.keyboard.press("2");
    assert.equal(await page.getByRole("tab", { name: "Rows" }).getAttribute("aria-selected"), "true");
    await page.keyboard.press("Escape");
    await waitUntil("the dialog is closed", async () => !(await page.getByRole("dialog").isVisible()));
    await page.getByRole("tab", { name: "Rows" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.locator("canvas.plot").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Plot");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    await page.locator("textarea").waitFor();
    await page.goto(`${page.url().split("#")[0]}#sort=volume&descending=true`);
    const head = page.getByRole("columnheader", { name: "volume" });
    await waitUntil("sorted", async () => (await head.getAttribute("aria-sort")) === "descending");
    assert.equal(await page.getByRole("columnheader", { name: "price" }).getAttribute("aria-sort"), null);
  }));

test("columns are pinned and moved by keys, buttons and dragging, and the URL restores them", () =>
  withSample("wide.arrow", async (page) => {
    /** Returns the numbers of the visible columns, from left to right. */
    const visibleColumns = async () => {
      const heads = await page.locator(".column").evaluateAll((elements) =>
        elements.map((head) => ({
          left: head.getBoundingClientRect().left,
          name: head.querySelector(".name").textContent,
        })),
      );
      return heads.sort((a, b) => a.left - b.left).map(({ name }) => Number(name.slice("column ".length)));
    };
    await page.fill(".finder", "column 2718");
    await page.press(".finder", "Enter");
    await cellAt(page, 0, 2718).waitFor();
    await page.keyboard.press("p");
    await page.keyboard.press("Control+ArrowRight");
    await cellAt(page, 0, 2999).waitFor();
    // The pinned column stays visible next to the last ones.
    assert.equal((await visibleColumns())[0], 2718);
    assert.equal(await cellText(page, 7, 2718), "2718007");
    assert.equal(await page.getByRole("columnheader", { name: "column 2718" }).getAttribute("aria-colindex"), "2");
    // It covers the columns below it.
    const box = await cellAt(page, 3, 2718).boundingBox();
    assert.equal(
      await page.evaluate(([x, y]) => document.elementFromPoint(x, y).id, [box.x + 5, box.y + 5]),
      "cell-3-2718",
    );
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press(">");
    await waitUntil(
      "the first two columns are swapped",
      async () => (await visibleColumns()).slice(0, 3).join() === "2718,1,0",
    );
    // Drags column 3 to the position of column 1.
    const from = await page.getByRole("columnheader", { name: "column 3 int64", exact: true }).boundingBox();
    const to = await page.getByRole("columnheader", { name: "column 1 int64", exact: true }).boundingBox();
    await page.mouse.move(from.x + 20, from.y + 10);
    await page.mouse.down();
    await page.mouse.move(to.x + 30, to.y + 12, { steps: 5 });
    await page.mouse.up();
    await waitUntil("the column has moved", async () => (await visibleColumns()).slice(0, 5).join() === "2718,3,1,0,2");
    // The click that ends a drag doesn't open the panel, which has buttons to move and pin the column.
    assert.equal(await page.locator(".panel").isVisible(), false);
    await page.getByRole("columnheader", { name: "column 2718" }).click();
    await page.getByRole("button", { name: "Move right" }).click();
    await waitUntil("the column is unpinned", async () => (await visibleColumns()).slice(0, 3).join() === "3,2718,1");
    await page.getByRole("button", { name: "Pin" }).click();
    await waitUntil(
      "the column is pinned again",
      async () => (await visibleColumns()).slice(0, 3).join() === "2718,3,1",
    );
    await waitUntil("in the URL", async () =>
      decodeURIComponent(page.url()).endsWith("columns=2718,3,1,0,2,4-2717,2719-2999&pinned=1"),
    );
    const url = page.url();
    await reopen(page, url);
    await waitUntil("the same order", async () => (await visibleColumns()).slice(0, 4).join() === "2718,3,1,0");
    // An order that doesn't fit the columns is ignored.
    await page.goto(`${url.split("#")[0]}#columns=5-4000000000,1,1&pinned=99999`);
    await waitUntil("the order of the file", async () => (await visibleColumns()).slice(0, 2).join() === "0,1");
  }));

test("go to a time finds its row, also among filtered rows", () =>
  withSample("walk.arrow", async (page) => {
    // The file has a row for every quarter of a second from 2023-11-14 22:13:20 on.
    await goTo(page, "2023-11-14 23:13:20.5");
    await waitUntil("the row with the time", async () => (await activeCell(page)) === "cell-14402-0");
    assert.match(await cellText(page, 14402, 1), /23:13:20.5/);
    await filterRows(page, 'symbol == "IBM"');
    await waitForStatus(page, /rows of 200,000/);
    await goTo(page, "2023-11-14T23:13:20.5");
    await waitUntil("another active row", async () => !/cell-0-/.test(await activeCell(page)));
    const activeNumber = async () =>
      Number((await page.locator(".row:has(.cell.active) .number").textContent()).replaceAll(",", "") || "0");
    await waitUntil(
      "the first row of IBM from then on",
      async () => (await activeNumber()) >= 14402 && (await activeNumber()) < 14450,
    );
    await goTo(page, "2030-01-01");
    await page.locator(".message", { hasText: "No row has time 2030-01-01 or later." }).waitFor();
    await goTo(page, "yesterday");
    await page.locator(".message", { hasText: "can't be compared with 'yesterday'" }).waitFor();
  }));

test("screen readers get the grid's size, headers and active cell", () =>
  withSample("walk.arrow", async (page) => {
    const tree = await page.locator("body").ariaSnapshot();
    for (const part of [
      'grid "Rows"',
      'columnheader "price float64"',
      'rowheader "0"',
      'tab "Rows" [selected]',
      'searchbox "Filter"',
      'scrollbar "Rows"',
      "status",
    ]) {
      assert.ok(tree.includes(part), `${part} is not in\n${tree}`);
    }
    await page.locator("#grid").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    await waitUntil("the active cell", async () => (await activeCell(page)) === "cell-1-1");
    await cellAt(page, 1, 1).waitFor();
    assert.equal(await cellAt(page, 1, 1).getAttribute("aria-selected"), "true");
    // The panel of a cell is opened and closed by keys.
    await page.keyboard.press("Enter");
    await page.locator(".panel pre").waitFor();
    await page.keyboard.press("Escape");
    await waitUntil("the panel is closed", async () => !(await page.locator(".panel").isVisible()));
    await page.keyboard.press("2");
    await page.locator("canvas.plot").waitFor();
  }));

function backgroundColour(page) {
  return page.evaluate(() => getComputedStyle(document.body).backgroundColor);
}

/** Returns the strongest green of the pixels of a canvas. */
function maxGreen(canvas) {
  return canvas.evaluate((element) => {
    const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
    let max = 0;
    for (let green = 1; green < data.length; green += 4) max = Math.max(max, data[green]);
    return max;
  });
}

/** Asserts that the page isn't wider than the screen. */
async function assertFitsScreen(page, description) {
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), description);
}

async function checkThemes(page) {
  await openColumnPanel(page, "price");
  await page.locator(".panel .basis", { hasText: "of all rows" }).waitFor();
  assert.equal(await backgroundColour(page), "rgb(20, 25, 23)");
  await page.locator(".panel .ends", { hasText: "200,000" }).waitFor();
  for (const canvas of await page.locator(".column canvas.mini:visible").all()) {
    await waitUntil("the picture of a head", async () => (await paintedColumns(canvas)).length > 0);
  }
  // README and docs/pictures contain both screenshots.
  await takeScreenshot(page, "view-dark");
  await page.locator(".theme").click();
  assert.equal(await backgroundColour(page), "rgb(255, 255, 255)");
  const line = page.locator(".panel canvas.spark");
  await waitUntil("the line has the darker colour", async () => (await maxGreen(line)) < 150);
  await takeScreenshot(page, "view-light");
}

async function checkPhone(page) {
  await assertFitsScreen(page, "rows");
  await cellAt(page, 2, 0).click();
  await page.locator(".panel pre").waitFor();
  await takeScreenshot(page, "phone");
  await page.getByRole("button", { name: "Close" }).tap();
  for (const name of ["Plot", "Group", "SQL"]) {
    await page.getByRole("tab", { name }).tap();
    if (name === "Plot") await page.getByLabel("Over", { exact: true }).selectOption({ label: "time" });
    if (name === "Group") await page.locator(".grouping .saves a").first().waitFor();
    await takeScreenshot(page, `phone-${name.toLowerCase()}`);
    await assertFitsScreen(page, name);
  }
}

test("the page has a dark theme, and fits on a phone", async () => {
  await withSample("walk.arrow", checkThemes, { colorScheme: "dark" });
  await withSample("walk.arrow", checkPhone, { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true });
});

/**
 * Runs `test` with the page of `path` in a notebook.
 *
 * The notebook is a document with the widget's script `_view.js`, and its kernel is this process, which answers the
 * widget's messages from the server.
 */
async function withNotebook(path, test) {
  const server = await ViewServer.start(samplePath(path));
  const { origin, searchParams } = new URL(server.url);
  const authorization = `Bearer ${searchParams.get("token")}`;
  const page = await newPage(browser, { viewport: { width: 1000, height: 640 } });
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  // The notebook itself sends no requests.
  page.on("request", (request) => {
    if (!/^(blob|about):/.test(request.url())) errors.push(request.url());
  });

  const sendToWidget = (message, bytes) => {
    const base64 = bytes && Buffer.from(bytes).toString("base64");
    return page.evaluate(([message, base64]) => window.sendToWidget(message, base64), [message, base64]);
  };
  const controllers = new Map();
  await page.exposeFunction("kernel", async ({ id, view, address }) => {
    if (address === undefined) {
      controllers.get(id)?.abort();
      return;
    }
    const controller = new AbortController();
    controllers.set(id, controller);
    try {
      const response = await fetch(origin + address, { headers: { authorization }, signal: controller.signal });
      await sendToWidget({ view, id, status: response.status });
      for await (const bytes of response.body) await sendToWidget({ view, id }, bytes);
      await sendToWidget({ view, id, end: true });
    } catch {
      // The request was aborted, or the page is closed.
    }
  });
  const widget = readFileSync(new URL("../../bindings/python/arrowwood/_view.js", import.meta.url), "utf8");
  try {
    await page.setContent("<!doctype html><title>A notebook</title><p>Above</p><div id=cell></div>");
    await page.evaluate(() => {
      const listeners = new Set();
      window.sendToWidget = (message, base64) => {
        const buffers = [];
        if (base64) {
          const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
          buffers.push(new DataView(bytes.buffer));
        }
        for (const listener of listeners) listener(message, buffers);
      };
      window.model = {
        get: () => 560,
        on: (_, listener) => listeners.add(listener),
        off: (_, listener) => listeners.delete(listener),
        send: (message) => void window.kernel(message),
        listeners,
      };
    });
    await page.addScriptTag({
      type: "module",
      content: widget.replace(
        "export default { render };",
        "window.closeOutput = render({ model: window.model, el: document.getElementById('cell') });",
      ),
    });
    const frame = page.frameLocator("iframe");
    await frame.locator("#cell-0-0:not(.coming)").waitFor();
    await test(page, frame, controllers);
    assert.deepEqual(errors, []);
  } finally {
    await page.context().close();
    server.close();
  }
}

test("a notebook shows the page in a sandboxed frame that sends requests through the kernel", async () => {
  await withNotebook("hostile.arrow", async (page, frame) => {
    assert.equal(await frame.locator("#cell-0-0").textContent(), '<img src=x onerror="window.hacked=1">');
    await frame.locator("#grid").focus();
    await page.keyboard.press("3");
    await waitUntil("groups", async () => (await frame.locator(".groups tbody tr").count()) === 5);
    await page.keyboard.press("1");
    await frame.getByRole("columnheader", { name: "<img" }).click();
    await frame.locator(".panel .top").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("End");
    await frame.locator("#cell-0-8:not(.coming)").click();
    const image = frame.locator("img.picture");
    await waitUntil(
      "an image of one pixel is shown",
      async () => (await image.count()) === 1 && (await image.evaluate(({ naturalWidth }) => naturalWidth)) === 1,
    );
    assert.equal(await frame.locator(".saves").count(), 0);
    // The frame can't access the notebook's document, and doesn't change it.
    assert.equal(
      await frame.locator("body").evaluate(() => {
        try {
          return String(parent.document.title);
        } catch (e) {
          return e.name;
        }
      }),
      "SecurityError",
    );
    assert.deepEqual(await page.evaluate(() => [window.hacked, location.hash, document.title]), [
      undefined,
      "",
      "A notebook",
    ]);
    await takeScreenshot(page, "notebook");
  });
  // Closing the output aborts requests, such as the stream of events of a growing table.
  const table = join(folder, "cells");
  const stop = await startGrowing(table, 5_000);
  await withNotebook(table, async (page, frame, controllers) => {
    await frame.locator(".fresh:not([hidden])").waitFor();
    await frame.locator(".fresh").click();
    await waitUntil("newer rows", async () => parseCount(await frame.locator(".status").textContent()) > 5_000);
    await page.evaluate(() => window.closeOutput());
    await waitUntil("a request is aborted", () => [...controllers.values()].some(({ signal }) => signal.aborted));
    assert.equal(await page.evaluate(() => window.model.listeners.size), 0);
  }).finally(stop);
});

test("a request without the token gets a page with instructions", async () => {
  const server = await ViewServer.start(samplePath("walk.arrow"));
  const page = await newPage(browser);
  await page.goto(new URL(server.url).origin);
  await page.locator(".message").waitFor();
  assert.match(await page.locator(".message").textContent(), /token.*arrowwood view/);
  await page.context().close();
  server.close();
});
