"""Estimators fitted together in one stack: each comes out as it would by itself, and fails by itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from hopular import HopularClassifier, HopularRegressor
from hopular.model import table
from hopular.model.table import fit_together
from hopular.model.trainer import train

SMALL = {"n_members": 2, "n_blocks": 1, "n_networks": 2, "embedding_dim": 8, "max_epochs": 12}


def numbers(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, 3)) + y[:, None], y


def some(estimator=HopularClassifier, **parameters):
    """Three estimators that differ in everything in which they may."""
    own = [{"beta": 1.0, "random_state": 0}, {"beta": 0.2, "random_state": 0}, {"beta": 5.0, "random_state": 7}]
    return [estimator(**{**SMALL, **parameters, **one}) for one in own]


class Stop:
    """Ends training after some epochs."""

    def __init__(self, epoch, error=None):
        self.epoch, self.error = epoch, error or RuntimeError("pruned")

    def on_epoch(self, progress):
        if progress.epoch == self.epoch:
            raise self.error

    def on_validation(self, progress):
        pass


def assert_equal_fits(found, expected, X):
    """Compare what two fits are good for, up to the order in which sums were taken."""
    predict = "predict_proba" if hasattr(found, "predict_proba") else "predict"
    assert getattr(found, predict)(X) == pytest.approx(getattr(expected, predict)(X), rel=1e-5, abs=1e-5)
    assert found.best_epochs_ == expected.best_epochs_
    assert [p.epoch for p in found.history_] == [p.epoch for p in expected.history_]
    assert [p.loss for p in found.history_] == pytest.approx([p.loss for p in expected.history_], abs=1e-5)
    assert np.array_equal(found.train_index_, expected.train_index_)
    assert [x.tolist() for x in found.members_] == [x.tolist() for x in expected.members_]
    for name in ("oof_proba_", "oof_prediction_"):
        assert hasattr(found, name) == hasattr(expected, name)
        if hasattr(found, name):
            expected_values = pytest.approx(getattr(expected, name), rel=1e-5, abs=1e-5, nan_ok=True)
            assert getattr(found, name) == expected_values


@pytest.mark.parametrize("estimator", [HopularClassifier, HopularRegressor])
@pytest.mark.parametrize("n_members", [1, 2])
@pytest.mark.parametrize("has_eval_set", [False, True])
def test_each_comes_out_as_by_itself(estimator, n_members, has_eval_set):
    X, y = numbers()
    eval_set = numbers(seed=1) if has_eval_set else None
    together, alone = some(estimator, n_members=n_members), some(estimator, n_members=n_members)
    assert fit_together(together, X, y, eval_set) == [None] * 3
    for found, expected in zip(together, alone, strict=True):
        assert_equal_fits(found, expected.fit(X, y, eval_set), X)
    predicted = [model.predict_proba(X) if estimator is HopularClassifier else model.predict(X) for model in together]
    assert not np.allclose(predicted[0], predicted[1], atol=1e-3)  # beta and seed do matter
    assert not np.allclose(predicted[0], predicted[2], atol=1e-3)


def test_all_are_trained_in_one_stack(monkeypatch):
    stacks = []
    monkeypatch.setattr(table, "train", lambda *given, **named: stacks.append(named["bags"]) or train(*given, **named))
    fit_together(some(), *numbers())
    assert stacks == [[0, 0, 1, 1, 2, 2]]


def test_each_stops_by_its_own_patience():
    X, y = numbers()
    wrong = (X, 1 - y)  # the more is learnt, the worse: all stop early, though not at once
    together, alone = some(max_epochs=60, patience=3), some(max_epochs=60, patience=3)
    fit_together(together, X, y, wrong)
    assert all(model.history_[-1].epoch < 60 for model in together)
    for found, expected in zip(together, alone, strict=True):
        assert_equal_fits(found, expected.fit(X, y, wrong), X)


def test_rare_categories_that_only_some_hold_out():
    """A single member learns the encoding from its own rows: with another seed it may know other categories."""
    X, y = numbers()
    frame = pd.DataFrame(X, columns=list("abc")).assign(colour=["violet", *["red", "blue"] * 29, "green"])
    models = [HopularClassifier(**{**SMALL, "n_members": 1}, random_state=seed) for seed in range(6)]
    assert fit_together(models, frame, y) == [None] * 6
    assert len({model.encoding_.widths for model in models}) > 1
    for model in models:
        assert_equal_fits(model, clone(model).fit(frame, y), frame)


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("max_epochs", (5, 6), r"max_epochs \(5 and 6\)"),
        ("gamma", (0.5, 1.0), r"gamma \(0.5 and 1.0\)"),
        ("n_members", (None, 3), r"n_members \(None and 3\)"),
        ("categorical_features", (np.array([0, 1]), np.array([0, 2])), r"categorical_features \(array\(\[0, 1\]\) and"),
    ],
)
def test_what_a_stack_shares_may_not_differ(name, values, told):
    models = [HopularClassifier(**{**SMALL, name: value}) for value in values]
    message = f"may differ in random_state and beta only, not in {told}.*. Fit them one by one"
    with pytest.raises(ValueError, match=message):
        fit_together(models, *numbers())
    for model in models:
        assert not hasattr(model, "network_")


def test_categorical_features_of_equal_content_do_not_differ():
    models = [HopularClassifier(**{**SMALL, "max_epochs": 1}, categorical_features=[c]) for c in (0, np.int64(0))]
    assert fit_together(models, np.column_stack([np.arange(60) % 3, numbers()[0]]), numbers()[1]) == [None, None]


def test_classes_may_not_differ():
    with pytest.raises(ValueError, match=r"not in class \(HopularClassifier and HopularRegressor\)"):
        fit_together([HopularClassifier(**SMALL), HopularRegressor(**SMALL)], *numbers())


def test_hooks_of_another_number_of_estimators_are_refused():
    with pytest.raises(ValueError, match="hooks must hold a sequence for each of the 3 estimators, not 2"):
        fit_together(some(), *numbers(), hooks=[[], []])


# --------------------------------------------------------------------------------------------------------------- errors


def test_an_error_of_one_hook_is_that_estimators_alone():
    X, y = numbers()
    together = some()
    together[1].fit(X[:, ::-1], y)
    before = together[1].predict_proba(X)
    results = fit_together(together, X, y, hooks=[[], [Stop(3)], []])
    assert [type(result) for result in results] == [type(None), RuntimeError, type(None)]
    assert str(results[1]) == "pruned"
    assert np.array_equal(together[1].predict_proba(X), before)  # as it was
    for place, expected in enumerate(some()):
        if place != 1:
            assert_equal_fits(together[place], expected.fit(X, y), X)


def test_an_estimator_whose_hook_failed_is_not_fitted_if_it_was_not_before():
    together = some()
    fit_together(together, *numbers(), hooks=[[Stop(1)], [], []])
    with pytest.raises(NotFittedError):
        together[0].predict(numbers()[0])
    assert set(vars(together[0])) == set(vars(some()[0]))


def test_an_interrupt_leaves_all_as_they_were():
    X, y = numbers()
    together = some()
    together[2].fit(X, y)
    before = together[2].predict_proba(X)
    with pytest.raises(KeyboardInterrupt):
        fit_together(together, X[:, ::-1], y, hooks=[[Stop(2, KeyboardInterrupt())], [], []])
    assert not hasattr(together[0], "encoding_")
    assert np.array_equal(together[2].predict_proba(X), before)


def test_bad_input_leaves_all_as_they_were():
    together = some()
    with pytest.raises(ValueError, match="y has one class only"):
        fit_together(together, numbers()[0], np.zeros(60, dtype=int))
    assert all(set(vars(model)) == set(vars(HopularClassifier())) for model in together)
