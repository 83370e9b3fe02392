"""The one error of data that cannot be used."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used. The message names the thing, its value and the remedy."""
