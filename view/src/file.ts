// The structure of a file: messages and buffers to scale, pages in memory, and the commits of a growing table.

import {
  type BufferPlace,
  type CellDetail,
  type Files,
  get,
  type Message,
  type MessageDetail,
  type Messages,
} from "./api.js";
import { CommitList } from "./commits.js";
import { bytes, clamp, colour, count, el, plural, sheet } from "./dom.js";
import { records } from "./table.js";

const LIMIT = 5000;
/** The number of messages that are listed at once. */
const LISTED = 100;
/** Milliseconds between updates of the pages in memory. */
const STRIP = 2000;

const shade: Record<string, string> = { schema: "schema", "record batch": "accent", "dictionary batch": "words" };
const LEGEND = [
  ["schema, and metadata of messages", "schema"],
  ["rows", "accent"],
  ["dictionaries", "words"],
  ["what is looked at", "mark"],
];

export class FileTab {
  readonly element: HTMLElement;
  private files: Files | undefined;
  private file = 0;
  /** True while the newest segment of a growing table is shown; choosing a file ends that. */
  private isNewest = true;
  private listed = 0;
  private messages: Messages | undefined;
  private message: number | undefined;
  private marked: BufferPlace[] = [];
  private choice = el("select", { "aria-label": "File", change: () => void this.choose(Number(this.choice.value)) });
  private facts = el("p", { class: "basis" });
  private map = el("canvas", { class: "map", role: "img", tabindex: 0 });
  private listing = el("div", { class: "scroll" });
  private strip = el("canvas", { class: "strip", role: "img" });
  private stripText = el("p", { class: "hint" });
  private commits = new CommitList();
  private detail = el("div", { class: "detail", "aria-live": "polite" });
  private timer = 0;

  constructor() {
    this.element = el(
      "section",
      { class: "file-tab", "aria-label": "The file taken apart" },
      el("p", { class: "tools" }, this.choice, this.facts),
      el("h3", {}, "Messages, to scale"),
      this.map,
      el("p", { class: "legend" }, ...LEGEND.map(([text, name]) => el("span", { class: name }, text))),
      el("h3", {}, "Pages in memory"),
      this.strip,
      this.stripText,
      this.commits.element,
      this.detail,
      el("h3", {}, "All messages"),
      this.listing,
      el(
        "p",
        { class: "hint" },
        "Click a message for its buffers, or choose it by arrows. In the rows, click a cell for its bytes.",
      ),
    );
    this.map.addEventListener("click", (event) => {
      const at = (event.offsetX / this.map.clientWidth) * (this.messages?.size ?? 0);
      void this.pick(this.at(at));
    });
    this.map.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) void this.pick((this.message ?? -1) + step);
    });
    new ResizeObserver(() => this.draw()).observe(this.map);
  }

  /** Shows the files, and updates the pages in memory from now on. */
  async show() {
    clearInterval(this.timer);
    this.timer = window.setInterval(() => this.element.isConnected && !document.hidden && void this.watch(), STRIP);
    try {
      await this.list();
    } catch (e) {
      this.facts.textContent = (e as Error).message;
    }
  }

  private async list() {
    this.files = await get<Files>("messages");
    this.listed = Date.now();
    const { files, live } = this.files;
    this.choice.replaceChildren(...files.map(({ name }, i) => el("option", { value: i }, name)));
    this.choice.hidden = files.length < 2;
    await this.open(live && this.isNewest ? files.length - 1 : clamp(this.file, 0, files.length - 1));
  }

  private choose(file: number) {
    this.isNewest = false;
    return this.open(file);
  }

  hide() {
    clearInterval(this.timer);
  }

  async open(file: number) {
    this.file = file;
    this.choice.value = String(file);
    this.message = undefined;
    this.marked = [];
    this.detail.replaceChildren();
    try {
      this.messages = await get<Messages>("messages", { file, limit: LIMIT });
    } catch (e) {
      this.messages = undefined;
      this.facts.textContent = (e as Error).message;
      return;
    }
    const { size, total, messages } = this.messages;
    const f = this.files!;
    const parts = [bytes(size), plural(total, "message")];
    if (messages.length < total) parts.push(`the first ${count(messages.length)} are drawn`);
    if (f.live !== undefined) {
      parts.push(plural(f.total, "segment"), `rows up to ${count(f.end!)}`, `durable up to ${count(f.durable_end!)}`);
      parts.push(f.writer ? `written by process ${f.writer}` : "nobody writes", `${bytes(f.disk_bytes!)} on the disk`);
    }
    this.facts.textContent = parts.join(" · ");
    void this.watch();
    // Select the first rows: they say more than the schema, which is the first message.
    const rows = messages.findIndex(({ kind }) => kind === "record batch");
    await this.pick(Math.max(0, rows));
  }

  /** Lists the messages around the selected one. */
  private enumerate() {
    const { messages, total } = this.messages!;
    const first = clamp((this.message ?? 0) - LISTED / 2, 0, Math.max(0, messages.length - LISTED));
    const row = (message: Message, i: number) => {
      const number = first + i;
      const pick = el(
        "button",
        { "data-message": number, click: () => void this.pick(number) },
        `${number} ${message.kind}`,
      );
      const numbers = [
        message.rows === null ? "" : count(message.rows),
        count(message.offset),
        bytes(message.body_offset - message.offset),
        bytes(message.body_length),
      ];
      return el(
        "tr",
        number === this.message ? { "aria-current": "true" } : {},
        el("td", {}, pick),
        ...numbers.map((text) => el("td", {}, text)),
      );
    };
    const shown = messages.slice(first, first + LISTED);
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.message;
    this.listing.replaceChildren(
      records("messages", ["message", "rows", "offset", "metadata", "body"], shown.map(row)),
      ...(shown.length < total
        ? [el("p", { class: "hint" }, `${count(first)} to ${count(first + shown.length)} of ${count(total)}`)]
        : []),
    );
    if (focused !== undefined) this.listing.querySelector<HTMLElement>(`[data-message="${focused}"]`)?.focus();
  }

  /** Updates parts that change by themselves: pages in memory, and commits. */
  private async watch() {
    void this.residency();
    if (this.files?.live === undefined) return;
    const isNewer = await this.commits.show(this.file);
    if (isNewer && this.isNewest && Date.now() - this.listed > STRIP / 2) await this.show();
  }

  private at(offset: number): number {
    const messages = this.messages?.messages ?? [];
    const found = messages.findIndex((message) => offset < message.body_offset + message.body_length);
    return found < 0 ? messages.length - 1 : found;
  }

  private async pick(number: number) {
    const from = this.messages?.messages ?? [];
    if (!from.length) return;
    this.message = clamp(number, 0, from.length - 1);
    this.draw();
    this.enumerate();
    try {
      const { file, message } = this;
      const detail = await get<MessageDetail>("messages", { file, message });
      if (this.file === file && this.message === message) this.describe(detail);
    } catch (e) {
      this.detail.replaceChildren(el("p", { class: "error" }, (e as Error).message));
    }
  }

  private describe(message: MessageDetail) {
    const canvas = el("canvas", {
      class: "map",
      role: "img",
      "aria-label": `Buffers of message ${this.message}, to scale`,
    });
    const rows = message.rows === null ? "" : `, ${plural(message.rows, "row")}`;
    const codec = message.compression ? `, compressed with ${message.compression}` : "";
    const words = message.dictionary
      ? `, dictionary ${message.dictionary.id}${message.dictionary.delta ? " (delta)" : ""}`
      : "";
    this.detail.replaceChildren(
      el("h3", {}, `Message ${this.message}: ${message.kind}${rows}${words}${codec}`),
      el(
        "p",
        { class: "basis" },
        `metadata at ${count(message.metadata_offset)}, ${bytes(message.metadata_length)} · body at ${count(message.body_offset)}, ${bytes(message.body_length)}`,
      ),
      canvas,
      buffers(message.buffers),
    );
    const { pen, width, height } = sheet(canvas);
    const x = (offset: number) => ((offset - message.body_offset) / Math.max(1, message.body_length)) * width;
    let shadeOf = 0;
    let field: string | undefined;
    for (const buffer of message.buffers) {
      if (buffer.field !== field) {
        field = buffer.field;
        shadeOf += 1;
      }
      pen.fillStyle = colour(shadeOf % 2 ? "accent" : "words");
      pen.globalAlpha = buffer.name === "validity" ? 0.45 : 1;
      pen.fillRect(
        x(buffer.offset),
        0,
        Math.max(1, (buffer.length / Math.max(1, message.body_length)) * width - 0.5),
        height,
      );
    }
  }

  private draw() {
    const { messages } = this;
    if (!messages || !this.element.isConnected) return;
    const { pen, width, height } = sheet(this.map);
    const x = (offset: number) => (offset / Math.max(1, messages.size)) * width;
    const box = (from: number, length: number, name: string, alpha = 1) => {
      pen.globalAlpha = alpha;
      pen.fillStyle = colour(name);
      pen.fillRect(x(from), 0, Math.max(1, x(length) - 0.5), height);
    };
    messages.messages.forEach((message: Message, i) => {
      box(
        message.body_offset,
        message.body_length,
        shade[message.kind] ?? "soft",
        i === this.message || i % 2 ? 1 : 0.75,
      );
      box(message.offset, message.body_offset - message.offset, "schema");
    });
    pen.globalAlpha = 1;
    const picked = this.message === undefined ? undefined : messages.messages[this.message];
    pen.strokeStyle = pen.fillStyle = colour("mark");
    pen.lineWidth = 2;
    if (picked)
      pen.strokeRect(
        x(picked.offset) + 1,
        1,
        Math.max(3, x(picked.body_offset + picked.body_length - picked.offset) - 2),
        height - 2,
      );
    for (const { at, bytes: length } of this.marked) {
      if (at !== undefined) pen.fillRect(x(at) - 1, 0, Math.max(2, x(length ?? 1)), height);
    }
    this.map.setAttribute("aria-label", `${plural(messages.total, "message")} in ${bytes(messages.size)}`);
  }

  private async residency() {
    try {
      const parts = clamp(Math.floor(this.strip.clientWidth), 50, 2000);
      const { shares, size } = await get<{ shares: number[]; size: number }>("messages", {
        file: this.file,
        residency: parts,
      });
      const { pen, width, height } = sheet(this.strip);
      pen.fillStyle = colour("accent");
      shares.forEach((share, i) => {
        if (!share) return;
        pen.globalAlpha = 0.25 + 0.75 * share;
        pen.fillRect((i / shares.length) * width, 0, width / shares.length + 0.5, height);
      });
      const share = shares.reduce((sum, part) => sum + part, 0) / Math.max(1, shares.length);
      const text = `about ${bytes(Math.round(share * size))} of ${bytes(size)} (${(100 * share).toFixed(1)} %) are in memory, whoever loaded them`;
      this.stripText.textContent = text;
      this.strip.setAttribute("aria-label", text);
    } catch (e) {
      this.stripText.textContent = (e as Error).message;
    }
  }

  /** Shows the location of the bytes of a cell. */
  async mark(cell: CellDetail) {
    if (!cell.place) return;
    if (!this.files) await this.show();
    if (this.file !== cell.place.file || !this.messages) await this.choose(cell.place.file);
    this.marked = cell.place.buffers;
    await this.pick(cell.place.message);
    this.draw();
  }
}

function buffers(all: BufferPlace[]): HTMLElement {
  const shown = all.slice(0, 2000);
  const row = ({ field = "", name, offset, length }: BufferPlace) =>
    el("tr", {}, ...[field, name, count(offset), count(length)].map((text) => el("td", {}, text)));
  return el(
    "div",
    { class: "scroll" },
    records("buffers", ["field", "buffer", "offset", "length"], shown.map(row)),
    shown.length < all.length && el("p", { class: "hint" }, `the first ${count(shown.length)} of ${count(all.length)}`),
  );
}
