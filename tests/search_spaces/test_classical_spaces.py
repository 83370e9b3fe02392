"""Every space of a classical method yields settings that the method accepts and fits with."""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import optuna
import pandas as pd
import pytest

from hopular.methods import Run, methods

SMOOTH = ["glm", "knn", "lda", "logistic", "naive_bayes", "pls", "svm"]
TREES = ["adaboost", "bagging", "decision_tree", "extra_trees", "random_forest"]
SEARCHED = [*SMOOTH, *TREES, "stacking"]
FLOORS = ["majority", "mean"]
MODERN = ["realmlp", "tabm"]
FEW = {name: {"n_estimators": 3} for name in TREES if name != "decision_tree"}
FEW["stacking"] = {"n_estimators": 3, "n_folds": 2}


def settings_of(name, size, draws):
    """The whole grid, or some random draws."""
    space = import_module(f"search_spaces.{name}")
    if hasattr(space, "grid"):
        return space.grid(size)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [space.suggest(study.ask(), size) for _ in range(draws)]


@pytest.mark.parametrize("size", ["small", "medium"])
@pytest.mark.parametrize("name", [*SEARCHED, *MODERN])
def test_settings_are_small_and_plain(name, size):
    space = import_module(f"search_spaces.{name}")
    assert hasattr(space, "grid") != hasattr(space, "suggest")
    assert space.__doc__
    for setting in settings_of(name, size, 20):
        assert 1 <= len(setting) <= 5
        assert json.loads(json.dumps(setting)) == setting


@pytest.mark.parametrize("size", ["small", "medium"])
@pytest.mark.parametrize("name", SEARCHED)
@pytest.mark.filterwarnings("error")
def test_methods_fit_with_the_settings(name, size):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=30), "c": pd.Categorical(rng.choice(["u", "v"], 30))})
    for task in methods()[name].tasks:
        y = X["a"] if task == "regression" else np.where(X["a"] > 0, "yes", "no")
        for setting in settings_of(name, size, 3):
            model = methods()[name].make(task, {**setting, **FEW.get(name, {})}, Run())
            assert np.isfinite(model.fit(X, y).score(X, y))


@pytest.mark.parametrize("name", MODERN)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_modern_methods_take_their_settings(name, task):
    for setting in settings_of(name, "small", 3):
        model = methods()[name].make(task, setting, Run())
        assert setting.items() <= model.estimator.settings.items()


@pytest.mark.parametrize("name", FLOORS)
def test_floors_have_nothing_to_search(name):
    assert settings_of(name, "small", 1) == settings_of(name, "medium", 1) == [{}]
