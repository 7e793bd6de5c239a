// Groups of the filtered rows: counts, sums, means and so on, as a table that can be sorted.

import { type Column, type GroupResult, groupRows, type Progress, tableUrl } from "../data/api.js";
import { el, formatCount, plural } from "../elements/dom.js";
import { downloadLinks } from "../elements/download.js";
import { StatusLine } from "../elements/status_line.js";
import { resultTable } from "../elements/table.js";

const FUNCTIONS = ["sum", "mean", "median", "min", "max", "count", "first", "last", "n_unique", "std", "var"] as const;
/** Limits of a grouping in the URL. */
const MAX_KEYS = 8;
const MAX_AGGREGATES = 16;

/** A function of a column. */
type Aggregate = [name: string, column: number];

/** Columns to group by, functions of columns, and a column of the result to sort by. */
export interface Grouping {
  by: number[];
  of: Aggregate[];
  order: number | undefined;
  descending: boolean;
}

/** Returns a grouping that groups by nothing. */
export function emptyGrouping(): Grouping {
  return { by: [], of: [], order: undefined, descending: false };
}

/** Parses a grouping in the URL's format: `by=2,3`, `of=mean:4,sum:5`, `order=-2`. Parts that are not valid are left out. */
export function parseGrouping(parameters: URLSearchParams, columnCount: number): Grouping {
  const isColumn = (text: string) => /^\d+$/.test(text) && Number(text) < columnCount;
  const isFunction = (text: string) => (FUNCTIONS as readonly string[]).includes(text);
  const listed = (name: string) => (parameters.get(name) ?? "").split(",").slice(0, MAX_AGGREGATES);
  const by = listed("by").filter(isColumn).map(Number).slice(0, MAX_KEYS);
  const of: Aggregate[] = [];
  for (const text of listed("of")) {
    const [name, column = ""] = text.split(":");
    if (isFunction(name) && isColumn(column)) of.push([name, Number(column)]);
  }
  const order = /^(-?)(\d+)$/.exec(parameters.get("order") ?? "");
  return { by, of, order: order ? Number(order[2]) : undefined, descending: order?.[1] === "-" };
}

/** Returns an element for a choice, with a button that removes it. */
function chip(text: string, remove: () => void): HTMLElement {
  const button = el("button", { "aria-label": `Without ${text}`, click: remove }, "×");
  return el("span", { class: "chip" }, el("span", {}, text), button);
}

/** Returns a list without the item at an index. */
function without<T>(items: T[], index: number): T[] {
  return items.filter((_, i) => i !== index);
}

export class GroupTab {
  readonly element: HTMLElement;
  grouping = emptyGrouping();
  private where = "";
  private running: AbortController | undefined;
  private controls = el("div", { class: "tools" });
  private status = new StatusLine();
  private downloads = el("span", { class: "saves" });
  private stopButton = el("button", { class: "stop", hidden: true, click: () => this.stop() }, "Stop");
  private result = el("div", { class: "groups" });

  constructor(
    private tableName: string,
    private formats: string[],
    private columns: Column[],
    /** Called when the user changes the grouping. */
    private onChange: () => void,
    /** Filters the rows by a condition. */
    private filter: (condition: string) => void,
  ) {
    this.element = el(
      "section",
      { class: "grouping", "aria-label": "Groups" },
      this.controls,
      el("p", { class: "tools" }, this.status.element, this.stopButton, this.downloads),
      this.result,
    );
  }

  /** Groups the rows that `where` selects, unless they are shown; the first time by the first column of text. */
  show(where: string) {
    const { grouping } = this;
    const isFirstTime = !this.controls.childElementCount && !grouping.by.length && !grouping.of.length;
    if (isFirstTime) {
      const column = this.columns.findIndex(({ type }) => /^(dictionary|utf8|large_utf8|string|bool)/.test(type));
      if (column >= 0) grouping.by = [column];
    }
    const isShown = where === this.where && this.result.childElementCount > 0 && !this.running;
    if (!isShown) this.reload(where);
  }

  /** Groups again after the grouping or the rows have changed. */
  reload(where: string) {
    this.where = where;
    this.showControls();
    void this.load();
  }

  /** Aborts the grouping that runs. */
  stop() {
    this.running?.abort();
  }

  private change(changes: Partial<Grouping>) {
    Object.assign(this.grouping, { order: undefined, descending: false }, changes);
    this.showControls();
    this.onChange();
    void this.load();
  }

  private columnOptions(): HTMLOptionElement[] {
    return this.columns.map(({ name }, i) => el("option", { value: i }, name));
  }

  /** Shows the choices, and controls to add others. */
  private showControls() {
    const { by, of } = this.grouping;
    const keySelect = el(
      "select",
      {
        "aria-label": "Group by",
        change: () => {
          if (keySelect.value) this.change({ by: [...by, Number(keySelect.value)] });
        },
      },
      el("option", { value: "" }, by.length ? "and by …" : "all rows"),
      ...this.columnOptions(),
    );
    const functionOptions = FUNCTIONS.map((name) => el("option", { value: name }, name));
    const functionSelect = el("select", { "aria-label": "Function" }, ...functionOptions);
    const columnSelect = el("select", { "aria-label": "Column of the function" }, ...this.columnOptions());
    // Suggests a column of numbers that isn't shown yet.
    const suggestion = this.columns.findIndex(
      ({ type }, i) => /^(float|u?int|decimal)/.test(type) && !of.some(([, column]) => column === i),
    );
    columnSelect.value = String(Math.max(0, suggestion));
    const add = () => this.change({ of: [...of, [functionSelect.value, Number(columnSelect.value)]] });
    this.controls.replaceChildren(
      el("span", {}, "Group by"),
      ...by.map((column, i) => chip(this.columns[column].name, () => this.change({ by: without(by, i) }))),
      keySelect,
      el("span", {}, "and show"),
      ...of.map(([name, column], i) =>
        chip(`${name} of ${this.columns[column].name}`, () => this.change({ of: without(of, i) })),
      ),
      functionSelect,
      el("span", {}, "of"),
      columnSelect,
      el("button", { class: "add", click: add }, "Add"),
    );
  }

  private async load() {
    this.running?.abort();
    const controller = new AbortController();
    this.running = controller;
    const { by, of, order, descending } = this.grouping;
    this.status.show("grouping …");
    this.stopButton.hidden = false;
    this.downloads.replaceChildren();
    const parameters = {
      at: by.length ? by.join(",") : undefined,
      of: of.map(([name, column]) => `${name}:${column}`),
      where: this.where,
      sort: order,
      descending,
    };
    try {
      const result = await groupRows(parameters, (progress) => this.showProgress(progress), controller.signal);
      const summary = this.summarize(result);
      this.status.show(summary);
      this.showResult(result);
      const links = downloadLinks({
        name: `${this.tableName}.groups`,
        formats: this.formats,
        address: (format) => tableUrl("groups", { ...parameters, format }),
        onError: (message) => (message ? this.status.showError(message) : this.status.show(summary)),
      });
      this.downloads.replaceChildren(...links);
    } catch (e) {
      if (this.running !== controller) return;
      if (controller.signal.aborted) this.status.show("ended");
      else this.status.showError((e as Error).message);
      this.result.replaceChildren();
    } finally {
      if (this.running === controller) {
        this.running = undefined;
        this.stopButton.hidden = true;
      }
    }
  }

  private showProgress({ searched, of, found }: Progress) {
    // The last line, with the result, has no progress.
    if (searched === undefined) return;
    this.status.show(`read ${formatCount(searched)} of ${plural(of!, "row")}: ${plural(found!, "group")} …`);
  }

  private summarize({ groups, cells, of }: GroupResult): string {
    const listed = cells.length < groups ? `, the first ${formatCount(cells.length)}` : "";
    const rows = this.where ? `the rows where ${this.where}` : plural(of, "row");
    return `${plural(groups, "group")}${listed} of ${rows}`;
  }

  private showResult({ columns, cells, conditions }: GroupResult) {
    const firstCell = (group: number, text: string) => {
      const condition = conditions[group];
      if (!condition) return text;
      return el("button", { title: "Only these rows", click: () => this.filter(condition) }, text);
    };
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.sort;
    const head = (column: number) => this.columnHead(column, columns[column]);
    this.result.replaceChildren(resultTable({ columns, cells, head, firstCell }));
    // Keeps the focus for users who sort by keyboard.
    if (focused !== undefined) this.result.querySelector<HTMLElement>(`[data-sort="${focused}"]`)?.focus();
  }

  /** Returns the head of a column of the result, which sorts by it. */
  private columnHead(column: number, { name, type }: Pick<Column, "name" | "type">) {
    const { order, descending } = this.grouping;
    let arrow = "";
    let ariaSort = "none";
    if (order === column) {
      arrow = descending ? " ↓" : " ↑";
      ariaSort = descending ? "descending" : "ascending";
    }
    const attributes = { title: `${name}: ${type}`, "data-sort": column, click: () => this.sortBy(column) };
    return { content: el("button", attributes, name + arrow), attributes: { "aria-sort": ariaSort } };
  }

  /** Sorts by a column of the result: keys upwards at first, values downwards; again in the other direction. */
  private sortBy(column: number) {
    const { by, order, descending } = this.grouping;
    this.grouping.descending = order === column ? !descending : column >= by.length;
    this.grouping.order = column;
    this.onChange();
    void this.load();
  }
}
