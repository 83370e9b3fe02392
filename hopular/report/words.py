"""Numbers as a reader wants to see them: what is not known is a dash, and nothing is below zero by rounding alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = "–"
# Up to how many seconds to use which unit, and its size.
DURATIONS = ((99.5, 1, "s"), (99.5 * 60, 60, "min"), (48 * 3600, 3600, "h"), (math.inf, 86400, "d"))


def number(value: float, digits: int = 2) -> str:
    """A fixed number of digits after the point, so that a column lines up."""
    return f"{value:z.{digits}f}" if math.isfinite(value) else UNKNOWN


def whole(value: float) -> str:
    """A count, with separated thousands."""
    return f"{value:z,.0f}" if math.isfinite(value) else UNKNOWN


def score(value: float) -> str:
    """Four digits after the point for shares; four significant ones, or all, for errors, which may have any size."""
    if not math.isfinite(value):
        return UNKNOWN
    if 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:z.4f}" if 0.01 <= abs(value) < 10 or value == 0 else f"{value:.4g}"


def spread(value: float, beside: float) -> str:
    """The uncertainty of a score, with as many digits after the point as the score beside it."""
    if not math.isfinite(value):
        return UNKNOWN
    _, _, digits = score(beside).partition(".")
    if digits.isdigit():
        return f"{value:.{len(digits)}f}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3g}"


def percent(value: float, digits: int = 1) -> str:
    """A share in percent."""
    return f"{100 * value:z.{digits}f} %" if math.isfinite(value) else UNKNOWN


def seconds(value: float) -> str:
    """A duration in the unit that gives the fewest digits."""
    if not math.isfinite(value):
        return UNKNOWN
    size, unit = next((size, unit) for limit, size, unit in DURATIONS if value < limit)
    amount = value / size
    return f"{amount:.{2 if amount < 1 else 1 if amount < 10 else 0}f} {unit}"


def memory(value: float) -> str:
    """An amount of memory; 0 means that it was not measured."""
    if not math.isfinite(value) or value <= 0:
        return UNKNOWN
    return f"{value / 1e9:.1f} GB" if value >= 0.9995e9 else f"{value / 1e6:.0f} MB"


def place(value: float) -> str:
    """A rank, with a digit after the point only where methods share it."""
    return f"{value:g}" if math.isfinite(value) else UNKNOWN


def difference(value: float) -> str:
    """A difference of scores, with its sign."""
    return f"{'−' if value < 0 else '+'}{score(abs(value))}" if math.isfinite(value) else UNKNOWN


def setting(value: Any) -> str:
    """A setting of a benchmark: the items of a list, what a name stands for in a table of names."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={setting(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(setting(one) for one in value)
    return str(value)


def of_rows(rows: Sequence[int], total: int) -> str:
    """Return on how many of a table's rows the members of a model were trained: 'all 150 rows', '120 of 150 rows'."""
    least, most = min(rows), max(rows)
    if least == total:
        return f"all {total:,} rows"
    return f"{least:,} of {total:,} rows" if least == most else f"{least:,} to {most:,} of {total:,} rows"


def plural(count: int, noun: str) -> str:
    """'1 dataset', '3 datasets', '2 searches'."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{ending}"
