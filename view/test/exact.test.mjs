// What the page shows is what is there: values and not their display, one file and not two, a server that is there.
import assert from "node:assert/strict";
import { copyFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { growing, launch, look, samples, until } from "./browser.mjs";

let folder;
let browser;
before(async () => {
  folder = samples();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

const at = (name) => join(folder, name);
const cell = (page, row, column) => page.locator(`[id="cell-${row}-${column}"]:not(.coming)`);
const status = (page) => page.locator(".status").textContent();
/** Who leaves a page does not wait for its icon. */
const LEFT = { allowed: /icon\.svg|ERR_FAILED/ };
const message = (page) => page.locator(".message:not([hidden])");

/** What the file has, as its maker made it: values of which each is in every sixth row. */
const long = "x".repeat(20_000);
const texts = ["a\nb", "a\\nb", "a\tb", `it's "so"`, long, long.slice(1)];
const values = [
  ["text", texts],
  ["float", ["0.30000000000000004", "0.3", "0.3333333333333333", "NaN", null, "123456789.12345679"]],
  ["bytes", ["ff00", "", null, "07".repeat(40), "07".repeat(41), "09".repeat(300)]],
  ["large", ["9007199254740993", "9007199254740992", "9223372036854775807", "-9223372036854775808", "0", "-1"]],
  ["decimal", [0, 1, 2, 3, 4, 5].map((n) => `1${"0".repeat(35)}.0${n}`)],
];

/** Chooses a cell by its address, so that each starts from all rows. */
async function open(page, row, column) {
  const { origin } = new URL(page.url());
  await page.goto("about:blank");
  await page.goto(`${origin}/#row=${row}&column=${column}`);
  await cell(page, row, column).click();
  await page.locator(".panel .type", { hasText: `row ${row}` }).waitFor();
}

test("only the rows with the value of a cell are found, whatever is shown of it", () =>
  look(
    browser,
    at("exact.arrow"),
    async (page) => {
      for (const [column] of values.entries()) {
        for (let row = 0; row < 6; row++) {
          await open(page, row, column);
          await page.getByRole("button", { name: "Only these rows" }).click();
          await until(`the rows of row ${row}, column ${column}`, async () =>
            /^\d+ rows? of 600/.test(await status(page)),
          );
          assert.match(await status(page), /^100 rows of 600/, `${values[column][0]}, row ${row}`);
          // They are those that repeat it.
          await until("their numbers", async () => {
            const numbers = await page.locator(".row:not([hidden]) .number").allTextContents();
            return numbers.length > 5 && numbers.slice(0, 5).every((number, i) => Number(number) === row + 6 * i);
          });
          // Also where the filter is typed again as it stands there, and by the address.
          await page.locator(".filter").press("Enter");
          await until("in the URL", async () => page.url().includes("where="));
          await page.reload();
          await until("the same again", async () => /^100 rows of 600/.test(await status(page)));
        }
      }
      // No condition holds for the rows with a list; the column at its end has no button then.
      await open(page, 0, 6);
      await page.locator(".panel .tree").waitFor();
      assert.equal(await page.getByRole("button", { name: "Only these rows" }).count(), 0);
    },
    LEFT,
  ));

test("a click on a group, or a frequent value, gives as many rows as it says", () =>
  look(
    browser,
    at("exact.arrow"),
    async (page) => {
      const { origin } = new URL(page.url());
      for (const by of ["0", "1", "2", "3", "4", "5", "0,1,2"]) {
        for (let group = 0; group < 6; group++) {
          await page.goto("about:blank");
          await page.goto(`${origin}/#tab=group&by=${by}`);
          await until("groups", async () => (await page.locator(".groups tbody tr").count()) === 6);
          const cells = await page.locator(".groups tbody tr").nth(group).locator("td").allTextContents();
          assert.equal(cells[by.split(",").length], "100");
          if (by === "1" && group === 0) assert.equal(cells[0], "0.30000000000000004");
          await page.locator(".groups tbody tr").nth(group).getByRole("button").click();
          await until(`the rows of ${cells[0].slice(0, 20)}`, async () => /^\d+ rows? of 600/.test(await status(page)));
          assert.match(await status(page), /^100 rows of 600/, cells[0].slice(0, 20));
        }
      }
      for (let value = 0; value < 6; value++) {
        await page.goto("about:blank");
        await page.goto(origin);
        await page.locator(".column", { hasText: "text" }).click();
        await page.locator(".panel .top tr").nth(5).waitFor();
        await page.locator(".panel .top button").nth(value).click();
        await until("its rows", async () => /^\d+ rows? of 600/.test(await status(page)));
        assert.match(await status(page), /^100 rows of 600/);
      }
    },
    LEFT,
  ));

test("a cell is copied, and shown in full, exactly and whole", () =>
  look(
    browser,
    at("exact.arrow"),
    async (page) => {
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
      const empty = () => page.evaluate(() => navigator.clipboard.writeText("nothing yet"));
      const shown = async (name) => {
        const told = page.locator(".panel .value");
        return name === "long" ? (await told.textContent()).length : told.textContent();
      };
      for (const [column, [name, expected]] of values.entries()) {
        for (let row = 0; row < 6; row++) {
          await open(page, row, column);
          await empty();
          await page.locator("#grid").focus();
          await page.keyboard.press("Control+c");
          await until(`copied ${name} of row ${row}`, async () => (await clipboard()) === (expected[row] ?? ""));
          if (expected[row] === null) continue;
          await empty();
          await page.locator(".panel").getByRole("button", { name: "Copy" }).click();
          await until("copied from the panel", async () => (await clipboard()) === expected[row]);
          // Of a long text the first characters, which says so, and then all of it.
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
      // Five megabytes, and all digits inside of a list.
      await open(page, 0, 7);
      await empty();
      await page.locator(".panel").getByRole("button", { name: "Copy" }).click();
      const huge = "line\n".repeat(1_000_000);
      await until("five megabytes", async () => (await clipboard()).length === huge.length);
      assert.ok((await clipboard()) === huge);
      await open(page, 0, 6);
      assert.equal(await page.locator(".panel .tree li").first().textContent(), "00.30000000000000004");
      await page.getByRole("button", { name: "As JSON" }).click();
      await until("its text", async () => (await shown("")) === "[0.30000000000000004,1.5]");
    },
    LEFT,
  ));

test("a file that is replaced is said to be, and nothing of the new one is shown beside the old", async () => {
  for (const [name, replace] of [
    ["renamed.arrow", (path) => renameSync(at("other.arrow"), path)],
    ["written.arrow", (path) => copyFileSync(at("other.arrow"), path)],
  ]) {
    copyFileSync(at("walk.arrow"), at(name));
    copyFileSync(at("wide.arrow"), at("other.arrow"));
    await look(
      browser,
      at(name),
      async (page) => {
        const heads = () => page.locator(".column .name").allTextContents();
        const seen = await heads();
        replace(at(name));
        // Wherever one goes, rows are the old ones or none.
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
        // A filter and groups of the old headings give nothing, and the message stays.
        await page.fill(".filter", "volume > 3");
        await page.press(".filter", "Enter");
        await page.locator("#grid").focus();
        await page.keyboard.press("3");
        await page.locator(".grouping .error", { hasText: "replaced" }).waitFor();
        assert.match(await message(page).textContent(), /^The file was replaced/);
        await page.getByRole("button", { name: "Reload" }).click();
        await until("the new file", async () => (await heads())[0] === "column 0");
        assert.equal(await page.locator(".message").isVisible(), false);
      },
      // A file that becomes shorter while it is read is an error of the server, too.
      { allowed: /status of (409|500)/ },
    );
  }
});

test("what becomes of a file is said also where nothing is asked of it", async () => {
  for (const [name, change, says] of [
    ["other file", () => renameSync(at("other.arrow"), at("idle.arrow")), /^The file was replaced\. Reload$/],
    ["no file", () => rmSync(at("idle.arrow")), /^The file was removed/],
    ["no server", (view) => process.kill(view.pid, "SIGKILL"), /^The server does not answer/],
  ]) {
    copyFileSync(at("walk.arrow"), at("idle.arrow"));
    copyFileSync(at("wide.arrow"), at("other.arrow"));
    await look(
      browser,
      at("idle.arrow"),
      async (page, view) => {
        // Its heads are asked for by now, and the stream of events has begun.
        await until("heads", async () =>
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

test("a server that is gone is said, and nothing seems to be followed", async () => {
  for (const signal of ["SIGKILL", "SIGTERM", "SIGSTOP"]) {
    const table = at(`live-${signal}`);
    const stop = await growing(table, 2_000);
    await look(
      browser,
      table,
      async (page, view) => {
        const follow = page.locator(".follow");
        await follow.click();
        const before = await status(page);
        await until("rows come", async () => (await status(page)) !== before);
        assert.equal(await follow.getAttribute("aria-pressed"), "true");
        process.kill(view.pid, signal);
        await message(page).waitFor();
        assert.match(await message(page).textContent(), /^The server does not answer/);
        assert.equal(await follow.getAttribute("aria-pressed"), "false");
        assert.equal(await follow.textContent(), "Follow");
        if (signal !== "SIGSTOP") return;
        // Once it is there again, it is followed again.
        process.kill(view.pid, "SIGCONT");
        await until("nothing is wrong", async () => !(await page.locator(".message").isVisible()));
        await until("followed again", async () => (await follow.getAttribute("aria-pressed")) === "true");
        const then = await status(page);
        await until("rows come again", async () => (await status(page)) !== then);
      },
      { allowed: /ERR_|status of/ },
    ).finally(stop);
  }
});

test("a page out of sight holds no connection, and hears of what has happened when it is seen", () =>
  look(browser, at("walk.arrow"), async (page) => {
    const going = new Set();
    page.on("request", (request) => request.url().includes("/events?") && going.add(request));
    page.on("requestfailed", (request) => going.delete(request));
    await page.reload();
    await until("it listens", async () => going.size === 1);
    const show = (hidden) =>
      page.evaluate((hidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await show(true);
    await until("it has left", async () => going.size === 0);
    assert.equal(await page.locator(".message").isVisible(), false);
    await show(false);
    await until("it listens again", async () => going.size === 1);
    assert.equal(await page.locator(".message").isVisible(), false);
  }));

test("what is read off a plot is where the pointer is, also after a zoom", () =>
  look(browser, at("walk.arrow"), async (page) => {
    await page.goto(`${new URL(page.url()).origin}/#tab=plot&plot=3`);
    const title = () => page.locator(".plotting .basis").textContent();
    const readout = () => page.locator(".readout").textContent();
    const rows = async () => {
      const found = /^rows? ([\d,]+)(?: to ([\d,]+))?/.exec(await readout());
      return found ? [found[1], found[2] ?? found[1]].map((text) => Number(text.replaceAll(",", ""))) : [];
    };
    await until("all rows", async () => (await title()) === "rows 0 to 200,000");
    const box = await page.locator("canvas.plot").boundingBox();
    const x = box.x + Math.round(box.width * 0.5);
    /** Where the pointer is, as rows of what is shown. */
    const pointed = async () => {
      const [, from, to] = /^rows ([\d,]+) to ([\d,]+)$/
        .exec(await title())
        .map((text) => Number(text.replaceAll(",", "")));
      const share = (x - box.x) / box.width;
      return [from + (to - from) * share, (to - from) / box.width];
    };
    const isTrue = async () => {
      const [row, wide] = await pointed();
      const [first, last] = await rows();
      return first !== undefined && first - 2 * wide - 1 <= row && row <= last + 2 * wide + 1;
    };
    await page.mouse.move(box.x + box.width * 0.25, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(x, box.y + 70, { steps: 5 });
    await page.mouse.up();
    await until("zoomed", async () => /^rows (49|50),\d{3} to (99|100),\d{3}$/.test(await title()));
    await until("the rows at the pointer", isTrue);
    // By the wheel and by keys, with the pointer where it was.
    await page.mouse.wheel(0, 100);
    await until(
      "zoomed out",
      async () => !/^rows (49|50),\d{3} to/.test(await title()) && !/sample/.test(await title()),
    );
    await until("the rows at the pointer", isTrue);
    await page.locator("canvas.plot").focus();
    for (const key of ["+", "ArrowRight"]) {
      const was = await title();
      await page.keyboard.press(key);
      await until("another range", async () => (await title()) !== was && !/sample/.test(await title()));
      await until("the rows at the pointer", isTrue);
    }
  }));
