"""Serve a model of this project through MLflow: a script that is stored beside the model's files, nothing pickled.

`predict` gives the class or number of each row. With the parameter `probabilities` a classifier gives a column per
class instead. Categories may come as strings or numbers; a feature that is missing in a row is null, and a category
that the model has never seen counts as missing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from hopular.data.schema import Schema
from hopular.methods.saved import load_model


class HopularModel(PythonModel):  # type: ignore[misc,unused-ignore]
    """An estimator of any method behind MLflow's interface."""

    def load_context(self, context: Any) -> None:
        self.estimator = load_model(Path(context.artifacts["estimator"]))
        self.schema = Schema.from_json(json.loads(Path(context.artifacts["schema"]).read_text(encoding="utf-8")))

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> Any:
        frame = self.schema.apply(model_input)[0].reset_index(drop=True)
        if not (params or {}).get("probabilities"):
            return np.asarray(self.estimator.predict(frame))
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError("probabilities are of classes, and this model predicts a number: leave the parameter out")
        return pd.DataFrame(self.estimator.predict_proba(frame), columns=[str(c) for c in self.estimator.classes_])


set_model(HopularModel())
