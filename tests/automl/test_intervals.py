"""Intervals: those of the paper's definition, their coverage, and what too few rows cannot give."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest

from hopular.automl.intervals import Array, coverage, cv_plus, rows_needed


def by_definition(predicted: Array, folds: Array, residuals: Array, level: float) -> tuple[Array, Array]:
    """The quantiles of section 1 of the paper, over all m sums of each row."""
    m, alpha = len(folds), 1 - Fraction(str(level))
    said = predicted[folds]
    low = np.sort(said - residuals[:, None], axis=0)[math.floor(alpha * (m + 1)) - 1]
    high = np.sort(said + residuals[:, None], axis=0)[math.ceil((1 - alpha) * (m + 1)) - 1]
    return low, high


def made_up(rows: int, seed: int) -> tuple[Array, Array]:
    """A curve whose noise grows."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, rows)
    return x, np.sin(6 * x) + rng.normal(size=rows) * (0.05 + 0.5 * x)


def held_out(x: Array, y: Array, folds: int, seed: int) -> tuple[list[Array], Array, Array]:
    """Polynomials fitted without a fold each, the fold of each row, and its residual."""
    fold = np.random.default_rng(seed).permutation(np.arange(len(x)) % folds)
    models = [np.polyfit(x[fold != k], y[fold != k], 4) for k in range(folds)]
    predicted = np.array([np.polyval(models[k], value) for k, value in zip(fold, x, strict=True)])
    return models, fold, np.abs(y - predicted)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize(("rows", "folds"), [(19, 1), (20, 20), (57, 8), (400, 5)])
def test_the_bounds_are_those_of_the_definition(rows: int, folds: int, level: float) -> None:
    rng = np.random.default_rng(rows)
    fold = rng.permutation(np.arange(rows) % folds)
    residuals = rng.exponential(size=rows).round(1)  # with ties
    predicted = rng.normal(size=(folds, 30)) * rng.choice([1e-3, 1.0, 50.0], 30)
    for got, expected in zip(
        cv_plus(predicted, fold, residuals, level), by_definition(predicted, fold, residuals, level), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("folds", [1, 5, 8])
def test_new_rows_are_covered_as_often_as_promised(folds: int) -> None:
    shares, measured = [], []
    for seed in range(40):
        x, y = made_up(200, seed)
        models, fold, residuals = held_out(x, y, max(folds, 2), seed)
        if folds == 1:  # split conformal: half of the rows calibrate the model of the other half
            models, residuals, fold = models[:1], residuals[fold == 0], np.zeros(int((fold == 0).sum()), int)
        new_x, new_y = made_up(1000, 1000 + seed)
        low, high = cv_plus(np.array([np.polyval(model, new_x) for model in models]), fold, residuals, 0.9)
        shares.append(((low <= new_y) & (new_y <= high)).mean())
        measured.append(coverage(fold, residuals, 0.9))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.02)
    assert np.mean(measured) == pytest.approx(np.mean(shares), abs=0.02)


def test_neither_the_order_of_rows_nor_the_names_of_folds_count() -> None:
    rng = np.random.default_rng(3)
    fold, residuals, predicted = rng.integers(0, 4, 60), rng.exponential(size=60), rng.normal(size=(4, 9))
    order, names = rng.permutation(60), rng.permutation(4)
    renamed = np.empty_like(predicted)
    renamed[names] = predicted
    before = cv_plus(predicted, fold, residuals, 0.8)
    after = cv_plus(renamed, names[fold][order], residuals[order], 0.8)
    np.testing.assert_array_equal(before, after)
    assert coverage(fold, residuals, 0.8) == coverage(names[fold][order], residuals[order], 0.8)


def test_one_fold_is_the_prediction_and_one_residual() -> None:
    low, high = cv_plus(np.array([[10.0, 20.0]]), np.zeros(9, int), np.arange(1.0, 10.0), 0.9)
    assert low.tolist() == [1.0, 11.0]
    assert high.tolist() == [19.0, 29.0]
    assert coverage(np.zeros(10, int), np.arange(10.0), 0.9) == 0.9


def test_too_few_rows_are_refused_with_the_number_that_is_needed() -> None:
    assert [rows_needed(level) for level in (0.5, 0.8, 0.9, 0.95, 0.99)] == [1, 4, 9, 19, 99]
    with pytest.raises(ValueError, match=r"level 0\.9 need 9 rows .* there are 8: use a level of at most 0\.888, or"):
        cv_plus(np.zeros((2, 3)), np.arange(8) % 2, np.ones(8), 0.9)
    with pytest.raises(ValueError, match=r"level 0\.9 need 9 rows .* there are 5"):
        coverage(np.arange(10) % 2, np.ones(10), 0.9)
    for level in (0.0, 1.0, 90, -0.1, float("nan")):
        with pytest.raises(ValueError, match=r"level of the intervals is .*: use a number between 0 and 1, such as"):
            cv_plus(np.zeros((1, 3)), np.zeros(50, int), np.ones(50), level)


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match=r"fold_of_row has 0 to 2, and there are 2 folds"):
        cv_plus(np.zeros((2, 3)), np.arange(30) % 3, np.ones(30), 0.9)
    with pytest.raises(ValueError, match=r"the shape \(30,\) and residuals \(29,\): use one per row"):
        cv_plus(np.zeros((2, 3)), np.arange(30) % 2, np.ones(29), 0.9)
    with pytest.raises(ValueError, match=r"1 of 30 residuals are not finite"):
        cv_plus(np.zeros((2, 3)), np.arange(30) % 2, np.r_[np.ones(29), np.nan], 0.9)
    with pytest.raises(ValueError, match=r"the shape \(folds, rows\), got \(3,\)"):
        cv_plus(np.zeros(3), np.arange(30) % 2, np.ones(30), 0.9)


@pytest.mark.slow
def test_many_rows_take_seconds() -> None:
    rng = np.random.default_rng(0)
    fold, residuals = np.arange(20_000) % 5, rng.exponential(size=20_000)
    predicted = rng.normal(size=(5, 100_000))
    began = time.monotonic()
    low, high = cv_plus(predicted, fold, residuals, 0.9)
    assert time.monotonic() - began < 60
    few = by_definition(predicted[:, :20], fold, residuals, 0.9)
    np.testing.assert_allclose((low[:20], high[:20]), few, rtol=1e-13, atol=1e-13)
