"""The estimator: like one of scikit-learn's, for tables as people have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError

from hopular.automl import HopularAutoML, load_fitted
from hopular.automl.estimator import task_of


def flowers(rows: int = 90) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    kind = np.arange(rows) % 3
    X = pd.DataFrame({"length": kind + rng.normal(scale=0.3, size=rows), "colour": rng.choice(["blue", "red"], rows)})
    return X.set_index(np.arange(1000, 1000 + rows)), kind + 7


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> HopularAutoML:
    X, y = flowers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(tmp_path_factory.mktemp("runs")))
        return HopularAutoML(seconds=300, methods=["pls"]).fit(X, y)


def test_classes_come_back_in_the_type_they_had(classifier: HopularAutoML) -> None:
    X, y = flowers()
    assert classifier.classes_.tolist() == [7, 8, 9]
    assert classifier.predict(X).dtype == y.dtype
    shares = classifier.predict_proba(X)
    assert shares.shape == (90, 3)
    assert shares.sum(axis=1) == pytest.approx(np.ones(90))
    assert classifier.score(X, y) == np.mean(classifier.predict(X) == y) > 0.5
    assert classifier.n_features_in_ == 2
    assert list(classifier.feature_names_in_) == ["length", "colour"]
    assert "pls" in set(classifier.leaderboard_["method"])
    assert is_classifier(classifier)
    assert not is_regressor(classifier)


def test_the_model_can_be_kept_for_the_command_line(classifier: HopularAutoML, tmp_path: Any) -> None:
    X, _ = flowers()
    kept = load_fitted(classifier.fitted_.save(tmp_path / "model"))
    assert kept.predict(X).astype(int).tolist() == classifier.predict(X).tolist()


def test_an_array_of_numbers_is_regressed(runs: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=60)
    model = HopularAutoML(seconds=300, methods=["pls"]).fit(X, y)
    assert is_regressor(model)
    assert model.predict(X).shape == (60,)
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match="predicts numbers of 'target', which have no probabilities"):
        model.predict_proba(X)


def test_parameters_are_read_copied_and_set() -> None:
    model = HopularAutoML(seconds=5, methods=["pls"], random_state=3)
    copied = clone(model).set_params(seconds=7, task="regression")
    assert copied.get_params() == {**model.get_params(), "seconds": 7, "task": "regression"}
    assert is_regressor(copied)
    with pytest.raises(NotFittedError):
        copied.predict(np.zeros((1, 1)))
    with pytest.raises(NotFittedError):
        _ = copied.leaderboard_


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([0.5, 1.5, 2.25] * 5, "regression"),
        ([0, 1, 2] * 5, "classification"),
        ([0.0, 1.0] * 5, "classification"),
        (["a", "b"] * 5, "classification"),
        ([True, False] * 5, "classification"),
        (pd.date_range("2024-01-01", periods=9), "regression"),
    ],
)
def test_the_task_is_that_of_scikit_learn(values: Any, task: str) -> None:
    assert task_of(pd.Series(values, name="y")) == task


def test_a_target_that_cannot_be_used_is_refused() -> None:
    X = pd.DataFrame({"x": np.arange(60) % 7 + 0.5})
    with pytest.raises(ValueError, match=r"y has 60 distinct whole numbers, .*: say task='regression' or task='class"):
        HopularAutoML().fit(X, np.arange(60) * 3)
    with pytest.raises(ValueError, match=r"X has 60 rows and y has 3 values: give one value per row"):
        HopularAutoML().fit(X, [1, 2, 3])
    with pytest.raises(ValueError, match=r"y has the shape \(60, 2\): give one value per row"):
        HopularAutoML().fit(X, np.zeros((60, 2)))
    with pytest.raises(ValueError, match=r"target 'target' is missing in 1 of 60 rows: drop them"):
        HopularAutoML().fit(X, [None, *["a", "b"] * 29, "a"])
