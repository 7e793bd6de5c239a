// Builds the page into crates/serve/page, which the server includes. With --check, compares it with the files there.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

/** The maximum number of bytes of the page, compressed. */
const MAX_BYTES = 100_000;

const viewFolder = dirname(fileURLToPath(import.meta.url));
const sourceFolder = join(viewFolder, "src");
const pageFolder = join(viewFolder, "..", "crates", "serve", "page");

async function bundle(options) {
  const { outputFiles } = await build({
    absWorkingDir: viewFolder,
    outdir: pageFolder,
    minify: true,
    write: false,
    ...options,
  });
  return Buffer.from(outputFiles[0].contents);
}

function bundleScript() {
  return bundle({
    entryPoints: { view: "src/main.ts" },
    bundle: true,
    charset: "utf8",
    target: "es2022",
    format: "iife",
    legalComments: "none",
  });
}

/** Returns a hash of the sources, so that a test without npm can tell whether the page is current. */
function hashSources() {
  const hash = createHash("sha256");
  for (const name of readdirSync(sourceFolder, { recursive: true }).sort()) {
    const path = join(sourceFolder, name);
    if (statSync(path).isFile()) hash.update(`${name}\0`).update(readFileSync(path));
  }
  return Buffer.from(`${hash.digest("hex")}\n`);
}

function writePage(files) {
  mkdirSync(pageFolder, { recursive: true });
  for (const [name, bytes] of files) writeFileSync(join(pageFolder, name), bytes);
}

/** Returns true if the page has the given files, and reports those that differ. */
function checkPage(files) {
  const differing = [...files].filter(([name, bytes]) => !readFileSync(join(pageFolder, name)).equals(bytes));
  for (const [name] of differing) console.error(`crates/serve/page/${name} is not what web/src gives; run make view`);
  return differing.length === 0;
}

const page = new Map([
  ["view.js", await bundleScript()],
  ["view.css", await bundle({ entryPoints: ["src/view.css"] })],
  ["index.html", readFileSync(join(sourceFolder, "index.html"))],
  ["icon.svg", readFileSync(join(sourceFolder, "icon.svg"))],
]);
let total = 0;
for (const bytes of page.values()) total += gzipSync(bytes, { level: 9 }).length;
console.log(`view: ${(total / 1000).toFixed(1)} kB compressed`);
if (total > MAX_BYTES) {
  console.error("view: the page has more than 100 kB compressed");
  process.exit(1);
}

const files = new Map([...page, ["source.sha256", hashSources()]]);
if (!process.argv.includes("--check")) writePage(files);
else if (!checkPage(files)) process.exit(1);
