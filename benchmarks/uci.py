"""Small datasets with their published folds, from a local mirror of the authors' files (HOPULAR_DATA)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

# Folder, and the feature columns that are categorical.
DATASETS: dict[str, tuple[str, list[int]]] = {
    "glass": ("glass_identification", []),
    "statlog-heart": ("statlog_heart", [1, 2, 5, 6, 8, 10, 12]),
    "haberman": ("haberman_survival", []),
    "ecoli": ("ecoli", [2, 3]),
    "vertebral-column3": ("vertebral_column3", []),
    "breast-cancer": ("breast_cancer", list(range(9))),
}


@dataclass(frozen=True)
class Fold:
    """Features and labels of the training, validation and test rows of a published fold."""

    train: tuple[pd.DataFrame, np.ndarray]
    valid: tuple[pd.DataFrame, np.ndarray]
    test: tuple[pd.DataFrame, np.ndarray]
    categorical: list[int]


def load_fold(name: str, fold: int) -> Fold:
    """Fold 0 to 3 of one of `DATASETS`."""
    if "HOPULAR_DATA" not in os.environ:
        raise SystemExit("set HOPULAR_DATA to a local copy of the authors' data files to run this benchmark")
    folder, categorical = DATASETS[name]
    path = Path(os.environ["HOPULAR_DATA"]) / folder

    def read(file: str) -> np.ndarray:
        return np.loadtxt(path / file, delimiter=",", ndmin=2)

    X, y = pd.DataFrame(read(f"{folder}_py.dat")).add_prefix("x"), read("labels_py.dat").ravel().astype(int)
    test = read("folds_py.dat")[:, fold] == 1
    valid = read("validation_folds_py.dat")[:, fold] == 1
    parts = [(X[rows].reset_index(drop=True), y[rows]) for rows in (~test & ~valid, valid, test)]
    return Fold(*parts, categorical=categorical)
