// The line that reports a problem, and offers a remedy.

import type { TableInfo } from "../data/api.js";
import { el } from "./dom.js";

/** A button in the line. */
export interface NoticeAction {
  label: string;
  run(): void;
}

export class Notice {
  readonly element = el("p", { class: "message", role: "alert", hidden: true });
  private isFinal = false;

  get isShown() {
    return !this.element.hidden;
  }

  /** Shows a text, unless a final one is shown. */
  show(text: string, action?: NoticeAction) {
    if (this.isFinal) return;
    this.element.replaceChildren(text);
    if (action) this.element.append(" ", el("button", { click: action.run }, action.label));
    this.element.hidden = !text;
  }

  /** Hides the line, unless its text is final. */
  hide() {
    this.show("");
  }

  /** Shows a text that later ones don't replace. */
  showFinal(text: string, action?: NoticeAction) {
    this.show(text, action);
    this.isFinal = true;
  }
}

/** Turns an error message into a sentence. */
export const toSentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** Messages for a table or file that was replaced. */
export const REPLACED: Record<TableInfo["kind"], string> = {
  table: "The table was replaced, or its columns have changed.",
  file: "The file was replaced.",
  files: "One of the files was replaced.",
};

/** Messages for a table or file that was removed. */
export const REMOVED: Record<TableInfo["kind"], string> = {
  table: "The table was removed, or can no longer be read.",
  file: "The file was removed, or can no longer be read.",
  files: "The files were removed, or can no longer be read.",
};
