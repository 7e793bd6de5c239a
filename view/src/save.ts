// Links that save the shown rows.

import { blob, isEmbedded } from "./api.js";
import { el } from "./dom.js";

/** A download: its file name, and its address in each format. */
export interface Saved {
  name: string;
  formats: string[];
  address(format: string): string;
  /** True if the browser streams it to disk at any length; otherwise it is fetched first, and can fail with a message. */
  isStream?: (format: string) => boolean;
  failed(message: string): void;
}

export const formats = (parquet?: boolean) => ["arrow", "csv", "jsonl", ...(parquet ? ["parquet"] : [])];

/** Returns links to download rows: none in a notebook, whose frame may not download. */
export function saves({ name, formats, address, isStream, failed }: Saved): (Node | string)[] {
  if (isEmbedded) return [];
  const link = (format: string) => {
    const download = `${name}.${format === "arrow" ? "arrows" : format}`;
    const made = el("a", { href: address(format), download, title: `Save as ${download}` }, format);
    const take = async (event: Event) => {
      event.preventDefault();
      if (made.ariaBusy === "true") return;
      made.ariaBusy = "true";
      failed("");
      try {
        const href = URL.createObjectURL(await blob(address(format)));
        el("a", { href, download }).click();
        setTimeout(() => URL.revokeObjectURL(href), 60_000);
      } catch (e) {
        failed((e as Error).message);
      }
      made.ariaBusy = null;
    };
    if (!isStream?.(format)) made.addEventListener("click", (event) => void take(event));
    return made;
  };
  return ["Save: ", ...formats.flatMap((format) => [link(format), " "])];
}
