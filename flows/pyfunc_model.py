"""What MLflow runs to serve a model of this project: a script that is stored beside the model's files, nothing pickled.

`predict` gives the class or number of each row. With the parameter `probabilities` a classifier gives a column per
class instead. Categories may come as strings or numbers; a feature that is missing in a row is null.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from hopular.methods.saved import load_model


class HopularModel(PythonModel):  # type: ignore[misc,unused-ignore]
    """An estimator of any method behind MLflow's interface."""

    def load_context(self, context: Any) -> None:
        self.estimator = load_model(Path(context.artifacts["estimator"]))
        self.kinds: dict[str, str] = dict(context.model_config["kinds"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> Any:
        frame = self._frame(model_input)
        if not (params or {}).get("probabilities"):
            return np.asarray(self.estimator.predict(frame))
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError("probabilities are of classes, and this model predicts a number: leave the parameter out")
        return pd.DataFrame(self.estimator.predict_proba(frame), columns=[str(c) for c in self.estimator.classes_])

    def _frame(self, table: pd.DataFrame) -> pd.DataFrame:
        """The features in the order and with the types of the training table."""
        lacking = [name for name in self.kinds if name not in table.columns]
        if lacking:
            raise ValueError(f"the input lacks {', '.join(map(repr, lacking))}: give every feature, null if unknown")
        columns = {
            name: _categories(table[name]) if kind == "categorical" else pd.to_numeric(table[name]).astype("float64")
            for name, kind in self.kinds.items()
        }
        return pd.DataFrame(columns).reset_index(drop=True)


def _categories(column: pd.Series[Any]) -> Any:
    """Text, with numbers written as the training table writes whole ones: 3, not 3.0."""
    if pd.api.types.is_float_dtype(column.dtype) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    return column.astype("string").astype(object).where(column.notna(), None).astype("category")


set_model(HopularModel())
