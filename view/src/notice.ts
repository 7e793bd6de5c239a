// The line that says what is wrong, and offers what can be done.

import type { Facts } from "./api.js";
import { el } from "./dom.js";

/** A button: what it says, and does. */
export type Offer = [string, () => void];

export class Notice {
  readonly element = el("p", { class: "message", role: "alert", hidden: true });
  private isFinal = false;

  get isShown() {
    return !this.element.hidden;
  }

  /** Says a text; nothing without one. */
  say(text = "", offer?: Offer) {
    if (this.isFinal) return;
    this.element.replaceChildren(text, ...(offer ? [" ", el("button", { click: offer[1] }, offer[0])] : []));
    this.element.hidden = !text;
  }

  /** Says what stays, whatever else is tried. */
  end(text: string, offer?: Offer) {
    this.say(text, offer);
    this.isFinal = true;
  }
}

export const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** What is said of a table or file that is another one by now, and of one that is not there. */
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
