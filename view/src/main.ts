// The page: rows, a plot, and the file taken apart.

import { Apart, cellPanel } from "./apart.js";
import { Column, Extent, Facts, Refused, Report, events, get, isEmbedded, open, search, url } from "./api.js";
import { clamp, count, el, plural } from "./dom.js";
import { bars, forget, panel, repaint, sampled, spark } from "./glance.js";
import { Grid, orderOf, orderText } from "./grid.js";
import { Group, Grouping, groupingOf } from "./group.js";
import { isTime } from "./line.js";
import { Plot } from "./plot.js";
import { Rows } from "./rows.js";
import { formats, saves } from "./save.js";
import { Sql } from "./sql.js";

const TABS = ["rows", "plot", "group", "file", "sql"] as const;
type Tab = (typeof TABS)[number];

/** What the URL says behind its #, so that a link leads to the same rows. */
interface Place {
  tab: Tab;
  row?: number;
  column?: number;
  /** The order of columns, and how many are pinned. */
  columns: string;
  pinned: number;
  where: string;
  sort: string;
  descending: boolean;
  plot?: number;
  over?: number;
  /** Rows, or times in their column's unit, which may be beyond a float's digits. */
  from?: string;
  to?: string;
  grouping: Grouping;
  query: string;
}

function placeOf(hash: string, columns: number): Place {
  const parameters = new URLSearchParams(hash.slice(1));
  const number = (name: string) => {
    const value = parameters.get(name);
    return value !== null && /^\d+$/.test(value) ? Number(value) : undefined;
  };
  const whole = (name: string) => /^-?\d{1,20}$/.exec(parameters.get(name) ?? "")?.[0];
  return {
    tab: TABS.find((tab) => tab === parameters.get("tab")) ?? "rows",
    row: number("row"),
    column: number("column"),
    columns: parameters.get("columns") ?? "",
    pinned: number("pinned") ?? 0,
    where: parameters.get("where") ?? "",
    sort: parameters.get("sort") ?? "",
    descending: parameters.get("descending") === "true",
    plot: number("plot"),
    over: number("over"),
    from: whole("from"),
    to: whole("to"),
    grouping: groupingOf(parameters, columns),
    query: parameters.get("query") ?? "",
  };
}

/** A column's name as conditions have it, and a text. */
const quoted = (name: string) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
const literal = (type: string, text: string) =>
  /^(u?int|float|decimal|bool)/.test(type) && !/nan|inf/i.test(text) ? text : `'${text.replaceAll("'", "''")}'`;

class Page {
  private grid: Grid;
  private plot: Plot;
  private group: Group;
  private apart = new Apart();
  private sql: Sql;
  private place: Place;
  private extent: Extent;
  /** The end of the rows that are shown: a snapshot, until one follows. */
  private end: number;
  private isFollowing = false;
  private isChasing = false;
  private view: { id: string; rows: number; whole: boolean } | undefined;
  private searching: AbortController | undefined;
  private looking = new AbortController();
  private saving = 0;
  private formats: string[];

  private filter = el("input", { type: "search", class: "filter", placeholder: 'Filter: price > 100 and symbol == "IBM"', "aria-label": "Filter", spellcheck: "false", autocomplete: "off", enterkeyhint: "search" });
  private goto = el("input", { type: "text", class: "goto", placeholder: "Row or time …", "aria-label": "Go to row or time", title: "A row's number, from the end if negative; or a time, such as 2024-05-17 09:30" });
  private finder = el("input", { type: "search", class: "finder", placeholder: "Column …", "aria-label": "Find a column", list: "columns", autocomplete: "off" });
  private status = el("span", { class: "status", role: "status", "aria-live": "polite" });
  private fresh = el("button", { class: "fresh", click: () => this.follow(true), hidden: true });
  private following = el("button", { class: "follow", "aria-pressed": "false", click: () => this.follow(!this.isFollowing) }, "Follow");
  private message = el("p", { class: "message", role: "alert", hidden: true });
  private aside = el("aside", { class: "panel", "aria-label": "Details", hidden: true });
  private main = el("main", {});
  private tabs: Record<Tab, HTMLElement>;
  private saves = el("span", { class: "saves" });

  constructor(private facts: Facts) {
    const { columns, first_row, end } = facts;
    this.place = placeOf(location.hash, columns.length);
    this.extent = { first_row, end, durable_end: facts.durable_end ?? end };
    this.end = end;
    this.grid = new Grid(columns, {
      moved: () => this.moved(),
      arranged: () => this.save(),
      picked: (row, column) => void this.pick(row, column),
      header: (column) => void this.glance(column),
      glance: (column, into) => void this.mini(column, into),
    });
    this.plot = new Plot(columns, facts.sorted_by, {
      extent: () => [this.extent.first_row, this.end],
      moved: () => this.save(),
      go: (row) => {
        this.clear();
        this.tab("rows");
        this.grid.go(row);
      },
      between: (column, low, high) => {
        this.place.tab = "rows";
        const { name } = columns[column];
        void this.search({ where: `${quoted(name)} >= '${low}' and ${quoted(name)} <= '${high}'` });
      },
    });
    this.formats = formats(facts.parquet);
    this.sql = new Sql(facts.name, this.formats, () => this.save());
    this.group = new Group(facts.name, this.formats, columns, () => this.save(), (tests) => this.only(tests));
    const tab = (name: Tab, text: string) => el("button", { role: "tab", "aria-selected": "false", click: () => this.tab(name) }, text);
    this.tabs = { rows: tab("rows", "Rows"), plot: tab("plot", "Plot"), group: tab("group", "Group"), file: tab("file", "File"), sql: tab("sql", "SQL") };
    const isTable = facts.kind === "table";
    document.title = `${facts.name} · Arrowwood`;
    document.body.replaceChildren(
      el(
        "header",
        {},
        el("h1", { title: facts.path ?? facts.name }, facts.name),
        el("nav", { role: "tablist", "aria-label": "Ways to look" }, ...Object.values(this.tabs)),
        this.filter,
        this.goto,
        this.finder,
        isTable && this.following,
        this.fresh,
        !isEmbedded && this.saves,
        el("button", { class: "theme", "aria-label": "Dark or light", title: "Dark or light", click: () => this.theme() }, "◐"),
      ),
      this.message,
      el("div", { class: "middle" }, this.main, this.aside),
      el("footer", {}, this.status, el("span", { class: "keys" }, "/ filter · g row or time · c column · 1–5 views · f follow · Enter cell · h p < > column's panel, pin, move")),
      el("datalist", { id: "columns" }, ...columns.slice(0, 5000).map(({ name }) => el("option", { value: name }))),
    );
    this.listen(isTable);
  }

  private listen(isTable: boolean) {
    this.filter.addEventListener("keydown", (event) => event.key === "Enter" && void this.search());
    this.filter.addEventListener("search", () => !this.filter.value && this.place.where && void this.search());
    this.goto.addEventListener("keydown", (event) => event.key === "Enter" && void this.leap());
    this.finder.addEventListener("change", () => this.find());
    window.addEventListener("hashchange", ({ newURL }) => {
      // Not that of the page, which may have been changed meanwhile to the place before.
      clearTimeout(this.saving);
      const next = placeOf(new URL(newURL).hash, this.facts.columns.length);
      if (JSON.stringify(next) !== JSON.stringify(this.place)) void this.restore(next);
    });
    document.addEventListener("keydown", (event) => this.key(event));
    for (const media of ["(prefers-color-scheme: dark)"]) matchMedia(media).addEventListener("change", () => this.repaint());
    if (isTable) {
      void events(
        (extent) => this.grew(extent),
        () => this.say("The table was removed, or can no longer be read."),
      );
    }
  }

  async start() {
    const chosen = isEmbedded ? undefined : localStorage.getItem("arrowwood-theme");
    if (chosen) document.documentElement.dataset.theme = chosen;
    this.rows();
    await this.restore(this.place);
    this.focus();
  }

  private async restore(place: Place) {
    // What is shown on the way there is another place.
    this.place = { ...place };
    this.filter.value = place.where;
    this.group.grouping = place.grouping;
    this.sql.text = place.query;
    this.grid.arrange(orderOf(place.columns, this.facts.columns.length), place.pinned);
    await this.search(place);
    this.tab(place.tab);
    if (place.tab === "group") this.group.again(this.place.where);
    if (place.tab === "sql" && place.query) void this.sql.run();
    if (place.row !== undefined) this.grid.go(place.row, clamp(place.column ?? 0, 0, Math.max(0, this.facts.columns.length - 1)));
    if (place.plot !== undefined && place.plot < this.facts.columns.length) {
      const isOverTime = isTime(this.facts.columns[place.over ?? -1]?.type ?? "");
      this.plot.over = isOverTime ? place.over : undefined;
      [this.plot.from, this.plot.to] = [BigInt(place.from ?? 0), BigInt(place.to ?? 0)];
      this.plot.show(place.plot);
    }
  }

  private focus() {
    this.main.querySelector<HTMLElement>("#grid")?.focus({ preventScroll: true });
  }

  private say(text = "") {
    this.message.textContent = text;
    this.message.hidden = !text;
  }

  /** The rows that are shown: of the table as far as it is looked at, or those that were found. */
  private rows() {
    const { view } = this;
    const rows = new Rows(
      this.facts.columns.length,
      view?.id,
      view ? 0 : this.extent.first_row,
      view ? view.rows : this.end,
      () => this.grid.paint(),
      (e) => void this.lost(e),
    );
    this.grid.show(rows);
    this.tell();
  }

  /** Rows could not be had: of a view that the server no longer keeps they are searched again. */
  private async lost(e: Refused) {
    if (e.code === "no_view") return this.search(this.place);
    if (e.code === "dropped") {
      this.facts = await get<Facts>("");
      this.extent.first_row = this.facts.first_row;
      return this.rows();
    }
    this.say(e.message);
  }

  private tell(report?: Report) {
    const all = this.end - this.extent.first_row;
    const { view } = this;
    const found = view ? `${plural(view.rows, "row")} of ${count(all)}${view.whole ? "" : ", the first that were found"}` : plural(all, "row");
    const going = report?.of ? `searched ${count(report.searched!)} of ${count(report.of)}: ${count(report.found ?? 0)} found … (Esc ends it)` : "";
    const durable = this.facts.kind === "table" && !view ? ` · ${this.extent.durable_end >= this.end ? "all durable" : `durable up to ${count(this.extent.durable_end)}`}` : "";
    this.status.textContent = going || `${found} · ${plural(this.facts.columns.length, "column")}${durable}`;
    this.saves.replaceChildren(...this.kept());
  }

  /** Links to the rows that are shown, in their order. Rows of a view are fetched whole, as the server may have dropped it. */
  private kept() {
    const { name } = this.facts;
    const { where, sort } = this.place;
    const view = this.view?.whole ? this.view.id : undefined;
    const isStream = (format: string) => format !== "parquet" && !(view && sort);
    const address = (format: string) => (isStream(format) ? url("rows", { where, format }) : url("save", { view, format }));
    // Of more rows than are kept of a view, only those that are sent as they are found.
    const all = this.formats.filter((format) => format !== "parquet" || !this.view || view);
    return saves({ name, formats: all, address, isStream, failed: (message) => this.say(message) });
  }

  private grew(extent: Extent) {
    this.extent = extent;
    if (this.isFollowing) return void this.chase();
    const more = extent.end - this.end;
    this.fresh.hidden = more <= 0;
    if (more > 0) this.fresh.textContent = plural(more, "new row");
    this.tell();
  }

  /** Shows the newest rows as soon as they are here, and then the next. */
  private async chase() {
    if (this.isChasing) return;
    this.isChasing = true;
    while (this.isFollowing && this.end < this.extent.end) {
      const { rows } = this.grid;
      const { first_row, end } = this.extent;
      await this.grid.bring(end);
      if (!this.isFollowing || this.grid.rows !== rows) break;
      this.end = end;
      [rows.first, rows.end] = [first_row, end];
      this.grid.toEnd();
      this.tell();
    }
    this.isChasing = false;
  }

  private follow(isFollowing: boolean) {
    this.isFollowing = false;
    if (isFollowing) {
      this.tab("rows");
      if (this.view) this.clear();
      this.end = this.extent.end;
      forget();
      this.rows();
      this.grid.toEnd();
      this.fresh.hidden = true;
      this.isFollowing = true;
    }
    this.following.setAttribute("aria-pressed", String(isFollowing));
    this.following.textContent = isFollowing ? "Freeze" : "Follow";
  }

  private clear() {
    this.filter.value = "";
    Object.assign(this.place, { where: "", sort: "", descending: false });
    this.view = undefined;
    this.rows();
    this.save();
  }

  private async search(wanted: { where?: string; sort?: string; descending?: boolean } = { ...this.place, where: this.filter.value.trim() }) {
    this.searching?.abort();
    const where = (wanted.where ?? "").trim();
    const { sort = "", descending = false } = wanted;
    const tab = this.place.tab === "group" ? "group" : "rows";
    this.filter.value = where;
    this.say();
    if (!where && !sort) {
      if (this.view || this.place.where) this.clear();
      if (tab === "group") this.tab(tab);
      return;
    }
    const searching = (this.searching = new AbortController());
    try {
      const done = await search({ where, sort, descending }, (report) => this.tell(report), searching.signal);
      this.view = { id: done.view!, rows: done.rows!, whole: done.whole !== false };
      if (this.isFollowing) this.follow(false);
      Object.assign(this.place, { where, sort, descending });
      this.grid.top = 0;
      this.grid.active = { row: 0, column: this.grid.active.column };
      this.rows();
      this.save();
      this.tab(tab);
    } catch (e) {
      if (!searching.signal.aborted) this.say((e as Error).message);
      this.tell();
    }
  }

  /** Leaves only the rows with these values, of those that are left. */
  private only(tests: [Column, string | null][]) {
    const test = ([{ name, type }, value]: [Column, string | null]) => (value === null ? `${quoted(name)} is null` : `${quoted(name)} == ${literal(type, value)}`);
    const before = this.filter.value.trim();
    const where = [...(before ? [`(${before})`] : []), ...tests.map(test)].join(" and ");
    if (this.place.tab === "group") this.place.tab = "rows";
    void this.search({ ...this.place, where });
  }

  private async mini(column: number, into: HTMLElement) {
    try {
      const known = await sampled(column, () => into.isConnected);
      if (!known || !into.isConnected) return;
      const { statistics, bins } = known;
      const [mini, line] = into.querySelectorAll("canvas");
      line.hidden = !bins?.bins.length;
      if (bins && !line.hidden) spark(line, bins);
      bars(mini, statistics);
      into.title = `${statistics.name}: ${statistics.type}` + (statistics.nulls ? `, ${count(statistics.nulls)} nulls of ${count(statistics.rows)}` : "");
    } catch {
      // The panel says what is wrong with the column.
    }
  }

  private aim() {
    this.looking.abort();
    this.looking = new AbortController();
    this.aside.hidden = false;
    return this.looking.signal;
  }

  private close() {
    this.looking.abort();
    this.aside.hidden = true;
    this.focus();
  }

  private async glance(number: number) {
    const column = this.facts.columns[number];
    const sort = (descending: boolean) => void this.search({ where: this.place.where, sort: column.name, descending });
    await panel(
      this.aside,
      number,
      column,
      {
        sort,
        unsorted: this.place.sort ? () => void this.search({ where: this.place.where }) : undefined,
        plot: () => {
          this.tab("plot");
          this.plot.show(number);
        },
        isPinned: this.grid.isPinned(number),
        pin: () => {
          this.grid.pin(number);
          void this.glance(number);
        },
        move: (by) => this.grid.move(number, this.grid.place_of(number) + by),
        only: (value) => this.only([[column, value]]),
        close: () => this.close(),
      },
      this.aim(),
    );
  }

  private async pick(row: number, column: number) {
    const number = this.grid.rows.number(row);
    if (number === undefined) return;
    this.aim();
    this.save();
    try {
      await cellPanel(
        this.aside,
        number,
        column,
        () => this.close(),
        (cell) => {
          this.tab("file");
          void this.apart.mark(cell);
        },
        (value) => this.only([[this.facts.columns[column], value]]),
      );
    } catch (e) {
      this.aside.replaceChildren(el("p", { class: "error" }, (e as Error).message));
    }
  }

  /** Goes to the row with that number, or to the first at or behind that time. */
  private async leap() {
    const text = this.goto.value.trim();
    if (!text) return;
    this.say();
    let row = Number(text.replaceAll(/[,_\s]/g, ""));
    if (!Number.isSafeInteger(row)) {
      try {
        const found = await get<{ row: number | null; column: string }>("seek", { value: text, view: this.view?.id });
        if (found.row === null) return this.say(`No row has ${found.column} ${text} or later.`);
        row = found.row;
      } catch (e) {
        return this.say(`Go to row or time: ${(e as Error).message}`);
      }
    } else if (row < 0) row += this.grid.rows.end;
    this.tab("rows");
    this.grid.go(row);
    this.focus();
  }

  private find() {
    const wanted = this.finder.value.trim().toLowerCase();
    const names = this.facts.columns.map(({ name }) => name.toLowerCase());
    const tests = [(name: string) => name === wanted, (name: string) => name.startsWith(wanted), (name: string) => name.includes(wanted)];
    const found = tests.map((test) => names.findIndex(test)).find((at) => at >= 0);
    if (!wanted) return;
    if (found === undefined) return this.say(`No column is called ${this.finder.value}.`);
    this.say();
    this.tab("rows");
    this.grid.go(this.grid.active.row, found);
    this.focus();
  }

  private tab(tab: Tab) {
    this.place.tab = tab;
    this.saves.hidden = tab === "group" || tab === "sql";
    for (const [name, button] of Object.entries(this.tabs)) button.setAttribute("aria-selected", String(name === tab));
    const shown = { rows: this.grid.element, plot: this.plot.element, group: this.group.element, file: this.apart.element, sql: this.sql.element }[tab];
    if (shown.parentElement !== this.main) this.main.replaceChildren(shown);
    if (tab === "file") void this.apart.show();
    else this.apart.hide();
    if (tab === "group") this.group.show(this.place.where);
    if (tab === "plot" && this.plot.column !== undefined && this.plot.to <= this.plot.from) this.plot.show(this.plot.column);
    if (tab === "rows") this.grid.paint();
    if (tab === "sql") this.sql.focus();
    this.save();
  }

  private key(event: KeyboardEvent) {
    if (event.key === "Escape") {
      this.searching?.abort();
      this.group.stop();
      this.sql.stop();
      this.say();
      if (!this.aside.hidden) this.close();
      else this.focus();
      this.tell();
      return;
    }
    const target = event.target as HTMLElement;
    if (target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const jump: Record<string, () => void> = {
      "/": () => this.filter.focus(),
      g: () => this.goto.focus(),
      c: () => this.finder.focus(),
      f: () => this.facts.kind === "table" && this.follow(!this.isFollowing),
      "1": () => this.tab("rows"),
      "2": () => this.tab("plot"),
      "3": () => this.tab("group"),
      "4": () => this.tab("file"),
      "5": () => this.tab("sql"),
    };
    if (jump[event.key]) {
      event.preventDefault();
      jump[event.key]();
    }
  }

  private theme() {
    const root = document.documentElement;
    const isDark = getComputedStyle(root).colorScheme.includes("dark") && (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
    if (!isEmbedded) localStorage.setItem("arrowwood-theme", root.dataset.theme);
    this.repaint();
  }

  private repaint() {
    this.plot.draw();
    repaint();
    this.facts.columns.forEach((_, column) => {
      const head = this.grid.head_of(column);
      if (head) void this.mini(column, head);
    });
  }

  /** The user moved: whoever scrolls up no longer follows. */
  private moved() {
    if (this.isFollowing && !this.grid.isAtEnd) this.follow(false);
    this.save();
  }

  /** Puts the place into the URL, a moment after it has changed. */
  private save() {
    if (isEmbedded) return;
    clearTimeout(this.saving);
    this.saving = window.setTimeout(() => {
      const { where, sort, descending, tab } = this.place;
      const parameters = new URLSearchParams();
      const set = (name: string, value: string | number | boolean) => value !== "" && value !== false && parameters.set(name, String(value));
      const row = Math.floor(this.grid.top);
      this.place.row = undefined;
      this.place.column = undefined;
      if (tab !== "rows") set("tab", tab);
      const { active } = this.grid;
      if (active.row >= row && active.row < row + 100 && active.row > this.grid.rows.first) {
        set("row", (this.place.row = active.row));
        if (active.column) set("column", (this.place.column = active.column));
      } else if (row > this.grid.rows.first) set("row", (this.place.row = row));
      set("columns", (this.place.columns = orderText(this.grid.order)));
      if ((this.place.pinned = this.grid.pinned)) set("pinned", this.grid.pinned);
      set("where", where);
      set("sort", sort);
      set("descending", descending);
      Object.assign(this.place, { plot: undefined, over: undefined, from: undefined, to: undefined });
      if (tab === "plot" && this.plot.column !== undefined) {
        const { column, over, from, to } = this.plot;
        set("plot", (this.place.plot = column));
        if (over !== undefined) set("over", (this.place.over = over));
        if (to > from) {
          set("from", (this.place.from = String(from)));
          set("to", (this.place.to = String(to)));
        }
      }
      const { by, of, order, descending: isDown } = this.group.grouping;
      if (tab === "group") {
        set("by", by.join(","));
        set("of", of.map(([name, at]) => `${name}:${at}`).join(","));
        if (order !== undefined) set("order", (isDown ? "-" : "") + order);
      }
      set("query", (this.place.query = tab === "sql" ? this.sql.text : ""));
      this.place.grouping = structuredClone(tab === "group" ? this.group.grouping : { by: [], of: [], order: undefined, descending: false });
      const text = parameters.toString();
      history.replaceState(null, "", text ? `#${text}` : location.pathname);
    }, 150);
  }
}

async function start() {
  try {
    const facts = await open();
    const page = new Page(facts);
    await page.start();
  } catch (e) {
    document.body.replaceChildren(el("p", { class: "message", role: "alert" }, (e as Error).message));
  }
}

void start();
