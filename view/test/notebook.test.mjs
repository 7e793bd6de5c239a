// Tests aw.view in JupyterLab in a browser, with a real kernel.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { isCurrent, launch, makeSamples, newPage, SHOTS } from "./browser.mjs";

/** A Python that has arrowwood, anywidget and JupyterLab. */
const PYTHON = process.env.JUPYTER_PYTHON;

/** Starts JupyterLab in a folder. Resolves to its process and the URL that it prints. */
function startJupyterLab(folder) {
  const settings = [
    "--no-browser",
    "--allow-root",
    "--port=0",
    `--ServerApp.root_dir=${folder}`,
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
  ];
  const env = {
    ...process.env,
    HOME: folder,
    JUPYTER_CONFIG_DIR: join(folder, "config"),
    JUPYTER_DATA_DIR: join(folder, "data"),
    JUPYTER_RUNTIME_DIR: join(folder, "runtime"),
    IPYTHONDIR: join(folder, "ipython"),
  };
  const server = spawn(PYTHON, ["-m", "jupyterlab", ...settings], {
    cwd: folder,
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  return new Promise((done, failed) => {
    let text = "";
    server.stderr.on("data", (data) => {
      text += data;
      const url = /http:\/\/(?:localhost|127\.0\.0\.1):\d+\/lab\?token=\w+/.exec(text);
      if (url) done({ server, url: url[0] });
    });
    server.once("close", () => failed(new Error(`JupyterLab ended:\n${text}`)));
  });
}

const code = (source) => ({
  cell_type: "code",
  execution_count: null,
  id: `c${source.length}`,
  metadata: {},
  outputs: [],
  source,
});

test("aw.view shows the page in a cell of JupyterLab", {
  skip: !PYTHON && "needs JupyterLab beside the package: make test-python, then .venv/bin/pip install jupyterlab",
}, async (t) => {
  const folder = makeSamples();
  if (!(await isCurrent(join(dirname(PYTHON), "arrowwood"), join(folder, "walk.arrow")))) {
    rmSync(folder, { recursive: true });
    return t.skip("the Python package is older than the page: make test-python");
  }
  const home = mkdtempSync(join(tmpdir(), "arrowwood-lab-"));
  const cells = [
    `import arrowwood as aw\nview = aw.view(${JSON.stringify(join(folder, "walk.arrow"))}, height=420)\nview`,
    "view.close()\nprint('closed', view)",
  ];
  const notebook = {
    cells: cells.map(code),
    metadata: { kernelspec: { display_name: "Python 3", language: "python", name: "python3" } },
    nbformat: 4,
    nbformat_minor: 5,
  };
  writeFileSync(join(home, "look.ipynb"), JSON.stringify(notebook));
  const { server, url } = await startJupyterLab(home);
  const browser = await launch();
  try {
    const page = await newPage(browser, { viewport: { width: 1300, height: 900 } });
    await page.goto(url.replace("/lab?", "/lab/tree/look.ipynb?"));
    await page.locator(".jp-Notebook .jp-Cell").first().click();
    await page.locator(".jp-Notebook[data-jp-kernel-user='true']").waitFor();
    await page.keyboard.press("Shift+Enter");
    const frame = page.frameLocator("iframe[title=Arrowwood]");
    const status = frame.locator(".status");
    await status.filter({ hasText: "200,000 rows · 5 columns" }).waitFor();
    await frame.locator("#cell-0-0:not(.coming)").click();
    await frame.locator(".panel pre").waitFor();
    await page.keyboard.press("Control+End");
    await frame.locator("#cell-199999-0:not(.coming)").waitFor();
    assert.equal(await frame.locator("#cell-199999-0").textContent(), "199999");
    await page.keyboard.press("Escape");
    await page.keyboard.press("3");
    await frame.locator(".groups tbody tr").nth(3).waitFor();
    // The line of a column is also requested through the kernel.
    await page.keyboard.press("1");
    await frame.locator(".column", { hasText: "price" }).click();
    await frame.locator(".panel canvas.spark").waitFor();
    await page.screenshot({ path: join(SHOTS, "jupyterlab.png") });
    // The next cell closes the server, and the page reports that.
    await page.locator(".jp-Notebook .jp-CodeCell").nth(1).locator(".cm-content").click();
    await page.keyboard.press("Shift+Enter");
    await page.locator(".jp-OutputArea-output", { hasText: "closed <arrowwood.View closed>" }).waitFor();
    await frame.locator("#grid").focus();
    await page.keyboard.press("Control+Home");
    await frame.locator(".column", { hasText: "int64" }).click();
    await frame.locator(".panel .error", { hasText: "the server does not answer" }).waitFor();
  } finally {
    await browser.close();
    server.kill();
    await new Promise((done) => server.once("close", done));
    for (const path of [folder, home]) rmSync(path, { recursive: true, force: true, maxRetries: 5 });
  }
});
