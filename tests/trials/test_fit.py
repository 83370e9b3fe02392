"""Settings that a method refuses are failures of their own kind, whichever library says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hopular.trials.fit import Fitter
from hopular.trials.problem import Fold, Problem
from tests.trials.conftest import make_job

REFUSED = [
    ("hopular", {"n_blocks": 0}),
    ("hopular", {"recipe": "soup"}),
    ("npt", {"n_heads": 0}),
    ("mlp", {"width": 0}),
    ("snn", {"shape": "round"}),
    ("xgboost", {"max_depth": -5}),
    ("xgboost", {"max_depth": "deep"}),
    ("xgboost", {"subsample": 2}),
    ("xgboost", {"n_estimators": 0}),
    ("lightgbm", {"num_leaves": 0}),
    ("lightgbm", {"max_depth": "deep"}),
    ("lightgbm", {"boosting_type": "x"}),
    ("lightgbm", {"n_estimators": -1}),
    ("catboost", {"depth": 40}),
    ("catboost", {"depth": "deep"}),
    ("catboost", {"l2_leaf_reg": -2}),
    ("catboost", {"n_estimators": 0}),
    ("knn", {"n_neighbors": -1}),
    ("random_forest", {"no_such": 1}),
]


@pytest.fixture(scope="module")
def flowers() -> Problem:
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(60, 3)), columns=list("abc"))
    y = pd.Series(random.choice(["rose", "lily"], 60))
    return Problem("flowers", "classification", 60, "f", X, y, (Fold(np.arange(40), np.arange(40, 60)),))


@pytest.mark.parametrize(("method", "params"), REFUSED)
def test_a_refused_setting_has_its_kind(flowers: Problem, method: str, params: dict) -> None:
    (outcome,) = Fitter().fit(flowers, [make_job(method, params)], lambda: None, lambda *_: False)
    assert (outcome.state, outcome.failure) == ("failed", "invalid-parameters"), outcome.message
    assert outcome.message


@pytest.mark.parametrize("method", ["hopular", "mlp", "xgboost", "lightgbm", "catboost", "knn"])
def test_rows_that_cannot_be_used_are_an_error(flowers: Problem, method: str) -> None:
    endless = replace(flowers, X=flowers.X.assign(a=[np.inf] * 40 + [0.0] * 20))
    (outcome,) = Fitter().fit(endless, [make_job(method, {})], lambda: None, lambda *_: False)
    assert (outcome.state, outcome.failure) == ("failed", "error"), outcome.message
