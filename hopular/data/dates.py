"""Parts of dates: what repeats in them, which nobody sees in the seconds since 1970 alone.

A date stays one column of a table. Where an estimator reads it (`hopular.model.columns.check_table`), it becomes the
time since 1970 and those of PARTS that differ in the training rows, named as in `sold: weekday`. All are in UTC.

Month, weekday and hour are categories: a line through their numbers says nothing, and trees lose little by it. The
others are numbers, so that what lies between or beyond the values of training has a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]
PARTS = ("year", "month", "day", "weekday", "hour", "clock")
_CATEGORIES = {"month": range(1, 13), "weekday": range(1, 8), "hour": range(24)}  # weeks begin on Monday
_DAY, _HOUR = 86_400, 3_600
_FARTHEST = 1e11  # seconds, some 3,000 years: what lies beyond is cut


def varying_parts(seconds: Floats) -> list[str]:
    """Return the parts that differ among these dates, given as seconds since 1970; NaN is missing."""
    known = seconds[~np.isnan(seconds)]
    return [name for name in PARTS if len(known) and np.ptp(_part(known, name)) > 0]


def date_parts(seconds: Floats, names: Sequence[str]) -> dict[str, pd.Series[Any]]:
    """Return these parts of dates, as numbers or as categories."""
    missing = np.isnan(seconds)
    parts = {}
    for name in names:
        values = _part(np.where(missing, 0.0, seconds), name)
        if name in _CATEGORIES:
            valid = _CATEGORIES[name]
            codes = np.where(missing, -1, values.astype(int) - valid[0])
            parts[name] = pd.Series(pd.Categorical.from_codes(codes, pd.Index([str(value) for value in valid])))
        else:
            parts[name] = pd.Series(np.where(missing, np.nan, values))
    return parts


def _part(seconds: Floats, name: str) -> Floats:
    days, rest = np.divmod(np.clip(seconds, -_FARTHEST, _FARTHEST), _DAY)
    date = days.astype("M8[D]")
    month = date.astype("M8[M]")
    found: Any
    if name == "year":
        found = month.astype("M8[Y]").astype(np.int64) + 1970
    elif name == "month":
        found = month.astype(np.int64) % 12 + 1
    elif name == "day":
        found = (date - month.astype("M8[D]")).astype(np.int64) + 1
    elif name == "weekday":
        found = (days + 3) % 7 + 1  # 1970 began on a Thursday
    else:
        found = rest / _HOUR if name == "clock" else rest // _HOUR
    return np.asarray(found, dtype=np.float64)
