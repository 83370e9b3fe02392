"""Datasets that ship with scikit-learn: what a fresh machine has without a network."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hopular.data.dataset import DataError, Dataset, Task
from hopular.util import did_you_mean


@dataclass(frozen=True)
class _Bundled:
    loader: str  # in sklearn.datasets, which is imported when it is needed
    task: Task
    options: dict[str, Any]
    categorical: tuple[str, ...] = ()


_BUNDLED = {
    "iris": _Bundled("load_iris", "classification", {}),
    "wine": _Bundled("load_wine", "classification", {}),
    "breast-cancer-wisconsin": _Bundled("load_breast_cancer", "classification", {}),
    "diabetes": _Bundled("load_diabetes", "regression", {"scaled": False}, ("sex",)),
    "digits": _Bundled("load_digits", "classification", {}),
}


def names() -> list[str]:
    """Return the names of the bundled datasets."""
    return list(_BUNDLED)


def load(name: str) -> Dataset:
    """Load a bundled dataset by name. It is read from the installation each time: a cache would be no faster."""
    if name not in _BUNDLED:
        raise DataError(
            f"scikit-learn bundles no dataset {name!r}.{did_you_mean(name, _BUNDLED)} There are: {list(_BUNDLED)}"
        )
    bundled = _BUNDLED[name]
    content = getattr(importlib.import_module("sklearn.datasets"), bundled.loader)(as_frame=True, **bundled.options)
    X = content.data.astype(np.float64)
    for column in bundled.categorical:
        X[column] = X[column].map("{:g}".format).astype("category")
    y = content.target
    if bundled.task == "classification":
        labels = pd.Index([str(label) for label in content.target_names])
        y = pd.Series(pd.Categorical.from_codes(y, labels), name="class")
    else:
        y = y.astype(np.float64)
    return Dataset(name, X, y, bundled.task, source=f"scikit-learn, {bundled.loader}")
