// The page: rows, a plot, and the structure of the file.

import {
  type CellDetail,
  type Cells,
  type Extent,
  type Facts,
  type First,
  get,
  isEmbedded,
  onReplaced,
  open,
  type Refused,
  type Report,
  search,
  url,
  watch,
  wholeText,
} from "./api.js";
import { cellPanel } from "./cell.js";
import { clamp, count, el, plural } from "./dom.js";
import { FileTab } from "./file.js";
import { bars, forget, panel, repaint, sampled, spark } from "./glance.js";
import { Grid } from "./grid.js";
import { Group } from "./group.js";
import { help } from "./help.js";
import { named } from "./names.js";
import { Notice, type Offer, REMOVED, REPLACED, sentence } from "./notice.js";
import { orderOf, orderText, type Place, placeOf, placeText, TABS, type Tab, widthsOf, widthsText } from "./place.js";
import { Plot } from "./plot.js";
import { Rows } from "./rows.js";
import { formats, saves } from "./save.js";
import { Sql } from "./sql.js";
import { isTime } from "./types.js";

const NAMES: Record<Tab, string> = { rows: "Rows", plot: "Plot", group: "Group", file: "File", sql: "SQL" };
/** The number of column names that are suggested. */
const OFFERED = 5000;

class Page {
  private grid: Grid;
  private plot: Plot;
  private group: Group;
  private fileTab = new FileTab();
  private sql: Sql;
  private place: Place;
  private extent: Extent;
  /** The end of the rows that are shown: a snapshot, until the user follows the table. */
  private end: number;
  private isFollowing = false;
  private isChasing = false;
  /** True while the server does not answer; and whether the table was followed before. */
  private isAlone = false;
  private resumes = false;
  private view: { id: string; rows: number; whole: boolean } | undefined;
  private searching: AbortController | undefined;
  private looking = new AbortController();
  private saving = 0;
  private formats: string[];
  /** The cell in the panel. */
  private picked: { row: number; column: number } | undefined;
  /** The last search among column names, and the column it found. */
  private found = { wanted: "", at: -1 };

  private filter = el("input", {
    type: "search",
    class: "filter",
    placeholder: 'Filter: price > 100 and symbol == "IBM"',
    "aria-label": "Filter",
    spellcheck: "false",
    autocomplete: "off",
    enterkeyhint: "search",
  });
  private goto = el("input", {
    type: "text",
    class: "goto",
    placeholder: "Row or time …",
    "aria-label": "Go to row or time",
    title: "A row's number, from the end if negative; or a time, such as 2024-05-17 09:30",
  });
  private finder = el("input", {
    type: "search",
    class: "finder",
    placeholder: "Column …",
    "aria-label": "Find a column",
    title: "A part of a column's name; Enter again for the next",
    list: "columns",
    autocomplete: "off",
  });
  private status = el("span", { class: "status", role: "status", "aria-live": "polite" });
  private stopper = el("button", { class: "stop", hidden: true, click: () => this.stop() }, "Stop");
  private fresh = el("button", { class: "fresh", click: () => this.follow(true), hidden: true });
  private following = el(
    "button",
    { class: "follow", "aria-pressed": "false", click: () => this.follow(!this.isFollowing) },
    "Follow",
  );
  private notice = new Notice();
  private aside = el("aside", { class: "panel", "aria-label": "Details", hidden: true });
  private main = el("main", { id: "main" });
  private help = help();
  private tabs = {} as Record<Tab, HTMLElement>;
  private saves = el("span", { class: "saves" });

  private facts: Facts;
  private first: Cells | undefined;

  constructor({ facts, cells }: First) {
    [this.facts, this.first] = [facts, cells];
    const { columns, first_row, end } = facts;
    this.place = placeOf(location.hash, columns.length);
    this.extent = { first_row, end, durable_end: facts.durable_end ?? end };
    this.end = end;
    this.grid = new Grid(columns, {
      moved: () => this.moved(),
      arranged: () => this.save(),
      picked: (row, column) => void this.pick(row, column),
      header: (column) => void this.glance(column),
      glance: (column, into) => this.mini(column, into),
      activated: (row, column) => !this.aside.hidden && this.picked && void this.pick(row, column),
      copied: (row, column) => void this.copy(row, column),
    });
    this.plot = new Plot(columns, facts.sorted_by, {
      extent: () => [this.extent.first_row, this.end],
      moved: () => this.save(),
      go: (row) => {
        this.clear();
        this.tab("rows");
        this.grid.go(row);
      },
      only: (where) => {
        this.place.tab = "rows";
        void this.search({ where });
      },
    });
    this.formats = formats(facts.parquet);
    this.sql = new Sql(facts.name, this.formats, () => this.save());
    this.group = new Group(
      facts.name,
      this.formats,
      columns,
      () => this.save(),
      (condition) => this.only(condition),
    );
    const tab = (name: Tab) =>
      el(
        "button",
        { role: "tab", "aria-selected": "false", "aria-controls": "main", click: () => this.tab(name) },
        NAMES[name],
      );
    for (const name of TABS) this.tabs[name] = tab(name);
    const isTable = facts.kind === "table";
    document.title = `${facts.name} · Arrowwood`;
    document.body.replaceChildren(
      this.header(isTable),
      this.notice.element,
      el("div", { class: "middle" }, this.main, this.aside),
      this.footer(),
      this.names(),
      this.help,
    );
    this.listen();
  }

  private header(isTable: boolean): HTMLElement {
    const { name, path } = this.facts;
    const tabs = el(
      "nav",
      { role: "tablist", "aria-label": "Ways to look", keydown: (event) => this.tabKey(event as KeyboardEvent) },
      ...Object.values(this.tabs),
    );
    const theme = el(
      "button",
      { class: "theme", "aria-label": "Dark or light", title: "Dark or light", click: () => this.theme() },
      "◐",
    );
    return el(
      "header",
      {},
      el("h1", { title: path ?? name }, name),
      tabs,
      this.filter,
      this.goto,
      this.finder,
      isTable && this.following,
      this.fresh,
      theme,
    );
  }

  private footer(): HTMLElement {
    const keys = el(
      "button",
      { class: "keys", title: "What the keys do (?)", "aria-haspopup": "dialog", click: () => this.help.showModal() },
      "? Keys",
    );
    return el("footer", {}, this.status, this.stopper, !isEmbedded && this.saves, keys);
  }

  private names(): HTMLElement {
    return el(
      "datalist",
      { id: "columns" },
      ...this.facts.columns.slice(0, OFFERED).map(({ name }) => el("option", { value: name })),
    );
  }

  private listen() {
    this.filter.addEventListener("keydown", (event) => event.key === "Enter" && void this.search());
    this.filter.addEventListener("search", () => !this.filter.value && this.place.where && void this.search());
    this.goto.addEventListener("keydown", (event) => event.key === "Enter" && void this.leap());
    this.finder.addEventListener("keydown", (event) => event.key === "Enter" && this.find());
    this.finder.addEventListener("change", () => this.finder.value.trim() !== this.found.wanted && this.find());
    window.addEventListener("hashchange", ({ newURL }) => {
      // Uses the address of the event: the page's may have changed back meanwhile.
      clearTimeout(this.saving);
      const next = placeOf(new URL(newURL).hash, this.facts.columns.length);
      if (JSON.stringify(next) !== JSON.stringify(this.place)) void this.restore(next);
    });
    document.addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    onReplaced(() => this.replaced());
    void watch({
      came: (extent) => this.foundAgain(extent),
      ended: () => void this.ended(),
      lost: (why) => this.alone(why),
    });
  }

  async start() {
    const chosen = isEmbedded ? undefined : localStorage.getItem("arrowwood-theme");
    if (chosen) document.documentElement.dataset.theme = chosen;
    this.rows();
    const restored = this.restore(this.place);
    // Paints at once, not only in the next frame, as the first rows came with the page.
    this.grid.measure();
    this.grid.draw();
    await restored;
    this.focus();
  }

  private async restore(place: Place) {
    // Scrolling in between would overwrite the place.
    this.place = { ...place };
    this.filter.value = place.where;
    this.group.grouping = place.grouping;
    this.sql.text = place.query;
    this.grid.resize(widthsOf(place.widths, this.facts.columns.length));
    this.grid.arrange(orderOf(place.columns, this.facts.columns.length), place.pinned);
    await this.search(place);
    this.tab(place.tab);
    if (place.tab === "group") this.group.again(this.place.where);
    if (place.tab === "sql" && place.query) void this.sql.run();
    if (place.row !== undefined)
      this.grid.go(place.row, clamp(place.column ?? 0, 0, Math.max(0, this.facts.columns.length - 1)));
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

  /** Stops following when the server does not answer, and reports it. */
  private alone(why: string) {
    this.unfollow();
    if (this.isAlone && this.notice.isShown) return;
    this.isAlone = true;
    this.say(sentence(why));
  }

  /** Stops following until the server answers again. */
  private unfollow() {
    this.resumes ||= this.isFollowing;
    if (this.isFollowing) this.follow(false);
  }

  /** Continues when the server answers, with its number of rows. */
  private foundAgain(extent: Extent) {
    const { isAlone, resumes } = this;
    [this.isAlone, this.resumes] = [false, false];
    this.grew(extent);
    if (isAlone) this.say();
    if (resumes) this.follow(true);
  }

  /** Reports that the table or file was replaced or removed. */
  private async ended() {
    const now = await get<Facts>("").catch(() => undefined);
    if (now && now.snapshot !== this.facts.snapshot) return this.replaced();
    if (this.isFollowing) this.follow(false);
    this.say(REMOVED[this.facts.kind]);
  }

  /** Ends following when the file was replaced, for good: rows of the new one must not be shown next to the old ones. */
  private replaced() {
    if (this.isFollowing) this.follow(false);
    const text = REPLACED[this.facts.kind];
    if (isEmbedded) this.notice.end(`${text} Run the cell again.`);
    else this.notice.end(text, ["Reload", () => location.reload()]);
  }

  private say(text = "", offer?: Offer) {
    this.notice.say(text, offer);
  }

  /** Returns the rows that are shown: of the table up to the snapshot, or of the search result. */
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
    if (this.first) rows.seed(this.first);
    this.first = undefined;
    this.grid.most = this.extent.end;
    const { sort, descending: isDescending } = this.place;
    const column = sort ? this.facts.columns.findIndex(({ name }) => name === sort) : -1;
    this.grid.sorted = column < 0 ? undefined : { column, isDescending };
    this.grid.explain(...this.nothing());
    this.grid.show(rows);
    this.tell();
  }

  /** Returns the reason why there are no rows. */
  private nothing(): (Node | string)[] {
    if (!this.view) return [this.facts.kind === "table" ? "No rows yet." : "No rows."];
    return ["No row meets the condition. ", el("button", { click: () => this.clear() }, "All rows")];
  }

  /** Handles rows that could not be fetched: a view that the server has dropped is searched again. */
  private async lost(e: Refused) {
    if (e.code === "file_changed") return this.replaced();
    if (e.code === "no_view") return this.search(this.place);
    if (e.code === "dropped") {
      this.facts = await get<Facts>("");
      this.extent.first_row = this.facts.first_row;
      return this.rows();
    }
    if (e.code !== "gone") return this.say(e.message);
    const again = () => {
      this.say();
      this.grid.rows.retry();
    };
    this.unfollow();
    this.say(sentence(e.message), ["Try again", again]);
  }

  private tell(report?: Report) {
    const all = this.end - this.extent.first_row;
    const { view } = this;
    const found = view
      ? `${plural(view.rows, "row")} of ${count(all)}${view.whole ? "" : ", the first that were found"}`
      : plural(all, "row");
    const going = report?.of
      ? `searched ${count(report.searched!)} of ${count(report.of)}: ${count(report.found ?? 0)} found …`
      : "";
    this.stopper.hidden = !going;
    const durable =
      this.facts.kind === "table" && !view
        ? ` · ${this.extent.durable_end >= this.end ? "all durable" : `durable up to ${count(this.extent.durable_end)}`}`
        : "";
    this.status.textContent = going || `${found} · ${plural(this.facts.columns.length, "column")}${durable}`;
    this.saves.replaceChildren(...this.kept());
  }

  /** Returns links to the rows that are shown, in their order. Views are fetched first, as the server may have dropped them. */
  private kept() {
    const { name } = this.facts;
    const { where, sort } = this.place;
    const view = this.view?.whole ? this.view.id : undefined;
    const isStream = (format: string) => format !== "parquet" && !(view && sort);
    const address = (format: string) =>
      isStream(format) ? url("rows", { where, format }) : url("save", { view, format });
    // Views keep a limited number of rows: beyond it, only rows that are sent as they are found can be saved.
    const all = this.formats.filter((format) => format !== "parquet" || !this.view || view);
    return saves({ name, formats: all, address, isStream, failed: (message) => this.say(message) });
  }

  private grew(extent: Extent) {
    this.extent = extent;
    this.grid.rows.retry();
    if (this.isFollowing) return void this.chase();
    const more = extent.end - this.end;
    this.fresh.hidden = more <= 0;
    if (more > 0) this.fresh.textContent = plural(more, "new row");
    this.tell();
  }

  /** Shows the newest rows as soon as they are fetched, and then the next. */
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
      this.grid.most = end;
      this.grid.toEnd();
      this.tell();
    }
    this.isChasing = false;
  }

  private follow(isFollowing: boolean) {
    if (isFollowing && this.isAlone) {
      this.resumes = true;
      return;
    }
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

  private async search(
    wanted: { where?: string; sort?: string; descending?: boolean } = {
      ...this.place,
      where: this.filter.value.trim(),
    },
  ) {
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

  /** Filters the remaining rows further, by a condition of the server. */
  private only(condition: string) {
    const before = this.place.where;
    const where = before ? `(${before}) and ${condition}` : condition;
    if (this.place.tab === "group") this.place.tab = "rows";
    void this.search({ ...this.place, where });
  }

  private mini(column: number, into: HTMLElement) {
    sampled(
      column,
      () => into.isConnected,
      ({ statistics, bins }) => {
        const [mini, line] = into.querySelectorAll("canvas");
        if (bins && !bins.bins.length) line.hidden = true;
        if (bins?.bins.length) spark(line, bins);
        bars(mini, statistics);
        into.title = `${statistics.name}: ${statistics.type}${statistics.nulls ? `, ${count(statistics.nulls)} nulls of ${count(statistics.rows)}` : ""}`;
      },
    );
  }

  private aim() {
    this.looking.abort();
    this.looking = new AbortController();
    this.aside.hidden = false;
    this.picked = undefined;
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
        move: (by) => this.grid.move(number, this.grid.placeOf(number) + by),
        only: (condition) => this.only(condition),
        close: () => this.close(),
      },
      this.aim(),
    );
  }

  private async pick(row: number, column: number) {
    const number = this.grid.rows.number(row);
    if (number === undefined) return;
    const signal = this.aim();
    this.picked = { row, column };
    this.save();
    const show = (cell: CellDetail) => {
      this.tab("file");
      void this.fileTab.mark(cell);
    };
    const only = (condition: string) => this.only(condition);
    try {
      await cellPanel(this.aside, number, column, { close: () => this.close(), show, only }, signal);
    } catch (e) {
      if (!signal.aborted) this.aside.replaceChildren(el("p", { class: "error" }, (e as Error).message));
    }
  }

  /** Copies a cell's whole text to the clipboard. */
  private async copy(row: number, column: number) {
    const number = this.grid.rows.number(row);
    if (number === undefined || isEmbedded) return;
    try {
      const text = await wholeText(number, column);
      await navigator.clipboard.writeText(text);
      const { name } = this.facts.columns[column];
      this.status.textContent = `Copied row ${count(number)}, ${name}: ${plural(text.length, "character")}`;
    } catch (e) {
      this.say((e as Error).message);
    }
  }

  /** Goes to the row with a number, or to the first row at or after a time. */
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

  /** Goes to the column that matches the text, and then to the next one that does. */
  private find() {
    const wanted = this.finder.value.trim();
    if (!wanted) return;
    const all = named(this.facts.columns, wanted.toLowerCase());
    if (!all.length) return this.say(`No column is called ${wanted}.`);
    const before = this.found.wanted === wanted ? all.indexOf(this.found.at) : -1;
    this.found = { wanted, at: all[(before + 1) % all.length] };
    this.say();
    this.tab("rows");
    this.grid.go(this.grid.active.row, this.found.at);
    this.focus();
  }

  private tab(tab: Tab) {
    this.place.tab = tab;
    this.saves.hidden = tab === "group" || tab === "sql";
    for (const [name, button] of Object.entries(this.tabs)) {
      button.setAttribute("aria-selected", String(name === tab));
      button.tabIndex = name === tab ? 0 : -1;
    }
    const shown = {
      rows: this.grid.element,
      plot: this.plot.element,
      group: this.group.element,
      file: this.fileTab.element,
      sql: this.sql.element,
    }[tab];
    if (shown.parentElement !== this.main) this.main.replaceChildren(shown);
    if (tab === "file") void this.fileTab.show();
    else this.fileTab.hide();
    if (tab === "group") this.group.show(this.place.where);
    if (tab === "plot" && this.plot.column !== undefined && this.plot.to <= this.plot.from)
      this.plot.show(this.plot.column);
    if (tab === "rows") this.grid.measure();
    if (tab === "sql") this.sql.focus();
    this.save();
  }

  /** Aborts searches, groupings and queries. */
  private stop() {
    this.searching?.abort();
    this.group.stop();
    this.sql.stop();
    this.tell();
  }

  /** Selects the neighbouring tab by the arrow keys. */
  private tabKey(event: KeyboardEvent) {
    const step = { ArrowRight: 1, ArrowLeft: TABS.length - 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = TABS[(TABS.indexOf(this.place.tab) + step) % TABS.length];
    this.tab(next);
    this.tabs[next].focus();
  }

  private key(event: KeyboardEvent) {
    if (this.help.open) return;
    if (event.key === "Escape") {
      this.stop();
      this.say();
      if (!this.aside.hidden) this.close();
      else this.focus();
      return;
    }
    const target = event.target as HTMLElement;
    if (target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const jump: Record<string, () => void> = {
      "/": () => this.filter.focus(),
      g: () => this.goto.select(),
      c: () => this.finder.select(),
      "?": () => this.help.showModal(),
      f: () => this.facts.kind === "table" && this.follow(!this.isFollowing),
      ...Object.fromEntries(TABS.map((name, i) => [String(i + 1), () => this.tab(name)])),
    };
    if (jump[event.key]) {
      event.preventDefault();
      jump[event.key]();
    }
  }

  private theme() {
    const root = document.documentElement;
    const isDark =
      getComputedStyle(root).colorScheme.includes("dark") &&
      (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    root.dataset.theme = isDark ? "light" : "dark";
    if (!isEmbedded) localStorage.setItem("arrowwood-theme", root.dataset.theme);
    this.repaint();
  }

  private repaint() {
    this.plot.draw();
    repaint();
    this.facts.columns.forEach((_, column) => {
      const head = this.grid.headOf(column);
      if (head) void this.mini(column, head);
    });
  }

  /** Handles scrolling by the user: scrolling up stops following. */
  private moved() {
    if (this.isFollowing && !this.grid.isAtEnd) this.follow(false);
    this.save();
  }

  /** Returns the current place. */
  private here(): Place {
    const { tab, where, sort, descending } = this.place;
    const { active, order, pinned, given, rows } = this.grid;
    const top = Math.floor(this.grid.top);
    const isActive = active.row >= top && active.row < top + 100 && active.row > rows.first;
    const { column, over, from, to } = this.plot;
    const isPlotted = tab === "plot" && column !== undefined;
    const isZoomed = isPlotted && to > from;
    return {
      tab,
      row: isActive ? active.row : top > rows.first ? top : undefined,
      column: (isActive && active.column) || undefined,
      columns: orderText(order),
      pinned,
      widths: widthsText(given),
      where,
      sort,
      descending,
      plot: isPlotted ? column : undefined,
      over: isPlotted ? over : undefined,
      from: isZoomed ? String(from) : undefined,
      to: isZoomed ? String(to) : undefined,
      grouping: structuredClone(
        tab === "group" ? this.group.grouping : { by: [], of: [], order: undefined, descending: false },
      ),
      query: tab === "sql" ? this.sql.text : "",
    };
  }

  /** Writes the place to the URL, a moment after it has changed. */
  private save() {
    if (isEmbedded) return;
    clearTimeout(this.saving);
    this.saving = window.setTimeout(() => {
      this.place = this.here();
      const text = placeText(this.place);
      history.replaceState(null, "", text ? `#${text}` : location.pathname);
    }, 150);
  }
}

async function start() {
  try {
    await new Page(await open()).start();
  } catch (e) {
    document.body.replaceChildren(el("p", { class: "message", role: "alert" }, (e as Error).message));
  }
}

void start();
