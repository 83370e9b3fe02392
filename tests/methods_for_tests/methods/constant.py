"""A method that always predicts its parameter `value`, after HOPULAR_TEST_SLEEP seconds of work."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from hopular.methods.method import Method, Run


class Constant:
    def __init__(self, params: Mapping[str, Any], run: Run) -> None:
        self.params, self.run = params, run

    def fit(self, X: Any, y: Any, eval_set: Any = None) -> Constant:
        log = os.environ.get("HOPULAR_TEST_LOG")
        if log:  # one line per fit that was begun
            with open(log, "a") as file:
                file.write(f"{os.getpid()} {self.run.seed}\n")
        time.sleep(float(os.environ.get("HOPULAR_TEST_SLEEP", "0")))
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.params["value"])


def make(task: str, params: Mapping[str, Any], run: Run) -> Any:
    return Constant(params, run)


METHOD = Method("constant", "Constant", "floor", make, tasks=("regression",))
