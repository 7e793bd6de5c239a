"""Makes a wrong case smaller: removes every part without which it is still wrong in the same way."""

import copy
import re
import time

import case

# Small cases are easier to read, but not worth more time.
TIME_LIMIT_SECONDS = 20


def shrink(failing_case, message):
    """Returns the smallest case that was found, and its message."""
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    kind = failure_kind(message)
    while time.monotonic() < deadline:
        smaller = find_smaller(failing_case, kind, deadline)
        if smaller is None:
            break
        failing_case, message = smaller
    return failing_case, message


def find_smaller(failing_case, kind, deadline):
    """Returns a smaller case that fails in the same way, and its message, or None."""
    for candidate in smaller_cases(failing_case):
        if time.monotonic() > deadline:
            return None
        try:
            case.replay(candidate)
        except case.Wrong as e:
            if failure_kind(str(e)) == kind:
                return candidate, str(e)
        except Exception:
            # A candidate may be invalid, such as a plan without the columns that its layout needs.
            continue
    return None


def failure_kind(message):
    """Returns which operation was wrong, and the class of the error if there was one."""
    operation, _, rest = message.partition(":")
    error = re.match(r"\W*([A-Za-z.]+Error|[A-Z][A-Za-z]+\(|refused: \w+|Traceback)?", rest)[1]
    return operation.split(",")[0], error


def smaller_cases(failing_case):
    """Yields cases that lack one step, column, batch or range of rows, or have a simpler source."""
    for number in range(len(failing_case["chain"])):
        smaller = copy.deepcopy(failing_case)
        del smaller["chain"][number]
        yield smaller
    plan = failing_case["plan"]
    question = failing_case["answer"]
    is_sorted = question and question[0] == "between, sorted"
    if plan["place"] not in ("memory", "partitions") and not is_sorted:
        yield with_plan(failing_case, place="memory")
    if plan["place"] == "memory" and any(plan["layout"].values()):
        yield with_plan(failing_case, layout={})
    used_names = repr([failing_case["chain"], question, plan["options"]])
    for number, (name, *_) in enumerate(plan["columns"]):
        if len(plan["columns"]) > 1 and repr(name) not in used_names:
            smaller = copy.deepcopy(failing_case)
            del smaller["plan"]["columns"][number]
            yield smaller
    rows = sum(plan["batches"])
    if len(plan["batches"]) > 1:
        yield with_plan(failing_case, batches=[rows])
    if not rows:
        return
    size = max(rows // 2, 1)
    while size >= 1:
        for start in range(0, rows, size):
            yield without_rows(failing_case, start, min(start + size, rows))
        size //= 2


def with_plan(failing_case, **changes):
    smaller = copy.deepcopy(failing_case)
    smaller["plan"].update(changes)
    return smaller


def without_rows(failing_case, start, stop):
    smaller = copy.deepcopy(failing_case)
    for column in smaller["plan"]["columns"]:
        del column[2][start:stop]
    batches = []
    first_row = 0
    for count in smaller["plan"]["batches"]:
        removed = max(min(first_row + count, stop) - max(first_row, start), 0)
        batches.append(count - removed)
        first_row += count
    smaller["plan"]["batches"] = [count for count in batches if count] or [0]
    return smaller
