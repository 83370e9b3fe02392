"""A method that learns by epochs: it comes near to its parameter `end`, which is its validation score."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopular.methods.method import Method, Run


@dataclass
class Progress:
    done: float
    score: float
    loss: float = np.nan


class Learner:
    def __init__(self, params: Mapping[str, Any], run: Run) -> None:
        self.params, self.run = params, run

    def fit(self, X: Any, y: Any, eval_set: Any = None, hooks: Any = ()) -> Learner:
        epochs = self.params.get("max_epochs", 10)
        for epoch in range(1, epochs + 1):
            time.sleep(self.params.get("sleep", 0))
            for hook in hooks:
                hook.on_epoch(Progress(epoch / epochs, np.nan))
                error = self.params["end"] * epoch / epochs
                hook.on_validation(Progress(epoch / epochs, -error, error))
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.params["end"])


def make(task: str, params: Mapping[str, Any], run: Run) -> Any:
    return Learner(params, run)


METHOD = Method("learner", "Learner", "deep", make, tasks=("regression",), has_curve=True)
