"""Self-normalising networks (Klambauer et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """SNNClassifier or SNNRegressor with the given settings."""
    from hopular.model.perceptron_estimators import SNNClassifier, SNNRegressor

    estimator = SNNClassifier if task == "classification" else SNNRegressor
    made = estimator(**params, random_state=run.seed, device=run.device, max_seconds=run.max_seconds)
    made._check_parameters()
    return made


METHOD = Method(
    name="snn",
    title="Self-normalising network",
    group="deep",
    make=make,
    paper_name="Self-Normalizing Networks",
    paper_note="Theirs is trained by SGD, ours by AdamW.",
    packages=("torch",),
    model_packages=("safetensors",),
    cost=6.0,
    has_curve=True,
    needs_validation=True,
    uses_gpu=True,
)
