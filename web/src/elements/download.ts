// Links that download rows.

import { fetchBlob, isEmbedded } from "../data/api.js";
import { el } from "./dom.js";

/** The milliseconds that the browser has to start a download. */
const DOWNLOAD_START = 60_000;

export interface Download {
  /** The name of the file, without its extension. */
  name: string;
  formats: string[];
  address(format: string): string;
  /** True if the browser streams it to disk at any length; otherwise it is fetched first, and can fail with a message. */
  isStreamed?(format: string): boolean;
  /** Called with a message when a download fails, and without a text when it starts. */
  onError(message: string): void;
}

/** Returns the formats that the server can write. */
export function downloadFormats(hasParquet = false): string[] {
  const formats = ["arrow", "csv", "jsonl"];
  if (hasParquet) formats.push("parquet");
  return formats;
}

function downloadLink({ name, address, isStreamed, onError }: Download, format: string): HTMLAnchorElement {
  const fileName = `${name}.${format === "arrow" ? "arrows" : format}`;
  const link = el("a", { href: address(format), download: fileName, title: `Save as ${fileName}` }, format);

  async function fetchAndSave() {
    if (link.ariaBusy === "true") return;
    link.ariaBusy = "true";
    onError("");
    try {
      const href = URL.createObjectURL(await fetchBlob(address(format)));
      el("a", { href, download: fileName }).click();
      setTimeout(() => URL.revokeObjectURL(href), DOWNLOAD_START);
    } catch (e) {
      onError((e as Error).message);
    }
    link.ariaBusy = null;
  }

  if (!isStreamed?.(format)) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      void fetchAndSave();
    });
  }
  return link;
}

/** Returns links to download rows: none in a notebook, whose frame may not download. */
export function downloadLinks(download: Download): (Node | string)[] {
  if (isEmbedded) return [];
  return ["Save: ", ...download.formats.flatMap((format) => [downloadLink(download, format), " "])];
}
