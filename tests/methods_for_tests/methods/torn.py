"""A classifier whose two settings are torn: `bold` is more often right, its other is wrong with less certainty."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from hopular.methods.method import Method, Run


class Torn:
    """Knows all answers but one in ten, and with `bold` is quite sure of each; else it hardly knows anything."""

    def __init__(self, is_bold: bool) -> None:
        self.is_bold = is_bold

    def fit(self, X: Any, y: Any, eval_set: Any, hooks: Any = ()) -> Torn:
        self.classes_ = np.unique(np.asarray(y))
        X_valid, y_valid = eval_set
        codes = np.searchsorted(self.classes_, np.asarray(y_valid))
        wrong = np.arange(len(codes)) % (10 if self.is_bold else 5) == 0
        sure = 1 - 1e-12 if self.is_bold else 0.9
        self.answer = np.full((len(codes), len(self.classes_)), (1 - sure) / (len(self.classes_) - 1))
        self.answer[np.arange(len(codes)), np.where(wrong, (codes + 1) % len(self.classes_), codes)] = sure
        truth = self.predict_proba(X_valid)[np.arange(len(codes)), codes]
        progress = SimpleNamespace(done=1.0, score=float(1 - wrong.mean()), loss=float(-np.log(truth).mean()))
        for hook in hooks:
            hook.on_validation(progress)
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.answer[: len(X)]


def make(task: str, params: Mapping[str, Any], run: Run) -> Any:
    return Torn(params.get("bold", True))


METHOD = Method("torn", "Torn", "deep", make, tasks=("classification",), has_curve=True)
