"""Waits for new rows of tables in asyncio."""

import asyncio
import concurrent.futures
import time
import weakref

# Seconds of one wait in a thread, so that it ends soon after its follower is closed or the task is cancelled.
_WAIT_SECONDS = 0.1

# Maps each waiting follower to its own thread, since followers would occupy all of asyncio's shared threads, and to the
# function that ends the thread.
_threads: "weakref.WeakKeyDictionary[object, tuple[concurrent.futures.ThreadPoolExecutor, weakref.finalize]]" = (
    weakref.WeakKeyDictionary()
)


async def advance(follow, timeout):
    """Returns the next rows of `follow`; see ``Follow.__anext__``."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        # Rows are only taken here and not in the thread, so a task that is cancelled while it waits loses none.
        if (rows := follow._take()) is not None:
            return rows
        left = _WAIT_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0 or follow._is_closed:
            release(follow)
            raise StopAsyncIteration
        try:
            waiting = asyncio.get_running_loop().run_in_executor(
                _thread(follow), follow._wait, min(left, _WAIT_SECONDS)
            )
        except RuntimeError:
            # The executor refuses work after another thread has closed the follower.
            if follow._is_closed:
                continue
            raise
        await waiting


def _thread(follow):
    if follow not in _threads:
        thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="arrowwood-follow")
        _threads[follow] = thread, weakref.finalize(follow, thread.shutdown, wait=False)
    return _threads[follow][0]


def release(follow):
    """Lets the thread of `follow` end, if it has one."""
    _, end = _threads.pop(follow, (None, None))
    if end is not None:
        end()
