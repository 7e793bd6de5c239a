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
  durable_end?: number;
  sorted_by?: string | null;
  columns: Column[];
  path?: string;
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
  top?: { values: [string | null, number][]; distinct: number; of: number };
}

/** Of the rows of a pixel: first, least, greatest, last. */
export type Bin = [number, number, number, number] | null;

export interface Bins {
  from: number;
  to: number;
  bins: Bin[];
  range: [string, string] | null;
  exact: boolean;
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

export interface MessageDetail extends Omit<Message, "buffers"> {
  version: number;
  compression: string | null;
  dictionary: { id: number; delta: boolean } | null;
  buffers: BufferPlace[];
}

export interface CellDetail {
  row: number;
  column: string;
  type: string;
  value?: string | null;
  error?: string;
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

type Parameters = Record<string, string | number | boolean | undefined | null>;

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

let base = "/v1/tables";

export function url(route: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== false && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return base + (route && `/${route}`) + (text && `?${text}`);
}

async function ask(address: string, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, { signal });
  } catch (e) {
    if ((e as Error).name === "AbortError") throw e;
    throw new Refused("the server does not answer; it may have been stopped", 0, "gone");
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const hint = response.status === 401 ? ": open the URL that arrowwood view has printed" : "";
  throw new Refused((problem.detail ?? response.statusText) + hint, response.status, problem.code ?? "");
}

export async function get<T>(route: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  return (await ask(url(route, parameters), signal)).json();
}

/** The one table that is shown. */
export async function open(): Promise<Facts> {
  const { tables } = await get<{ tables: { name: string }[] }>("");
  base += "/" + encodeURIComponent(tables[0].name);
  return get<Facts>("");
}

/** Searches and sorts; `report` hears how far that is. */
export async function search(parameters: Parameters, report: (now: Report) => void, signal: AbortSignal): Promise<Report> {
  const response = await ask(url("views", parameters), signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let last: Report = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
    const lines = text.split("\n");
    text = lines.pop()!;
    for (const line of lines) {
      last = JSON.parse(line) as Report;
      report(last);
    }
  }
  if (last.error) throw new Refused(last.error, 500, "search");
  if (last.view === undefined) throw new Refused("the search broke off", 500, "search");
  return last;
}

/** Calls `came` with the table's extent whenever that changes. */
export function events(came: (extent: Extent) => void, gone: () => void): EventSource {
  const source = new EventSource(url("events", { interval: 100 }));
  source.addEventListener("rows", (event) => came(JSON.parse((event as MessageEvent).data)));
  source.addEventListener("end", () => {
    source.close();
    gone();
  });
  return source;
}
