// The line that reports a problem, and offers remedies.

import type { Facts } from "./api.js";
import { el } from "./dom.js";

/** A button: its label, and its action. */
export type Offer = [string, () => void];

export class Notice {
  readonly element = el("p", { class: "message", role: "alert", hidden: true });
  private isFinal = false;

  get isShown() {
    return !this.element.hidden;
  }

  /** Shows a text; hides the line without one. */
  say(text = "", offer?: Offer) {
    if (this.isFinal) return;
    this.element.replaceChildren(text, ...(offer ? [" ", el("button", { click: offer[1] }, offer[0])] : []));
    this.element.hidden = !text;
  }

  /** Shows a text that later ones don't replace. */
  end(text: string, offer?: Offer) {
    this.say(text, offer);
    this.isFinal = true;
  }
}

export const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** Messages for a table or file that was replaced, and for one that was removed. */
export const REPLACED: Record<Facts["kind"], string> = {
  table: "The table was replaced, or its columns have changed.",
  file: "The file was replaced.",
  files: "One of the files was replaced.",
};
export const REMOVED: Record<Facts["kind"], string> = {
  table: "The table was removed, or can no longer be read.",
  file: "The file was removed, or can no longer be read.",
  files: "The files were removed, or can no longer be read.",
};
