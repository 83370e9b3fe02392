"""Criterion: what decides which trial is best, always on the validation rows.

By default it is the loss: log loss, or mean squared error. On few rows it tells more than accuracy, which has many
ties. The paper chose by accuracy, so its protocol does too. A regression is judged by mean squared error either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Criterion = Literal["loss", "accuracy"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
DEFAULT: Criterion = "loss"


def metric_of(criterion: Criterion, task: str) -> str:
    """Return the name of the metric that decides."""
    if task == "regression":
        return "mse"
    return "log_loss" if criterion == "loss" else "accuracy"


def score_of(criterion: Criterion, metrics: Mapping[str, float]) -> float:
    """Return what a search maximises: the accuracy, or minus the loss."""
    if "mse" in metrics:
        return 0.0 - metrics["mse"]  # of a perfect model not -0.0
    return metrics["accuracy"] if criterion == "accuracy" else 0.0 - metrics["log_loss"]
