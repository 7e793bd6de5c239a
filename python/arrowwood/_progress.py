"""Draws a progress line in a terminal for work that takes more than a second."""

import sys
import time


class Bar:
    """Draws progress when called with (done, total): after the first second, and at most ten times a second."""

    def __init__(self, doing: str, unit: str) -> None:
        self._doing, self._unit = doing, unit
        self._next = time.monotonic() + 1.0
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next and not (self._drawn and done == total):
            return
        self._next, self._drawn = now + 0.1, True
        filled = 40 * done // max(total, 1)
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{self._doing} {'█' * filled}{'░' * (40 - filled)} {done:,} of {total:,} {self._unit}{end}")
        sys.stderr.flush()


def bar(doing: str, unit: str = "rows") -> Bar | None:
    """Returns a bar if standard error is a terminal, else None."""
    try:
        is_seen = sys.stderr is not None and sys.stderr.isatty()
    except Exception:  # standard error is closed or replaced
        is_seen = False
    return Bar(doing, unit) if is_seen else None
