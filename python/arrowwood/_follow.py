"""New rows of tables for asyncio."""

import asyncio
import concurrent.futures
import time
import weakref

# Seconds in which a follower that is closed, or whose task is cancelled, lets its thread end.
_LOOK = 0.1

# A thread for each follower that is waited for: they would fill those that asyncio shares among all.
_threads: "weakref.WeakKeyDictionary[object, concurrent.futures.ThreadPoolExecutor]" = weakref.WeakKeyDictionary()


async def advance(follow, timeout):
    """The next rows of `follow`; see ``Follow.__anext__``."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        # What is there needs no thread. Rows are only taken here, so a task that is cancelled while it waits loses none.
        if (rows := follow._take()) is not None:
            return rows
        left = _LOOK if deadline is None else deadline - time.monotonic()
        if left <= 0 or follow._is_closed:
            _threads.pop(follow, None)
            raise StopAsyncIteration
        await asyncio.get_running_loop().run_in_executor(_thread(follow), follow._wait, min(left, _LOOK))


def _thread(follow):
    if follow not in _threads:
        thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="arrowwood-follow")
        _threads[follow] = thread
        weakref.finalize(follow, thread.shutdown, wait=False)
    return _threads[follow]
