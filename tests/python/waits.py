"""Helpers that wait for a condition and fail with a description of it after ``PATIENCE`` seconds.

Tests use these helpers instead of sleeping: a fixed sleep is too short on a busy machine and too long on an idle one.
"""

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

# The timeout in seconds. It is generous, because tests also run on busy machines.
PATIENCE = float(os.environ.get("ARROWWOOD_PATIENCE", "240"))
POLL_SECONDS = 0.005

T = TypeVar("T")


def wait_until(condition: Callable[[], T], description: str) -> T:
    """Waits until ``condition()`` is true and returns its result.

    The description completes the message of a failure: "240 seconds were not enough until the file exists".
    """
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(timeout_message(description))
        time.sleep(POLL_SECONDS)
    return result


async def until(condition: Callable[[], T], description: str) -> T:
    """Waits like :func:`wait_until`, without blocking the event loop."""
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(timeout_message(description))
        await asyncio.sleep(POLL_SECONDS)
    return result


def timeout_message(description: str) -> str:
    return f"{PATIENCE:g} seconds were not enough until {description}"


def is_asleep(task: threading.Thread | subprocess.Popen) -> bool:
    """Returns whether a thread, or the main thread of a process, is blocked in a system call.

    A thread that waits for the interpreter's lock does not count as asleep: reading the status releases the lock to it.
    """
    thread_id = task.native_id if isinstance(task, threading.Thread) else task.pid
    try:
        stat = Path(f"/proc/{thread_id}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False  # the thread has ended
    # The name of the command is in parentheses, and may contain spaces. The state follows.
    state = stat.rpartition(")")[2].split()[0]
    return state == "S"


def asleep(function: Callable[[], object]) -> threading.Thread:
    """Starts a thread that calls ``function``, and returns it when it is blocked in a system call or has ended."""
    thread = threading.Thread(target=function)
    thread.start()
    wait_until(lambda: is_asleep(thread) or not thread.is_alive(), "the thread waits")
    return thread


def join(thread: threading.Thread) -> None:
    """Waits until ``thread`` ends."""
    thread.join(PATIENCE)
    assert not thread.is_alive(), timeout_message(f"{thread.name} ended")
