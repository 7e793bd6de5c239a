// Programs that the tests and the figures of the page share: the browser, servers, data.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const target = resolve(process.env.CARGO_TARGET_DIR ?? join(here, "../../target"), process.env.PROFILE ?? "debug");
export const ARROWWOOD = process.env.ARROWWOOD ?? join(target, "arrowwood");
/** The Python package's command, if it can ask DuckDB and write Parquet. */
export const WITH_SQL = process.env.ARROWWOOD_SQL;
export const SAMPLES = process.env.SAMPLES ?? join(target, "examples/view_samples");
export const SHOTS = process.env.SHOTS ?? join(here, "../shots");
export const CHROMIUM = [
  process.env.CHROMIUM,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((path) => path && existsSync(path));

/** The milliseconds after which a wait has failed, also on a machine that is busy with other things. */
export const PATIENCE = 1000 * Number(process.env.ARROWWOOD_PATIENCE ?? 240);

/** Waits until `is` resolves to true; `what` says what that means, as in "there is a file". Only polls sleep, and only here. */
export async function until(what, is) {
  for (const end = Date.now() + PATIENCE; Date.now() < end; ) {
    if (await is()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(`${what}: not within ${PATIENCE / 1000} seconds`);
}

export const launch = () => chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"], timeout: PATIENCE });

/** A page of its own, where all waits end. */
export async function newPage(browser, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(PATIENCE);
  return context.newPage();
}

/** Opens a page over `path`, and makes sure that nothing in it fails or is asked of another server. */
export async function look(
  browser,
  path,
  story,
  { hash = "", command, allowed = /status of (4\d\d|501)/, ...options } = {},
) {
  const view = await View.open(path, command);
  const page = await newPage(browser, { viewport: { width: 1200, height: 720 }, ...options });
  const wrong = [];
  const origin = new URL(view.url).origin;
  page.on("pageerror", (e) => wrong.push(e.message));
  page.on(
    "console",
    (message) => message.type() === "error" && !allowed.test(message.text()) && wrong.push(message.text()),
  );
  page.on("request", (request) => request.url().startsWith(origin) || wrong.push(request.url()));
  try {
    await page.goto(view.url);
    if (hash) await page.goto(`${origin}/${hash}`);
    await page.locator("#cell-0-0, .row:not([hidden]) .cell:not(.coming)").first().waitFor();
    await story(page, view);
    assert.deepEqual(wrong, []);
  } finally {
    await page.context().close();
    view.close();
  }
}

/** What can be looked at: a hostile file, one of exact values, a wide one, a long walk, and 100 GB of holes. */
export function samples() {
  const folder = mkdtempSync(join(tmpdir(), "arrowwood-view-"));
  const made = spawnSync(SAMPLES, ["make", folder], { stdio: "inherit" });
  if (made.status !== 0) throw new Error(`${SAMPLES} failed`);
  mkdirSync(SHOTS, { recursive: true });
  return folder;
}

/** A table that grows by `rows` a second; resolves to the rows that were appended when the time is over. */
export function grow(table, rows, seconds) {
  const grower = spawn(SAMPLES, ["grow", table, String(rows), String(seconds)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  grower.stdout.on("data", (data) => (text += data));
  return new Promise((done, failed) =>
    grower.on("close", (code) => (code ? failed(new Error(`grow: ${code}`)) : done(Number(text)))),
  );
}

/** Starts a table that grows by `rows` a second, and resolves when it has some to a function that ends it. */
export async function growing(table, rows) {
  const grower = spawn(SAMPLES, ["grow", table, String(rows), "86400"], { stdio: ["ignore", "ignore", "inherit"] });
  const ended = new Promise((done) => grower.once("close", done));
  const first = () => spawnSync(ARROWWOOD, ["head", "-n", "1", "--json", table], { encoding: "utf8" });
  await until("the table has rows", () => grower.exitCode !== null || /\{/.test(first().stdout));
  return () => (grower.kill(), ended);
}

export class View {
  static open(path, command = ARROWWOOD) {
    const server = spawn(command, ["view", path, "--no-browser", "--listen", "127.0.0.1:0"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    return new Promise((done, failed) => {
      server.stdout.once("data", (data) => done(new View(server, String(data).trim())));
      server.once("close", (code) => failed(new Error(`arrowwood view ${path} ended with ${code}`)));
    });
  }

  constructor(server, url) {
    this.server = server;
    this.url = url;
    this.pid = server.pid;
  }

  close() {
    this.server.kill();
  }
}

/** Whether a command has the page that is here, and is not one that was installed before it. */
export async function isCurrent(command, path) {
  const view = await View.open(path, command);
  try {
    const served = await (await fetch(new URL("/view.js", view.url))).text();
    return served === readFileSync(join(here, "../../serve/page/view.js"), "utf8");
  } finally {
    view.close();
  }
}
