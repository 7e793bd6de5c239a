// The page in a browser, over real files and a real server.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { CHROMIUM, SHOTS, View, grow, samples } from "./browser.mjs";

let folder;
let browser;
before(async () => {
  folder = samples();
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

/** Opens a page over `path`, and makes sure that nothing in it fails or is asked of another server. */
async function look(path, story, { hash = "", ...options } = {}) {
  const view = await View.open(path.startsWith("/") ? path : join(folder, path));
  const context = await browser.newContext({ viewport: { width: 1200, height: 720 }, ...options });
  const page = await context.newPage();
  const wrong = [];
  const origin = new URL(view.url).origin;
  page.on("pageerror", (e) => wrong.push(e.message));
  page.on("console", (message) => message.type() === "error" && !/status of 4\d\d/.test(message.text()) && wrong.push(message.text()));
  page.on("request", (request) => request.url().startsWith(origin) || wrong.push(request.url()));
  try {
    await page.goto(view.url);
    if (hash) await page.goto(`${origin}/${hash}`);
    await page.locator("#cell-0-0, .row:not([hidden]) .cell:not(.coming)").first().waitFor();
    await story(page, view);
    assert.deepEqual(wrong, []);
  } finally {
    await context.close();
    view.close();
  }
}

const cell = (page, row, column) => page.locator(`[id="cell-${row}-${column}"]:not(.coming)`);
const text = (page, row, column) => cell(page, row, column).textContent();
const status = (page) => page.locator(".status").textContent();
const number = (text) => Number(text.replaceAll(",", "").match(/\d+/)[0]);

async function until(what, is) {
  for (let tries = 0; tries < 300; tries++) {
    if (await is()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(`${what}: not within 15 seconds`);
}

test("three billion rows are scrolled to the last, by keys, wheel, bar and number", () =>
  look("sparse.arrows", async (page) => {
    assert.match(await status(page), /^3,000,000,000 rows · 5 columns/);
    await page.keyboard.press("Control+End");
    await cell(page, 2_999_999_999, 0).waitFor();
    assert.deepEqual([await text(page, 2_999_999_999, 0), await text(page, 2_999_999_999, 1)], ["7", "0.5"]);
    await page.screenshot({ path: join(SHOTS, "last-row.png") });
    // One notch of the wheel moves a few rows, there as anywhere else.
    await page.mouse.move(400, 300);
    await page.mouse.wheel(0, -72);
    await until("three rows up", async () => !(await cell(page, 2_999_999_999, 0).isVisible()));
    assert.equal(await page.locator("#cell-2999999996-0").count(), 1);
    // The bar: half way down.
    const bar = await page.locator(".bar.vertical").boundingBox();
    await page.mouse.click(bar.x + 6, bar.y + bar.height / 2);
    const middle = async () => number(await page.locator(".row:not([hidden]) .number").first().textContent());
    await until("the middle", async () => Math.abs((await middle()) - 1.5e9) < 1e8);
    await page.fill(".goto", "1,234,567,890");
    await page.press(".goto", "Enter");
    await cell(page, 1_234_567_890, 0).waitFor();
    await page.keyboard.press("PageDown");
    await page.keyboard.press("Control+Home");
    await cell(page, 0, 0).waitFor();
    assert.equal(await page.locator("#grid").getAttribute("aria-rowcount"), "3000000001");
  }));

test("what a file contains is never markup, and every type is shown as it is", () =>
  look("hostile.arrow", async (page) => {
    const rows = [];
    for (let row = 0; row < 5; row++) {
      await cell(page, row, 0).waitFor();
      rows.push(await text(page, row, 0));
    }
    assert.deepEqual(rows.slice(0, 4), ['<img src=x onerror="window.hacked=1">', "</td><script>window.hacked=1</script>", "null", "null"]);
    // The text "null" is not a null.
    assert.match(await cell(page, 3, 0).getAttribute("class"), /null/);
    assert.doesNotMatch(await cell(page, 2, 0).getAttribute("class"), /null/);
    assert.equal(await text(page, 0, 1), "NaN");
    assert.equal(await text(page, 0, 2), "9223372036854775807");
    assert.equal(await text(page, 3, 2), "9007199254740993");
    assert.equal(await text(page, 0, 3), "-123.45");
    await page.locator("#grid").focus();
    await page.keyboard.press("End");
    await cell(page, 1, 11).waitFor();
    const seen = [];
    for (const column of [7, 8, 9, 10, 11]) seen.push(await text(page, 2, column));
    assert.deepEqual(seen, ["0x616263", "false", "[0, 1]", "{k2: 2}", "{x: 3}"]);
    // The column with the hostile name, at a glance, and its cell.
    await page.keyboard.press("Home");
    await page.getByRole("columnheader", { name: "<img" }).click();
    await page.locator(".panel .top").waitFor();
    await page.screenshot({ path: join(SHOTS, "hostile.png") });
    await cell(page, 0, 0).click();
    await page.locator(".panel pre").waitFor();
    assert.equal(await page.locator(".panel pre").textContent(), '<img src=x onerror="window.hacked=1">');
    await page.locator(".panel button", { hasText: "Only these rows" }).click();
    await until("the one row", async () => /^1 row of 5/.test(await status(page)));
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("img, iframe, body script").count(), 0);
  }));

test("rows are filtered by typing and by clicking, and sorted", () =>
  look("walk.arrow", async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type('volume > 990 and symbol == "IBM"');
    await page.keyboard.press("Enter");
    await until("found", async () => /^\d[\d,]* rows of 200,000/.test(await status(page)));
    const found = number(await status(page));
    assert.ok(found > 100 && found < 2_000, String(found));
    await cell(page, 0, 4).waitFor();
    assert.equal(await text(page, 0, 2), "IBM");
    // Sorted by the panel of the column.
    await page.locator(".column", { hasText: "price" }).click();
    await page.locator(".panel button", { hasText: "Sort ↓" }).click();
    await until("sorted", async () => /sort=price/.test(page.url()));
    await cell(page, 1, 3).waitFor();
    assert.ok(Number(await text(page, 0, 3)) >= Number(await text(page, 1, 3)));
    assert.equal(number(await status(page)), found);
    // The URL has it all: whoever gets it sees the same.
    const url = page.url();
    const first = await text(page, 0, 0);
    await page.goto("about:blank");
    await page.goto(url);
    await until("the same again", async () => number((await status(page)) || "0") === found);
    await cell(page, 0, 0).waitFor();
    assert.equal(await text(page, 0, 0), first);
    // What is wrong is said in the library's words, and nothing is lost.
    await page.fill(".filter", "prise > 3");
    await page.press(".filter", "Enter");
    await page.locator(".message:not([hidden])").waitFor();
    assert.match(await page.locator(".message").textContent(), /prise/);
    await page.fill(".filter", "");
    await page.press(".filter", "Enter");
    await until("all rows, sorted", async () => /^200,000 rows of 200,000/.test(await status(page)));
    await page.locator(".column", { hasText: "price" }).click();
    await page.locator(".panel button", { hasText: "Unsorted" }).click();
    await until("all rows again", async () => /^200,000 rows ·/.test(await status(page)));
  }));

test("a column at a glance, and over its rows", () =>
  look("walk.arrow", async (page) => {
    await page.locator(".column", { hasText: "symbol" }).click();
    await page.locator(".panel .basis", { hasText: "of all rows" }).waitFor();
    assert.equal(await page.locator(".panel .top tr").count(), 4);
    assert.equal(await page.locator(".panel dd").first().textContent(), "200,000");
    await page.locator(".panel .top button", { hasText: "NVDA" }).click();
    await until("only these", async () => /rows of 200,000/.test(await status(page)));
    await page.locator(".column", { hasText: "price" }).click();
    await page.locator(".panel .basis", { hasText: "of all rows" }).waitFor();
    await page.screenshot({ path: join(SHOTS, "glance.png") });
    await page.locator(".panel button", { hasText: "Plot" }).click();
    await page.locator(".plotting .basis", { hasText: "rows 0 to 200,000" }).waitFor();
    await until("exact", async () => !/sample/.test(await page.locator(".plotting .basis").textContent()));
    assert.match(await page.locator("canvas.plot").getAttribute("aria-label"), /price over 200,000 rows, from .* to /);
    await page.screenshot({ path: join(SHOTS, "plot.png") });
    // Zoomed in by dragging.
    const box = await page.locator("canvas.plot").boundingBox();
    await page.mouse.move(box.x + box.width * 0.25, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await until("zoomed", async () => /tab=plot.*from=(49|50)\d{3}&to=(99|100)\d{3}/.test(page.url()));
  }));

test("the file is taken apart, down to the bytes of a cell", () =>
  look("walk.arrow", async (page) => {
    await cell(page, 3, 3).click();
    await page.locator(".panel code").first().waitFor();
    assert.match(await page.locator(".panel .buffer", { hasText: "values" }).locator("code").textContent(), /: ([0-9a-f]{2} ){7}[0-9a-f]{2}$/);
    await page.locator(".panel button", { hasText: "Show in the file" }).click();
    await page.locator(".buffers tbody tr").first().waitFor();
    assert.match(await page.locator(".apart .basis").first().textContent(), /MB · \d+ messages/);
    assert.match(await page.locator("canvas.strip").getAttribute("aria-label"), /are in memory/);
    await page.screenshot({ path: join(SHOTS, "file.png") });
  }));

test("a table that grows is followed, frozen, and counted", async () => {
  const table = join(folder, "ticks");
  const grown = grow(table, 20_000, 14);
  await until("the table", async () => (await import("node:fs")).existsSync(join(table, "00000000000000000000.arrow")));
  await new Promise((done) => setTimeout(done, 500));
  await look(table, async (page) => {
    // At first what there was stays as it is, and new rows are counted.
    const before = number(await status(page));
    await page.locator(".fresh:not([hidden])").waitFor();
    assert.match(await page.locator(".fresh").textContent(), /^[\d,]+ new rows?$/);
    assert.equal(number(await status(page)), before);
    await page.locator(".fresh").click();
    await until("more rows", async () => number(await status(page)) > before + 5_000);
    await page.screenshot({ path: join(SHOTS, "live.png") });
    const last = async () => number(await page.locator(".row:not([hidden]) .number").last().textContent());
    const seen = await last();
    await until("the end moves", async () => (await last()) > seen);
    // What comes into sight is there already.
    assert.equal(await page.locator(".row:not([hidden]) .cell.coming").count(), 0);
    await page.locator(".follow").click();
    const frozen = number(await status(page));
    await page.locator(".fresh:not([hidden])").waitFor();
    assert.equal(number(await status(page)), frozen);
    await page.keyboard.press("3");
    await until("what is durable", async () => /durable up to/.test(await page.locator(".apart .basis").first().textContent()));
  });
  assert.ok((await grown) > 100_000);
});

test("three thousand columns: found by name, and only those in sight are there", () =>
  look("wide.arrow", async (page) => {
    assert.match(await status(page), /3,000 columns/);
    await page.fill(".finder", "column 2718");
    await page.press(".finder", "Enter");
    await cell(page, 0, 2718).waitFor();
    assert.equal(await text(page, 7, 2718), "2718007");
    assert.ok((await page.locator(".column").count()) < 40);
    assert.ok((await page.locator(".cell").count()) < 2_000);
    await page.locator("#grid").focus();
    await page.keyboard.press("End");
    await cell(page, 0, 2999).waitFor();
  }));

test("a screen reader is told of a grid, its size, its headers and its place", () =>
  look("walk.arrow", async (page) => {
    const tree = await page.locator("body").ariaSnapshot();
    for (const part of ['grid "Rows"', 'columnheader "price float64"', 'rowheader "0"', 'tab "Rows" [selected]', 'searchbox "Filter"', 'scrollbar "Rows"', "status"]) {
      assert.ok(tree.includes(part), `${part} is not in\n${tree}`);
    }
    await page.locator("#grid").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    await until("the active cell", async () => (await page.locator("#grid").getAttribute("aria-activedescendant")) === "cell-1-1");
    await cell(page, 1, 1).waitFor();
    assert.equal(await cell(page, 1, 1).getAttribute("aria-selected"), "true");
    // All of it by keys: the cell's panel, and back.
    await page.keyboard.press("Enter");
    await page.locator(".panel pre").waitFor();
    await page.keyboard.press("Escape");
    await until("closed", async () => !(await page.locator(".panel").isVisible()));
    await page.keyboard.press("2");
    await page.locator("canvas.plot").waitFor();
  }));

test("dark, and on a phone", async () => {
  await look("walk.arrow", async (page) => {
    await page.locator(".column", { hasText: "price" }).click();
    await page.locator(".panel .basis", { hasText: "of all rows" }).waitFor();
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(20, 25, 23)");
    await page.screenshot({ path: join(SHOTS, "dark.png") });
    await page.locator(".theme").click();
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  }, { colorScheme: "dark" });
  await look("walk.arrow", async (page) => {
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await cell(page, 2, 0).click();
    await page.locator(".panel pre").waitFor();
    await page.screenshot({ path: join(SHOTS, "phone.png") });
  }, { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true });
});

test("without the token there is only a page that says what to do", async () => {
  const view = await View.open(join(folder, "walk.arrow"));
  const page = await browser.newPage();
  await page.goto(new URL(view.url).origin);
  await page.locator(".message").waitFor();
  assert.match(await page.locator(".message").textContent(), /token.*arrowwood view/);
  await page.close();
  view.close();
});
