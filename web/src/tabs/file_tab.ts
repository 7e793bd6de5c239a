// The structure of a file: messages and buffers to scale, pages in memory, and the commits of a growing table.

import {
  type BufferLocation,
  type CellDetail,
  type FileList,
  fetchJson,
  type Message,
  type MessageDetail,
  type MessageList,
} from "../data/api.js";
import { clamp, colour, el, formatBytes, formatCount, plural, startDrawing } from "../elements/dom.js";
import { titledTable } from "../elements/table.js";
import { CommitList } from "./commit_list.js";

/** The maximum number of messages that are drawn. */
const MAX_DRAWN = 5000;
/** The number of messages that are listed at once. */
const LISTED = 100;
const MAX_BUFFERS = 2000;
/** The number of parts of a file whose pages in memory are counted. */
const MIN_RESIDENCY_PARTS = 50;
const MAX_RESIDENCY_PARTS = 2000;
/** Milliseconds between updates of what changes by itself. */
const REFRESH_INTERVAL = 2000;

/** The colours of bodies, by the kind of their message. */
const BODY_COLOURS: Record<string, string> = {
  schema: "schema",
  "record batch": "accent",
  "dictionary batch": "words",
};
const LEGEND = [
  { text: "schema, and metadata of messages", colour: "schema" },
  { text: "rows", colour: "accent" },
  { text: "dictionaries", colour: "words" },
  { text: "what is looked at", colour: "mark" },
];

export class FileTab {
  readonly element: HTMLElement;
  private files: FileList | undefined;
  /** The number of the shown file. */
  private file = 0;
  /** True while the newest segment of a growing table is shown; choosing a file ends that. */
  private showsNewest = true;
  /** The time when the files were listed. */
  private listedAt = 0;
  private messages: MessageList | undefined;
  /** The number of the selected message. */
  private message: number | undefined;
  /** The buffers of the cell that is shown. */
  private marked: BufferLocation[] = [];
  private fileSelect = el("select", {
    "aria-label": "File",
    change: () => void this.chooseFile(Number(this.fileSelect.value)),
  });
  private summary = el("p", { class: "basis" });
  private map = el("canvas", { class: "map", role: "img", tabindex: 0 });
  private list = el("div", { class: "scroll" });
  private residencyBar = el("canvas", { class: "strip", role: "img" });
  private residencyText = el("p", { class: "hint" });
  private commits = new CommitList();
  private detail = el("div", { class: "detail", "aria-live": "polite" });
  private timer = 0;

  constructor() {
    this.element = el(
      "section",
      { class: "file-tab", "aria-label": "The file taken apart" },
      el("p", { class: "tools" }, this.fileSelect, this.summary),
      el("h3", {}, "Messages, to scale"),
      this.map,
      el("p", { class: "legend" }, ...LEGEND.map(({ text, colour }) => el("span", { class: colour }, text))),
      el("h3", {}, "Pages in memory"),
      this.residencyBar,
      this.residencyText,
      this.commits.element,
      this.detail,
      el("h3", {}, "All messages"),
      this.list,
      el(
        "p",
        { class: "hint" },
        "Click a message for its buffers, or choose it by arrows. In the rows, click a cell for its bytes.",
      ),
    );
    this.map.addEventListener("click", (event) => {
      const offset = (event.offsetX / this.map.clientWidth) * (this.messages?.size ?? 0);
      void this.selectMessage(this.messageAt(offset));
    });
    this.map.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) void this.selectMessage((this.message ?? -1) + step);
    });
    new ResizeObserver(() => this.drawMap()).observe(this.map);
  }

  /** Shows the files, and refreshes what changes by itself from now on. */
  async show() {
    clearInterval(this.timer);
    this.timer = window.setInterval(() => {
      if (this.element.isConnected && !document.hidden) void this.refresh();
    }, REFRESH_INTERVAL);
    try {
      await this.listFiles();
    } catch (e) {
      this.summary.textContent = (e as Error).message;
    }
  }

  /** Stops refreshing. */
  hide() {
    clearInterval(this.timer);
  }

  private async listFiles() {
    this.files = await fetchJson<FileList>("messages");
    this.listedAt = Date.now();
    const { files, live } = this.files;
    this.fileSelect.replaceChildren(...files.map(({ name }, i) => el("option", { value: i }, name)));
    this.fileSelect.hidden = files.length < 2;
    const newest = files.length - 1;
    await this.openFile(live && this.showsNewest ? newest : clamp(this.file, 0, newest));
  }

  private chooseFile(file: number) {
    this.showsNewest = false;
    return this.openFile(file);
  }

  private async openFile(file: number) {
    this.file = file;
    this.fileSelect.value = String(file);
    this.message = undefined;
    this.marked = [];
    this.detail.replaceChildren();
    try {
      this.messages = await fetchJson<MessageList>("messages", { file, limit: MAX_DRAWN });
    } catch (e) {
      this.messages = undefined;
      this.summary.textContent = (e as Error).message;
      return;
    }
    this.summary.textContent = describeFile(this.messages, this.files!);
    void this.refresh();
    // Selects the first rows, which are more interesting than the schema, the first message.
    const firstRows = this.messages.messages.findIndex(({ kind }) => kind === "record batch");
    await this.selectMessage(Math.max(0, firstRows));
  }

  /** Refreshes what changes by itself: pages in memory, and commits. */
  private async refresh() {
    void this.showResidency();
    if (this.files?.live === undefined) return;
    const hasNewer = await this.commits.show(this.file);
    const isListOld = Date.now() - this.listedAt > REFRESH_INTERVAL / 2;
    if (hasNewer && this.showsNewest && isListOld) await this.show();
  }

  /** Returns the number of the message at an offset in the file. */
  private messageAt(offset: number): number {
    const messages = this.messages?.messages ?? [];
    const message = messages.findIndex((message) => offset < endOf(message));
    return message < 0 ? messages.length - 1 : message;
  }

  private async selectMessage(number: number) {
    const messages = this.messages?.messages ?? [];
    if (!messages.length) return;
    this.message = clamp(number, 0, messages.length - 1);
    this.drawMap();
    this.showList();
    try {
      const { file, message } = this;
      const detail = await fetchJson<MessageDetail>("messages", { file, message });
      // Another message may have been selected meanwhile.
      if (this.file === file && this.message === message) this.showDetail(detail);
    } catch (e) {
      this.detail.replaceChildren(el("p", { class: "error" }, (e as Error).message));
    }
  }

  /** Lists the messages around the selected one. */
  private showList() {
    const { messages, total } = this.messages!;
    const first = clamp((this.message ?? 0) - LISTED / 2, 0, Math.max(0, messages.length - LISTED));
    const listed = messages.slice(first, first + LISTED);
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.message;
    const rows = listed.map((message, i) => this.messageRow(message, first + i));
    this.list.replaceChildren(titledTable("messages", ["message", "rows", "offset", "metadata", "body"], rows));
    if (listed.length < total) {
      const text = `${formatCount(first)} to ${formatCount(first + listed.length)} of ${formatCount(total)}`;
      this.list.append(el("p", { class: "hint" }, text));
    }
    // Keeps the focus for users of the keyboard.
    if (focused !== undefined) this.list.querySelector<HTMLElement>(`[data-message="${focused}"]`)?.focus();
  }

  private messageRow(message: Message, number: number): HTMLElement {
    const button = el(
      "button",
      { "data-message": number, click: () => void this.selectMessage(number) },
      `${number} ${message.kind}`,
    );
    const numbers = [
      message.rows === null ? "" : formatCount(message.rows),
      formatCount(message.offset),
      formatBytes(message.body_offset - message.offset),
      formatBytes(message.body_length),
    ];
    return el(
      "tr",
      number === this.message ? { "aria-current": "true" } : {},
      el("td", {}, button),
      ...numbers.map((text) => el("td", {}, text)),
    );
  }

  /** Shows the buffers of the selected message. */
  private showDetail(message: MessageDetail) {
    const canvas = el("canvas", {
      class: "map",
      role: "img",
      "aria-label": `Buffers of message ${this.message}, to scale`,
    });
    const location = [
      `metadata at ${formatCount(message.metadata_offset)}, ${formatBytes(message.metadata_length)}`,
      `body at ${formatCount(message.body_offset)}, ${formatBytes(message.body_length)}`,
    ].join(" · ");
    this.detail.replaceChildren(
      el("h3", {}, `Message ${this.message}: ${describeMessage(message)}`),
      el("p", { class: "basis" }, location),
      canvas,
      bufferTable(message.buffers),
    );
    drawBuffers(canvas, message);
  }

  /** Draws all messages, the selected one, and the bytes of the cell that is shown. */
  private drawMap() {
    const { messages } = this;
    if (!messages || !this.element.isConnected) return;
    const { context, width, height } = startDrawing(this.map);
    const toPixels = (bytes: number) => (bytes / Math.max(1, messages.size)) * width;
    const drawBox = (offset: number, length: number, colourName: string) => {
      context.fillStyle = colour(colourName);
      context.fillRect(toPixels(offset), 0, Math.max(1, toPixels(length) - 0.5), height);
    };
    messages.messages.forEach((message, i) => {
      // Bodies alternate in brightness, so that neighbours differ.
      context.globalAlpha = i === this.message || i % 2 ? 1 : 0.75;
      drawBox(message.body_offset, message.body_length, BODY_COLOURS[message.kind] ?? "soft");
      context.globalAlpha = 1;
      drawBox(message.offset, message.body_offset - message.offset, "schema");
    });
    const selected = this.message === undefined ? undefined : messages.messages[this.message];
    context.strokeStyle = context.fillStyle = colour("mark");
    context.lineWidth = 2;
    if (selected) {
      const length = toPixels(endOf(selected) - selected.offset);
      context.strokeRect(toPixels(selected.offset) + 1, 1, Math.max(3, length - 2), height - 2);
    }
    for (const { at: offset, bytes: length } of this.marked) {
      if (offset === undefined) continue;
      context.fillRect(toPixels(offset) - 1, 0, Math.max(2, toPixels(length ?? 1)), height);
    }
    this.map.setAttribute("aria-label", `${plural(messages.total, "message")} in ${formatBytes(messages.size)}`);
  }

  /** Shows the pages of the file that are in memory. */
  private async showResidency() {
    try {
      const parts = clamp(Math.floor(this.residencyBar.clientWidth), MIN_RESIDENCY_PARTS, MAX_RESIDENCY_PARTS);
      const parameters = { file: this.file, residency: parts };
      const { shares, size } = await fetchJson<{ shares: number[]; size: number }>("messages", parameters);
      const { context, width, height } = startDrawing(this.residencyBar);
      context.fillStyle = colour("accent");
      shares.forEach((share, i) => {
        if (!share) return;
        context.globalAlpha = 0.25 + 0.75 * share;
        context.fillRect((i / shares.length) * width, 0, width / shares.length + 0.5, height);
      });
      const share = shares.reduce((sum, share) => sum + share, 0) / Math.max(1, shares.length);
      const resident = formatBytes(Math.round(share * size));
      const text = `about ${resident} of ${formatBytes(size)} (${(100 * share).toFixed(1)} %) are in memory, whoever loaded them`;
      this.residencyText.textContent = text;
      this.residencyBar.setAttribute("aria-label", text);
    } catch (e) {
      this.residencyText.textContent = (e as Error).message;
    }
  }

  /** Shows the location of the bytes of a cell. */
  async showCell({ place }: CellDetail) {
    if (!place) return;
    if (!this.files) await this.show();
    if (this.file !== place.file || !this.messages) await this.chooseFile(place.file);
    this.marked = place.buffers;
    await this.selectMessage(place.message);
    this.drawMap();
  }
}

/** Returns the offset after a message. */
function endOf(message: Message | MessageDetail): number {
  return message.body_offset + message.body_length;
}

function describeFile({ size, total, messages }: MessageList, files: FileList): string {
  const parts = [formatBytes(size), plural(total, "message")];
  if (messages.length < total) parts.push(`the first ${formatCount(messages.length)} are drawn`);
  // The other fields are there if the file is a segment of a growing table.
  if (files.live !== undefined) {
    parts.push(
      plural(files.total, "segment"),
      `rows up to ${formatCount(files.end!)}`,
      `durable up to ${formatCount(files.durable_end!)}`,
      files.writer ? `written by process ${files.writer}` : "nobody writes",
      `${formatBytes(files.disk_bytes!)} on the disk`,
    );
  }
  return parts.join(" · ");
}

function describeMessage({ kind, rows, dictionary, compression }: MessageDetail): string {
  const parts = [kind];
  if (rows !== null) parts.push(plural(rows, "row"));
  if (dictionary) parts.push(`dictionary ${dictionary.id}${dictionary.delta ? " (delta)" : ""}`);
  if (compression) parts.push(`compressed with ${compression}`);
  return parts.join(", ");
}

/** Draws the buffers of a message to scale; the colour alternates between fields. */
function drawBuffers(canvas: HTMLCanvasElement, message: MessageDetail) {
  const { context, width, height } = startDrawing(canvas);
  const toPixels = (bytes: number) => (bytes / Math.max(1, message.body_length)) * width;
  let fieldCount = 0;
  let lastField: string | undefined;
  for (const { field, name, offset, length } of message.buffers) {
    if (field !== lastField) {
      lastField = field;
      fieldCount += 1;
    }
    context.fillStyle = colour(fieldCount % 2 ? "accent" : "words");
    context.globalAlpha = name === "validity" ? 0.45 : 1;
    context.fillRect(toPixels(offset - message.body_offset), 0, Math.max(1, toPixels(length) - 0.5), height);
  }
}

function bufferTable(buffers: BufferLocation[]): HTMLElement {
  const listed = buffers.slice(0, MAX_BUFFERS);
  const rows = listed.map(({ field = "", name, offset, length }) => {
    const cells = [field, name, formatCount(offset), formatCount(length)];
    return el("tr", {}, ...cells.map((text) => el("td", {}, text)));
  });
  return el(
    "div",
    { class: "scroll" },
    titledTable("buffers", ["field", "buffer", "offset", "length"], rows),
    listed.length < buffers.length &&
      el("p", { class: "hint" }, `the first ${formatCount(listed.length)} of ${formatCount(buffers.length)}`),
  );
}
