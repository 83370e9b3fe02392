"""Format numbers for readers: unknown values become a dash, and rounding never leaves a minus zero."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = "–"
# Upper limit in seconds, size in seconds, and name of each unit of time.
_UNITS = ((99.5, 1, "s"), (99.5 * 60, 60, "min"), (48 * 3600, 3600, "h"), (math.inf, 86400, "d"))


def number(value: float, digits: int = 2) -> str:
    """Write a fixed number of digits after the point, so that a column lines up."""
    return f"{value:z.{digits}f}" if math.isfinite(value) else UNKNOWN


def whole(value: float) -> str:
    """Write a count, with separated thousands."""
    return f"{value:z,.0f}" if math.isfinite(value) else UNKNOWN


def score(value: float) -> str:
    """Write a score: four digits after the point for shares, four significant digits for errors of any size."""
    if not math.isfinite(value):
        return UNKNOWN
    if 1e4 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:z.4f}" if 0.01 <= abs(value) < 10 or value == 0 else f"{value:.4g}"


def spread(value: float, beside: float) -> str:
    """Write the uncertainty of a score with as many digits after the point as the score beside it."""
    if not math.isfinite(value):
        return UNKNOWN
    _, _, digits = score(beside).partition(".")
    if digits.isdigit():
        return f"{value:.{len(digits)}f}"
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3g}"


def percent(share: float, digits: int | None = None) -> str:
    """Write a share in percent, with a digit after the point where it matters."""
    if not math.isfinite(share):
        return UNKNOWN
    if 0 < share < 0.0005:
        return "less than 0.1 %"
    if 0.9995 <= share < 1:
        return "more than 99.9 %"
    if digits is None:
        digits = 1 if 0 < share < 0.0995 or 0.99 <= share < 1 else 0
    return f"{share:z.{digits}%}".replace("%", " %")


def seconds(value: float) -> str:
    """Write a duration in the unit that needs the fewest digits."""
    if not math.isfinite(value):
        return UNKNOWN
    size, unit = next((size, unit) for limit, size, unit in _UNITS if value < limit)
    amount = value / size
    return f"{amount:.{2 if amount < 1 else 1 if amount < 10 else 0}f} {unit}"


def memory(value: float) -> str:
    """Write an amount of memory; 0 means that it was not measured."""
    if not math.isfinite(value) or value <= 0:
        return UNKNOWN
    return f"{value / 1e9:.1f} GB" if value >= 0.9995e9 else f"{value / 1e6:.0f} MB"


def place(value: float) -> str:
    """Write a rank, with digits after the point only where methods share it."""
    return f"{value:g}" if math.isfinite(value) else UNKNOWN


def difference(value: float) -> str:
    """Write a difference of scores with its sign."""
    return f"{'−' if value < 0 else '+'}{score(abs(value))}" if math.isfinite(value) else UNKNOWN


def setting(value: Any) -> str:
    """Write a setting of a benchmark: the items of a list, or the names and values of a mapping."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={setting(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(setting(one) for one in value)
    return str(value)


def of_rows(rows: Sequence[int], total: int) -> str:
    """Say how many rows of a table the members of a model were trained on: 'all 150 rows', '120 of 150 rows'."""
    least, most = min(rows), max(rows)
    if least == total:
        return f"all {total:,} rows"
    return f"{least:,} of {total:,} rows" if least == most else f"{least:,} to {most:,} of {total:,} rows"


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: '1 dataset', '3 datasets', '2 searches', '3 classes'."""
    ending = "" if count == 1 else "es" if noun.endswith(("ch", "ss")) else "s"
    return f"{count:,} {noun}{ending}"


def some(names: Sequence[object], limit: int) -> str:
    """List the first names, and say how many more there are: 'a, b and 3 more'."""
    return ", ".join(map(str, names[:limit])) + (f" and {len(names) - limit:,} more" if len(names) > limit else "")
