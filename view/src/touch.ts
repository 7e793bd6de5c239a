// Scrolling by touch, which goes on for a while after the finger has left.

/** The share of the speed that remains after a millisecond; and the speed, in pixels per millisecond, that counts as rest. */
const DRAG = 0.9965;
const STILL = 0.03;

/** Calls `move` with the pixels by which the content is pushed to the left and up. */
export function touched(element: HTMLElement, move: (x: number, y: number) => void) {
  let last: { x: number; y: number; time: number } | undefined;
  let speed = { x: 0, y: 0 };
  let frame = 0;
  const glide = (before: number) => {
    frame = requestAnimationFrame((now) => {
      const passed = Math.min(50, now - before);
      move(speed.x * passed, speed.y * passed);
      const left = DRAG ** passed;
      speed = { x: speed.x * left, y: speed.y * left };
      if (Math.hypot(speed.x, speed.y) > STILL) glide(now);
    });
  };
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
      const passed = Math.max(1, time - last.time);
      const [left, up] = [last.x - x, last.y - y];
      // Averages speeds: the latest counts most.
      speed = { x: 0.7 * (left / passed) + 0.3 * speed.x, y: 0.7 * (up / passed) + 0.3 * speed.y };
      last = { x, y, time };
      move(left, up);
    },
    { passive: false },
  );
  element.addEventListener(
    "touchend",
    ({ timeStamp }) => {
      if (last && timeStamp - last.time < 80) glide(performance.now());
      last = undefined;
    },
    { passive: true },
  );
}
