// The commits of a growing table: which rows of a segment are durable, visible or reserved, and its records.

import { type CommitRecord, type Commits, get } from "./api.js";
import { bytes, colour, count, el, plural, sheet } from "./dom.js";
import { records } from "./table.js";

/** The number of records that are listed. */
const LISTED = 500;

type Segment = NonNullable<Commits["segment"]>;

export class CommitList {
  private bar = el("canvas", { class: "strip", role: "img" });
  private text = el("p", { class: "hint" });
  private records = el("div", { class: "scroll" });
  readonly element = el("div", { hidden: true }, el("h3", {}, "Commits"), this.bar, this.text, this.records);

  /** Shows the commits in a segment's file; returns true if there is a newer segment. */
  async show(file: number): Promise<boolean> {
    try {
      const { table, segment } = await get<Commits>("messages", { file, commits: true });
      this.element.hidden = !segment;
      if (!segment || !table) return false;
      const { records } = segment;
      this.draw(segment, table.writer);
      this.list(segment);
      return table.live && records.some(({ sealed }) => sealed);
    } catch (e) {
      this.text.textContent = (e as Error).message;
      return false;
    }
  }

  private draw(
    { first_row: first, capacity, sequence, durable_end: durable, writer: last, records }: Segment,
    writer: number | null,
  ) {
    const end = Math.max(first, ...records.filter(({ place }) => place === "visible").map((record) => record.end));
    const { pen, width, height } = sheet(this.bar);
    for (const [to, name] of [
      [end, "words"],
      [Math.min(end, durable), "accent"],
    ] as const) {
      pen.fillStyle = colour(name);
      pen.fillRect(0, 0, Math.max(to > first ? 1 : 0, ((to - first) / Math.max(1, capacity)) * width), height);
    }
    const who = writer !== null ? `process ${writer} writes` : `nobody writes; the last was process ${last}`;
    const text = `commit ${count(sequence)} · rows ${count(first)} to ${count(end)} visible, to ${count(durable)} durable, room for ${count(capacity)} · ${who}`;
    this.text.textContent = text;
    this.bar.setAttribute("aria-label", text);
  }

  private list({ records: all, live_page: live, log }: Segment) {
    const titles = ["record", "offset", "length", "commit", "rows up to", "state", "boot"];
    const logged = all.filter(({ place }) => place === "log").length;
    this.records.replaceChildren(
      records("records", titles, all.slice(0, LISTED).map(recordRow)),
      el(
        "p",
        { class: "hint" },
        `live page at ${count(live.offset)} · log at ${count(log.offset)}, ${bytes(log.length)}, ${plural(logged, "entry", "entries")}`,
      ),
    );
  }
}

function recordRow({
  place,
  offset,
  bytes: length,
  sequence,
  end,
  sealed,
  provisional,
  boot,
  this_boot: isNow,
}: CommitRecord): HTMLElement {
  const states = [sealed && "sealed", provisional && "provisional"].filter(Boolean).join(", ") || "open";
  const cells = [
    place,
    offset === null ? "in the log" : count(offset),
    bytes(length),
    count(sequence),
    count(end),
    states,
  ];
  const when = el("td", { title: boot }, isNow ? "this boot" : `${boot.slice(0, 8)}…, an earlier one`);
  return el("tr", {}, ...cells.map((text) => el("td", {}, text)), when);
}
