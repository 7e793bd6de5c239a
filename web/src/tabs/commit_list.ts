// The commits of a growing table: how much of a segment is visible, durable or free, and its commit records.

import { type CommitRecord, type Commits, fetchJson } from "../data/api.js";
import { colour, el, formatBytes, formatCount, plural, startDrawing } from "../elements/dom.js";
import { titledTable } from "../elements/table.js";

/** The maximum number of records that are listed. */
const MAX_LISTED = 500;
const TITLES = ["record", "offset", "length", "commit", "rows up to", "state", "boot"];

type Segment = NonNullable<Commits["segment"]>;

export class CommitList {
  private bar = el("canvas", { class: "strip", role: "img" });
  private summary = el("p", { class: "hint" });
  private records = el("div", { class: "scroll" });
  readonly element = el("div", { hidden: true }, el("h3", {}, "Commits"), this.bar, this.summary, this.records);

  /** Shows the commits in a segment's file; returns true if there is a newer segment. */
  async show(file: number): Promise<boolean> {
    try {
      const { table, segment } = await fetchJson<Commits>("messages", { file, commits: true });
      this.element.hidden = !segment;
      if (!segment || !table) return false;
      this.showSummary(segment, table.writer);
      this.showRecords(segment);
      const isSealed = segment.records.some(({ sealed }) => sealed);
      return table.live && isSealed;
    } catch (e) {
      this.summary.textContent = (e as Error).message;
      return false;
    }
  }

  /** Draws visible and durable rows to scale, and describes them. */
  private showSummary(segment: Segment, writer: number | null) {
    const { first_row: first, capacity, durable_end: durableEnd } = segment;
    const visibleEnds = segment.records.filter(({ place }) => place === "visible").map(({ end }) => end);
    const end = Math.max(first, ...visibleEnds);
    const { context, width, height } = startDrawing(this.bar);
    const drawRows = (rowsEnd: number, colourName: string) => {
      const length = ((rowsEnd - first) / Math.max(1, capacity)) * width;
      context.fillStyle = colour(colourName);
      // Rows are visible even if they are less than a pixel.
      context.fillRect(0, 0, Math.max(rowsEnd > first ? 1 : 0, length), height);
    };
    drawRows(end, "words");
    drawRows(Math.min(end, durableEnd), "accent");
    const text = [
      `commit ${formatCount(segment.sequence)}`,
      `rows ${formatCount(first)} to ${formatCount(end)} visible, to ${formatCount(durableEnd)} durable, room for ${formatCount(capacity)}`,
      writer === null ? `nobody writes; the last was process ${segment.writer}` : `process ${writer} writes`,
    ].join(" · ");
    this.summary.textContent = text;
    this.bar.setAttribute("aria-label", text);
  }

  private showRecords({ records, live_page: livePage, log }: Segment) {
    const logged = records.filter(({ place }) => place === "log").length;
    const text = [
      `live page at ${formatCount(livePage.offset)}`,
      `log at ${formatCount(log.offset)}, ${formatBytes(log.length)}, ${plural(logged, "entry", "entries")}`,
    ].join(" · ");
    this.records.replaceChildren(
      titledTable("records", TITLES, records.slice(0, MAX_LISTED).map(recordRow)),
      el("p", { class: "hint" }, text),
    );
  }
}

function recordRow(record: CommitRecord): HTMLElement {
  const states: string[] = [];
  if (record.sealed) states.push("sealed");
  if (record.provisional) states.push("provisional");
  const cells = [
    record.place,
    record.offset === null ? "in the log" : formatCount(record.offset),
    formatBytes(record.bytes),
    formatCount(record.sequence),
    formatCount(record.end),
    states.join(", ") || "open",
  ];
  const boot = record.this_boot ? "this boot" : `${record.boot.slice(0, 8)}…, an earlier one`;
  return el("tr", {}, ...cells.map((text) => el("td", {}, text)), el("td", { title: record.boot }, boot));
}
