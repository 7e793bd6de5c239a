// Helpers of the tests and the benchmark of the page: the browser, servers and data.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const testFolder = dirname(fileURLToPath(import.meta.url));
const targetFolder = resolve(
  process.env.CARGO_TARGET_DIR ?? join(testFolder, "../../target"),
  process.env.PROFILE ?? "debug",
);
export const ARROWWOOD = process.env.ARROWWOOD ?? join(targetFolder, "arrowwood");
/** The command of the Python package, if it has DuckDB for queries and can write Parquet. */
export const ARROWWOOD_WITH_SQL = process.env.ARROWWOOD_SQL;
export const SAMPLES = process.env.SAMPLES ?? join(targetFolder, "examples/view_samples");
export const SCREENSHOTS = process.env.SHOTS ?? join(testFolder, "../shots");
export const CHROMIUM = [
  process.env.CHROMIUM,
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find((path) => path && existsSync(path));

/** The milliseconds after which a wait has failed, long enough for a machine that is busy with other things. */
export const TIMEOUT_MS = 1000 * Number(process.env.ARROWWOOD_PATIENCE ?? 240);
const POLL_INTERVAL_MS = 50;

/** Waits until `condition` resolves to true. `description` names the condition in the error. */
export async function waitUntil(description, condition) {
  const end = Date.now() + TIMEOUT_MS;
  while (Date.now() < end) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
  assert.fail(`${description}: not within ${TIMEOUT_MS / 1000} seconds`);
}

export function launchBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"], timeout: TIMEOUT_MS });
}

/** Opens a page in a context of its own, in which all waits have a timeout. */
export async function newPage(browser, options) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(TIMEOUT_MS);
  return context.newPage();
}

/**
 * Runs `test` with the page of a server over `path`.
 *
 * Fails if the page has errors that `allowedErrors` doesn't match, or sends requests to another server. Other options
 * are the browser context's.
 */
export async function withPage(
  browser,
  path,
  test,
  { command, allowedErrors = /status of (4\d\d|501)/, ...contextOptions } = {},
) {
  const server = await ViewServer.start(path, command);
  const page = await newPage(browser, { viewport: { width: 1200, height: 720 }, ...contextOptions });
  const errors = [];
  const origin = new URL(server.url).origin;
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !allowedErrors.test(message.text())) errors.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin)) errors.push(request.url());
  });
  try {
    await page.goto(server.url);
    await page.locator("#cell-0-0, .row:not([hidden]) .cell:not(.coming)").first().waitFor();
    await test(page, server);
    assert.deepEqual(errors, []);
  } finally {
    await page.context().close();
    server.close();
  }
}

/** Returns the locator of a cell that was fetched. */
export function cellAt(page, row, column) {
  return page.locator(`[id="cell-${row}-${column}"]:not(.coming)`);
}

/** Returns the text of the status line: the number of rows, or the progress of a search. */
export function statusText(page) {
  return page.locator(".status").textContent();
}

/** Returns the first number in a text, which may have separators of thousands. */
export function parseCount(text) {
  return Number(text.replaceAll(",", "").match(/\d+/)[0]);
}

/** Makes files in a new folder: hostile, exact and wide ones, a random walk, and one of 100 GB that is sparse. */
export function makeSamples() {
  const folder = mkdtempSync(join(tmpdir(), "arrowwood-view-"));
  const { status } = spawnSync(SAMPLES, ["make", folder], { stdio: "inherit" });
  if (status !== 0) throw new Error(`${SAMPLES} failed`);
  mkdirSync(SCREENSHOTS, { recursive: true });
  return folder;
}

/** Appends to a table for some seconds; resolves to the number of rows that were appended. */
export function growTable(table, rowsPerSecond, seconds) {
  const writer = spawn(SAMPLES, ["grow", table, String(rowsPerSecond), String(seconds)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  writer.stdout.on("data", (data) => {
    output += data;
  });
  return new Promise((resolve, reject) => {
    writer.on("close", (code) => {
      if (code) reject(new Error(`grow: ${code}`));
      else resolve(Number(output));
    });
  });
}

/** Starts to append to a table, and waits for its first rows; resolves to a function that stops appending. */
export async function startGrowing(table, rowsPerSecond) {
  const writer = spawn(SAMPLES, ["grow", table, String(rowsPerSecond), "86400"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const closed = new Promise((resolve) => writer.once("close", resolve));
  const hasRows = () => {
    const { stdout } = spawnSync(ARROWWOOD, ["head", "-n", "1", "--json", table], { encoding: "utf8" });
    return /\{/.test(stdout);
  };
  await waitUntil("the table has rows", () => writer.exitCode !== null || hasRows());
  return async () => {
    writer.kill();
    await closed;
  };
}

/** A process of `arrowwood view`. */
export class ViewServer {
  static start(path, command = ARROWWOOD) {
    const process = spawn(command, ["view", path, "--no-browser", "--listen", "127.0.0.1:0"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    return new Promise((resolve, reject) => {
      process.stdout.once("data", (data) => resolve(new ViewServer(process, String(data).trim())));
      process.once("close", (code) => reject(new Error(`arrowwood view ${path} ended with ${code}`)));
    });
  }

  constructor(process, url) {
    this.process = process;
    /** The URL of the page, with the token. */
    this.url = url;
    this.pid = process.pid;
  }

  close() {
    this.process.kill();
  }
}

/** Returns true if a command serves the page of this checkout, and wasn't installed before it was built. */
export async function servesCurrentPage(command, path) {
  const server = await ViewServer.start(path, command);
  try {
    const response = await fetch(new URL("/view.js", server.url));
    const built = readFileSync(join(testFolder, "../../crates/serve/page/view.js"), "utf8");
    return (await response.text()) === built;
  } finally {
    server.close();
  }
}
