"""Non-Parametric Transformers (Kossen et al. 2021), non-transductive: test rows are neither trained on nor compared."""

from __future__ import annotations

from typing import Any

from hopular.methods.networks import network_method


def _estimators() -> tuple[Any, Any]:
    from hopular.model.npt_estimator import NPTClassifier, NPTRegressor

    return NPTClassifier, NPTRegressor


METHOD = network_method(
    "npt",
    "Non-Parametric Transformers",
    _estimators,
    paper_name="Non-Parametric Transformers",
    paper_note="Ours follows the authors' released code, but rows to predict do not read one another.",
    cost=13.0,
    least_seconds=180.0,
    has_recipe=True,
    retrieves=True,
)
