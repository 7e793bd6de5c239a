// Requests to the server, and the types of its responses. docs/serve.md documents the routes.

export interface Column {
  name: string;
  type: string;
  nullable: boolean;
}

/** Facts about the table, file or files that the page shows. */
export interface TableInfo {
  name: string;
  kind: "table" | "file" | "files";
  first_row: number;
  end: number;
  /** Identifies the columns and row numbers: it changes when the file is replaced. */
  snapshot: string;
  durable_end?: number;
  sorted_by?: string | null;
  columns: Column[];
  path?: string;
  /** True if the server can write Parquet. */
  parquet?: boolean;
}

/** The rows of a table: `end` is the number after the last visible one, `durable_end` after the last durable one. */
export interface Extent {
  first_row: number;
  end: number;
  durable_end: number;
}

/** The value of a cell as text, null, or the error that reading it has failed with. */
export type Cell = string | null | { error: string };

/** Cells of a range of rows: `rows` are their numbers in the table, `first_row` and `end` the range of the table. */
export interface Cells {
  first_row: number;
  end: number;
  from: number;
  rows: number[];
  cells: Cell[][];
}

/** Statistics of a column: of `rows` of its `of` rows. */
export interface Statistics {
  name: string;
  type: string;
  rows: number;
  of: number;
  nulls: number;
  min: string | null;
  max: string | null;
  mean: number | null;
  exact: boolean;
  histogram?: { counts: number[]; ends: [string, string] };
  /** The most frequent values: as text, with the number of rows, and with the condition that selects them, if any. */
  top?: { values: [string | null, number, string | null][]; distinct: number; of: number };
  /** The number of distinct numbers in the rows that were sampled for bins. */
  unique?: { distinct: number; of: number };
}

/** The first, smallest, largest and last value of the rows of a pixel; null if there is no value. */
export type Bin = [number, number, number, number] | null;

/** A column in bins: over rows `from` to `to`, or over time from `start` to `stop`. */
export interface Bins {
  from: number;
  to: number;
  bins: Bin[];
  range: [string, string] | null;
  exact: boolean;
  /** The range of time in the column's unit, without its end. These are integers that may not fit in a float. */
  start?: string | null;
  stop?: string | null;
  /** The range of time as text. */
  ends?: [string, string] | null;
  /** The condition that selects the rows with times in the range. */
  condition?: string | null;
  rows?: number | null;
  sorted?: boolean;
  /** The number of the first row, if the rows are sorted by time. */
  first_row?: number | null;
}

/** Progress of a search or grouping, or its last line. */
export interface Progress {
  searched?: number;
  of?: number;
  found?: number;
  view?: string;
  rows?: number;
  whole?: boolean;
  error?: string;
}

/** A file of a table. */
export interface FileEntry {
  name: string;
  size: number;
  first_row: number;
}

/** The files of a table; for a growing table, also its state. */
export interface FileList {
  files: FileEntry[];
  total: number;
  end?: number;
  durable_end?: number;
  live?: boolean;
  writer?: number | null;
  disk_bytes?: number;
  apparent_bytes?: number;
}

/** A message of an Arrow file, with offsets in the file. */
export interface Message {
  kind: string;
  offset: number;
  metadata_offset: number;
  metadata_length: number;
  body_offset: number;
  body_length: number;
  rows: number | null;
  buffers: number;
}

export interface MessageList {
  name: string;
  size: number;
  from: number;
  total: number;
  messages: Message[];
}

/** The location of a buffer in its file; and if a cell was asked for, of the cell's bytes in it. */
export interface BufferLocation {
  field?: string;
  name: string;
  offset: number;
  length: number;
  at?: number;
  bytes?: number;
  bit?: number;
  hex?: string;
}

/** A commit of a growing table, read from one of its records. */
export interface CommitRecord {
  place: "visible" | "durable" | "log";
  offset: number | null;
  bytes: number;
  sequence: number;
  end: number;
  sealed: boolean;
  provisional: boolean;
  boot: string;
  this_boot: boolean;
}

/** The state of a growing table, and the records in one of its segments. */
export interface Commits {
  table?: { end: number; durable_end: number; live: boolean; writer: number | null };
  segment: {
    first_row: number;
    capacity: number;
    sequence: number;
    writer: number;
    durable_end: number;
    live_page: { offset: number; length: number };
    log: { offset: number; length: number };
    records: CommitRecord[];
  } | null;
}

/** A message with its buffers. */
export interface MessageDetail extends Omit<Message, "buffers"> {
  version: number;
  compression: string | null;
  dictionary: { id: number; delta: boolean } | null;
  buffers: BufferLocation[];
}

/** A nested value: its first items with their names, of `count` items. */
export interface NestedValue {
  kind: "list" | "map" | "struct";
  count: number;
  items: [string, NestedItem][];
}

/** An item of a nested value. */
export type NestedItem = string | null | { error: string } | NestedValue;

/** A cell with its full value and its location. */
export interface CellDetail {
  row: number;
  column: string;
  type: string;
  /** The value with all its digits, or its first characters if it is not `whole`. */
  value?: string | null;
  whole?: boolean;
  error?: string;
  /** The condition that selects the rows with this value, if there is one. */
  condition?: string | null;
  /** The value as a tree, if it is nested. */
  inside?: NestedValue;
  /** The media type, if the cell contains an image. */
  image?: string | null;
  place?: {
    file: number;
    name: string;
    message: number;
    message_offset: number;
    row_in_batch: number;
    compressed: boolean;
    buffers: BufferLocation[];
  };
}

/** The result of an SQL query. */
export interface SqlResult {
  columns: { name: string; type: string }[];
  cells: Cell[][];
  whole: boolean;
}

/** Groups of rows: their keys, row counts, and results of functions. */
export interface GroupResult {
  groups: number;
  of: number;
  keys: number;
  columns: { name: string; type: string }[];
  cells: Cell[][];
  /** The condition that selects the rows of each group, if there is one. */
  conditions: (string | null)[];
  error?: string;
}

type QueryParameters = Record<string, string | number | boolean | string[] | undefined | null>;

/** Sends a request, as `fetch` does. */
type Transport = (address: string, signal?: AbortSignal) => Promise<Response>;

/** An error response of the server, with its message. */
export class RequestError extends Error {
  constructor(
    message: string,
    readonly status: number,
    /** The server's code of the error; `gone` if it does not answer. */
    readonly code: string,
  ) {
    super(message);
  }
}

const SERVER_GONE = "the server does not answer; it may have been stopped";

/** True if the page is embedded in another document, as in a notebook. */
export const isEmbedded = location.protocol === "about:";

/** The URL of the table, once it is open. */
let baseUrl = "/v1/tables";
/** Sent with requests, so that the server refuses to answer from another file. */
let snapshot = "";
let onFileReplaced = () => {};
let transport: Transport = (address, signal) => fetch(address, { signal });

/** Calls `listener` when the file was replaced: its rows must not be shown next to the rows of the old one. */
export function onReplaced(listener: () => void) {
  onFileReplaced = listener;
}

/** A part of a response: first a status, then bytes, then the end. A status of 0 means that the server is gone. */
interface ResponsePart {
  id: number;
  status?: number;
  bytes?: ArrayBuffer;
  end?: boolean;
}

/**
 * Sends requests through a port to the notebook, as its frame can't reach the server.
 *
 * A message `{ id, address }` is a request, and `{ id }` cancels it.
 */
class PortTransport {
  private lastId = 0;
  private listeners = new Map<number, (part: ResponsePart) => void>();

  constructor(private port: MessagePort) {
    port.onmessage = ({ data }) => this.listeners.get(data.id)?.(data);
  }

  fetch(address: string, signal?: AbortSignal): Promise<Response> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(new DOMException("", "AbortError"));
      const id = ++this.lastId;
      let body: ReadableStreamDefaultController<Uint8Array>;
      const stream = new ReadableStream<Uint8Array>({
        start: (controller) => {
          body = controller;
        },
        cancel: () => this.cancel(id),
      });
      signal?.addEventListener("abort", () => {
        const error = new DOMException("", "AbortError");
        if (this.listeners.has(id)) this.cancel(id);
        reject(error);
        try {
          body.error(error);
        } catch {
          // The response is complete.
        }
      });
      this.listeners.set(id, ({ status, bytes, end }) => {
        if (status) resolve(new Response(stream, { status }));
        if (status === 0) reject(new TypeError("the server is gone"));
        if (bytes) body.enqueue(new Uint8Array(bytes));
        if (end || status === 0) this.listeners.delete(id);
        if (end) body.close();
      });
      this.port.postMessage({ id, address });
    });
  }

  private cancel(id: number) {
    this.listeners.delete(id);
    this.port.postMessage({ id });
  }
}

/** Asks the notebook for a port, and sends requests through it from now on. */
async function connectToNotebook(): Promise<void> {
  const port = await new Promise<MessagePort>((resolve) => {
    addEventListener("message", ({ source, ports: [first] }) => {
      if (source === parent && first) resolve(first);
    });
    parent.postMessage("arrowwood", "*");
  });
  const portTransport = new PortTransport(port);
  transport = (address, signal) => portTransport.fetch(address, signal);
}

/** Returns the URL of a route of the table. Parameters that are empty or false are left out. */
export function tableUrl(route: string, parameters: QueryParameters = {}): string {
  const query = new URLSearchParams();
  if (route && snapshot) query.set("snapshot", snapshot);
  for (const [name, value] of Object.entries(parameters)) {
    if (Array.isArray(value)) {
      for (const item of value) query.append(name, item);
    } else if (value !== undefined && value !== null && value !== false && value !== "") {
      query.set(name, String(value));
    }
  }
  const text = query.toString();
  return baseUrl + (route && `/${route}`) + (text && `?${text}`);
}

/** Sends a request; throws `RequestError` unless it succeeds. */
async function request(address: string, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await transport(address, signal);
  } catch (e) {
    if ((e as Error).name === "AbortError") throw e;
    throw new RequestError(SERVER_GONE, 0, "gone");
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (problem.code === "file_changed") onFileReplaced();
  const hint = response.status === 401 ? ": open the URL that arrowwood view has printed" : "";
  throw new RequestError((problem.detail ?? response.statusText) + hint, response.status, problem.code ?? "");
}

/** Requests a route of the table, and parses its response. */
export async function fetchJson<T>(route: string, parameters: QueryParameters = {}, signal?: AbortSignal): Promise<T> {
  const response = await request(tableUrl(route, parameters), signal);
  return response.json();
}

/** Fetches the whole response of an address. */
export async function fetchBlob(address: string): Promise<Blob> {
  const response = await request(address);
  return response.blob();
}

/** Fetches the whole text of a cell, by the numbers of its row and column. */
export async function fetchCellText(row: number, column: number): Promise<string> {
  const response = await request(tableUrl("text", { row, at: column }));
  return response.text();
}

/** Returns an address of the image in a cell. */
export async function imageUrl(row: number, column: number): Promise<string> {
  const address = tableUrl("image", { row, at: column });
  return isEmbedded ? URL.createObjectURL(await fetchBlob(address)) : address;
}

/** The data that the page starts with: facts of its table, and the first rows if the server sent them with the page. */
export interface InitialData {
  facts: TableInfo;
  cells?: Cells;
}

/** Opens the only table of the server. The page usually contains its facts, which saves requests. */
export async function openTable(): Promise<InitialData> {
  if (isEmbedded) await connectToNotebook();
  const text = document.getElementById("first")?.textContent;
  let data: InitialData | undefined;
  let name: string;
  if (text) {
    data = JSON.parse(text) as InitialData;
    name = data.facts.name;
  } else {
    name = (await fetchJson<{ tables: { name: string }[] }>("")).tables[0].name;
  }
  baseUrl += `/${encodeURIComponent(name)}`;
  data ??= { facts: await fetchJson<TableInfo>("") };
  snapshot = data.facts.snapshot;
  return data;
}

/** The milliseconds between keep-alive lines of the server. */
const KEEP_ALIVE = isEmbedded ? undefined : 400;
/**
 * The milliseconds of silence after which the server counts as gone.
 *
 * There is no limit in a notebook: requests wait while a cell runs, and the notebook itself reports that the server is
 * gone.
 */
const MAX_SILENCE = isEmbedded ? 2 ** 31 - 1 : 1500;
/** The milliseconds between an event and the next one, and between attempts to reach a server that is gone. */
const EVENT_INTERVAL = 100;
const RETRY_INTERVAL = 1000;

/** Yields the text of a response as it arrives; calls `onSilence` if none does for `MAX_SILENCE`. */
async function* readText(response: Response, onSilence?: () => void): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const timer = onSilence && setTimeout(onSilence, MAX_SILENCE);
    const { value, done } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    yield value;
  }
}

/** Reads a response line by line: calls `onProgress` with each line, and returns the last one. */
async function readLines<T extends { error?: string }>(
  address: string,
  onProgress: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<T> {
  const response = await request(address, signal);
  let buffered = "";
  let last = {} as T;
  for await (const text of readText(response)) {
    buffered += text;
    const lines = buffered.split("\n");
    buffered = lines.pop()!;
    for (const line of lines) {
      last = JSON.parse(line) as T;
      onProgress(last as Progress);
    }
  }
  if (last.error) throw new RequestError(last.error, 500, "search");
  return last;
}

/** Filters and sorts rows into a view of the server. */
export async function searchRows(
  parameters: QueryParameters,
  onProgress: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<Progress> {
  const last = await readLines<Progress>(tableUrl("views", parameters), onProgress, signal);
  if (last.view === undefined) throw new RequestError("the search broke off", 500, "search");
  return last;
}

/** Groups rows. */
export async function groupRows(
  parameters: QueryParameters,
  onProgress: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<GroupResult> {
  const last = await readLines<GroupResult>(tableUrl("groups", parameters), onProgress, signal);
  if (last.cells === undefined) throw new RequestError("the grouping broke off", 500, "groups");
  return last;
}

/** Listens to changes of a table or file. */
export interface Watcher {
  /** Receives the number of rows, at first and whenever it changes. */
  onExtent(extent: Extent): void;
  /** The table or file was removed or replaced; no more is reported. */
  onEnded(): void;
  /** The server does not answer. Requests are repeated until it does, and then `onExtent` is called. */
  onLost(reason: string): void;
}

/** Resolves once the page is visible. */
function pageVisible(): Promise<void> {
  return new Promise((resolve) => {
    function check() {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    }
    document.addEventListener("visibilitychange", check);
    check();
  });
}

/** Yields complete events of a response, several at a time. */
async function* readEvents(response: Response, onSilence: () => void): AsyncGenerator<string[]> {
  let buffered = "";
  for await (const text of readText(response, onSilence)) {
    buffered += text;
    const events = buffered.split("\n\n");
    buffered = events.pop()!;
    yield events;
  }
}

/** Returns the data of the last event that has some. */
function lastData(events: string[]): string | undefined {
  for (const event of [...events].reverse()) {
    const data = /^data: (.*)$/m.exec(event);
    if (data) return data[1];
  }
  return undefined;
}

/** Reports changes of the table or file to `watcher`, but not while the page is hidden, as browsers allow few connections. */
export async function watchTable(watcher: Watcher) {
  for (;;) {
    await pageVisible();
    const controller = new AbortController();
    let isPageHidden = false;
    const onVisibilityChange = () => {
      if (!document.hidden) return;
      isPageHidden = true;
      controller.abort();
    };
    document.addEventListener("visibilitychange", onVisibilityChange);
    const timer = setTimeout(() => controller.abort(), MAX_SILENCE);
    let reason = SERVER_GONE;
    try {
      const address = tableUrl("events", { interval: EVENT_INTERVAL, alive: KEEP_ALIVE });
      const response = await request(address, controller.signal);
      clearTimeout(timer);
      for await (const events of readEvents(response, () => controller.abort())) {
        if (events.some((event) => /^event: end$/m.test(event))) return watcher.onEnded();
        const data = lastData(events);
        if (data !== undefined) watcher.onExtent(JSON.parse(data));
      }
    } catch (e) {
      if (e instanceof RequestError) {
        if (e.code === "file_changed" || e.code === "not_found") return watcher.onEnded();
        reason = e.message;
      }
    } finally {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisibilityChange);
    }
    controller.abort();
    if (isPageHidden) continue;
    watcher.onLost(reason);
    await new Promise((resolve) => setTimeout(resolve, RETRY_INTERVAL));
  }
}
