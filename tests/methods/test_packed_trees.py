"""Forests as arrays: the same trees, and nothing that leads out of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from hopular.methods.packed_trees import PackedTrees, pack, unpack

X = np.random.default_rng(0).normal(size=(120, 4))
Y = np.random.default_rng(1).integers(3, size=120)


@pytest.mark.parametrize(
    "forest", [RandomForestClassifier(20, random_state=0), ExtraTreesRegressor(20, random_state=0)]
)
def test_a_forest_comes_back_as_it_was(forest: Any) -> None:
    fitted = forest.fit(X, Y)
    before = fitted.predict(X)
    packed = pack(fitted)
    assert isinstance(packed.estimators_, PackedTrees)
    assert len(fitted.estimators_) == 20  # the forest itself is not changed
    again = unpack(packed)
    assert (again.predict(X) == before).all()
    if hasattr(again, "predict_proba"):
        assert (again.predict_proba(X) == fitted.predict_proba(X)).all()


def test_what_is_no_forest_stays_what_it_is() -> None:
    model = LogisticRegression().fit(X, Y)
    assert pack(model) is model
    assert unpack(model) is model


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("left_child", 10_000, "leads to one that is not below it"),
        ("right_child", 0, "leads to one that is not below it"),
        ("feature", 99, "asks for a feature that is none of 4"),
    ],
)
def test_nodes_that_lead_elsewhere_are_refused(field: str, value: int, message: str) -> None:
    packed = pack(RandomForestClassifier(2, random_state=0).fit(X, Y))
    packed.estimators_.nodes[field][0] = value
    with pytest.raises(ValueError, match=message):
        unpack(packed)


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    packed = pack(RandomForestClassifier(2, random_state=0).fit(X, Y))
    packed.estimators_.values = packed.estimators_.values[:-1]
    with pytest.raises(ValueError, match=r"nodes with .* values are not those of"):
        unpack(packed)
