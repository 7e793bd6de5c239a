// The page of `arrowwood view`: rows, a plot, groups, the structure of the file, and SQL.
//
// `data` has what the server sends, and `elements` what shows it. On these two stand the grid, the panels beside it and the
// other tabs, which know nothing of each other. tests/tidy/page.rs checks it.

import {
  type CellDetail,
  type Cells,
  type Extent,
  fetchCellText,
  fetchJson,
  type InitialData,
  isEmbedded,
  onReplaced,
  openTable,
  type Progress,
  type RequestError,
  searchRows,
  type TableInfo,
  tableUrl,
  watchTable,
} from "./data/api.js";
import { findColumns } from "./data/column_search.js";
import { RowCache } from "./data/row_cache.js";
import { isTime } from "./data/types.js";
import { clamp, el, formatCount, plural } from "./elements/dom.js";
import { downloadFormats, downloadLinks } from "./elements/download.js";
import { Notice, REMOVED, REPLACED, toSentence } from "./elements/notice.js";
import { Grid } from "./grid/grid.js";
import { helpDialog } from "./help.js";
import {
  formatOrder,
  formatPageState,
  formatWidths,
  type PageState,
  parseOrder,
  parsePageState,
  parseWidths,
  TABS,
  type Tab,
} from "./page_state.js";
import { showCellPanel } from "./panels/cell_panel.js";
import { redrawColumnPanel, showColumnPanel } from "./panels/column_panel.js";
import { clearSamples, drawBars, drawSparkline, requestSample, type Sample } from "./panels/column_samples.js";
import { FileTab } from "./tabs/file_tab.js";
import { emptyGrouping, GroupTab } from "./tabs/group_tab.js";
import { Plot } from "./tabs/plot.js";
import { SqlTab } from "./tabs/sql_tab.js";

const TAB_NAMES: Record<Tab, string> = { rows: "Rows", plot: "Plot", group: "Group", file: "File", sql: "SQL" };
/** The maximum number of column names that are suggested. */
const MAX_SUGGESTIONS = 5000;
/** Milliseconds after a change until it is written to the URL. */
const SAVE_DELAY = 150;
/** The URL keeps the active row only if it is among so many rows from the first visible one on. */
const MAX_ACTIVE_DISTANCE = 100;
const THEME_KEY = "arrowwood-theme";

/** A condition, and a column to sort by; both may be empty. */
interface Search {
  where?: string;
  sort?: string;
  descending?: boolean;
}

/** The result of a search, which the server keeps. */
interface View {
  id: string;
  rows: number;
  /** False if only the first rows that were found are kept. */
  isComplete: boolean;
}

interface CellPosition {
  row: number;
  column: number;
}

/** Connects the parts of the page: the rows that they show, searches, following, the panel, and the state in the URL. */
class Page {
  private facts: TableInfo;
  /** The first rows, if they came with the page; until they are shown. */
  private initialCells: Cells | undefined;
  private state: PageState;
  /** The rows of the table. */
  private extent: Extent;
  /** The end of the rows that are shown: a snapshot, until the user follows the table. */
  private shownEnd: number;
  private view: View | undefined;
  private searchController: AbortController | undefined;
  private isFollowing = false;
  private isCatchingUp = false;
  private isServerGone = false;
  /** True if following continues when the server answers again. */
  private resumesFollowing = false;
  /** Aborts requests for the panel. */
  private panelController = new AbortController();
  /** The cell in the panel, if it shows one. */
  private panelCell: CellPosition | undefined;
  /** The last text that was searched among column names, and the column that was found. */
  private columnSearch = { text: "", column: -1 };
  private saveTimer = 0;
  private formats: string[];

  private grid: Grid;
  private plot: Plot;
  private groupTab: GroupTab;
  private fileTab = new FileTab();
  private sqlTab: SqlTab;
  private tabButtons = {} as Record<Tab, HTMLElement>;
  private notice = new Notice();
  private help = helpDialog();
  private main = el("main", { id: "main" });
  private panel = el("aside", { class: "panel", "aria-label": "Details", hidden: true });
  private filterInput = el("input", {
    type: "search",
    class: "filter",
    placeholder: 'Filter: price > 100 and symbol == "IBM"',
    "aria-label": "Filter",
    spellcheck: "false",
    autocomplete: "off",
    enterkeyhint: "search",
  });
  private goToInput = el("input", {
    type: "text",
    class: "goto",
    placeholder: "Row or time …",
    "aria-label": "Go to row or time",
    title: "A row's number, from the end if negative; or a time, such as 2024-05-17 09:30",
  });
  private columnInput = el("input", {
    type: "search",
    class: "finder",
    placeholder: "Column …",
    "aria-label": "Find a column",
    title: "A part of a column's name; Enter again for the next",
    list: "columns",
    autocomplete: "off",
  });
  private status = el("span", { class: "status", role: "status", "aria-live": "polite" });
  private downloads = el("span", { class: "saves" });
  private stopButton = el("button", { class: "stop", hidden: true, click: () => this.stop() }, "Stop");
  private newRowsButton = el("button", { class: "fresh", click: () => this.setFollowing(true), hidden: true });
  private followButton = el(
    "button",
    { class: "follow", "aria-pressed": "false", click: () => this.setFollowing(!this.isFollowing) },
    "Follow",
  );

  constructor({ facts, cells }: InitialData) {
    const { columns, first_row, end } = facts;
    this.facts = facts;
    this.initialCells = cells;
    this.state = parsePageState(location.hash, columns.length);
    this.extent = { first_row, end, durable_end: facts.durable_end ?? end };
    this.shownEnd = end;
    this.formats = downloadFormats(facts.parquet);
    this.grid = this.createGrid();
    this.plot = this.createPlot();
    const scheduleSave = () => this.scheduleSave();
    this.sqlTab = new SqlTab(facts.name, this.formats, scheduleSave);
    this.groupTab = new GroupTab(facts.name, this.formats, columns, scheduleSave, (condition) =>
      this.addCondition(condition),
    );
    for (const tab of TABS) this.tabButtons[tab] = this.createTabButton(tab);
    document.title = `${facts.name} · Arrowwood`;
    document.body.replaceChildren(
      this.createHeader(),
      this.notice.element,
      el("div", { class: "middle" }, this.main, this.panel),
      this.createFooter(),
      this.createColumnList(),
      this.help,
    );
    this.listen();
  }

  private createGrid(): Grid {
    return new Grid(this.facts.columns, {
      onScroll: () => this.onScroll(),
      onLayoutChange: () => this.scheduleSave(),
      onCellSelect: (row, column) => void this.showCell({ row, column }),
      onHeadSelect: (column) => void this.showColumn(column),
      onActiveChange: (row, column) => {
        if (!this.panel.hidden && this.panelCell) void this.showCell({ row, column });
      },
      onCopy: (row, column) => void this.copyCell({ row, column }),
      drawHead: (column, head) => this.drawHead(column, head),
    });
  }

  private createPlot(): Plot {
    return new Plot(this.facts.columns, this.facts.sorted_by, {
      getRowRange: () => [this.extent.first_row, this.shownEnd],
      onChange: () => this.scheduleSave(),
      showRow: (row) => {
        this.clearSearch();
        this.showTab("rows");
        this.grid.goTo(row);
      },
      showMatches: (where) => {
        this.state.tab = "rows";
        void this.runSearch({ where });
      },
    });
  }

  private createTabButton(tab: Tab): HTMLElement {
    const attributes = { role: "tab", "aria-selected": "false", "aria-controls": "main" };
    return el("button", { ...attributes, click: () => this.showTab(tab) }, TAB_NAMES[tab]);
  }

  private createHeader(): HTMLElement {
    const { name, path, kind } = this.facts;
    const tabs = el(
      "nav",
      { role: "tablist", "aria-label": "Ways to look", keydown: (event) => this.onTabKeyDown(event as KeyboardEvent) },
      ...Object.values(this.tabButtons),
    );
    const theme = el(
      "button",
      { class: "theme", "aria-label": "Dark or light", title: "Dark or light", click: () => this.toggleTheme() },
      "◐",
    );
    return el(
      "header",
      {},
      el("h1", { title: path ?? name }, name),
      tabs,
      this.filterInput,
      this.goToInput,
      this.columnInput,
      kind === "table" && this.followButton,
      this.newRowsButton,
      theme,
    );
  }

  private createFooter(): HTMLElement {
    const keys = el(
      "button",
      { class: "keys", title: "What the keys do (?)", "aria-haspopup": "dialog", click: () => this.help.showModal() },
      "? Keys",
    );
    return el("footer", {}, this.status, this.stopButton, !isEmbedded && this.downloads, keys);
  }

  /** Returns the names that the input for columns suggests. */
  private createColumnList(): HTMLElement {
    const options = this.facts.columns.slice(0, MAX_SUGGESTIONS).map(({ name }) => el("option", { value: name }));
    return el("datalist", { id: "columns" }, ...options);
  }

  private listen() {
    this.filterInput.addEventListener("keydown", (event) => {
      if (event.key === "Enter") void this.searchByInput();
    });
    // The browser sends "search" when the user clears the input.
    this.filterInput.addEventListener("search", () => {
      if (!this.filterInput.value && this.state.where) void this.searchByInput();
    });
    this.goToInput.addEventListener("keydown", (event) => {
      if (event.key === "Enter") void this.goToRow();
    });
    this.columnInput.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.findColumn();
    });
    this.columnInput.addEventListener("change", () => {
      if (this.columnInput.value.trim() !== this.columnSearch.text) this.findColumn();
    });
    window.addEventListener("hashchange", ({ newURL }) => {
      clearTimeout(this.saveTimer);
      // Uses the address of the event, as the page's may have changed again.
      const state = parsePageState(new URL(newURL).hash, this.facts.columns.length);
      if (JSON.stringify(state) !== JSON.stringify(this.state)) void this.restore(state);
    });
    document.addEventListener("keydown", (event) => this.onKeyDown(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    onReplaced(() => this.onFileReplaced());
    void watchTable({
      onExtent: (extent) => this.onExtent(extent),
      onEnded: () => void this.onTableEnded(),
      onLost: (reason) => this.onServerLost(reason),
    });
  }

  /** Shows the rows, and restores the state that the URL has. */
  async start() {
    const theme = isEmbedded ? undefined : localStorage.getItem(THEME_KEY);
    if (theme) document.documentElement.dataset.theme = theme;
    this.showRows();
    const restored = this.restore(this.state);
    // Paints at once instead of in the next frame, as the first rows came with the page.
    this.grid.measure();
    this.grid.paint();
    await restored;
    this.focusGrid();
  }

  // State in the URL

  private async restore(state: PageState) {
    const { columns } = this.facts;
    // Copies the state, as searching changes the page's.
    this.state = { ...state };
    this.filterInput.value = state.where;
    this.groupTab.grouping = state.grouping;
    this.sqlTab.query = state.query;
    this.grid.restoreWidths(parseWidths(state.widths, columns.length));
    this.grid.setOrder(parseOrder(state.columns, columns.length), state.pinned);
    await this.runSearch(state);
    this.showTab(state.tab);
    if (state.tab === "group") this.groupTab.reload(this.state.where);
    if (state.tab === "sql" && state.query) void this.sqlTab.run();
    if (state.row !== undefined) {
      this.grid.goTo(state.row, clamp(state.column ?? 0, 0, Math.max(0, columns.length - 1)));
    }
    if (state.plot !== undefined && state.plot < columns.length) {
      const overType = columns[state.over ?? -1]?.type ?? "";
      this.plot.over = isTime(overType) ? state.over : undefined;
      this.plot.from = BigInt(state.from ?? 0);
      this.plot.to = BigInt(state.to ?? 0);
      this.plot.show(state.plot);
    }
  }

  /** Returns the state as the page shows it. */
  private currentState(): PageState {
    const { tab, where, sort, descending } = this.state;
    const { active, layout, rows, userWidths } = this.grid;
    const top = Math.floor(this.grid.top);
    const isActiveNear = active.row >= top && active.row < top + MAX_ACTIVE_DISTANCE && active.row > rows.first;
    let row: number | undefined;
    if (isActiveNear) row = active.row;
    else if (top > rows.first) row = top;
    const { column: plotted, over, from, to } = this.plot;
    const isPlot = tab === "plot" && plotted !== undefined;
    const isZoomed = isPlot && to > from;
    return {
      tab,
      row,
      column: (isActiveNear && active.column) || undefined,
      columns: formatOrder(layout.order),
      pinned: layout.pinned,
      widths: formatWidths(userWidths),
      where,
      sort,
      descending,
      plot: isPlot ? plotted : undefined,
      over: isPlot ? over : undefined,
      from: isZoomed ? String(from) : undefined,
      to: isZoomed ? String(to) : undefined,
      grouping: tab === "group" ? structuredClone(this.groupTab.grouping) : emptyGrouping(),
      query: tab === "sql" ? this.sqlTab.query : "",
    };
  }

  /** Writes the state to the URL, a moment after it has changed. */
  private scheduleSave() {
    // The frame of a notebook has no URL.
    if (isEmbedded) return;
    clearTimeout(this.saveTimer);
    this.saveTimer = window.setTimeout(() => {
      this.state = this.currentState();
      const text = formatPageState(this.state);
      history.replaceState(null, "", text ? `#${text}` : location.pathname);
    }, SAVE_DELAY);
  }

  // The server, and tables that grow

  /** Receives the number of rows, also when the server answers again. */
  private onExtent(extent: Extent) {
    const { isServerGone, resumesFollowing } = this;
    this.isServerGone = false;
    this.resumesFollowing = false;
    this.extent = extent;
    this.grid.rows.retryFailed();
    if (this.isFollowing) {
      void this.catchUp();
    } else {
      const newRows = extent.end - this.shownEnd;
      this.newRowsButton.hidden = newRows <= 0;
      if (newRows > 0) this.newRowsButton.textContent = plural(newRows, "new row");
      this.updateStatus();
    }
    if (isServerGone) this.notice.hide();
    if (resumesFollowing) this.setFollowing(true);
  }

  /** Stops following when the server does not answer, and reports it. */
  private onServerLost(reason: string) {
    this.pauseFollowing();
    if (this.isServerGone && this.notice.isShown) return;
    this.isServerGone = true;
    this.notice.show(toSentence(reason));
  }

  /** Reports that the table or file was replaced or removed. */
  private async onTableEnded() {
    const facts = await fetchJson<TableInfo>("").catch(() => undefined);
    if (facts && facts.snapshot !== this.facts.snapshot) return this.onFileReplaced();
    if (this.isFollowing) this.setFollowing(false);
    this.notice.show(REMOVED[this.facts.kind]);
  }

  /** Ends following for good: rows of the new file must not be shown next to the rows of the old one. */
  private onFileReplaced() {
    if (this.isFollowing) this.setFollowing(false);
    const text = REPLACED[this.facts.kind];
    if (isEmbedded) this.notice.showFinal(`${text} Run the cell again.`);
    else this.notice.showFinal(text, { label: "Reload", run: () => location.reload() });
  }

  /** Handles rows that could not be fetched. */
  private async onRowsError(error: RequestError) {
    switch (error.code) {
      case "file_changed":
        this.onFileReplaced();
        break;
      case "no_view":
        // The server has dropped the view, whose rows are searched again.
        await this.runSearch(this.state);
        break;
      case "dropped":
        // The table has dropped its first rows.
        this.facts = await fetchJson<TableInfo>("");
        this.extent.first_row = this.facts.first_row;
        this.showRows();
        break;
      case "gone":
        this.pauseFollowing();
        this.notice.show(toSentence(error.message), { label: "Try again", run: () => this.retryRows() });
        break;
      default:
        this.notice.show(error.message);
    }
  }

  private retryRows() {
    this.notice.hide();
    this.grid.rows.retryFailed();
  }

  private setFollowing(isFollowing: boolean) {
    if (isFollowing && this.isServerGone) {
      this.resumesFollowing = true;
      return;
    }
    // Stays false until the grid has scrolled to the end, as `onScroll` stops following anywhere else.
    this.isFollowing = false;
    if (isFollowing) {
      this.showTab("rows");
      if (this.view) this.clearSearch();
      this.shownEnd = this.extent.end;
      clearSamples();
      this.showRows();
      this.grid.scrollToEnd();
      this.newRowsButton.hidden = true;
      this.isFollowing = true;
    }
    this.followButton.setAttribute("aria-pressed", String(isFollowing));
    this.followButton.textContent = isFollowing ? "Freeze" : "Follow";
  }

  /** Stops following until the server answers again. */
  private pauseFollowing() {
    if (!this.isFollowing) return;
    this.resumesFollowing = true;
    this.setFollowing(false);
  }

  /** Shows the newest rows as soon as they are fetched, until there are no newer ones. */
  private async catchUp() {
    if (this.isCatchingUp) return;
    this.isCatchingUp = true;
    while (this.isFollowing && this.shownEnd < this.extent.end) {
      const { rows } = this.grid;
      const { first_row, end } = this.extent;
      await this.grid.prefetch(end);
      if (!this.isFollowing || this.grid.rows !== rows) break;
      this.shownEnd = end;
      rows.first = first_row;
      rows.end = end;
      this.grid.rowNumberEnd = end;
      this.grid.scrollToEnd();
      this.updateStatus();
    }
    this.isCatchingUp = false;
  }

  /** Stops following when the user scrolls up. */
  private onScroll() {
    if (this.isFollowing && !this.grid.isAtEnd) this.setFollowing(false);
    this.scheduleSave();
  }

  // Rows

  /** Shows the rows of the view, or of the table up to the snapshot. */
  private showRows() {
    const { view } = this;
    const first = view ? 0 : this.extent.first_row;
    const end = view ? view.rows : this.shownEnd;
    const rows = new RowCache(this.facts.columns.length, view?.id, first, end, {
      onChange: () => this.grid.schedulePaint(),
      onError: (error) => void this.onRowsError(error),
    });
    if (this.initialCells) rows.addInitialCells(this.initialCells);
    this.initialCells = undefined;
    this.grid.rowNumberEnd = this.extent.end;
    const { sort, descending: isDescending } = this.state;
    const column = sort ? this.facts.columns.findIndex(({ name }) => name === sort) : -1;
    this.grid.sortOrder = column < 0 ? undefined : { column, isDescending };
    this.grid.setEmptyMessage(...this.emptyMessage());
    this.grid.showRows(rows);
    this.updateStatus();
  }

  private emptyMessage(): (Node | string)[] {
    if (!this.view) return [this.facts.kind === "table" ? "No rows yet." : "No rows."];
    return ["No row meets the condition. ", el("button", { click: () => this.clearSearch() }, "All rows")];
  }

  /** Reports the shown rows, or the progress of a search; and updates the links to download the rows. */
  private updateStatus(progress?: Progress) {
    const isSearching = !!progress?.of;
    this.stopButton.hidden = !isSearching;
    this.status.textContent = isSearching ? describeProgress(progress) : this.describeRows();
    this.downloads.replaceChildren(...this.createDownloadLinks());
  }

  private describeRows(): string {
    const { view, extent, shownEnd } = this;
    const rowCount = shownEnd - extent.first_row;
    const parts: string[] = [];
    if (view) {
      const limit = view.isComplete ? "" : ", the first that were found";
      parts.push(`${plural(view.rows, "row")} of ${formatCount(rowCount)}${limit}`);
    } else {
      parts.push(plural(rowCount, "row"));
    }
    parts.push(plural(this.facts.columns.length, "column"));
    if (this.facts.kind === "table" && !view) {
      const isDurable = extent.durable_end >= shownEnd;
      parts.push(isDurable ? "all durable" : `durable up to ${formatCount(extent.durable_end)}`);
    }
    return parts.join(" · ");
  }

  /** Returns links to download the shown rows, in their order. */
  private createDownloadLinks(): (Node | string)[] {
    const { where, sort } = this.state;
    const view = this.view?.isComplete ? this.view.id : undefined;
    // Streams are in the table's order. Sorted rows and Parquet files come from the view, which the server may have dropped:
    // they are fetched first, so that the page can show the error.
    const isStreamed = (format: string) => format !== "parquet" && !(view && sort);
    return downloadLinks({
      name: this.facts.name,
      // Views have a limited number of rows: beyond it, only streams have all of them.
      formats: this.formats.filter((format) => format !== "parquet" || !this.view || view),
      address: (format) =>
        isStreamed(format) ? tableUrl("rows", { where, format }) : tableUrl("save", { view, format }),
      isStreamed,
      onError: (message) => this.notice.show(message),
    });
  }

  private focusGrid() {
    this.main.querySelector<HTMLElement>("#grid")?.focus({ preventScroll: true });
  }

  // Search

  private searchByInput() {
    return this.runSearch({ ...this.state, where: this.filterInput.value });
  }

  /** Filters and sorts rows. */
  private async runSearch({ where: condition = "", sort = "", descending = false }: Search) {
    this.searchController?.abort();
    const where = condition.trim();
    const tab = this.state.tab === "group" ? "group" : "rows";
    this.filterInput.value = where;
    this.notice.hide();
    if (!where && !sort) {
      if (this.view || this.state.where) this.clearSearch();
      if (tab === "group") this.showTab(tab);
      return;
    }
    const controller = new AbortController();
    this.searchController = controller;
    try {
      const result = await searchRows(
        { where, sort, descending },
        (progress) => this.updateStatus(progress),
        controller.signal,
      );
      this.view = { id: result.view!, rows: result.rows!, isComplete: result.whole !== false };
      if (this.isFollowing) this.setFollowing(false);
      Object.assign(this.state, { where, sort, descending });
      this.grid.top = 0;
      this.grid.active = { row: 0, column: this.grid.active.column };
      this.showRows();
      this.scheduleSave();
      this.showTab(tab);
    } catch (e) {
      if (!controller.signal.aborted) this.notice.show((e as Error).message);
      this.updateStatus();
    }
  }

  /** Filters the rows further, by a condition that the server has sent. */
  private addCondition(condition: string) {
    const { where, tab } = this.state;
    if (tab === "group") this.state.tab = "rows";
    void this.runSearch({ ...this.state, where: where ? `(${where}) and ${condition}` : condition });
  }

  /** Shows all rows. */
  private clearSearch() {
    this.filterInput.value = "";
    Object.assign(this.state, { where: "", sort: "", descending: false });
    this.view = undefined;
    this.showRows();
    this.scheduleSave();
  }

  /** Aborts searches, groupings and queries. */
  private stop() {
    this.searchController?.abort();
    this.groupTab.stop();
    this.sqlTab.stop();
    this.updateStatus();
  }

  /** Goes to the row with a number, or to the first row at or after a time. */
  private async goToRow() {
    const text = this.goToInput.value.trim();
    if (!text) return;
    this.notice.hide();
    let row = Number(text.replaceAll(/[,_\s]/g, ""));
    if (!Number.isSafeInteger(row)) {
      try {
        const parameters = { value: text, view: this.view?.id };
        const result = await fetchJson<{ row: number | null; column: string }>("seek", parameters);
        if (result.row === null) return this.notice.show(`No row has ${result.column} ${text} or later.`);
        row = result.row;
      } catch (e) {
        return this.notice.show(`Go to row or time: ${(e as Error).message}`);
      }
    } else if (row < 0) {
      row += this.grid.rows.end;
    }
    this.showTab("rows");
    this.grid.goTo(row);
    this.focusGrid();
  }

  /** Goes to the column that matches the text best, and then to the next one. */
  private findColumn() {
    const text = this.columnInput.value.trim();
    if (!text) return;
    const matches = findColumns(this.facts.columns, text.toLowerCase());
    if (!matches.length) return this.notice.show(`No column is called ${text}.`);
    const last = this.columnSearch.text === text ? matches.indexOf(this.columnSearch.column) : -1;
    const column = matches[(last + 1) % matches.length];
    this.columnSearch = { text, column };
    this.notice.hide();
    this.showTab("rows");
    this.grid.goTo(this.grid.active.row, column);
    this.focusGrid();
  }

  // The panel

  /** Opens the panel, and aborts requests for what it showed; returns the signal for new ones. */
  private openPanel(): AbortSignal {
    this.panelController.abort();
    this.panelController = new AbortController();
    this.panel.hidden = false;
    this.panelCell = undefined;
    return this.panelController.signal;
  }

  private closePanel() {
    this.panelController.abort();
    this.panel.hidden = true;
    this.focusGrid();
  }

  private async showColumn(number: number) {
    const column = this.facts.columns[number];
    const { where, sort } = this.state;
    const actions = {
      sort: (descending: boolean) => void this.runSearch({ where: this.state.where, sort: column.name, descending }),
      unsort: sort ? () => void this.runSearch({ where }) : undefined,
      plot: () => {
        this.showTab("plot");
        this.plot.show(number);
      },
      isPinned: this.grid.layout.isPinned(number),
      togglePin: () => {
        this.grid.togglePin(number);
        void this.showColumn(number);
      },
      move: (by: number) => this.grid.moveColumn(number, this.grid.layout.positionOf(number) + by),
      filter: (condition: string) => this.addCondition(condition),
      close: () => this.closePanel(),
    };
    await showColumnPanel(this.panel, number, column, actions, this.openPanel());
  }

  private async showCell(cell: CellPosition) {
    const number = this.grid.rows.rowNumber(cell.row);
    if (number === undefined) return;
    const signal = this.openPanel();
    this.panelCell = cell;
    this.scheduleSave();
    const actions = {
      close: () => this.closePanel(),
      showInFile: (detail: CellDetail) => {
        this.showTab("file");
        void this.fileTab.showCell(detail);
      },
      filter: (condition: string) => this.addCondition(condition),
    };
    try {
      await showCellPanel(this.panel, number, cell.column, actions, signal);
    } catch (e) {
      if (!signal.aborted) this.panel.replaceChildren(el("p", { class: "error" }, (e as Error).message));
    }
  }

  /** Copies a cell's whole text to the clipboard. */
  private async copyCell({ row, column }: CellPosition) {
    const number = this.grid.rows.rowNumber(row);
    // A notebook's frame has no access to the clipboard.
    if (number === undefined || isEmbedded) return;
    try {
      const text = await fetchCellText(number, column);
      await navigator.clipboard.writeText(text);
      const { name } = this.facts.columns[column];
      this.status.textContent = `Copied row ${formatCount(number)}, ${name}: ${plural(text.length, "character")}`;
    } catch (e) {
      this.notice.show((e as Error).message);
    }
  }

  // Tabs and keys

  private showTab(tab: Tab) {
    this.state.tab = tab;
    this.downloads.hidden = tab === "group" || tab === "sql";
    for (const [name, button] of Object.entries(this.tabButtons)) {
      button.setAttribute("aria-selected", String(name === tab));
      button.tabIndex = name === tab ? 0 : -1;
    }
    const elements: Record<Tab, HTMLElement> = {
      rows: this.grid.element,
      plot: this.plot.element,
      group: this.groupTab.element,
      file: this.fileTab.element,
      sql: this.sqlTab.element,
    };
    const element = elements[tab];
    if (element.parentElement !== this.main) this.main.replaceChildren(element);
    if (tab !== "file") this.fileTab.hide();
    switch (tab) {
      case "rows":
        this.grid.measure();
        break;
      case "plot":
        if (this.plot.column !== undefined && this.plot.to <= this.plot.from) this.plot.show(this.plot.column);
        break;
      case "group":
        this.groupTab.show(this.state.where);
        break;
      case "file":
        void this.fileTab.show();
        break;
      case "sql":
        this.sqlTab.focus();
        break;
    }
    this.scheduleSave();
  }

  /** Selects the neighbouring tab by the arrow keys. */
  private onTabKeyDown(event: KeyboardEvent) {
    // The step to the left goes around, as remainders of negative numbers are negative.
    const step = { ArrowRight: 1, ArrowLeft: TABS.length - 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const tab = TABS[(TABS.indexOf(this.state.tab) + step) % TABS.length];
    this.showTab(tab);
    this.tabButtons[tab].focus();
  }

  private onKeyDown(event: KeyboardEvent) {
    if (this.help.open) return;
    if (event.key === "Escape") {
      this.stop();
      this.notice.hide();
      if (this.panel.hidden) this.focusGrid();
      else this.closePanel();
      return;
    }
    const target = event.target as HTMLElement;
    if (target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.runShortcut(event.key)) event.preventDefault();
  }

  /** Runs the command of a key; returns false if it has none. */
  private runShortcut(key: string): boolean {
    switch (key) {
      case "/":
        this.filterInput.focus();
        return true;
      case "g":
        this.goToInput.select();
        return true;
      case "c":
        this.columnInput.select();
        return true;
      case "?":
        this.help.showModal();
        return true;
      case "f":
        if (this.facts.kind === "table") this.setFollowing(!this.isFollowing);
        return true;
      default: {
        const tab = TABS.find((_, i) => key === String(i + 1));
        if (tab) this.showTab(tab);
        return tab !== undefined;
      }
    }
  }

  // Pictures

  /** Draws the pictures in a column's head when their data has arrived. */
  private drawHead(column: number, head: HTMLElement) {
    requestSample({ column, isVisible: () => head.isConnected, show: (sample) => drawHeadPictures(head, sample) });
  }

  private toggleTheme() {
    const root = document.documentElement;
    const isDark = getComputedStyle(root).colorScheme.includes("dark");
    root.dataset.theme = isDark ? "light" : "dark";
    if (!isEmbedded) localStorage.setItem(THEME_KEY, root.dataset.theme);
    this.redraw();
  }

  /** Draws all pictures in the current colours. */
  private redraw() {
    this.plot.draw();
    redrawColumnPanel();
    this.facts.columns.forEach((_, column) => {
      const head = this.grid.headOf(column);
      if (head) this.drawHead(column, head);
    });
  }
}

function describeProgress({ searched, of, found }: Progress): string {
  return `searched ${formatCount(searched!)} of ${formatCount(of!)}: ${formatCount(found ?? 0)} found …`;
}

/** Draws the bars and the line in a column's head, and describes them in its title. */
function drawHeadPictures(head: HTMLElement, { statistics, bins }: Sample) {
  const [barsCanvas, lineCanvas] = head.querySelectorAll("canvas");
  drawBars(barsCanvas, statistics);
  if (bins) {
    if (bins.bins.length) drawSparkline(lineCanvas, bins);
    else lineCanvas.hidden = true;
  }
  const { name, type, nulls, rows } = statistics;
  const nullText = nulls ? `, ${formatCount(nulls)} nulls of ${formatCount(rows)}` : "";
  head.title = `${name}: ${type}${nullText}`;
}

async function start() {
  try {
    await new Page(await openTable()).start();
  } catch (e) {
    document.body.replaceChildren(el("p", { class: "message", role: "alert" }, (e as Error).message));
  }
}

void start();
