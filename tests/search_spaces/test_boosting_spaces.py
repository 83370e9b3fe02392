"""The spaces of the boosting methods are the paper's, and what they draw can be fitted."""

from __future__ import annotations

import math
import warnings
from importlib import import_module

import numpy as np
import optuna
import pandas as pd
import pytest

from hopular.methods import Run, get_method
from search_spaces import catboost, lightgbm, xgboost

E = math.exp
# Every parameter's bounds as the paper's appendix prints them; log-uniform [a, b] is from e^a to e^b.
BOUNDS = {
    "xgboost": {
        "learning_rate": (E(-7), E(0)),
        "max_depth": (1, 10),
        "subsample": (0.2, 1),
        "colsample_bytree": (0.2, 1),
        "colsample_bylevel": (0.2, 1),
        "min_child_weight": (E(-16), E(2)),
        "reg_alpha": (E(-16), E(2)),
        "reg_lambda": (E(-16), E(2)),
        "gamma": (E(-16), E(2)),
        "n_estimators": (1000, 1000),
    },
    "catboost": {
        "learning_rate": (E(-5), E(0)),
        "random_strength": (1, 20),
        "one_hot_max_size": (0, 25),
        "l2_leaf_reg": (1, 10),
        "bagging_temperature": (0, 1),
        "leaf_estimation_iterations": (1, 20),
        "n_estimators": (1000, 1000),
    },
    "lightgbm": {
        "learning_rate": (0, 0.5 - 0.0001),
        "max_depth": (1, 11),
        "num_leaves": (2, 121),
        "min_split_gain": (0.001 - 0.0001, 5 - 0.0001),
        "min_child_weight": (1, 100),
        "subsample": (0.5, 1),
        "colsample_bytree": (0.5, 1),
        "colsample_bynode": (0.5, 1),
        "reg_alpha": (0.0001, 1),
        "reg_lambda": (1, 4),
        "n_estimators": (1000, 1000),
    },
}
LOG = {  # those drawn log-uniformly: about half of the draws lie below the geometric mean of the bounds
    "xgboost": ("learning_rate", "min_child_weight", "reg_alpha", "reg_lambda", "gamma"),
    "catboost": ("learning_rate", "l2_leaf_reg"),
    "lightgbm": ("min_split_gain", "min_child_weight", "reg_alpha", "reg_lambda"),
}
ZERO_OR = ("reg_alpha", "reg_lambda", "gamma")  # XGBoost's alone
DRAWS = 200


@pytest.fixture(scope="module", params=sorted(BOUNDS))
def drawn(request):
    """The name of a method, 200 settings and what the trials recorded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    suggest = import_module(f"search_spaces.{request.param}").suggest
    trials = [study.ask() for _ in range(DRAWS)]
    return request.param, [suggest(trial, "small") for trial in trials], trials


def test_the_constants_are_the_paper_s():
    assert xgboost.LEARNING_RATE == (-7, 0)
    assert xgboost.MAX_DEPTH == (1, 10)
    assert xgboost.SUBSAMPLE == xgboost.COLSAMPLE_BYTREE == xgboost.COLSAMPLE_BYLEVEL == (0.2, 1)
    assert xgboost.MIN_CHILD_WEIGHT == xgboost.ALPHA == xgboost.LAMBDA == xgboost.GAMMA == (-16, 2)
    assert catboost.LEARNING_RATE == (-5, 0)
    assert catboost.RANDOM_STRENGTH == catboost.LEAF_ESTIMATION_ITERATIONS == (1, 20)
    assert catboost.MAX_SIZE == (0, 25)
    assert catboost.L2_LEAF_REGULARIZATION == (1, 10)
    assert catboost.BAGGING_TEMPERATURE == (0, 1)
    assert lightgbm.LEARNING_RATE == (0.0001, 0.5)
    assert lightgbm.MAX_DEPTH == (1, 11)
    assert lightgbm.LEAVES == (2, 121)
    assert lightgbm.GAMMA == (0.001, 5)
    assert lightgbm.MIN_CHILD_WEIGHT == (1, 100)
    assert lightgbm.SUBSAMPLE == lightgbm.COLSAMPLE_BYTREE == lightgbm.COLSAMPLE_BYLEVEL == (0.5, 1)
    assert lightgbm.ALPHA == (0.0001, 1)
    assert lightgbm.LAMBDA == (1, 4)
    assert lightgbm.SHIFT == 0.0001
    assert lightgbm.BOOSTING_TYPE == ("gbdt", "dart", "goss")
    assert xgboost.ESTIMATORS == catboost.ESTIMATORS == lightgbm.ESTIMATORS == 1000


def test_draws_stay_within_the_paper_s_bounds_and_fill_them(drawn):
    name, settings, _ = drawn
    for parameter, (low, high) in BOUNDS[name].items():
        values = np.array([setting[parameter] for setting in settings])
        if name == "xgboost" and parameter in ZERO_OR:
            assert 0.35 < np.mean(values == 0) < 0.65
            values = values[values != 0]
        assert values.min() >= low * (1 - 1e-12), parameter
        assert values.max() <= high * (1 + 1e-12), parameter
        if parameter in LOG[name]:
            low, high, values = math.log(low), math.log(high), np.log(values)
        assert np.median(values) == pytest.approx((low + high) / 2, abs=0.2 * (high - low) or 1e-9) or (
            parameter == "learning_rate" and name == "lightgbm"  # shifted to 0, so not uniform in its own logarithm
        )
        if isinstance(settings[0][parameter], int) and high - low < 30:
            assert set(values) == set(range(low, high + 1)), parameter


def test_nothing_else_is_drawn(drawn):
    name, settings, trials = drawn
    extra = {"boosting_type"} if name == "lightgbm" else set()
    assert all(set(setting) == set(BOUNDS[name]) | extra for setting in settings)
    for setting, trial in zip(settings, trials, strict=True):
        for parameter in ZERO_OR if name == "xgboost" else ():
            assert (parameter in trial.params) == trial.params[f"{parameter}_on"] == (setting[parameter] > 0)


def test_lightgbm_s_options_and_learning_rate():
    rates = []
    for rate in lightgbm.LEARNING_RATE:
        fixed = {"learning_rate_plus_shift": rate, "max_depth": 3, "num_leaves": 4, "min_split_gain_plus_shift": 0.001}
        fixed |= {"min_child_weight": 1, "subsample": 1, "colsample_bytree": 1, "colsample_bynode": 1}
        trial = optuna.trial.FixedTrial({**fixed, "reg_alpha": 1, "reg_lambda": 1, "boosting_type": "dart"})
        rates.append(lightgbm.suggest(trial, "medium")["learning_rate"])
    assert 0 < rates[0] <= 1e-9
    assert rates[1] == pytest.approx(0.4999)


def test_lightgbm_draws_all_boosting_types(drawn):
    name, settings, _ = drawn
    if name == "lightgbm":
        assert {setting["boosting_type"] for setting in settings} == {"gbdt", "dart", "goss"}


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_drawn_settings_can_be_fitted(drawn, task):
    name, settings, _ = drawn
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=60), "c": pd.Categorical(rng.choice(["a", "b", "c"], 60))})
    X.loc[::5, "x"] = np.nan
    y = X["x"].fillna(0) + (X["c"] == "a")
    y = pd.cut(y, 3, labels=["low", "middle", "high"]) if task == "classification" else y
    for setting in settings[:8]:
        estimator = get_method(name).make(task, setting | {"n_estimators": 10}, Run())
        fitted = estimator.fit(X[:40], y[:40], eval_set=(X[40:], y[40:]))
        assert len(fitted.predict(X)) == 60
        assert np.isfinite(fitted.curve_).all()
