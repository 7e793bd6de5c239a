"""New rows of tables for asyncio."""

import asyncio
import concurrent.futures
import time
import weakref

# Seconds in which a follower that is closed, or whose task is cancelled, lets its thread end.
_LOOK = 0.1

# A thread for each waiting follower, since they would fill asyncio's shared threads; and the function that ends it.
_threads: "weakref.WeakKeyDictionary[object, tuple[concurrent.futures.ThreadPoolExecutor, weakref.finalize]]" = (
    weakref.WeakKeyDictionary()
)


async def advance(follow, timeout):
    """The next rows of `follow`; see ``Follow.__anext__``."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        # What is there needs no thread. Rows are only taken here,
        # so a task that is cancelled while it waits loses none.
        if (rows := follow._take()) is not None:
            return rows
        left = _LOOK if deadline is None else deadline - time.monotonic()
        if left <= 0 or follow._is_closed:
            release(follow)
            raise StopAsyncIteration
        try:
            waiting = asyncio.get_running_loop().run_in_executor(_thread(follow), follow._wait, min(left, _LOOK))
        except RuntimeError:
            # Another thread has just closed it.
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
    """Let the thread of `follow` end, if it has one."""
    _, end = _threads.pop(follow, (None, None))
    if end is not None:
        end()
