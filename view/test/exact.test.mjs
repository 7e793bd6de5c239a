// Tests that the page is exact: filters and copies use values and not their display, and a replaced file or a stopped server is noticed.
import assert from "node:assert/strict";
import { copyFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, makeSamples, startGrowing, waitUntil, withView } from "./browser.mjs";

let folder;
let browser;
before(async () => {
  folder = makeSamples();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

const pathOf = (name) => join(folder, name);
const cell = (page, row, column) => page.locator(`[id="cell-${row}-${column}"]:not(.coming)`);
const status = (page) => page.locator(".status").textContent();
/** The page is left before its icon has loaded. */
const LEAVES_EARLY = { allowed: /icon\.svg|ERR_FAILED/ };
const message = (page) => page.locator(".message:not([hidden])");

/** The values of exact.arrow by column. Each is in every sixth row. */
const long = "x".repeat(20_000);
const texts = ["a\nb", "a\\nb", "a\tb", `it's "so"`, long, long.slice(1)];
const values = [
  ["text", texts],
  ["float", ["0.30000000000000004", "0.3", "0.3333333333333333", "NaN", null, "123456789.12345679"]],
  ["bytes", ["ff00", "", null, "07".repeat(40), "07".repeat(41), "09".repeat(300)]],
  ["large", ["9007199254740993", "9007199254740992", "9223372036854775807", "-9223372036854775808", "0", "-1"]],
  ["decimal", [0, 1, 2, 3, 4, 5].map((n) => `1${"0".repeat(35)}.0${n}`)],
];

/** Opens a cell by the URL, which also removes filters. */
async function openCell(page, row, column) {
  const { origin } = new URL(page.url());
  await page.goto("about:blank");
  await page.goto(`${origin}/#row=${row}&column=${column}`);
  await cell(page, row, column).click();
  await page.locator(".panel .type", { hasText: `row ${row}` }).waitFor();
}

test("'Only these rows' finds exactly the rows with the value of a cell", () =>
  withView(
    browser,
    pathOf("exact.arrow"),
    async (page) => {
      for (const [column] of values.entries()) {
        for (let row = 0; row < 6; row++) {
          await openCell(page, row, column);
          await page.getByRole("button", { name: "Only these rows" }).click();
          await waitUntil(`the rows of row ${row}, column ${column}`, async () =>
            /^\d+ rows? of 600/.test(await status(page)),
          );
          assert.match(await status(page), /^100 rows of 600/, `${values[column][0]}, row ${row}`);
          // The value is repeated in every sixth row.
          await waitUntil("their numbers", async () => {
            const numbers = await page.locator(".row:not([hidden]) .number").allTextContents();
            return numbers.length > 5 && numbers.slice(0, 5).every((number, i) => Number(number) === row + 6 * i);
          });
          // The text of the filter, and the URL, find the same rows.
          await page.locator(".filter").press("Enter");
          await waitUntil("in the URL", async () => page.url().includes("where="));
          await page.reload();
          await waitUntil("the same again", async () => /^100 rows of 600/.test(await status(page)));
        }
      }
      // There are no conditions on lists, so their panel has no button.
      await openCell(page, 0, 6);
      await page.locator(".panel .tree").waitFor();
      assert.equal(await page.getByRole("button", { name: "Only these rows" }).count(), 0);
    },
    LEAVES_EARLY,
  ));

test("a click on a group or a frequent value shows as many rows as it counts", () =>
  withView(
    browser,
    pathOf("exact.arrow"),
    async (page) => {
      const { origin } = new URL(page.url());
      for (const by of ["0", "1", "2", "3", "4", "5", "0,1,2"]) {
        for (let group = 0; group < 6; group++) {
          await page.goto("about:blank");
          await page.goto(`${origin}/#tab=group&by=${by}`);
          await waitUntil("groups", async () => (await page.locator(".groups tbody tr").count()) === 6);
          const cells = await page.locator(".groups tbody tr").nth(group).locator("td").allTextContents();
          assert.equal(cells[by.split(",").length], "100");
          if (by === "1" && group === 0) assert.equal(cells[0], "0.30000000000000004");
          await page.locator(".groups tbody tr").nth(group).getByRole("button").click();
          await waitUntil(`the rows of ${cells[0].slice(0, 20)}`, async () =>
            /^\d+ rows? of 600/.test(await status(page)),
          );
          assert.match(await status(page), /^100 rows of 600/, cells[0].slice(0, 20));
        }
      }
      for (let value = 0; value < 6; value++) {
        await page.goto("about:blank");
        await page.goto(origin);
        await page.locator(".column", { hasText: "text" }).click();
        await page.locator(".panel .top tr").nth(5).waitFor();
        await page.locator(".panel .top button").nth(value).click();
        await waitUntil("its rows", async () => /^\d+ rows? of 600/.test(await status(page)));
        assert.match(await status(page), /^100 rows of 600/);
      }
    },
    LEAVES_EARLY,
  ));

test("a cell is copied and shown completely", () =>
  withView(
    browser,
    pathOf("exact.arrow"),
    async (page) => {
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
      const empty = () => page.evaluate(() => navigator.clipboard.writeText("nothing yet"));
      const shown = async (name) => {
        const value = page.locator(".panel .value");
        return name === "long" ? (await value.textContent()).length : value.textContent();
      };
      for (const [column, [name, expected]] of values.entries()) {
        for (let row = 0; row < 6; row++) {
          await openCell(page, row, column);
          await empty();
          await page.locator("#grid").focus();
          await page.keyboard.press("Control+c");
          await waitUntil(`copied ${name} of row ${row}`, async () => (await clipboard()) === (expected[row] ?? ""));
          if (expected[row] === null) continue;
          await empty();
          await page.locator(".panel").getByRole("button", { name: "Copy" }).click();
          await waitUntil("copied from the panel", async () => (await clipboard()) === expected[row]);
          // The panel shows the beginning of a long text and says so, and all of it on request.
          const isLong = expected[row].length > 16_384;
          assert.equal(await page.locator(".panel .rest", { hasText: "there are more" }).count(), isLong ? 1 : 0);
          if (isLong) {
            assert.equal(await shown("long"), 16_384);
            await page.getByRole("button", { name: "All of it" }).click();
            await page.locator(".panel .rest", { hasText: "all " }).waitFor();
          }
          assert.equal(await shown(name), expected[row]);
        }
      }
      // A text of five megabytes, and a float inside a list.
      await openCell(page, 0, 7);
      await empty();
      await page.locator(".panel").getByRole("button", { name: "Copy" }).click();
      const huge = "line\n".repeat(1_000_000);
      await waitUntil("five megabytes", async () => (await clipboard()).length === huge.length);
      assert.ok((await clipboard()) === huge);
      await openCell(page, 0, 6);
      assert.equal(await page.locator(".panel .tree li").first().textContent(), "00.30000000000000004");
      await page.getByRole("button", { name: "As JSON" }).click();
      await waitUntil("its text", async () => (await shown("")) === "[0.30000000000000004,1.5]");
    },
    LEAVES_EARLY,
  ));

test("a replaced file is reported, and its rows are never shown with the old columns", async () => {
  for (const [name, replace] of [
    ["renamed.arrow", (path) => renameSync(pathOf("other.arrow"), path)],
    ["written.arrow", (path) => copyFileSync(pathOf("other.arrow"), path)],
  ]) {
    copyFileSync(pathOf("walk.arrow"), pathOf(name));
    copyFileSync(pathOf("wide.arrow"), pathOf("other.arrow"));
    await withView(
      browser,
      pathOf(name),
      async (page) => {
        const heads = () => page.locator(".column .name").allTextContents();
        const seen = await heads();
        replace(pathOf(name));
        // Cells show the rows of the old file, or nothing.
        await page.locator("#grid").focus();
        await page.keyboard.press("Control+End");
        await message(page).waitFor();
        assert.match(await message(page).textContent(), /^The file was replaced.*Reload$/);
        assert.deepEqual(await heads(), seen);
        const cells = async () =>
          (await page.locator(".row:not([hidden]) .cell:not([hidden])").allTextContents()).filter((text) => text);
        assert.deepEqual(await cells(), []);
        await page.keyboard.press("Control+Home");
        await cell(page, 0, 0).waitFor();
        assert.equal((await cells())[0], "0");
        // Filters and groups fail, and the message stays.
        await page.fill(".filter", "volume > 3");
        await page.press(".filter", "Enter");
        await page.locator("#grid").focus();
        await page.keyboard.press("3");
        await page.locator(".grouping .error", { hasText: "replaced" }).waitFor();
        assert.match(await message(page).textContent(), /^The file was replaced/);
        await page.getByRole("button", { name: "Reload" }).click();
        await waitUntil("the new file", async () => (await heads())[0] === "column 0");
        assert.equal(await page.locator(".message").isVisible(), false);
      },
      // A file that is truncated while it is read is an error of the server too.
      { allowed: /status of (409|500)/ },
    );
  }
});

test("a change of the file is reported without a request of the user", async () => {
  for (const [name, change, says] of [
    ["other file", () => renameSync(pathOf("other.arrow"), pathOf("idle.arrow")), /^The file was replaced\. Reload$/],
    ["no file", () => rmSync(pathOf("idle.arrow")), /^The file was removed/],
    ["no server", (view) => process.kill(view.pid, "SIGKILL"), /^The server does not answer/],
  ]) {
    copyFileSync(pathOf("walk.arrow"), pathOf("idle.arrow"));
    copyFileSync(pathOf("wide.arrow"), pathOf("other.arrow"));
    await withView(
      browser,
      pathOf("idle.arrow"),
      async (page, view) => {
        // After the requests for the column heads, the stream of events has begun.
        await waitUntil("heads", async () =>
          page.evaluate(() => {
            const asked = performance.getEntriesByType("resource").map(({ name }) => name);
            return asked.filter((name) => name.includes("/bins?")).length >= 4;
          }),
        );
        change(view);
        await message(page).waitFor();
        assert.match(await message(page).textContent(), says, name);
        assert.equal(await cell(page, 0, 0).textContent(), "0");
      },
      { allowed: /ERR_|status of 4/ },
    );
  }
});

test("a stopped server is reported, and following ends", async () => {
  for (const signal of ["SIGKILL", "SIGTERM", "SIGSTOP"]) {
    const table = pathOf(`live-${signal}`);
    const stop = await startGrowing(table, 2_000);
    await withView(
      browser,
      table,
      async (page, view) => {
        const follow = page.locator(".follow");
        await follow.click();
        const before = await status(page);
        await waitUntil("rows come", async () => (await status(page)) !== before);
        assert.equal(await follow.getAttribute("aria-pressed"), "true");
        process.kill(view.pid, signal);
        await message(page).waitFor();
        assert.match(await message(page).textContent(), /^The server does not answer/);
        assert.equal(await follow.getAttribute("aria-pressed"), "false");
        assert.equal(await follow.textContent(), "Follow");
        if (signal !== "SIGSTOP") return;
        // Following resumes with the server.
        process.kill(view.pid, "SIGCONT");
        await waitUntil("nothing is wrong", async () => !(await page.locator(".message").isVisible()));
        await waitUntil("followed again", async () => (await follow.getAttribute("aria-pressed")) === "true");
        const then = await status(page);
        await waitUntil("rows come again", async () => (await status(page)) !== then);
      },
      { allowed: /ERR_|status of/ },
    ).finally(stop);
  }
});

test("a hidden page closes its connection, and opens it again when it is visible", () =>
  withView(browser, pathOf("walk.arrow"), async (page) => {
    const eventRequests = new Set();
    page.on("request", (request) => request.url().includes("/events?") && eventRequests.add(request));
    page.on("requestfailed", (request) => eventRequests.delete(request));
    await page.reload();
    await waitUntil("it listens", async () => eventRequests.size === 1);
    const show = (hidden) =>
      page.evaluate((hidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await show(true);
    await waitUntil("it has left", async () => eventRequests.size === 0);
    assert.equal(await page.locator(".message").isVisible(), false);
    await show(false);
    await waitUntil("it listens again", async () => eventRequests.size === 1);
    assert.equal(await page.locator(".message").isVisible(), false);
  }));

test("the readout of a plot is at the pointer, also after a zoom", () =>
  withView(browser, pathOf("walk.arrow"), async (page) => {
    await page.goto(`${new URL(page.url()).origin}/#tab=plot&plot=3`);
    const title = () => page.locator(".plotting .basis").textContent();
    const readout = () => page.locator(".readout").textContent();
    const rows = async () => {
      const found = /^rows? ([\d,]+)(?: to ([\d,]+))?/.exec(await readout());
      return found ? [found[1], found[2] ?? found[1]].map((text) => Number(text.replaceAll(",", ""))) : [];
    };
    await waitUntil("all rows", async () => (await title()) === "rows 0 to 200,000");
    const box = await page.locator("canvas.plot").boundingBox();
    const x = box.x + Math.round(box.width * 0.5);
    /** Returns the row at the pointer, and how many rows a pixel is wide. */
    const rowAtPointer = async () => {
      const [, from, to] = /^rows ([\d,]+) to ([\d,]+)$/
        .exec(await title())
        .map((text) => Number(text.replaceAll(",", "")));
      const share = (x - box.x) / box.width;
      return [from + (to - from) * share, (to - from) / box.width];
    };
    const isTrue = async () => {
      const [row, wide] = await rowAtPointer();
      const [first, last] = await rows();
      return first !== undefined && first - 2 * wide - 1 <= row && row <= last + 2 * wide + 1;
    };
    await page.mouse.move(box.x + box.width * 0.25, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(x, box.y + 70, { steps: 5 });
    await page.mouse.up();
    await waitUntil("zoomed", async () => /^rows (49|50),\d{3} to (99|100),\d{3}$/.test(await title()));
    await waitUntil("the rows at the pointer", isTrue);
    // The wheel and keys zoom while the pointer stays.
    await page.mouse.wheel(0, 100);
    await waitUntil(
      "zoomed out",
      async () => !/^rows (49|50),\d{3} to/.test(await title()) && !/sample/.test(await title()),
    );
    await waitUntil("the rows at the pointer", isTrue);
    await page.locator("canvas.plot").focus();
    for (const key of ["+", "ArrowRight"]) {
      const was = await title();
      await page.keyboard.press(key);
      await waitUntil("another range", async () => (await title()) !== was && !/sample/.test(await title()));
      await waitUntil("the rows at the pointer", isTrue);
    }
  }));
