// SQL over the shown table, if the server has an engine.

import { type Answer, get, url } from "./api.js";
import { el, plural } from "./dom.js";
import { saves } from "./save.js";
import { table } from "./table.js";

export class Sql {
  readonly element: HTMLElement;
  private going: AbortController | undefined;
  private query = el("textarea", {
    class: "query",
    rows: 4,
    "aria-label": "SQL",
    spellcheck: "false",
    placeholder: "select * from self limit 100",
    keydown: (event) => this.key(event as KeyboardEvent),
  });
  private told = el(
    "p",
    { class: "basis", role: "status", "aria-live": "polite" },
    "What is shown is called self. Ctrl-Enter runs it; one statement that only asks.",
  );
  private found = el("div", { class: "groups" });
  private keep = el("span", { class: "saves" });

  constructor(
    private name: string,
    private formats: string[],
    private changed: () => void,
  ) {
    const run = el("button", { class: "run", click: () => void this.run() }, "Run");
    this.element = el(
      "section",
      { class: "grouping", "aria-label": "SQL" },
      this.query,
      el("p", { class: "tools" }, run, this.told, this.keep),
      this.found,
    );
  }

  get text() {
    return this.query.value;
  }

  set text(text: string) {
    this.query.value = text;
  }

  focus() {
    this.query.focus();
  }

  stop() {
    this.going?.abort();
  }

  private key(event: KeyboardEvent) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    void this.run();
  }

  async run() {
    this.going?.abort();
    this.keep.replaceChildren();
    const going = (this.going = new AbortController());
    this.told.textContent = "asking … (Esc ends it)";
    this.told.classList.remove("error");
    this.changed();
    try {
      const query = this.text;
      const { columns, cells, whole } = await get<Answer>("sql", { query }, going.signal);
      this.told.textContent = `${whole ? "" : "the first "}${plural(cells.length, "row")} · ${plural(columns.length, "column")}`;
      const told = this.told.textContent;
      const failed = (message: string) => {
        this.told.textContent = message || told;
        this.told.classList.toggle("error", !!message);
      };
      const address = (format: string) => url("sql", { query, format });
      this.keep.replaceChildren(...saves({ name: `${this.name}.sql`, formats: this.formats, address, failed }));
      this.found.replaceChildren(table(columns, cells, (i) => [columns[i].name, { title: columns[i].type }]));
    } catch (e) {
      if (this.going !== going) return;
      this.told.textContent = going.signal.aborted ? "ended" : (e as Error).message;
      this.told.classList.toggle("error", !going.signal.aborted);
      this.found.replaceChildren();
    }
  }
}
