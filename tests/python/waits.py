"""Lets tests wait for a condition, with a limit, and a message that names what did not come.

No test sleeps for a time that is long enough on an idle machine; polls sleep, and only here.
"""

import asyncio
import os
import threading
import time
from pathlib import Path

# Seconds after which a wait has failed, also on a machine that is busy with other things.
PATIENCE = float(os.environ.get("ARROWWOOD_PATIENCE", "240"))
POLL = 0.005


def wait_until(is_so, what):
    """Waits until `is_so()` is true, and returns its result; `what` describes the condition: "the file is there"."""
    end = time.monotonic() + PATIENCE
    while not (found := is_so()):
        if time.monotonic() >= end:
            raise AssertionError(f"{PATIENCE:g} seconds were not enough until {what}")
        time.sleep(POLL)
    return found


async def until(is_so, what):
    """Waits like `wait_until`, while other tasks continue."""
    end = time.monotonic() + PATIENCE
    while not (found := is_so()):
        if time.monotonic() >= end:
            raise AssertionError(f"{PATIENCE:g} seconds were not enough until {what}")
        await asyncio.sleep(POLL)
    return found


def is_asleep(it):
    """Returns whether a thread, or the first one of a process, waits in a system call.

    A thread that waits for Python's lock is not asleep: it has the lock while this reads.
    """
    try:
        stat = Path(f"/proc/{it.native_id if isinstance(it, threading.Thread) else it.pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False  # the thread has ended
    return stat.rpartition(")")[2].split()[0] == "S"


def asleep(work):
    """Returns a thread that runs `work`, once it waits in a system call, or has ended."""
    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: is_asleep(thread) or not thread.is_alive(), "the thread waits")
    return thread


def join(thread):
    """Waits for the end of a thread."""
    thread.join(PATIENCE)
    assert not thread.is_alive(), f"{PATIENCE:g} seconds were not enough until {thread.name} ended"
