// Scrolling by touch, with inertia.

/** The share of the speed that remains after a millisecond. */
const FRICTION = 0.9965;
/** The speed below which scrolling stops, in pixels per millisecond. */
const MIN_SPEED = 0.03;
/** The share of the latest movement in the average of speeds. */
const LATEST_WEIGHT = 0.7;
/** Milliseconds without a movement after which lifting the finger doesn't start inertia. */
const REST = 80;
/** The maximum milliseconds of a frame, so that a stalled page doesn't jump. */
const MAX_FRAME = 50;

interface TouchPoint {
  x: number;
  y: number;
  time: number;
}

/** Calls `scrollBy` with pixels as the content of `element` is pushed to the left and up. */
export function listenForTouch(element: HTMLElement, scrollBy: (x: number, y: number) => void) {
  let last: TouchPoint | undefined;
  let speed = { x: 0, y: 0 };
  let frame = 0;

  function glide(previous: number) {
    frame = requestAnimationFrame((now) => {
      const elapsed = Math.min(MAX_FRAME, now - previous);
      scrollBy(speed.x * elapsed, speed.y * elapsed);
      const remaining = FRICTION ** elapsed;
      speed = { x: speed.x * remaining, y: speed.y * remaining };
      if (Math.hypot(speed.x, speed.y) > MIN_SPEED) glide(now);
    });
  }

  element.addEventListener(
    "touchstart",
    ({ touches: [touch], timeStamp: time }) => {
      cancelAnimationFrame(frame);
      speed = { x: 0, y: 0 };
      last = { x: touch.clientX, y: touch.clientY, time };
    },
    { passive: true },
  );
  element.addEventListener(
    "touchmove",
    (event) => {
      const { touches, timeStamp: time } = event;
      if (!last || touches.length > 1) return;
      event.preventDefault();
      const { clientX: x, clientY: y } = touches[0];
      const elapsed = Math.max(1, time - last.time);
      const left = last.x - x;
      const up = last.y - y;
      speed = {
        x: LATEST_WEIGHT * (left / elapsed) + (1 - LATEST_WEIGHT) * speed.x,
        y: LATEST_WEIGHT * (up / elapsed) + (1 - LATEST_WEIGHT) * speed.y,
      };
      last = { x, y, time };
      scrollBy(left, up);
    },
    { passive: false },
  );
  element.addEventListener(
    "touchend",
    ({ timeStamp }) => {
      if (last && timeStamp - last.time < REST) glide(performance.now());
      last = undefined;
    },
    { passive: true },
  );
}
