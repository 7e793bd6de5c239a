"""Times alternative functions in turns, so that a change of the machine's speed affects all of them."""

import gc
import statistics
from time import perf_counter


def time_in_turns(functions, rounds):
    """Returns the seconds of each function in each round, and its last result. The first round is not counted."""
    seconds, results = {name: [] for name in functions}, {}
    for round_number in range(rounds + 1):
        for name, function in functions.items():
            results.pop(name, None)
            gc.collect()
            start = perf_counter()
            results[name] = function()
            if round_number:
                seconds[name].append(perf_counter() - start)
    return seconds, results


def medians(functions, rounds):
    """Returns the median seconds of each function, and its last result."""
    seconds, results = time_in_turns(functions, rounds)
    return {name: statistics.median(times) for name, times in seconds.items()}, results
