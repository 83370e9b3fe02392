"""AutoML on one table: everything suitable is tried within the time, the best is kept, and new rows are predicted.

from hopular.automl import fit_table, load_fitted
from hopular.data import load

fitted = fit_table(load("houses.csv", target="price"), seconds=60)
print(fitted.leaderboard)
fitted.save("houses-model")
load_fitted("houses-model").predict(new_rows)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopular.automl.estimator import HopularAutoML
    from hopular.automl.fit import fit_table
    from hopular.automl.fitted import Fitted, load_fitted

__all__ = ["Fitted", "HopularAutoML", "fit_table", "load_fitted"]

_HOMES = {"Fitted": "fitted", "HopularAutoML": "estimator", "fit_table": "fit", "load_fitted": "fitted"}


def __getattr__(name: str) -> Any:
    """Import a name, and the libraries behind it, when it is first asked for."""
    if name in _HOMES:
        return getattr(import_module(f"hopular.automl.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'hopular.automl' has no attribute {name!r}")
