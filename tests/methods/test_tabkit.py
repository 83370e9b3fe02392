"""RealMLP and TabM, through a stand-in for pytabkit where that is not installed."""

from __future__ import annotations

import sys
import types
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from hopular.methods import MethodError, Run, get_method, methods
from hopular.methods.tabkit import TabkitClassifier, TabkitRegressor
from tests.methods.test_classical import MODERN, classes_of, make, output, table, target

pytestmark = pytest.mark.filterwarnings("error")

# --------------------------------------------------------------------------------------------------- optional: pytabkit


class FakeTabkit(BaseEstimator):
    """Takes what pytabkit's estimators take, as documented, and remembers it."""

    def __init__(self, device=None, random_state=None, n_threads=None, verbosity=0, **settings):
        self.constructed = {"device": device, "random_state": random_state, "n_threads": n_threads, **settings}

    def fit(self, X, y, X_val=None, y_val=None, val_idxs=None, cat_indicator=None, cat_col_names=None,
            time_to_fit_in_seconds=None):  # fmt: skip
        self.called = {
            "X": X,
            "y": y,
            "X_val": X_val,
            "y_val": y_val,
            "cat": cat_col_names,
            "t": time_to_fit_in_seconds,
        }
        return self

    def predict_proba(self, X):
        assert not X.isna().any(axis=None)
        return np.full((len(X), 3), 1 / 3, dtype=np.float32)

    def predict(self, X):
        return np.full(len(X), 0.5, dtype=np.float32)


@pytest.fixture
def fake(monkeypatch):
    names = [f"{family}_{kind}" for family in ("RealMLP_TD", "TabM_D") for kind in ("Classifier", "Regressor")]
    monkeypatch.setitem(sys.modules, "pytabkit", types.SimpleNamespace(**dict.fromkeys(names, FakeTabkit)))


@pytest.mark.parametrize("name", MODERN)
@pytest.mark.usefixtures("fake")
def test_pytabkit_gets_codes_validation_rows_and_circumstances(name):
    X, number = table()
    y = classes_of(number, 3)
    model = methods()[name].make("classification", {"lr": 0.1}, Run(seed=3, device="cuda", max_seconds=9.5))
    assert isinstance(clone(model), TabkitClassifier)
    strange = y.astype(str)
    strange[0] = "never seen"
    model.fit(X, y, eval_set=(X, strange))
    inner = model.estimator_.model_
    assert inner.constructed == {"device": "cuda:0", "random_state": 3, "n_threads": 1, "lr": 0.1}
    assert inner.called["cat"] == [c for c in inner.called["X"] if inner.called["X"][c].dtype == int]
    assert not inner.called["X"].isna().any(axis=None)
    assert len(inner.called["X_val"]) == len(inner.called["y_val"]) == len(X) - 1
    assert inner.called["t"] == 9
    assert model.predict_proba(X).sum(1) == pytest.approx(1)
    with pytest.raises(NotImplementedError, match="pickle"):
        model.save("anywhere")


@pytest.mark.parametrize("name", MODERN)
@pytest.mark.usefixtures("fake")
def test_pytabkit_for_regression_and_without_anything_to_learn(name):
    X, number = table()
    model = methods()[name].make("regression", {}, Run())
    assert isinstance(model, TabkitRegressor)
    assert model.fit(X, number, eval_set=(X, number)).predict(X).tolist() == [0.5] * len(X)
    assert model.estimator_.model_.called["t"] is None
    constant = X[["same"]]
    assert model.fit(constant, number).predict(constant)[0] == pytest.approx(number.mean())


@pytest.mark.parametrize("name", MODERN)
@pytest.mark.usefixtures("fake")
def test_validation_rows_of_unknown_classes_alone_are_none(name):
    X, number = table()
    y = classes_of(number, 3)
    model = methods()[name].make("classification", {}, Run()).fit(X, y, eval_set=(X, y.astype(str) + " unknown"))
    assert model.estimator_.model_.called["X_val"] is None


@pytest.mark.parametrize("name", MODERN)
def test_without_pytabkit_the_command_is_named(name, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(MethodError, match=r"pip install 'hopular\[modern\]'"):
        get_method(name)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", MODERN)
@pytest.mark.filterwarnings("default")
def test_with_pytabkit(name, task):
    pytest.importorskip("pytabkit", reason="needs pytabkit: pip install 'hopular[modern]'")
    X, number = table(300)
    y = target(number, task, 2)
    model = get_method(name).make(task, {"n_epochs": 30}, Run())
    model.fit(X[:200], y[:200], eval_set=(X[200:], y[200:]))
    assert np.isfinite(output(model, X, task)).all()
    assert model.score(X[200:], y[200:]) > 0.5


def test_warnings_of_users_are_untouched():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        X, number = table(40)
        make("logistic").fit(X, classes_of(number, 2))
        warnings.warn("mine", stacklevel=1)
    assert [str(w.message) for w in caught] == ["mine"]
