"""Draws a progress line in a terminal for work that takes more than a second."""

import sys
import time

# Characters of the bar.
_WIDTH = 40
_FIRST_DRAW_SECONDS = 1.0
_DRAW_INTERVAL_SECONDS = 0.1


class Bar:
    """Draws progress when called with (done, total): after the first second, and at most ten times a second."""

    def __init__(self, activity: str, unit: str) -> None:
        self._activity = activity
        self._unit = unit
        self._next_draw = time.monotonic() + _FIRST_DRAW_SECONDS
        self._is_drawn = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        is_last_draw = self._is_drawn and done == total
        if now < self._next_draw and not is_last_draw:
            return
        self._next_draw = now + _DRAW_INTERVAL_SECONDS
        self._is_drawn = True
        filled = _WIDTH * done // max(total, 1)
        blocks = "█" * filled + "░" * (_WIDTH - filled)
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{self._activity} {blocks} {done:,} of {total:,} {self._unit}{end}")
        sys.stderr.flush()


def bar(activity: str, unit: str = "rows") -> Bar | None:
    """Returns a bar if standard error is a terminal, else None."""
    try:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
    except Exception:
        # Standard error is closed, or the program has replaced it by any object.
        is_terminal = False
    return Bar(activity, unit) if is_terminal else None
