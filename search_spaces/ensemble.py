"""The ensemble has nothing to search: its members come from other searches, its weights from the validation rows."""

from __future__ import annotations

from typing import Any


def grid(size: str) -> list[dict[str, Any]]:
    """Return one setting: the default members."""
    return [{}]
