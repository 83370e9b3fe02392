"""Serve a model of `hopular fit` through MLflow: a script that is stored beside the model's folder, nothing pickled.

`predict` gives the class or number of each row. With the parameter `probabilities` a classifier gives a column per
class instead. Rows are read as `hopular predict` reads them.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from hopular.automl.fitted import load_fitted


class FittedModel(PythonModel):  # type: ignore[misc,unused-ignore]
    """A fitted folder behind MLflow's interface."""

    def load_context(self, context: Any) -> None:
        self.fitted = load_fitted(context.artifacts["fitted"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> Any:
        if (params or {}).get("probabilities"):
            return self.fitted.predict_proba(model_input)
        return self.fitted.predict(model_input)


set_model(FittedModel())
