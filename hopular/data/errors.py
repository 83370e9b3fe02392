"""The one error of data that cannot be used, and the nearest valid name that its messages suggest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DataError(ValueError):
    """Data that cannot be used. The message names the thing, its value and the remedy."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """' Did you mean ...?' with the valid name most like `name`, or nothing if none is."""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""
