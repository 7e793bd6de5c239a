// SQL over the shown table, if the server has an engine.

import { fetchJson, type SqlResult, tableUrl } from "../data/api.js";
import { el, plural } from "../elements/dom.js";
import { downloadLinks } from "../elements/download.js";
import { StatusLine } from "../elements/status_line.js";
import { resultTable } from "../elements/table.js";

export class SqlTab {
  readonly element: HTMLElement;
  private running: AbortController | undefined;
  private textarea = el("textarea", {
    class: "query",
    rows: 4,
    "aria-label": "SQL",
    spellcheck: "false",
    placeholder: "select * from self limit 100",
    keydown: (event) => this.onKeyDown(event as KeyboardEvent),
  });
  private status = new StatusLine("What is shown is called self. Ctrl-Enter runs it; one statement that only asks.");
  private result = el("div", { class: "groups" });
  private downloads = el("span", { class: "saves" });

  constructor(
    private tableName: string,
    private formats: string[],
    /** Called when another query runs. */
    private onChange: () => void,
  ) {
    const button = el("button", { class: "run", click: () => void this.run() }, "Run");
    this.element = el(
      "section",
      { class: "grouping", "aria-label": "SQL" },
      this.textarea,
      el("p", { class: "tools" }, button, this.status.element, this.downloads),
      this.result,
    );
  }

  get query() {
    return this.textarea.value;
  }

  set query(query: string) {
    this.textarea.value = query;
  }

  focus() {
    this.textarea.focus();
  }

  /** Aborts the query that runs. */
  stop() {
    this.running?.abort();
  }

  private onKeyDown(event: KeyboardEvent) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void this.run();
  }

  async run() {
    this.running?.abort();
    const controller = new AbortController();
    this.running = controller;
    this.downloads.replaceChildren();
    this.status.show("asking … (Esc ends it)");
    this.onChange();
    const { query } = this;
    try {
      const result = await fetchJson<SqlResult>("sql", { query }, controller.signal);
      this.showResult(result, query);
    } catch (e) {
      if (this.running !== controller) return;
      if (controller.signal.aborted) this.status.show("ended");
      else this.status.showError((e as Error).message);
      this.result.replaceChildren();
    }
  }

  private showResult({ columns, cells, whole }: SqlResult, query: string) {
    const summary = `${whole ? "" : "the first "}${plural(cells.length, "row")} · ${plural(columns.length, "column")}`;
    this.status.show(summary);
    const links = downloadLinks({
      name: `${this.tableName}.sql`,
      formats: this.formats,
      address: (format) => tableUrl("sql", { query, format }),
      onError: (message) => (message ? this.status.showError(message) : this.status.show(summary)),
    });
    this.downloads.replaceChildren(...links);
    const head = (column: number) => {
      const { name, type } = columns[column];
      return { content: name, attributes: { title: type } };
    };
    this.result.replaceChildren(resultTable({ columns, cells, head }));
  }
}
