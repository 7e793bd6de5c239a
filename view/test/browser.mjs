// Helpers of the tests and the benchmark of the page: the browser, servers and data.
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

/** The milliseconds after which a wait fails, long enough for a busy machine. */
export const PATIENCE = 1000 * Number(process.env.ARROWWOOD_PATIENCE ?? 240);

/** Waits until `predicate` resolves to true. `description` names the condition in the failure. */
export async function waitUntil(description, predicate) {
  for (const end = Date.now() + PATIENCE; Date.now() < end; ) {
    if (await predicate()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(`${description}: not within ${PATIENCE / 1000} seconds`);
}

export const launch = () => chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"], timeout: PATIENCE });

/** Opens a page in a context of its own, whose waits are limited by PATIENCE. */
export async function newPage(browser, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(PATIENCE);
  return context.newPage();
}

/** Opens the page of a file or table, runs a test body with it, and checks that it had no errors or requests to other hosts. */
export async function withView(
  browser,
  path,
  body,
  { hash = "", command, allowed = /status of (4\d\d|501)/, ...options } = {},
) {
  const view = await View.open(path, command);
  const page = await newPage(browser, { viewport: { width: 1200, height: 720 }, ...options });
  const problems = [];
  const origin = new URL(view.url).origin;
  page.on("pageerror", (e) => problems.push(e.message));
  page.on(
    "console",
    (message) => message.type() === "error" && !allowed.test(message.text()) && problems.push(message.text()),
  );
  page.on("request", (request) => request.url().startsWith(origin) || problems.push(request.url()));
  try {
    await page.goto(view.url);
    if (hash) await page.goto(`${origin}/${hash}`);
    await page.locator("#cell-0-0, .row:not([hidden]) .cell:not(.coming)").first().waitFor();
    await body(page, view);
    assert.deepEqual(problems, []);
  } finally {
    await page.context().close();
    view.close();
  }
}

/** Makes the sample files in a temporary folder: hostile.arrow, exact.arrow, wide.arrow, walk.arrow, and 100 GB of holes. */
export function makeSamples() {
  const folder = mkdtempSync(join(tmpdir(), "arrowwood-view-"));
  const maker = spawnSync(SAMPLES, ["make", folder], { stdio: "inherit" });
  if (maker.status !== 0) throw new Error(`${SAMPLES} failed`);
  mkdirSync(SHOTS, { recursive: true });
  return folder;
}

/** Appends `rows` rows per second to a table for some seconds. Resolves to the number of appended rows. */
export function growTable(table, rows, seconds) {
  const grower = spawn(SAMPLES, ["grow", table, String(rows), String(seconds)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  grower.stdout.on("data", (data) => (text += data));
  return new Promise((done, failed) =>
    grower.on("close", (code) => (code ? failed(new Error(`grow: ${code}`)) : done(Number(text)))),
  );
}

/** Starts to append `rows` rows per second to a table. Resolves, once it has rows, to a function that stops that. */
export async function startGrowing(table, rows) {
  const grower = spawn(SAMPLES, ["grow", table, String(rows), "86400"], { stdio: ["ignore", "ignore", "inherit"] });
  const ended = new Promise((done) => grower.once("close", done));
  const first = () => spawnSync(ARROWWOOD, ["head", "-n", "1", "--json", table], { encoding: "utf8" });
  await waitUntil("the table has rows", () => grower.exitCode !== null || /\{/.test(first().stdout));
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

/** Returns whether a command serves the page in this checkout, and not an older one. */
export async function isCurrent(command, path) {
  const view = await View.open(path, command);
  try {
    const served = await (await fetch(new URL("/view.js", view.url))).text();
    return served === readFileSync(join(here, "../../serve/page/view.js"), "utf8");
  } finally {
    view.close();
  }
}
