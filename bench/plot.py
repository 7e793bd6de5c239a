"""Draws plots of benchmarks as SVG with the standard library only.

The same figures give the same bytes. The plots fit light and dark pages.

    dots("docs/plots/opening.svg", "Open", "ms", ["pyarrow", "ours"], {"95 MB": [0.2, 0.04], "4 GiB": [0.2, 0.05]})
    lines("docs/plots/growth-rows.svg", "Sum", "rows", "ms", [1000, 10_000], {"pyarrow": [0.5, 0.8]})
"""

import math
from html import escape
from pathlib import Path

COLOURS = ["#3d7fc4", "#e0703a", "#2f9e6b", "#b65cb0", "#b8951f", "#808890", "#d0526b", "#3aa5b5"]
MARKS = ["", "7 4", "2 3", "9 3 2 3", "", "7 4", "2 3", "9 3 2 3"]
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328 } .title { font-size: 15px; font-weight: 600 }
.faint { fill: #59636e } .grid { stroke: #8b949e; stroke-opacity: .35 } .axis { stroke: #8b949e }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .faint { fill: #9198a1 } }
</style>"""
WIDTH = 860


def dots(path, title, unit, groups, values):
    """Draws dots on a horizontal logarithmic axis: for each group one dot of each series, joined by a line.

    `values` has a list of positive numbers for each series, one for each group.
    """
    step, left, top = 30, 24 + max(_width(name) for name in groups), 44 + _legend_height(values)
    right, bottom = WIDTH - 60, top + step * len(groups)
    known = [value for row in values.values() for value in row]
    ticks = _decades(min(known), max(known))
    x = lambda value: left + (right - left) * math.log(value / ticks[0]) / math.log(ticks[-1] / ticks[0])
    parts = _legend(values)
    for tick in ticks:
        parts.append(_line(x(tick), top - 4, x(tick), bottom, "grid"))
        parts.append(_text(x(tick), bottom + 16, _number(tick), "middle", "faint"))
    parts.append(_text((left + right) / 2, bottom + 36, unit, "middle", "faint"))
    for row, name in enumerate(groups):
        y, ends = top + step * (row + 0.5), [column[row] for column in values.values()]
        parts.append(_text(left - 8, y + 4, name, "end"))
        parts.append(_line(x(min(ends)), y, x(max(ends)), y, "axis"))
        for number, value in enumerate(ends):
            parts.append(f'<circle cx="{x(value):.1f}" cy="{y:.1f}" r="6" fill="{COLOURS[number]}"/>')
        parts.append(_text(x(max(ends)) + 11, y + 4, _number(max(ends)), "start"))
    parts.append(_line(left, top - 4, left, bottom, "axis"))
    _save(path, title, bottom + 50, parts)


def lines(path, title, x_label, y_label, xs, series):
    """Draws a line for each series over `xs`. Both axes are logarithmic.

    `series` has a list for each series, with a number or None for each of `xs`.
    """
    left, right, top = 64, WIDTH - 30, 76 + _legend_height(series)
    bottom = top + 320
    known = [value for row in series.values() for value in row if value is not None]
    ticks = _decades(min(known), max(known))
    inset, span = 24, math.log(xs[-1] / xs[0]) or 1
    x = lambda value: left + inset + (right - left - 2 * inset) * math.log(value / xs[0]) / span
    y = lambda value: bottom - (bottom - top) * math.log(value / ticks[0]) / math.log(ticks[-1] / ticks[0])
    parts = _legend(series)
    for tick in ticks:
        parts.append(_line(left, y(tick), right, y(tick), "grid"))
        parts.append(_text(left - 8, y(tick) + 4, _number(tick), "end", "faint"))
    for value in xs:
        parts.append(_line(x(value), bottom, x(value), bottom + 5, "axis"))
        parts.append(_text(x(value), bottom + 19, _number(value), "middle", "faint"))
    parts.append(_text((left + right) / 2, bottom + 40, x_label, "middle", "faint"))
    parts.append(_text(left - 40, top - 14, y_label, "start", "faint"))
    for number, row in enumerate(series.values()):
        parts += _curve([(x(a), y(b)) for a, b in zip(xs, row) if b is not None], number)
    parts.append(_line(left, bottom, right, bottom, "axis"))
    _save(path, title, bottom + 54, parts)


def _curve(points, number):
    colour, dashes = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dashes}"/>'
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'


def _legend_positions(series):
    """Yields the position of each name of the legend, in rows that end before the margin."""
    x, y = 24, 44
    for name in series:
        if x > 24 and x + 26 + _width(name) > WIDTH - 24:
            x, y = 24, y + 20
        yield x, y, name
        x += 26 + _width(name) + 18


def _legend_height(series):
    return [y for _, y, _ in _legend_positions(series)][-1] - 24 if len(series) > 1 else 0


def _legend(series):
    parts = []
    for number, (x, y, name) in enumerate(_legend_positions(series) if len(series) > 1 else ()):
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="18" height="12" fill="{COLOURS[number % len(COLOURS)]}"/>')
        parts.append(_text(x + 24, y + 11, name, "start"))
    return parts


def _save(path, title, height, parts):
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">'
    head = [opening, f"<title>{escape(title)}</title>", STYLE, _text(24, 26, title, "start", "title")]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join([*head, *parts, "</svg>\n"]), encoding="utf-8")


def _text(x, y, text, anchor, kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(str(text))}</text>'


def _line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _width(text):
    """Returns the approximate width of a text in pixels."""
    return 6.6 * len(text)


def _decades(smallest, largest):
    first = math.floor(math.log10(smallest))
    return [10.0**power for power in range(first, max(math.ceil(math.log10(largest)), first + 1) + 1)]


def _number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
