// The server's routes, as docs/serve.md has them.

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
  /** What columns and numbers of rows mean: another one where the file is another. */
  snapshot: string;
  durable_end?: number;
  sorted_by?: string | null;
  columns: Column[];
  path?: string;
  /** Whether the server writes Parquet. */
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
  /** The most frequent values as text, how often each comes, and the condition for it, if there is one. */
  top?: { values: [string | null, number, string | null][]; distinct: number; of: number };
  /** How many numbers there are, in the rows that were looked at for that. */
  unique?: { distinct: number; of: number };
}

/** Of the rows of a pixel: first, least, greatest, last. */
export type Bin = [number, number, number, number] | null;

export interface Bins {
  from: number;
  to: number;
  bins: Bin[];
  range: [string, string] | null;
  exact: boolean;
  /** Over time: the first one and the one behind the last, in the column's unit, which may be beyond a float's digits. */
  start?: string | null;
  stop?: string | null;
  /** The first and the last as text. */
  ends?: [string, string] | null;
  /** That of the rows with times in between. */
  condition?: string | null;
  rows?: number | null;
  sorted?: boolean;
  /** The first of the rows, where these are sorted by time. */
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

/** A commit of a growing table, as one of its records has it. */
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

/** A nested value: of `count` items the first, with their names. */
export interface Nested {
  kind: "list" | "map" | "struct";
  count: number;
  items: [string, Inside][];
}

/** What stands inside of a nested value. */
export type Inside = string | null | { error: string } | Nested;

export interface CellDetail {
  row: number;
  column: string;
  type: string;
  /** The value with all its digits; if it is not `whole`, its first characters. */
  value?: string | null;
  whole?: boolean;
  error?: string;
  /** That of the rows with this value, if there is one. */
  condition?: string | null;
  /** The value as a tree, if it is nested. */
  inside?: Nested;
  /** Its media type, if the cell holds a picture. */
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

/** What a query of SQL gives. */
export interface Answer {
  columns: { name: string; type: string }[];
  cells: Cell[][];
  whole: boolean;
}

/** Groups of rows: their keys, number of rows, and results of functions. */
export interface Groups {
  groups: number;
  of: number;
  keys: number;
  columns: { name: string; type: string }[];
  cells: Cell[][];
  /** That of the rows of each group, if there is one. */
  conditions: (string | null)[];
  error?: string;
}

type Parameters = Record<string, string | number | boolean | string[] | undefined | null>;

/** What the server says of a request that it refuses, in its words. */
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
/** The rows that are meant: the server refuses to answer from those of another file. */
let snapshot = "";
let replaced = () => {};

/** Calls `hear` when the file turns out to be another one, of which nothing must be shown beside what is. */
export function onReplaced(hear: () => void) {
  replaced = hear;
}

/** Who carries requests: the browser, or, where the page is in a notebook and has no server in reach, who shows it there. */
let carry: (address: string, signal?: AbortSignal) => Promise<Response> = (address, signal) =>
  fetch(address, { signal });

/** Whether the page stands in a document of another one, as in a notebook. */
export const isEmbedded = location.protocol === "about:";

/** What comes back through the port: first a status, then bytes, then the end. */
interface Carried {
  id: number;
  status?: number;
  bytes?: ArrayBuffer;
  end?: boolean;
}

/** Sends requests through a port that the notebook's side gives. */
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
          // It is whole.
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

/** What an address answers, to be kept. */
export async function blob(address: string): Promise<Blob> {
  return (await ask(address)).blob();
}

/** The whole text of a cell. */
export async function wholeText(row: number, at: number): Promise<string> {
  return (await ask(url("text", { row, at }))).text();
}

/** What the page begins with: what is told of its table, and the first rows where they are there already. */
export interface First {
  facts: Facts;
  cells?: Cells;
}

/** The one table that is shown; the server sends it along with the page. */
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

/** The last line of an answer that comes line by line; `report` hears each. */
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

/** Searches and sorts; `report` hears how far that is. */
export async function search(
  parameters: Parameters,
  report: (now: Report) => void,
  signal: AbortSignal,
): Promise<Report> {
  const last = await lines<Report>(url("views", parameters), report, signal);
  if (last.view === undefined) throw new Refused("the search broke off", 500, "search");
  return last;
}

/** Groups rows; `report` hears how far that is. */
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
 * Milliseconds between signs that the server is there, and those without one after which it is said to be gone. In a notebook all waits
 * while a cell runs, and the notebook says that the server is gone.
 */
const ALIVE = isEmbedded ? undefined : 400;
const SILENCE = isEmbedded ? 2 ** 31 - 1 : 1500;

/** Who is told of what becomes of a table or file. */
export interface Watcher {
  /** How far it goes, at first and whenever that changes. */
  came(extent: Extent): void;
  /** It is no longer there, or another one is. */
  ended(): void;
  /** The server does not answer; it is asked again until it does, and then `came` is called. */
  lost(why: string): void;
}

/** The texts of a response as they come, until it ends or nothing has come for a while. */
async function* pieces(response: Response, going: AbortController): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const timer = setTimeout(() => going.abort(), SILENCE);
    const { value, done } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    yield value;
  }
}

/** Resolves once the page is in sight. */
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

/** Tells `watcher` what becomes of the table or file; while the page is out of sight nothing, as browsers have few connections. */
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

/** The address of the picture in a cell. */
export async function picture(row: number, at: number): Promise<string> {
  const address = url("image", { row, at });
  return isEmbedded ? URL.createObjectURL(await blob(address)) : address;
}
