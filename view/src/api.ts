// The server's routes, as documented in docs/serve.md.

export interface Column {
  name: string;
  type: string;
  nullable: boolean;
}

export interface Facts {
  name: string;
  kind: "table" | "file" | "files";
  first_row: number;
  end: number;
  /** Identifies the columns and row numbers: it differs if the file is another one. */
  snapshot: string;
  durable_end?: number;
  sorted_by?: string | null;
  columns: Column[];
  path?: string;
  /** True if the server can write Parquet. */
  parquet?: boolean;
}

export interface Extent {
  first_row: number;
  end: number;
  durable_end: number;
}

export type Cell = string | null | { error: string };

export interface Cells {
  first_row: number;
  end: number;
  from: number;
  rows: number[];
  cells: Cell[][];
}

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
  /** The most frequent values as text, the number of rows with each, and the condition that selects them, if there is one. */
  top?: { values: [string | null, number, string | null][]; distinct: number; of: number };
  /** The number of numbers in the rows that were sampled for bins. */
  unique?: { distinct: number; of: number };
}

/** The first, smallest, largest and last value of the rows of a pixel. */
export type Bin = [number, number, number, number] | null;

export interface Bins {
  from: number;
  to: number;
  bins: Bin[];
  range: [string, string] | null;
  exact: boolean;
  /** Bins over time: start and end, exclusive, in the column's unit; they may have more digits than a float. */
  start?: string | null;
  stop?: string | null;
  /** Start and end as text. */
  ends?: [string, string] | null;
  /** The condition that selects the rows with times in the range. */
  condition?: string | null;
  rows?: number | null;
  sorted?: boolean;
  /** The number of the first row, if the rows are sorted by time. */
  first_row?: number | null;
}

export interface Report {
  searched?: number;
  of?: number;
  found?: number;
  view?: string;
  rows?: number;
  whole?: boolean;
  error?: string;
}

export interface FileEntry {
  name: string;
  size: number;
  first_row: number;
}

export interface Files {
  files: FileEntry[];
  total: number;
  end?: number;
  durable_end?: number;
  live?: boolean;
  writer?: number | null;
  disk_bytes?: number;
  apparent_bytes?: number;
}

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

export interface Messages {
  name: string;
  size: number;
  from: number;
  total: number;
  messages: Message[];
}

export interface BufferPlace {
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

export interface MessageDetail extends Omit<Message, "buffers"> {
  version: number;
  compression: string | null;
  dictionary: { id: number; delta: boolean } | null;
  buffers: BufferPlace[];
}

/** A nested value: the first of its `count` items, with their names. */
export interface Nested {
  kind: "list" | "map" | "struct";
  count: number;
  items: [string, Inside][];
}

/** An item of a nested value. */
export type Inside = string | null | { error: string } | Nested;

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
  inside?: Nested;
  /** The media type, if the cell holds a picture. */
  image?: string | null;
  place?: {
    file: number;
    name: string;
    message: number;
    message_offset: number;
    row_in_batch: number;
    compressed: boolean;
    buffers: BufferPlace[];
  };
}

/** The result of an SQL query. */
export interface Answer {
  columns: { name: string; type: string }[];
  cells: Cell[][];
  whole: boolean;
}

/** Groups of rows: their keys, row counts, and results of functions. */
export interface Groups {
  groups: number;
  of: number;
  keys: number;
  columns: { name: string; type: string }[];
  cells: Cell[][];
  /** The condition that selects the rows of each group, if there is one. */
  conditions: (string | null)[];
  error?: string;
}

type Parameters = Record<string, string | number | boolean | string[] | undefined | null>;

/** An error response of the server, with its message. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
  ) {
    super(message);
  }
}

const GONE = "the server does not answer; it may have been stopped";

let base = "/v1/tables";
/** Identifies the rows of the page: the server refuses to answer from another file. */
let snapshot = "";
let replaced = () => {};

/** Calls `hear` when the file turns out to be another one: its rows must not be shown next to the rows of the old one. */
export function onReplaced(hear: () => void) {
  replaced = hear;
}

/** Sends requests: the browser does, or in a notebook, where the server is out of reach, the notebook's side of the page. */
let carry: (address: string, signal?: AbortSignal) => Promise<Response> = (address, signal) =>
  fetch(address, { signal });

/** True if the page is embedded in another document, as in a notebook. */
export const isEmbedded = location.protocol === "about:";

/** A message through the port: first a status, then bytes, then the end. */
interface Carried {
  id: number;
  status?: number;
  bytes?: ArrayBuffer;
  end?: boolean;
}

/** Sends requests through a port that the notebook provides. */
async function embed(): Promise<void> {
  const port = await new Promise<MessagePort>((came) => {
    addEventListener("message", ({ source, ports: [first] }) => source === parent && first && came(first));
    parent.postMessage("arrowwood", "*");
  });
  const waiting = new Map<number, (part: Carried) => void>();
  let last = 0;
  port.onmessage = ({ data }) => waiting.get(data.id)?.(data);
  carry = (address, signal) =>
    new Promise((resolve, reject) => {
      const id = ++last;
      let body: ReadableStreamDefaultController<Uint8Array>;
      const leave = () => (waiting.delete(id), port.postMessage({ id }));
      const stream = new ReadableStream<Uint8Array>({ start: (controller) => void (body = controller), cancel: leave });
      signal?.addEventListener("abort", () => {
        const gone = new DOMException("", "AbortError");
        if (waiting.has(id)) leave();
        reject(gone);
        try {
          body.error(gone);
        } catch {
          // The response is complete.
        }
      });
      if (signal?.aborted) return reject(new DOMException("", "AbortError"));
      waiting.set(id, ({ status, bytes, end }) => {
        if (status) resolve(new Response(stream, { status }));
        if (status === 0) reject(new TypeError("the server is gone"));
        if (bytes) body.enqueue(new Uint8Array(bytes));
        if (end || status === 0) waiting.delete(id);
        if (end) body.close();
      });
      port.postMessage({ id, address });
    });
}

export function url(route: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams();
  if (route && snapshot) query.set("snapshot", snapshot);
  for (const [name, value] of Object.entries(parameters)) {
    if (Array.isArray(value)) value.forEach((each) => query.append(name, each));
    else if (value !== undefined && value !== null && value !== false && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return base + (route && `/${route}`) + (text && `?${text}`);
}

async function ask(address: string, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await carry(address, signal);
  } catch (e) {
    if ((e as Error).name === "AbortError") throw e;
    throw new Refused(GONE, 0, "gone");
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  if (problem.code === "file_changed") replaced();
  const hint = response.status === 401 ? ": open the URL that arrowwood view has printed" : "";
  throw new Refused((problem.detail ?? response.statusText) + hint, response.status, problem.code ?? "");
}

export async function get<T>(route: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  return (await ask(url(route, parameters), signal)).json();
}

/** Fetches the response of an address as a whole. */
export async function blob(address: string): Promise<Blob> {
  return (await ask(address)).blob();
}

/** Returns the whole text of a cell. */
export async function wholeText(row: number, at: number): Promise<string> {
  return (await ask(url("text", { row, at }))).text();
}

/** The data that the page starts with: facts of its table, and the first rows if they came along. */
export interface First {
  facts: Facts;
  cells?: Cells;
}

/** Opens the only table of the page; the server sends its facts along with the page. */
export async function open(): Promise<First> {
  if (isEmbedded) await embed();
  const sent = document.getElementById("first")?.textContent;
  const first = sent ? (JSON.parse(sent) as First) : undefined;
  const name = first ? first.facts.name : (await get<{ tables: { name: string }[] }>("")).tables[0].name;
  base += `/${encodeURIComponent(name)}`;
  const opened = first ?? { facts: await get<Facts>("") };
  snapshot = opened.facts.snapshot;
  return opened;
}

/** Returns the last line of a response that arrives line by line; calls `report` with each. */
async function lines<T extends { error?: string }>(
  address: string,
  report: (now: Report) => void,
  signal: AbortSignal,
): Promise<T> {
  const response = await ask(address, signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let last = {} as T;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
    const lines = text.split("\n");
    text = lines.pop()!;
    for (const line of lines) {
      last = JSON.parse(line) as T;
      report(last as Report);
    }
  }
  if (last.error) throw new Refused(last.error, 500, "search");
  return last;
}

/** Searches and sorts; calls `report` with the progress. */
export async function search(
  parameters: Parameters,
  report: (now: Report) => void,
  signal: AbortSignal,
): Promise<Report> {
  const last = await lines<Report>(url("views", parameters), report, signal);
  if (last.view === undefined) throw new Refused("the search broke off", 500, "search");
  return last;
}

/** Groups rows; calls `report` with the progress. */
export async function grouped(
  parameters: Parameters,
  report: (now: Report) => void,
  signal: AbortSignal,
): Promise<Groups> {
  const last = await lines<Groups>(url("groups", parameters), report, signal);
  if (last.cells === undefined) throw new Refused("the grouping broke off", 500, "groups");
  return last;
}

/**
 * Milliseconds between keep-alive lines of the server, and of silence after which the page reports that it is gone. In a notebook there
 * is no limit: requests wait while a cell runs, and the notebook itself reports that the server is gone.
 */
const ALIVE = isEmbedded ? undefined : 400;
const SILENCE = isEmbedded ? 2 ** 31 - 1 : 1500;

/** Receives changes of a table or file. */
export interface Watcher {
  /** Reports the number of rows, at first and whenever it changes. */
  came(extent: Extent): void;
  /** The table or file was removed or replaced. */
  ended(): void;
  /** The server does not answer. Requests are repeated until it does, and then `came` is called. */
  lost(why: string): void;
}

/** Yields the texts of a response as they arrive, until it ends or nothing has arrived for a while. */
async function* pieces(response: Response, going: AbortController): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const timer = setTimeout(() => going.abort(), SILENCE);
    const { value, done } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    yield value;
  }
}

/** Resolves once the page is visible. */
const inSight = () =>
  new Promise<void>((done) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      done();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });

/** Reports changes of the table or file to `watcher`, but not while the page is hidden, as browsers allow few connections. */
export async function watch({ came, ended, lost }: Watcher) {
  for (;;) {
    await inSight();
    const going = new AbortController();
    let isLeft = false;
    const leave = () => {
      if (!document.hidden) return;
      isLeft = true;
      going.abort();
    };
    document.addEventListener("visibilitychange", leave);
    const timer = setTimeout(() => going.abort(), SILENCE);
    let why = GONE;
    try {
      const response = await ask(url("events", { interval: 100, alive: ALIVE }), going.signal);
      clearTimeout(timer);
      let text = "";
      for await (const piece of pieces(response, going)) {
        text += piece;
        const parts = text.split("\n\n");
        text = parts.pop()!;
        if (parts.some((part) => /^event: end$/m.test(part))) return ended();
        const rows = parts
          .map((part) => /^data: (.*)$/m.exec(part))
          .filter((data) => data)
          .at(-1);
        if (rows) came(JSON.parse(rows[1]));
      }
    } catch (e) {
      if (e instanceof Refused) {
        if (e.code === "file_changed" || e.code === "not_found") return ended();
        why = e.message;
      }
    } finally {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", leave);
    }
    going.abort();
    if (isLeft) continue;
    lost(why);
    await new Promise((done) => setTimeout(done, 1000));
  }
}

/** Returns the address of the picture in a cell. */
export async function picture(row: number, at: number): Promise<string> {
  const address = url("image", { row, at });
  return isEmbedded ? URL.createObjectURL(await blob(address)) : address;
}
