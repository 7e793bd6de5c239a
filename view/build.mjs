// Builds the page into serve/page, which is compiled into the server. With --check, compares it with the files there.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, "..", "serve", "page");
const isCheck = process.argv.includes("--check");
const script = await build({
  absWorkingDir: here,
  entryPoints: { view: "src/main.ts" },
  bundle: true,
  minify: true,
  charset: "utf8",
  target: "es2022",
  format: "iife",
  legalComments: "none",
  write: false,
  outdir: folder,
});
const files = script.outputFiles.map((file) => ["view.js", Buffer.from(file.contents)]);
const styles = await build({
  absWorkingDir: here,
  entryPoints: ["src/view.css"],
  minify: true,
  write: false,
  outdir: folder,
});
files.push(["view.css", Buffer.from(styles.outputFiles[0].contents)]);
for (const name of ["index.html", "icon.svg"]) files.push([name, readFileSync(join(here, "src", name))]);

// A hash of the sources, with which a test without npm can tell whether the bundle is current.
const hash = createHash("sha256");
for (const name of readdirSync(join(here, "src")).sort())
  hash.update(`${name}\0`).update(readFileSync(join(here, "src", name)));
files.push(["source.sha256", Buffer.from(`${hash.digest("hex")}\n`)]);

let total = 0;
let isSame = true;
mkdirSync(folder, { recursive: true });
for (const [name, bytes] of files) {
  if (name !== "source.sha256") total += gzipSync(bytes, { level: 9 }).length;
  const path = join(folder, name);
  if (!isCheck) writeFileSync(path, bytes);
  else if (!readFileSync(path).equals(bytes)) {
    isSame = false;
    console.error(`serve/page/${name} is not what view/src gives; run make view`);
  }
}
console.log(`view: ${(total / 1000).toFixed(1)} kB compressed`);
if (total > 100_000) {
  console.error("view: the page has more than 100 kB compressed");
  process.exit(1);
}
process.exit(isSame ? 0 : 1);
