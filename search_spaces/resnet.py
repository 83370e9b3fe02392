"""Residual networks: blocks, width and shape. The published bottlenecks have 25 % or 50 % of the units, ours 50 %."""

from __future__ import annotations

from typing import Any

from optuna import Trial

from search_spaces._networks import suggest_network


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw from the published space."""
    return suggest_network(trial, layers=(2, 3, 4, 8, 16), shapes=("rectangular", "diavolo"))
