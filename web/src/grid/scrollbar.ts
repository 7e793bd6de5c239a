// A scroll bar for ranges that are too long for the browser's own.

import { clamp, el } from "../elements/dom.js";

/** The minimum length of the thumb, in pixels. */
const MIN_THUMB = 28;

export class Scrollbar {
  readonly element: HTMLElement;
  private thumb = el("div", { class: "thumb" });
  /** The length of the range, and of its visible part. */
  private total = 1;
  private visible = 1;

  constructor(
    private isVertical: boolean,
    label: string,
    /** Called with the new start of the visible part when the thumb is dragged. */
    private onScroll: (start: number) => void,
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
    this.element.addEventListener("pointerdown", (event) => this.startDrag(event));
  }

  /** Returns the position of a pointer along an element, and the length of the element. */
  private measure({ clientX, clientY }: PointerEvent, element: HTMLElement): { position: number; length: number } {
    const box = element.getBoundingClientRect();
    return this.isVertical
      ? { position: clientY - box.top, length: box.height }
      : { position: clientX - box.left, length: box.width };
  }

  private startDrag(event: PointerEvent) {
    event.preventDefault();
    const { position, length } = this.measure(event, this.thumb);
    // A press outside of the thumb brings its middle there.
    const grip = position >= 0 && position <= length ? position : length / 2;
    const drag = (next: PointerEvent) => {
      const track = this.measure(next, this.element);
      const room = Math.max(1, track.length - this.thumbLength(track.length));
      const share = clamp((track.position - grip) / room, 0, 1);
      this.onScroll(share * Math.max(0, this.total - this.visible));
    };
    drag(event);
    this.element.setPointerCapture(event.pointerId);
    this.element.addEventListener("pointermove", drag);
    this.element.addEventListener("lostpointercapture", () => this.element.removeEventListener("pointermove", drag), {
      once: true,
    });
  }

  private thumbLength(trackLength: number): number {
    const length = (this.visible / Math.max(this.total, 1)) * trackLength;
    return clamp(length, Math.min(MIN_THUMB, trackLength), trackLength);
  }

  /** Shows that `visible` of `total` are visible from `start` on. The bar is `trackLength` pixels long. */
  update(start: number, visible: number, total: number, trackLength: number) {
    this.visible = visible;
    this.total = total;
    this.element.hidden = total <= visible;
    const thumbLength = this.thumbLength(trackLength);
    const hidden = Math.max(1e-9, total - visible);
    const offset = (start / hidden) * (trackLength - thumbLength) || 0;
    this.thumb.style.setProperty(this.isVertical ? "height" : "width", `${thumbLength}px`);
    this.thumb.style.transform = this.isVertical ? `translateY(${offset}px)` : `translateX(${offset}px)`;
    this.element.setAttribute("aria-valuemax", String(Math.round(Math.max(0, total - visible))));
    this.element.setAttribute("aria-valuenow", String(Math.round(start)));
  }
}
