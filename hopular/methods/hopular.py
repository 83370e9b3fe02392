"""Hopular itself."""

from __future__ import annotations

from typing import Any

from hopular.methods.networks import network_method


def _estimators() -> tuple[Any, Any]:
    from hopular import HopularClassifier, HopularRegressor

    return HopularClassifier, HopularRegressor


METHOD = network_method(
    "hopular",
    "Hopular",
    _estimators,
    paper_name="Hopular",
    cost=12.0,
    has_recipe=True,
    has_architecture=True,
    retrieves=True,
    shares=("beta",),
)
