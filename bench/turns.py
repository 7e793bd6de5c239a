"""Ways to one answer, timed in turns."""

import gc
import statistics
from time import perf_counter


def in_turns(ways, rounds):
    """The seconds of each way in each round, after a round that does not count, and what each gave last."""
    taken, given = {name: [] for name in ways}, {}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            given.pop(name, None)
            gc.collect()
            start = perf_counter()
            given[name] = way()
            if turn:
                taken[name].append(perf_counter() - start)
    return taken, given


def medians(ways, rounds):
    """The median of each way's seconds, and what each gave last."""
    taken, given = in_turns(ways, rounds)
    return {name: statistics.median(times) for name, times in taken.items()}, given
