"""Non-Parametric Transformers (Kossen et al. 2021), non-transductive: test rows are neither trained on nor compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """NPTClassifier or NPTRegressor with the given settings."""
    from hopular.model.npt_estimator import NPTClassifier, NPTRegressor

    estimator = NPTClassifier if task == "classification" else NPTRegressor
    made = estimator(**params, random_state=run.seed, device=run.device, max_seconds=run.max_seconds)
    made._check_parameters()
    return made


METHOD = Method(
    name="npt",
    title="Non-Parametric Transformers",
    group="deep",
    make=make,
    paper_name="Non-Parametric Transformers",
    paper_note="Ours follows the authors' released code, but rows to predict do not read one another.",
    packages=("torch",),
    model_packages=("safetensors",),
    cost=13.0,
    least_seconds=180.0,
    has_curve=True,
    has_recipe=True,
    needs_validation=True,
    retrieves=True,
    uses_gpu=True,
)
