"""Explanations: a column that matters stands out, noise does not, and doubtful rows are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from hopular.automl.explain import SAMPLED_ROWS, most_uncertain, most_wrong, permutation_importance, reliability
from hopular.evaluation.metrics import row_losses

CLASSES = ("left", "right")


@dataclass(frozen=True)
class Held:
    """Rows that were held out once, and the models that did not see them."""

    X: pd.DataFrame
    truth: np.ndarray[Any, Any]
    fold: np.ndarray[Any, Any]
    predict: Callable[[int, pd.DataFrame], np.ndarray[Any, Any]]


def held_out(n: int = 300, folds: int = 4, *, is_regression: bool = False) -> Held:
    """Fit linear models in folds: `signal` says nearly all, `kind` a little, `noise` nothing."""
    random = np.random.default_rng(3)
    signal, noise, kind = random.normal(size=n), random.normal(size=n), random.integers(2, size=n)
    value = 2 * signal + 0.7 * kind + 0.7 * random.normal(size=n)
    X = pd.DataFrame({"noise": noise, "kind": pd.Categorical.from_codes(kind, ["no", "yes"]), "signal": signal})
    truth = 1000 * value if is_regression else np.where(value > 0.3, "right", "left")
    fold = random.permutation(n) % folds
    models = []
    for k in range(folds):
        model = LinearRegression() if is_regression else LogisticRegression()
        models.append(model.fit(numbers(X[fold != k]), truth[fold != k]))

    def predict(k: int, rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        assert isinstance(rows["kind"].dtype, pd.CategoricalDtype)  # columns keep their types
        return np.asarray((models[k].predict if is_regression else models[k].predict_proba)(numbers(rows)))

    return Held(X, truth, fold, predict)


def numbers(X: pd.DataFrame) -> np.ndarray[Any, Any]:
    return np.column_stack([X["noise"], X["kind"].cat.codes, X["signal"]])


@pytest.mark.parametrize("is_regression", [False, True])
def test_the_column_that_matters_is_first_and_noise_is_not_told_from_zero(is_regression: bool) -> None:
    held = held_out(is_regression=is_regression)
    classes = None if is_regression else CLASSES
    found = permutation_importance(held.predict, held.X, held.truth, classes, held.fold)
    assert list(found["column"]) == ["signal", "kind", "noise"]
    assert list(found.columns) == ["column", "importance", "low", "high"]
    of = found.set_index("column")
    assert of.loc["signal", "low"] > (500 if is_regression else 0.3)  # dollars, or nats
    assert of.loc["kind", "low"] > 0
    assert of.loc["noise", "low"] < 0 < of.loc["noise", "high"]
    assert ((found["low"] <= found["importance"]) & (found["importance"] <= found["high"])).all()


def test_importance_is_the_rise_of_the_loss_of_models_that_did_not_see_the_rows() -> None:
    held = held_out(60)
    asked = []

    def predict(k: int, rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        asked.append((k, rows.copy()))
        return held.predict(k, rows)

    found = permutation_importance(predict, held.X, held.truth, CLASSES, held.fold, repeats=1)
    base = np.concatenate(
        [row_losses("classification", held.truth[held.fold == k], held.predict(k, X), CLASSES) for k, X in asked[:4]]
    )
    shuffled = []
    for k, rows in asked[4:]:
        of_fold = held.X[held.fold == k]
        assert len(rows) == 3 * len(of_fold)
        for place, column in enumerate(held.X.columns):  # a block of rows per column, in which only it differs
            block = rows.iloc[place * len(of_fold) : (place + 1) * len(of_fold)].reset_index(drop=True)
            others = [name for name in held.X.columns if name != column]
            pd.testing.assert_frame_equal(block[others], of_fold[others].reset_index(drop=True))
            if column == "signal":
                shuffled.append(block["signal"].to_numpy())
                losses = row_losses("classification", held.truth[held.fold == k], held.predict(k, block), CLASSES)
                shuffled[-1] = np.column_stack([shuffled[-1], losses])
    values, losses = np.concatenate(shuffled).T
    assert sorted(values) == sorted(held.X["signal"])  # a permutation of all held-out rows, not within each fold
    assert found.set_index("column").loc["signal", "importance"] == pytest.approx(losses.mean() - base.mean())


def test_the_same_seed_gives_the_same_importance() -> None:
    held = held_out(80)
    one, two, other = (
        permutation_importance(held.predict, held.X, held.truth, CLASSES, held.fold, seed=seed) for seed in (1, 1, 2)
    )
    pd.testing.assert_frame_equal(one, two)
    assert not one.equals(other)


def test_time_that_is_up_leaves_columns_out() -> None:
    held = held_out(40)
    wide = pd.concat([held.X, pd.DataFrame({f"more-{n}": np.zeros(40) for n in range(300)})], axis=1)

    def stop_after(calls: int) -> Callable[[], bool]:
        left = iter(range(calls))
        return lambda: next(left, None) is None

    def columns(calls: int) -> int:
        stop = stop_after(calls)
        return len(permutation_importance(held.predict, wide, held.truth, CLASSES, held.fold, should_stop=stop))

    assert [columns(calls) for calls in (0, 4, 8, 12)] == [0, 0, 200, 303]


def test_a_large_table_is_sampled() -> None:
    held = held_out(2_000)
    asked = list[int]()

    def predict(k: int, rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        asked.append(len(rows))
        return held.predict(k, rows)

    found = permutation_importance(predict, held.X, held.truth, CLASSES, held.fold, repeats=2)
    assert found["column"][0] == "signal"
    assert sum(asked) == SAMPLED_ROWS * (1 + 2 * 3)  # as they are, and in two repeats of three columns


def test_the_most_uncertain_rows_are_those_between_two_classes() -> None:
    chances = np.array([[0.9, 0.05, 0.05], [0.5, 0.5, 0.0], [0.34, 0.33, 0.33], [0.5, 0.4, 0.1], [1.0, 0.0, 0.0]])
    found = most_uncertain(chances, 4)
    assert list(found["place"]) == [1, 2, 3, 0]
    assert list(found["margin"]) == pytest.approx([0.0, 0.01, 0.1, 0.85])
    assert found["entropy"][0] == pytest.approx(np.log(2))
    assert most_uncertain(np.ones((2, 1)))["entropy"].tolist() == [0.0, 0.0]


def test_the_most_wrong_rows_are_errors_the_surest_first() -> None:
    chances = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.45, 0.55]])
    found = most_wrong("classification", ["right", "left", "left", "right"], chances, CLASSES)
    assert list(found["place"]) == [0, 2, 1]  # the last row is right
    assert list(found["loss"]) == pytest.approx([-np.log(0.1), -np.log(0.2), -np.log(0.4)])
    numbers = most_wrong("regression", [1.0, 2.0, 3.0], [1.5, 2.0, 0.0], count=2)
    assert list(numbers["place"]) == [2, 0]
    assert list(numbers["loss"]) == pytest.approx([9.0, 0.25])


def test_reliability_counts_each_row_once_and_finds_a_model_that_is_too_sure() -> None:
    random = np.random.default_rng(0)
    sure = random.uniform(0.5, 1.0, size=1_000)
    is_right = random.uniform(size=1_000) < sure
    truth = np.where(is_right, "left", "right")
    found = reliability(truth, np.column_stack([sure, 1 - sure]), CLASSES)
    assert len(found) == 10
    assert found["rows"].sum() == 1_000
    assert ((found["low"] <= found["sure"]) & (found["sure"] <= found["high"])).sum() >= 8
    assert (found["right"] * found["rows"]).sum() == pytest.approx(is_right.sum())
    proud = reliability(truth, np.tile([0.99, 0.01], (1_000, 1)), CLASSES)
    assert (proud["high"] < 0.99).sum() >= 9
    assert len(reliability(truth[:7], np.tile([0.9, 0.1], (7, 1)), CLASSES)) == 1
