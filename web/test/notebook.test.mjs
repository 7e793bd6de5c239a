// Tests `aw.view` in JupyterLab: the page sends its requests through a real kernel.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { launchBrowser, makeSamples, newPage, SCREENSHOTS, servesCurrentPage } from "./browser.mjs";

/** A Python that has arrowwood, anywidget and JupyterLab. */
const PYTHON = process.env.JUPYTER_PYTHON;

/** Starts JupyterLab in a folder; resolves to its process and the URL that it prints. */
function startJupyterLab(folder) {
  const settings = [
    "--no-browser",
    "--allow-root",
    "--port=0",
    `--ServerApp.root_dir=${folder}`,
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
  ];
  // Keeps the user's settings out of the test, and the test out of them.
  const environment = {
    ...process.env,
    HOME: folder,
    JUPYTER_CONFIG_DIR: join(folder, "config"),
    JUPYTER_DATA_DIR: join(folder, "data"),
    JUPYTER_RUNTIME_DIR: join(folder, "runtime"),
    IPYTHONDIR: join(folder, "ipython"),
  };
  const server = spawn(PYTHON, ["-m", "jupyterlab", ...settings], {
    cwd: folder,
    env: environment,
    stdio: ["ignore", "ignore", "pipe"],
  });
  return new Promise((resolve, reject) => {
    let log = "";
    server.stderr.on("data", (data) => {
      log += data;
      const url = /http:\/\/(?:localhost|127\.0\.0\.1):\d+\/lab\?token=\w+/.exec(log);
      if (url) resolve({ server, url: url[0] });
    });
    server.once("close", () => reject(new Error(`JupyterLab ended:\n${log}`)));
  });
}

function codeCell(source, number) {
  return {
    cell_type: "code",
    execution_count: null,
    id: `cell-${number}`,
    metadata: {},
    outputs: [],
    source,
  };
}

/** Writes a notebook of Python cells. */
function writeNotebook(path, sources) {
  const notebook = {
    cells: sources.map(codeCell),
    metadata: { kernelspec: { display_name: "Python 3", language: "python", name: "python3" } },
    nbformat: 4,
    nbformat_minor: 5,
  };
  writeFileSync(path, JSON.stringify(notebook));
}

test("aw.view shows the page in a cell of JupyterLab", {
  skip: !PYTHON && "needs JupyterLab beside the package: make test-python, then .venv/bin/pip install jupyterlab",
}, async (t) => {
  const samples = makeSamples();
  const walk = join(samples, "walk.arrow");
  if (!(await servesCurrentPage(join(dirname(PYTHON), "arrowwood"), walk))) {
    rmSync(samples, { recursive: true });
    return t.skip("the Python package is older than the page: make test-python");
  }
  const home = mkdtempSync(join(tmpdir(), "arrowwood-lab-"));
  writeNotebook(join(home, "look.ipynb"), [
    `import arrowwood as aw\nview = aw.view(${JSON.stringify(walk)}, height=420)\nview`,
    "view.close()\nprint('closed', view)",
  ]);
  const { server, url } = await startJupyterLab(home);
  const browser = await launchBrowser();
  try {
    const page = await newPage(browser, { viewport: { width: 1300, height: 900 } });
    await page.goto(url.replace("/lab?", "/lab/tree/look.ipynb?"));
    await page.locator(".jp-Notebook .jp-Cell").first().click();
    await page.locator(".jp-Notebook[data-jp-kernel-user='true']").waitFor();
    await page.keyboard.press("Shift+Enter");
    const frame = page.frameLocator("iframe[title=Arrowwood]");
    await frame.locator(".status", { hasText: "200,000 rows · 5 columns" }).waitFor();
    await frame.locator("#cell-0-0:not(.coming)").click();
    await frame.locator(".panel pre").waitFor();
    await page.keyboard.press("Control+End");
    await frame.locator("#cell-199999-0:not(.coming)").waitFor();
    assert.equal(await frame.locator("#cell-199999-0").textContent(), "199999");
    await page.keyboard.press("Escape");
    await page.keyboard.press("3");
    await frame.locator(".groups tbody tr").nth(3).waitFor();
    await page.keyboard.press("1");
    await frame.locator(".column", { hasText: "price" }).click();
    await frame.locator(".panel canvas.spark").waitFor();
    await page.screenshot({ path: join(SCREENSHOTS, "jupyterlab.png") });
    // The next cell closes the server, which answers no more requests.
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
    await new Promise((resolve) => server.once("close", resolve));
    for (const folder of [samples, home]) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
});
