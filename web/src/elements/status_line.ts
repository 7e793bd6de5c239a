// A line that reports the progress, the result or the error of a request.

import { el } from "./dom.js";

export class StatusLine {
  readonly element: HTMLElement;

  constructor(text = "") {
    this.element = el("p", { class: "basis", role: "status", "aria-live": "polite" }, text);
  }

  show(text: string) {
    this.element.textContent = text;
    this.element.classList.remove("error");
  }

  showError(message: string) {
    this.element.textContent = message;
    this.element.classList.add("error");
  }
}
