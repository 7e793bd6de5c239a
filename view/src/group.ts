// Groups of the filtered rows: counts, sums, means and so on, as a table that can be sorted.

import { type Column, type Groups, grouped, type Report, url } from "./api.js";
import { count, el, plural } from "./dom.js";
import { saves } from "./save.js";
import { table } from "./table.js";

const functions = ["sum", "mean", "median", "min", "max", "count", "first", "last", "n_unique", "std", "var"] as const;

/** Columns to group by, functions of columns, and a column of the result to sort by. */
export interface Grouping {
  by: number[];
  of: [string, number][];
  order: number | undefined;
  descending: boolean;
}

/** Parses a grouping in the URL's format: `by=2,3`, `of=mean:4,sum:5`, `order=-2`. */
export function groupingOf(parameters: URLSearchParams, columns: number): Grouping {
  const column = (text: string) => (/^\d+$/.test(text) && Number(text) < columns ? [Number(text)] : []);
  const list = (name: string) => (parameters.get(name) ?? "").split(",").slice(0, 16);
  const of = list("of").flatMap((text): [string, number][] => {
    const [name, number = ""] = text.split(":");
    return (functions as readonly string[]).includes(name) ? column(number).map((n) => [name, n]) : [];
  });
  const order = /^(-?)(\d+)$/.exec(parameters.get("order") ?? "");
  return {
    by: list("by").flatMap(column).slice(0, 8),
    of,
    order: order ? Number(order[2]) : undefined,
    descending: order?.[1] === "-",
  };
}

export class Group {
  readonly element: HTMLElement;
  grouping: Grouping = { by: [], of: [], order: undefined, descending: false };
  private where = "";
  private going: AbortController | undefined;
  private tools = el("div", { class: "tools" });
  private told = el("p", { class: "basis", role: "status", "aria-live": "polite" });
  private keep = el("span", { class: "saves" });
  private stopper = el("button", { class: "stop", hidden: true, click: () => this.stop() }, "Stop");
  private table = el("div", { class: "groups" });

  constructor(
    private name: string,
    private formats: string[],
    private columns: Column[],
    private changed: () => void,
    private only: (condition: string) => void,
  ) {
    this.element = el(
      "section",
      { class: "grouping", "aria-label": "Groups" },
      this.tools,
      el("p", { class: "tools" }, this.told, this.stopper, this.keep),
      this.table,
    );
  }

  /** Groups the rows that `where` selects; the first time by the first column of text. */
  show(where: string) {
    const { grouping } = this;
    const isNew = !this.tools.childElementCount && !grouping.by.length && !grouping.of.length;
    if (isNew) {
      const at = this.columns.findIndex(({ type }) => /^(dictionary|utf8|large_utf8|string|bool)/.test(type));
      if (at >= 0) grouping.by = [at];
    }
    if (where === this.where && this.table.childElementCount && !this.going) return;
    this.where = where;
    this.choose();
    void this.load();
  }

  /** Groups again after the grouping or the rows have changed. */
  again(where: string) {
    this.where = where;
    this.choose();
    void this.load();
  }

  stop() {
    this.going?.abort();
  }

  /** Returns the controls: each choice with a button that removes it, and the possible additions. */
  private choose() {
    const { by, of } = this.grouping;
    const change = (next: Partial<Grouping>) => {
      Object.assign(this.grouping, { order: undefined, descending: false }, next);
      this.choose();
      this.changed();
      void this.load();
    };
    const name = (column: number) => this.columns[column].name;
    const chip = (text: string, remove: () => void) =>
      el(
        "span",
        { class: "chip" },
        el("span", {}, text),
        el("button", { "aria-label": `Without ${text}`, click: remove }, "×"),
      );
    const options = () => this.columns.map(({ name }, i) => el("option", { value: i }, name));
    const key = el(
      "select",
      { "aria-label": "Group by", change: () => key.value && change({ by: [...by, Number(key.value)] }) },
      el("option", { value: "" }, by.length ? "and by …" : "all rows"),
      ...options(),
    );
    const kind = el(
      "select",
      { "aria-label": "Function" },
      ...functions.map((each) => el("option", { value: each }, each)),
    );
    const column = el("select", { "aria-label": "Column of the function" }, ...options());
    const number = this.columns.findIndex(
      ({ type }, i) => /^(float|u?int|decimal)/.test(type) && !of.some(([, at]) => at === i),
    );
    column.value = String(Math.max(0, number));
    this.tools.replaceChildren(
      el("span", {}, "Group by"),
      ...by.map((at, i) => chip(name(at), () => change({ by: by.filter((_, other) => other !== i) }))),
      key,
      el("span", {}, "and show"),
      ...of.map(([each, at], i) =>
        chip(`${each} of ${name(at)}`, () => change({ of: of.filter((_, other) => other !== i) })),
      ),
      kind,
      el("span", {}, "of"),
      column,
      el("button", { class: "add", click: () => change({ of: [...of, [kind.value, Number(column.value)]] }) }, "Add"),
    );
  }

  private async load() {
    this.going?.abort();
    const going = (this.going = new AbortController());
    const { by, of, order, descending } = this.grouping;
    this.told.textContent = "grouping …";
    this.stopper.hidden = false;
    this.keep.replaceChildren();
    this.told.classList.remove("error");
    const report = ({ searched, of, found }: Report) => {
      if (searched !== undefined)
        this.told.textContent = `read ${count(searched)} of ${plural(of!, "row")}: ${plural(found!, "group")} …`;
    };
    try {
      const parameters = {
        at: by.length ? by.join(",") : undefined,
        of: of.map(([name, at]) => `${name}:${at}`),
        where: this.where,
        sort: order,
        descending,
      };
      this.draw(await grouped(parameters, report, going.signal));
      const told = this.told.textContent;
      const failed = (message: string) => {
        this.told.textContent = message || told;
        this.told.classList.toggle("error", !!message);
      };
      const address = (format: string) => url("groups", { ...parameters, format });
      this.keep.replaceChildren(...saves({ name: `${this.name}.groups`, formats: this.formats, address, failed }));
    } catch (e) {
      if (this.going !== going) return;
      this.told.textContent = going.signal.aborted ? "ended" : (e as Error).message;
      this.told.classList.toggle("error", !going.signal.aborted);
      this.table.replaceChildren();
    } finally {
      if (this.going === going) {
        this.going = undefined;
        this.stopper.hidden = true;
      }
    }
  }

  private draw(found: Groups) {
    const { by, order, descending } = this.grouping;
    const shown = found.cells.length;
    this.told.textContent =
      plural(found.groups, "group") +
      (shown < found.groups ? `, the first ${count(shown)}` : "") +
      (this.where ? ` of the rows where ${this.where}` : ` of ${plural(found.of, "row")}`);
    const sort = (column: number) => {
      this.grouping.descending = order === column ? !descending : column >= by.length;
      this.grouping.order = column;
      this.changed();
      void this.load();
    };
    const head = (i: number): [Node, Record<string, string>] => {
      const { name, type } = found.columns[i];
      const mark = order === i ? (descending ? " ↓" : " ↑") : "";
      const button = el("button", { title: `${name}: ${type}`, "data-sort": i, click: () => sort(i) }, name + mark);
      return [button, { "aria-sort": order === i ? (descending ? "descending" : "ascending") : "none" }];
    };
    const lead = (group: number, text: string) => {
      const condition = found.conditions[group];
      return condition ? el("button", { title: "Only these rows", click: () => this.only(condition) }, text) : text;
    };
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.sort;
    this.table.replaceChildren(table(found.columns, found.cells, head, lead));
    // Keeps the focus for users who sort by keyboard.
    if (focused !== undefined) this.table.querySelector<HTMLElement>(`[data-sort="${focused}"]`)?.focus();
  }
}
