"""Datasets that ship with scikit-learn."""

from __future__ import annotations

import pytest

from hopular.data.dataset import DataError
from hopular.data.sources import bundled


def test_sizes_and_tasks() -> None:
    facts = {
        "iris": (150, 4, "classification"),
        "wine": (178, 13, "classification"),
        "breast-cancer-wisconsin": (569, 30, "classification"),
        "diabetes": (442, 10, "regression"),
        "digits": (1797, 64, "classification"),
    }
    loaded = {name: bundled.load(name) for name in bundled.names()}
    assert {name: (*d.X.shape, d.task) for name, d in loaded.items()} == facts
    assert loaded["iris"].classes == ["setosa", "versicolor", "virginica"]
    assert loaded["iris"].y.value_counts().tolist() == [50, 50, 50]
    assert loaded["diabetes"].kinds["sex"] == "categorical"
    assert loaded["diabetes"].X["sex"].cat.categories.tolist() == ["1", "2"]
    assert "diabetes" in loaded["diabetes"].source


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"no dataset 'irirs'. Did you mean 'iris'\?"):
        bundled.load("irirs")
