// Tests that the page is exact: it finds and copies whole values, and reports replaced files and servers that are gone.
import assert from "node:assert/strict";
import { copyFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { cellAt, launchBrowser, makeSamples, startGrowing, statusText, waitUntil, withPage } from "./browser.mjs";

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

/** Options for tests that leave pages before their icon is loaded. */
const LEAVES_PAGES = { allowedErrors: /icon\.svg|ERR_FAILED/ };

/** The number of different values in a column of `exact.arrow`, each of which is in every sixth row. */
const DISTINCT_VALUES = 6;
/** The characters of a text that the panel of a cell shows at first. */
const PANEL_CHARACTERS = 16_384;

const LONG_TEXT = "x".repeat(20_000);
/** The first columns of `exact.arrow`, as the example view_samples writes them. */
const COLUMNS = [
  { name: "text", values: ["a\nb", "a\\nb", "a\tb", `it's "so"`, LONG_TEXT, LONG_TEXT.slice(1)] },
  { name: "float", values: ["0.30000000000000004", "0.3", "0.3333333333333333", "NaN", null, "123456789.12345679"] },
  { name: "bytes", values: ["ff00", "", null, "07".repeat(40), "07".repeat(41), "09".repeat(300)] },
  {
    name: "large",
    values: ["9007199254740993", "9007199254740992", "9223372036854775807", "-9223372036854775808", "0", "-1"],
  },
  { name: "decimal", values: [0, 1, 2, 3, 4, 5].map((n) => `1${"0".repeat(35)}.0${n}`) },
];
/** A column of lists, and one with a text of five megabytes. */
const LIST_COLUMN = 6;
const HUGE_COLUMN = 7;

function samplePath(name) {
  return join(folder, name);
}

function visibleMessage(page) {
  return page.locator(".message:not([hidden])");
}

function columnNames(page) {
  return page.locator(".column .name").allTextContents();
}

function readClipboard(page) {
  return page.evaluate(() => navigator.clipboard.readText());
}

/** Overwrites the clipboard, so that a copy can be noticed. */
function resetClipboard(page) {
  return page.evaluate(() => navigator.clipboard.writeText("nothing yet"));
}

/** Loads a URL again, and not only its part after the #. */
async function reopen(page, url) {
  await page.goto("about:blank");
  await page.goto(url);
}

/** Opens the panel of a cell, among all rows. */
async function openCell(page, row, column) {
  const { origin } = new URL(page.url());
  await reopen(page, `${origin}/#row=${row}&column=${column}`);
  await cellAt(page, row, column).click();
  await page.locator(".panel .type", { hasText: `row ${row}` }).waitFor();
}

/** Waits for the result of a filter, and asserts that it has 100 rows of 600. */
async function assertHundredRows(page, description) {
  await waitUntil(`filtered rows: ${description}`, async () => /^\d+ rows? of 600/.test(await statusText(page)));
  assert.match(await statusText(page), /^100 rows of 600/, description);
}

/** Waits until the grid shows every sixth row, from `first` on. */
async function waitForEverySixthRow(page, first) {
  await waitUntil("the numbers of the rows", async () => {
    const numbers = await page.locator(".row:not([hidden]) .number").allTextContents();
    const isEverySixth = (number, i) => Number(number) === first + DISTINCT_VALUES * i;
    return numbers.length > 5 && numbers.slice(0, 5).every(isEverySixth);
  });
}

test("a cell's button selects only rows with its exact value", () =>
  withPage(
    browser,
    samplePath("exact.arrow"),
    async (page) => {
      for (const [column, { name }] of COLUMNS.entries()) {
        for (let row = 0; row < DISTINCT_VALUES; row++) {
          const description = `${name}, row ${row}`;
          await openCell(page, row, column);
          await page.getByRole("button", { name: "Only these rows" }).click();
          await assertHundredRows(page, description);
          await waitForEverySixthRow(page, row);
          // The filter's text and the URL give the same rows.
          await page.locator(".filter").press("Enter");
          await waitUntil("the filter in the URL", () => page.url().includes("where="));
          await page.reload();
          await assertHundredRows(page, description);
        }
      }
      // There is no condition for a list, and so no button.
      await openCell(page, 0, LIST_COLUMN);
      await page.locator(".panel .tree").waitFor();
      assert.equal(await page.getByRole("button", { name: "Only these rows" }).count(), 0);
    },
    LEAVES_PAGES,
  ));

test("a click on a group or a frequent value selects as many rows as it shows", () =>
  withPage(
    browser,
    samplePath("exact.arrow"),
    async (page) => {
      const { origin } = new URL(page.url());
      for (const by of ["0", "1", "2", "3", "4", "5", "0,1,2"]) {
        const keyCount = by.split(",").length;
        for (let group = 0; group < DISTINCT_VALUES; group++) {
          await reopen(page, `${origin}/#tab=group&by=${by}`);
          const rows = page.locator(".groups tbody tr");
          await waitUntil("groups", async () => (await rows.count()) === DISTINCT_VALUES);
          const cells = await rows.nth(group).locator("td").allTextContents();
          assert.equal(cells[keyCount], "100");
          if (by === "1" && group === 0) assert.equal(cells[0], "0.30000000000000004");
          await rows.nth(group).getByRole("button").click();
          await assertHundredRows(page, cells[0].slice(0, 20));
        }
      }
      for (let value = 0; value < DISTINCT_VALUES; value++) {
        await reopen(page, origin);
        await page.locator(".column", { hasText: "text" }).click();
        await page
          .locator(".panel .top tr")
          .nth(DISTINCT_VALUES - 1)
          .waitFor();
        await page.locator(".panel .top button").nth(value).click();
        await assertHundredRows(page, `frequent value ${value}`);
      }
    },
    LEAVES_PAGES,
  ));

test("a cell is copied and shown with its exact and whole value", () =>
  withPage(
    browser,
    samplePath("exact.arrow"),
    async (page) => {
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      const panelValue = () => page.locator(".panel .value").textContent();
      for (const [column, { name, values }] of COLUMNS.entries()) {
        for (const [row, value] of values.entries()) {
          await openCell(page, row, column);
          await resetClipboard(page);
          await page.locator("#grid").focus();
          await page.keyboard.press("Control+c");
          await waitUntil(`copied ${name} of row ${row}`, async () => (await readClipboard(page)) === (value ?? ""));
          if (value === null) continue;
          await resetClipboard(page);
          await page.locator(".panel").getByRole("button", { name: "Copy" }).click();
          await waitUntil("copied from the panel", async () => (await readClipboard(page)) === value);
          // The panel shows the beginning of a long text, and a button that fetches all of it.
          const isLong = value.length > PANEL_CHARACTERS;
          assert.equal(await page.locator(".panel .rest", { hasText: "there are more" }).count(), isLong ? 1 : 0);
          if (isLong) {
            assert.equal((await panelValue()).length, PANEL_CHARACTERS);
            await page.getByRole("button", { name: "All of it" }).click();
            await page.locator(".panel .rest", { hasText: "all " }).waitFor();
          }
          assert.equal(await panelValue(), value);
        }
      }
      // A text of five megabytes.
      await openCell(page, 0, HUGE_COLUMN);
      await resetClipboard(page);
      await page.locator(".panel").getByRole("button", { name: "Copy" }).click();
      const hugeText = "line\n".repeat(1_000_000);
      await waitUntil("five megabytes", async () => (await readClipboard(page)).length === hugeText.length);
      // `assert.equal` would print both texts.
      assert.ok((await readClipboard(page)) === hugeText);
      // All digits of a number in a list.
      await openCell(page, 0, LIST_COLUMN);
      assert.equal(await page.locator(".panel .tree li").first().textContent(), "00.30000000000000004");
      await page.getByRole("button", { name: "As JSON" }).click();
      await waitUntil("the list as JSON", async () => (await panelValue()) === "[0.30000000000000004,1.5]");
    },
    LEAVES_PAGES,
  ));

test("a replaced file is reported, and its rows are not shown next to the old ones", async () => {
  for (const [name, replace] of [
    ["renamed.arrow", (path) => renameSync(samplePath("other.arrow"), path)],
    ["written.arrow", (path) => copyFileSync(samplePath("other.arrow"), path)],
  ]) {
    copyFileSync(samplePath("walk.arrow"), samplePath(name));
    copyFileSync(samplePath("wide.arrow"), samplePath("other.arrow"));
    await withPage(
      browser,
      samplePath(name),
      async (page) => {
        const oldNames = await columnNames(page);
        replace(samplePath(name));
        // Rows that were not fetched before stay empty.
        await page.locator("#grid").focus();
        await page.keyboard.press("Control+End");
        await visibleMessage(page).waitFor();
        assert.match(await visibleMessage(page).textContent(), /^The file was replaced.*Reload$/);
        assert.deepEqual(await columnNames(page), oldNames);
        const visibleTexts = async () => {
          const texts = await page.locator(".row:not([hidden]) .cell:not([hidden])").allTextContents();
          return texts.filter((text) => text);
        };
        assert.deepEqual(await visibleTexts(), []);
        await page.keyboard.press("Control+Home");
        await cellAt(page, 0, 0).waitFor();
        assert.equal((await visibleTexts())[0], "0");
        // Filters and groups of the old columns fail, and the message stays.
        await page.fill(".filter", "volume > 3");
        await page.press(".filter", "Enter");
        await page.locator("#grid").focus();
        await page.keyboard.press("3");
        await page.locator(".grouping .error", { hasText: "replaced" }).waitFor();
        assert.match(await visibleMessage(page).textContent(), /^The file was replaced/);
        await page.getByRole("button", { name: "Reload" }).click();
        await page.locator(".status", { hasText: "3,000 columns" }).waitFor();
        // The URL may have kept the tab of the groups.
        await page.getByRole("tab", { name: "Rows" }).click();
        await waitUntil("the columns of the new file", async () => (await columnNames(page))[0] === "column 0");
        assert.equal(await page.locator(".message").isVisible(), false);
      },
      // The server responds with 500 if the file becomes shorter while it is read.
      { allowedErrors: /status of (409|500)/ },
    );
  }
});

test("an idle page reports that its file was replaced or removed, or its server killed", async () => {
  for (const [name, change, expectedMessage] of [
    [
      "replaced file",
      () => renameSync(samplePath("other.arrow"), samplePath("idle.arrow")),
      /^The file was replaced\. Reload$/,
    ],
    ["removed file", () => rmSync(samplePath("idle.arrow")), /^The file was removed/],
    ["killed server", (server) => process.kill(server.pid, "SIGKILL"), /^The server does not answer/],
  ]) {
    copyFileSync(samplePath("walk.arrow"), samplePath("idle.arrow"));
    copyFileSync(samplePath("wide.arrow"), samplePath("other.arrow"));
    await withPage(
      browser,
      samplePath("idle.arrow"),
      async (page, server) => {
        // The page sends no more requests once it has the pictures of all heads, except for events.
        await waitUntil("requests for all heads", () =>
          page.evaluate(() => {
            const urls = performance.getEntriesByType("resource").map(({ name }) => name);
            return urls.filter((url) => url.includes("/bins?")).length >= 4;
          }),
        );
        change(server);
        await visibleMessage(page).waitFor();
        assert.match(await visibleMessage(page).textContent(), expectedMessage, name);
        assert.equal(await cellAt(page, 0, 0).textContent(), "0");
      },
      { allowedErrors: /ERR_|status of 4/ },
    );
  }
});

test("following stops when the server is gone, and continues when it answers again", async () => {
  for (const signal of ["SIGKILL", "SIGTERM", "SIGSTOP"]) {
    const table = samplePath(`live-${signal}`);
    const stopGrowing = await startGrowing(table, 2_000);
    await withPage(
      browser,
      table,
      async (page, server) => {
        const followButton = page.locator(".follow");
        await followButton.click();
        const firstStatus = await statusText(page);
        await waitUntil("new rows", async () => (await statusText(page)) !== firstStatus);
        assert.equal(await followButton.getAttribute("aria-pressed"), "true");
        process.kill(server.pid, signal);
        await visibleMessage(page).waitFor();
        assert.match(await visibleMessage(page).textContent(), /^The server does not answer/);
        assert.equal(await followButton.getAttribute("aria-pressed"), "false");
        assert.equal(await followButton.textContent(), "Follow");
        if (signal !== "SIGSTOP") return;
        process.kill(server.pid, "SIGCONT");
        await waitUntil("no message", async () => !(await page.locator(".message").isVisible()));
        await waitUntil("following", async () => (await followButton.getAttribute("aria-pressed")) === "true");
        const lastStatus = await statusText(page);
        await waitUntil("new rows again", async () => (await statusText(page)) !== lastStatus);
      },
      { allowedErrors: /ERR_|status of/ },
    ).finally(stopGrowing);
  }
});

test("a hidden page holds no connection, and listens again when it is visible", () =>
  withPage(browser, samplePath("walk.arrow"), async (page) => {
    const eventRequests = new Set();
    page.on("request", (request) => {
      if (request.url().includes("/events?")) eventRequests.add(request);
    });
    page.on("requestfailed", (request) => eventRequests.delete(request));
    await page.reload();
    await waitUntil("a request for events", () => eventRequests.size === 1);
    const setHidden = (isHidden) =>
      page.evaluate((isHidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
        document.dispatchEvent(new Event("visibilitychange"));
      }, isHidden);
    await setHidden(true);
    await waitUntil("no request for events", () => eventRequests.size === 0);
    assert.equal(await page.locator(".message").isVisible(), false);
    await setHidden(false);
    await waitUntil("another request for events", () => eventRequests.size === 1);
    assert.equal(await page.locator(".message").isVisible(), false);
  }));

/** Parses text such as `rows 1,000 to 2,000` or `row 5`. */
function parseRowRange(text) {
  const match = /^rows? ([\d,]+)(?: to ([\d,]+))?/.exec(text);
  if (!match) return undefined;
  const [from, to] = [match[1], match[2] ?? match[1]].map((number) => Number(number.replaceAll(",", "")));
  return { from, to };
}

test("a plot's readout shows the rows at the pointer, also after zooming", () =>
  withPage(browser, samplePath("walk.arrow"), async (page) => {
    await page.goto(`${new URL(page.url()).origin}/#tab=plot&plot=3`);
    const title = () => page.locator(".plotting .basis").textContent();
    const readout = () => page.locator(".readout").textContent();
    await waitUntil("all rows", async () => (await title()) === "rows 0 to 200,000");
    const box = await page.locator("canvas.plot").boundingBox();
    const pointerX = box.x + Math.round(box.width * 0.5);
    const isReadoutAtPointer = async () => {
      const visible = parseRowRange(await title());
      const rowsPerPixel = (visible.to - visible.from) / box.width;
      const pointedRow = visible.from + rowsPerPixel * (pointerX - box.x);
      const rows = parseRowRange(await readout());
      const tolerance = 2 * rowsPerPixel + 1;
      return rows !== undefined && rows.from - tolerance <= pointedRow && pointedRow <= rows.to + tolerance;
    };
    await page.mouse.move(box.x + box.width * 0.25, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(pointerX, box.y + 70, { steps: 5 });
    await page.mouse.up();
    await waitUntil("the selected range", async () => /^rows (49|50),\d{3} to (99|100),\d{3}$/.test(await title()));
    await waitUntil("the rows at the pointer", isReadoutAtPointer);
    // Zooms by the wheel and moves by keys, while the pointer stays where it is.
    await page.mouse.wheel(0, 100);
    await waitUntil("a larger range", async () => {
      const text = await title();
      return !/^rows (49|50),\d{3} to/.test(text) && !/sample/.test(text);
    });
    await waitUntil("the rows at the pointer", isReadoutAtPointer);
    await page.locator("canvas.plot").focus();
    for (const key of ["+", "ArrowRight"]) {
      const titleBefore = await title();
      await page.keyboard.press(key);
      await waitUntil("another range", async () => {
        const text = await title();
        return text !== titleBefore && !/sample/.test(text);
      });
      await waitUntil("the rows at the pointer", isReadoutAtPointer);
    }
  }));
