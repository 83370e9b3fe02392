"""Datasets that ship with scikit-learn: what a fresh machine has without a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets

from hopular.data.dataset import Dataset, Task
from hopular.data.errors import DataError, nearest


@dataclass(frozen=True)
class _Bundled:
    load: Callable[..., Any]
    task: Task
    options: dict[str, Any]
    categorical: tuple[str, ...] = ()


BUNDLED = {
    "iris": _Bundled(datasets.load_iris, "classification", {}),
    "wine": _Bundled(datasets.load_wine, "classification", {}),
    "breast-cancer-wisconsin": _Bundled(datasets.load_breast_cancer, "classification", {}),
    "diabetes": _Bundled(datasets.load_diabetes, "regression", {"scaled": False}, ("sex",)),
    "digits": _Bundled(datasets.load_digits, "classification", {}),
}


def names() -> list[str]:
    """The bundled datasets."""
    return list(BUNDLED)


def load(name: str) -> Dataset:
    """A bundled dataset by name. It is read from the installation each time: a cache would be no faster."""
    if name not in BUNDLED:
        raise DataError(f"scikit-learn bundles no dataset {name!r}.{nearest(name, BUNDLED)} There are: {list(BUNDLED)}")
    bundled = BUNDLED[name]
    content = bundled.load(as_frame=True, **bundled.options)
    X = content.data.astype(np.float64)
    for column in bundled.categorical:
        X[column] = X[column].map("{:g}".format).astype("category")
    y = content.target
    if bundled.task == "classification":
        labels = pd.Index([str(label) for label in content.target_names])
        y = pd.Series(pd.Categorical.from_codes(y, labels), name="class")
    else:
        y = y.astype(np.float64)
    return Dataset(name, X, y, bundled.task, source=f"scikit-learn, {bundled.load.__name__}")
