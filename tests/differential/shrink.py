"""Smaller cases that go wrong in the same way: without what it goes wrong without, too."""

import copy
import re
import time

import case

# It is about being readable: what takes longer stays as it is.
SECONDS = 20


def smallest(found, message):
    """The case made smaller, and what is wrong with it."""
    until = time.monotonic() + SECONDS
    kind = kind_of(message)
    best, said = found, message
    changed = True
    while changed and time.monotonic() < until:
        changed = False
        for smaller in candidates(best):
            if time.monotonic() > until:
                break
            try:
                case.replay(smaller)
            except case.Wrong as e:
                text = str(e)
                if kind_of(text) == kind:
                    best, said, changed = smaller, text, True
                    break
            except Exception:
                continue
    return best, said


def kind_of(message):
    """What went wrong, and the class of the error if there was one."""
    what, _, rest = message.partition(":")
    return what.split(",")[0], re.match(r"\W*([A-Za-z.]+Error|[A-Z][A-Za-z]+\(|refused: \w+|Traceback)?", rest)[1]


def candidates(found):
    """Cases that are a little smaller."""
    for number in range(len(found["chain"])):
        smaller = copy.deepcopy(found)
        del smaller["chain"][number]
        yield smaller
    plan = found["plan"]
    is_sorted = found["answer"] and found["answer"][0] == "between, sorted"
    if plan["place"] not in ("memory", "partitions") and not is_sorted:
        yield changed(found, place="memory")
    if plan["place"] == "memory" and any(plan["layout"].values()):
        yield changed(found, layout={})
    about = repr([found["chain"], found["answer"], plan["options"]])
    for number, (name, *_) in enumerate(plan["columns"]):
        if len(plan["columns"]) > 1 and repr(name) not in about:
            smaller = copy.deepcopy(found)
            del smaller["plan"]["columns"][number]
            yield smaller
    rows = sum(plan["batches"])
    if len(plan["batches"]) > 1:
        yield changed(found, batches=[rows])
    size = max(rows // 2, 1)
    while size >= 1 and rows:
        for start in range(0, rows, size):
            yield without_rows(found, start, min(start + size, rows))
        if size == 1:
            break
        size //= 2


def changed(found, **parts):
    smaller = copy.deepcopy(found)
    smaller["plan"].update(parts)
    return smaller


def without_rows(found, start, stop):
    smaller = copy.deepcopy(found)
    for column in smaller["plan"]["columns"]:
        del column[2][start:stop]
    left = []
    first = 0
    for count in smaller["plan"]["batches"]:
        gone = max(min(first + count, stop) - max(first, start), 0)
        left.append(count - gone)
        first += count
    smaller["plan"]["batches"] = [count for count in left if count] or [0]
    return smaller
