"""Multilayer perceptrons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """MLPClassifier or MLPRegressor with the given settings."""
    from hopular.model.perceptron_estimators import MLPClassifier, MLPRegressor

    estimator = MLPClassifier if task == "classification" else MLPRegressor
    made = estimator(**params, random_state=run.seed, device=run.device, max_seconds=run.max_seconds)
    made._check_parameters()
    return made


METHOD = Method(
    name="mlp",
    title="Multilayer perceptron",
    group="deep",
    make=make,
    paper_name="Neural Networks",
    paper_note="Theirs is learning vector quantisation (lvq of R's caret), ours a multilayer perceptron.",
    packages=("torch",),
    model_packages=("safetensors",),
    cost=6.0,
    has_curve=True,
    needs_validation=True,
    uses_gpu=True,
)
