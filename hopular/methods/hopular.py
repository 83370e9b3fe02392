"""Hopular itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """HopularClassifier or HopularRegressor with the given settings."""
    from hopular import HopularClassifier, HopularRegressor

    estimator = HopularClassifier if task == "classification" else HopularRegressor
    made = estimator(**params, random_state=run.seed, device=run.device, max_seconds=run.max_seconds)
    made._check_parameters()
    return made


METHOD = Method(
    name="hopular",
    title="Hopular",
    group="deep",
    make=make,
    paper_name="Hopular",
    packages=("torch",),
    model_packages=("safetensors",),
    cost=12.0,
    has_curve=True,
    has_recipe=True,
    has_architecture=True,
    needs_validation=True,
    retrieves=True,
    shares=("beta",),
    uses_gpu=True,
)
