"""Formats the times that questions.py has measured."""

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from report import format_duration, format_table

OURS = "arrowwood"
LOADERS = (
    "Four workers of a data loader on one stream of 4 GiB: each fetches 1,000 batches of 64 random rows, as dicts. The memory is "
    "what opening and fetching added to all four."
)


def format_line(title, seconds_by_name):
    """Formats the medians of a question for the terminal."""
    ours = statistics.median(seconds_by_name[OURS])
    parts = []
    for name, seconds in seconds_by_name.items():
        median = statistics.median(seconds)
        parts.append(f"{name} {format_duration(median * 1e9)} ×{median / ours:.2f}")
    return f"{title:55} " + "  ".join(parts)


def format_questions(report):
    """Formats a table in Markdown for each kind of question."""
    parts = [
        f"By `make bench` ({report['machine']}). Medians of runs in turns, after one that is not counted; ± is half of the distance "
        f"between the quartiles; ×3.00 is three times as long as {OURS}, **bold** shorter."
    ]
    kinds = {}
    for question in report["questions"]:
        kinds.setdefault(question["shows"], []).append(question)
    for shows, questions in kinds.items():
        names = list(dict.fromkeys(name for question in questions for name in question["taken"]))
        rows = []
        for question in questions:
            taken = question["taken"]
            rows.append([question["title"], *(format_cell(taken, name) if name in taken else "–" for name in names)])
        parts += [shows, format_table(["", *names], rows)]
    if loaders := report.get("loaders"):
        rows = [[name, f"{rate:,.0f}", f"{added / 2**20:.1f} MiB"] for name, (rate, added) in loaders.items()]
        parts += [LOADERS, format_table(["", "rows a second, together", "private memory added"], rows)]
    return "\n\n".join(parts)


def format_cell(seconds_by_name, name):
    """Formats the median of a library, its spread, and its ratio to arrowwood."""
    seconds = seconds_by_name[name]
    low, _, high = statistics.quantiles(seconds, n=4)
    text = f"{format_duration(statistics.median(seconds) * 1e9)} ± {format_duration((high - low) * 5e8)}"
    return text if name == OURS else f"{text} {format_ratio(seconds_by_name, name)}"


def format_ratio(seconds_by_name, name, ours=OURS):
    """Formats how many times as long as arrowwood a library takes, in bold if it is faster."""
    ratio = statistics.median(seconds_by_name[name]) / statistics.median(seconds_by_name[ours])
    text = f"×{ratio:.2f}" if ratio < 9.995 else f"×{ratio:,.1f}" if ratio < 99.95 else f"×{ratio:,.0f}"
    return f"**{text}**" if ratio < 1 else text
