"""The greedy ensemble: its choice of weights, and what it does with members that fail."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.methods.ensemble import (
    EnsembleClassifier,
    EnsembleRegressor,
    greedy_weights,
    log_loss_of,
    squared_error_of,
)

Y = np.random.default_rng(0).normal(size=200)


def noisy(seed: int, noise: float) -> np.ndarray:
    return Y + noise * np.random.default_rng(seed).normal(size=len(Y))


def test_weights_prefer_the_better_and_combine_independent_errors() -> None:
    loss = squared_error_of(Y)
    predictions = [noisy(1, 1.0), noisy(2, 0.5), noisy(3, 0.5), np.zeros(len(Y))]
    weights = greedy_weights(predictions, loss)
    assert weights.sum() == pytest.approx(1)
    assert weights[1] + weights[2] > 0.7
    assert weights[3] < 0.1
    combined = sum(w * p for w, p in zip(weights, predictions, strict=True))
    assert loss(combined) < min(map(loss, predictions))


def test_a_perfect_member_is_taken_alone() -> None:
    weights = greedy_weights([noisy(1, 1.0), Y, noisy(2, 1.0)], squared_error_of(Y))
    assert weights.tolist() == [0, 1, 0]


def test_equal_members_are_decided_by_their_order() -> None:
    member = noisy(1, 0.3)
    assert greedy_weights([member, member.copy()], squared_error_of(Y)).tolist() == [1, 0]


def test_log_loss_counts_an_unknown_class_as_wrong() -> None:
    loss = log_loss_of(np.array([0, 1, -1]))
    probabilities = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
    assert loss(probabilities) == pytest.approx(-(np.log(0.5) + np.log(0.75) + np.log(1e-15)) / 3)


def problem(task: str) -> tuple[pd.DataFrame, pd.Series, tuple[pd.DataFrame, pd.Series]]:
    random = np.random.default_rng(1)
    X = pd.DataFrame({"a": random.normal(size=120), "b": random.normal(size=120)})
    value = X["a"] - 2 * X["b"] + 0.3 * random.normal(size=120)
    y = value if task == "regression" else (value > 0).map({True: "yes", False: "no"})
    return X[:90], y[:90], (X[90:].reset_index(drop=True), y[90:].reset_index(drop=True))


def test_it_is_at_least_as_good_on_the_validation_rows_as_its_best_member() -> None:
    X, y, valid = problem("regression")
    model = EnsembleRegressor([("glm", {}, None), ("knn", {}, None), ("decision_tree", {}, None)]).fit(X, y, valid)
    errors = [np.mean((m.predict(valid[0]) - valid[1]) ** 2) for m in model.estimators_]
    assert np.mean((model.predict(valid[0]) - valid[1]) ** 2) <= min(errors) + 1e-12
    assert set(model.member_names_) <= {"glm", "knn", "decision_tree"}


def test_a_member_that_fails_is_left_out_with_a_warning() -> None:
    X, y, valid = problem("classification")
    members = [("logistic", {}, None), ("knn", {"n_neighbors": -1}, None)]
    with pytest.warns(UserWarning, match="left out of the ensemble: knn: "):
        model = EnsembleClassifier(members).fit(X, y, valid)
    assert model.member_names_ == ["logistic"]
    assert [failure.partition(":")[0] for failure in model.failures_] == ["knn"]
    with pytest.raises(RuntimeError, match="no member of the ensemble could be fitted: knn: "):
        EnsembleClassifier(members[1:]).fit(X, y, valid)


def test_a_member_for_which_no_time_is_left_is_named() -> None:
    X, y, valid = problem("classification")
    members = [("logistic", {}, None), ("knn", {}, None), ("decision_tree", {}, None)]
    with pytest.warns(UserWarning, match="left out of the ensemble"):
        model = EnsembleClassifier(members, max_seconds=1e-9).fit(X, y, valid)
    assert model.failures_ == ["knn: no time was left for it", "decision_tree: no time was left for it"]


def test_loading_refuses_foreign_classes_and_damage(tmp_path: Path) -> None:
    X, y, valid = problem("classification")
    EnsembleClassifier([("logistic", {}, None)]).fit(X, y, valid).save(tmp_path)
    state = json.loads((tmp_path / "ensemble.json").read_text())
    state["members"][0]["class"] = "os:system"
    (tmp_path / "ensemble.json").write_text(json.dumps(state))
    with pytest.raises(ValueError, match="'os:system' is no estimator of this project"):
        EnsembleClassifier.load(tmp_path)
    state["members"][0]["class"] = "hopular.methods.gone:Model"
    (tmp_path / "ensemble.json").write_text(json.dumps(state))
    with pytest.raises(ValueError, match=r"ensemble\.json cannot be read: No module named 'hopular\.methods\.gone'"):
        EnsembleClassifier.load(tmp_path)
    (tmp_path / "ensemble.json").write_text("{")
    with pytest.raises(ValueError, match=r"ensemble\.json cannot be read"):
        EnsembleClassifier.load(tmp_path)
