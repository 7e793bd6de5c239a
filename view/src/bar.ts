// A scroll bar for ranges that are too long for the browser's own.

import { clamp, el } from "./dom.js";

export class Bar {
  readonly element: HTMLElement;
  private thumb = el("div", { class: "thumb" });
  private size = 1;
  private seen = 1;

  constructor(
    private isVertical: boolean,
    label: string,
    private moved: (at: number) => void,
  ) {
    this.element = el(
      "div",
      {
        class: isVertical ? "bar vertical" : "bar",
        role: "scrollbar",
        "aria-orientation": isVertical ? "vertical" : "horizontal",
        "aria-label": label,
        "aria-controls": "grid",
        "aria-valuemin": 0,
      },
      this.thumb,
    );
    this.element.addEventListener("pointerdown", (event) => this.drag(event));
  }

  /** Returns the position of an event in a box, and the length of the box. */
  private along({ clientX, clientY }: PointerEvent, box: DOMRect): [number, number] {
    return this.isVertical ? [clientY - box.top, box.height] : [clientX - box.left, box.width];
  }

  private drag(event: PointerEvent) {
    event.preventDefault();
    const [inside, thumb] = this.along(event, this.thumb.getBoundingClientRect());
    const hold = inside >= 0 && inside <= thumb ? inside : thumb / 2;
    const move = (next: PointerEvent) => {
      const [at, long] = this.along(next, this.element.getBoundingClientRect());
      this.moved(clamp((at - hold) / Math.max(1, long - this.length(long)), 0, 1) * Math.max(0, this.size - this.seen));
    };
    move(event);
    this.element.setPointerCapture(event.pointerId);
    this.element.addEventListener("pointermove", move);
    this.element.addEventListener("lostpointercapture", () => this.element.removeEventListener("pointermove", move), {
      once: true,
    });
  }

  private length(long: number) {
    return clamp((this.seen / Math.max(this.size, 1)) * long, Math.min(28, long), long);
  }

  /** Shows, on `long` pixels, that `seen` of `size` are visible, starting at `at`. */
  show(at: number, seen: number, size: number, long: number) {
    [this.seen, this.size] = [seen, size];
    this.element.hidden = size <= seen;
    const thumb = this.length(long);
    const offset = (at / Math.max(1e-9, size - seen)) * (long - thumb) || 0;
    this.thumb.style.setProperty(this.isVertical ? "height" : "width", `${thumb}px`);
    this.thumb.style.transform = this.isVertical ? `translateY(${offset}px)` : `translateX(${offset}px)`;
    this.element.setAttribute("aria-valuemax", String(Math.round(Math.max(0, size - seen))));
    this.element.setAttribute("aria-valuenow", String(Math.round(at)));
  }
}
