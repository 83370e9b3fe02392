"""Saved estimators: every method that can be saved comes back by its folder alone, and nothing foreign is imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hopular.data.dataset import Task
from hopular.methods import Run, get_method, methods
from hopular.methods.perceptrons import PLAIN
from hopular.methods.saved import CLASS_FILE, NotSavableError, load_model, save_model
from hopular.methods.tabkit import TabkitClassifier, TabkitModel

QUICK: dict[str, dict[str, Any]] = {
    "hopular": {"max_epochs": 2, "n_blocks": 1, "embedding_dim": 8},
    "npt": {"max_epochs": 2, "n_layers": 2, "n_heads": 4, "embedding_dim": 8},
    **{name: {"max_epochs": 2} for name in ("snn", "mlp", *PLAIN)},
    **{name: {"n_estimators": 3} for name in ("xgboost", "lightgbm", "catboost", "random_forest", "extra_trees")},
    **{name: {"n_estimators": 3} for name in ("bagging", "adaboost", "stacking")},
    "ensemble": {"members": [("logistic", {}, None), ("decision_tree", {}, 3)]},
}
AVAILABLE = [name for name, method in methods().items() if not method.missing_packages]


def table(task: Task) -> tuple[pd.DataFrame, pd.Series[Any]]:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"size": random.normal(size=40), "colour": pd.Categorical(random.choice(["red", "blue"], 40))})
    label = pd.Series(pd.Categorical(np.where(frame["size"] > 0, "large", "small")))
    return frame, label if task == "classification" else 2 * frame["size"]


@pytest.mark.parametrize("name", AVAILABLE)
def test_every_method_comes_back_the_same(name: str, tmp_path: Path) -> None:
    method = get_method(name)
    X, y = table(method.tasks[0])
    estimator = method.make(method.tasks[0], QUICK.get(name, {}), Run(seed=1)).fit(X, y)
    if method.group == "modern":
        with pytest.raises(NotSavableError, match="without pickle"):
            save_model(estimator, tmp_path)
        assert not (tmp_path / CLASS_FILE).exists()
        return
    save_model(estimator, tmp_path)
    again = load_model(tmp_path)
    assert type(again) is type(estimator)
    np.testing.assert_array_equal(again.predict(X), estimator.predict(X))


def test_a_method_that_needs_pickle_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotSavableError, match="cannot be saved without pickle; fit it again instead"):
        save_model(TabkitClassifier(TabkitModel("TabM_D_Classifier", {})), tmp_path)


def test_an_estimator_of_another_library_is_not_saved(tmp_path: Path) -> None:
    from sklearn.tree import DecisionTreeClassifier

    with pytest.raises(NotSavableError, match="DecisionTreeClassifier is no estimator of this project"):
        save_model(DecisionTreeClassifier(), tmp_path)


@pytest.mark.parametrize(
    "name",
    ["os:system", "hopular.settings:os", "hopular.methods.saved:Path", "hopular..os:system", "hopular.absent:Model"],
)
def test_nothing_but_own_estimators_is_loaded(name: str, tmp_path: Path) -> None:
    (tmp_path / CLASS_FILE).write_text(json.dumps({"format": 1, "class": name}))
    with pytest.raises(ValueError, match=r"model-class\.json' cannot be used: .*Save the model again"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2, "class": "hopular.methods.xgboost:XGBoostClassifier"}']
)
def test_a_damaged_note_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / CLASS_FILE).write_text(text)
    with pytest.raises(ValueError, match=r"model-class\.json' cannot be used"):
        load_model(tmp_path)
