"""Partial least squares: the number of components; fewer are used where the data has fewer."""

from __future__ import annotations

from typing import Any


def grid(size: str) -> list[dict[str, Any]]:
    """Return up to 20 components, or 50 for medium datasets."""
    components = (1, 2, 3, 5, 7, 10, 15, 20) if size == "small" else (1, 2, 3, 5, 10, 20, 30, 50)
    return [{"n_components": count} for count in components]
