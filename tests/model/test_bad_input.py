"""Bad input: each kind is a clear error, or a documented result with a warning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hopular import HopularClassifier, HopularRegressor

SMALL = {"n_members": 1, "n_blocks": 1, "n_networks": 2, "embedding_dim": 8, "max_epochs": 5, "random_state": 0}
N = 24
LABELS = ["no", "yes"] * (N // 2)


def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"size": rng.normal(size=N), "colour": rng.choice(["red", "blue"], N)})


def fit(X, y=LABELS, **parameters):
    return HopularClassifier(**SMALL, **parameters).fit(X, y)


@pytest.fixture(scope="module")
def model():
    return fit(table())


# ----------------------------------------------------------------------------------------------------------- empty, few


@pytest.mark.parametrize("X", [table().iloc[:0], np.empty((0, 2)), pd.DataFrame()], ids=["frame", "array", "nothing"])
def test_fit_without_rows(X):
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\) .* Give X at least one sample"):
        fit(X, [])


def test_predict_without_rows(model):
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        model.predict(table().iloc[:0])


@pytest.mark.parametrize("X", [table()[[]], np.empty((N, 0))], ids=["frame", "array"])
def test_no_feature(model, X):
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\) .* Give X at least one feature"):
        fit(X)
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\)"):
        model.predict(X)


def test_one_row_is_too_few_to_fit():
    with pytest.raises(ValueError, match="Found n_samples=1: training needs at least 2 rows"):
        HopularRegressor(**SMALL).fit(table().iloc[:1], [1.0])
    with pytest.raises(ValueError, match=r"y has one class only, 'no': a"):
        fit(table().iloc[:1], ["no"])


def test_one_row_is_enough_to_predict(model):
    assert model.predict_proba(table().iloc[[3]]) == pytest.approx(model.predict_proba(table())[[3]], abs=1e-5)


# --------------------------------------------------------------------------------------------------------------- target


def test_one_class():
    with pytest.raises(ValueError, match=r"y has one class only, 'yes': a classifier needs at least two classes"):
        fit(table(), ["yes"] * N)


MISSING_LABELS = {
    "list of strings and None": [None, *LABELS[1:]],
    "list of strings and NaN": [np.nan, *LABELS[1:]],
    "object array": np.array([np.nan, *LABELS[1:]], dtype=object),
    "series of strings": pd.Series([None, *LABELS[1:]]),
    "string dtype": pd.Series([pd.NA, *LABELS[1:]], dtype="string"),
    "category": pd.Series([None, *LABELS[1:]], dtype="category"),
    "floats": [np.nan] + [0.0, 1.0] * (N // 2 - 1) + [0.0],
    "nullable integers": pd.array([None] + [0, 1] * (N // 2 - 1) + [0], dtype="Int64"),
}


@pytest.mark.parametrize("y", MISSING_LABELS.values(), ids=MISSING_LABELS.keys())
def test_missing_labels(y):
    with pytest.raises(ValueError, match=r"Input y contains NaN: labels are missing in 1 row. Drop these rows"):
        fit(table(), y)


MISSING_NUMBERS = {
    "NaN": np.array([np.nan, *range(N - 1)]),
    "None": [None, *range(N - 1)],
    "pd.NA": pd.array([pd.NA, *range(N - 1)], dtype="Int64"),
    "infinity": np.array([np.inf, *range(N - 1)]),
}


@pytest.mark.parametrize("y", MISSING_NUMBERS.values(), ids=MISSING_NUMBERS.keys())
def test_missing_target_numbers(y):
    with pytest.raises(ValueError, match=r"Input y contains NaN or infinity in 1 row. Drop these rows"):
        HopularRegressor(**SMALL).fit(table(), y)


def test_text_is_no_target_for_a_regressor():
    with pytest.raises(ValueError, match=r"y must be numbers for a regressor .* use HopularClassifier for labels"):
        HopularRegressor(**SMALL).fit(table(), LABELS)


def test_continuous_numbers_are_no_target_for_a_classifier():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        fit(table(), np.linspace(0, 1, N))


@pytest.mark.parametrize("estimator", [HopularClassifier, HopularRegressor])
def test_y_of_another_length(estimator):
    with pytest.raises(ValueError, match=f"X has {N} rows and y has {N - 2}: inconsistent numbers of samples"):
        estimator(**SMALL).fit(table(), np.arange(N - 2) % 2)


def test_y_missing_altogether():
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        fit(table(), None)


# -------------------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    ("values", "state"),
    [([np.nan] * N, "only missing values"), ([None] * N, "only missing values"), ([7] * N, "a single value")],
    ids=["NaN", "None", "constant"],
)
def test_uninformative_column_is_left_out_with_a_warning(model, values, state):
    with pytest.warns(UserWarning, match=f"column 'void' has {state} in the training rows and is left out"):
        fitted = fit(table().assign(void=values))
    assert fitted.n_features_in_ == 3
    expected = model.predict_proba(table())
    assert np.array_equal(fitted.predict_proba(table().assign(void=values)), expected)
    assert np.array_equal(fitted.predict_proba(table().assign(void="anything")), expected)


def test_all_columns_constant():
    with (
        pytest.warns(UserWarning, match="column 'b' has only missing values"),
        pytest.warns(UserWarning, match="column 'a' has a single value"),
        pytest.raises(ValueError, match="no usable feature: all 2 columns are constant or empty in the training rows"),
    ):
        fit(pd.DataFrame({"a": [1] * N, "b": [None] * N}))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values(model, value):
    frame = table()
    frame.loc[4, "size"] = value
    with pytest.raises(ValueError, match=r"Input X contains infinity in column 'size'. Replace it by"):
        fit(frame)
    with pytest.raises(ValueError, match="Input X contains infinity in column 'size'"):
        model.predict(frame)
    with pytest.raises(ValueError, match="Input X contains infinity in column 'x0'"):
        fit(frame[["size"]].to_numpy())


def test_duplicated_column_names(model):
    frame = table().set_axis(["size", "size"], axis=1)
    message = r"column names must be unique; these occur more than once: \['size'\]. Rename them"
    with pytest.raises(ValueError, match=message):
        fit(frame)
    with pytest.raises(ValueError, match=message):
        model.predict(frame)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "retrieve", "impute"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rename(columns={"size": "weight"}), "(?s)unseen at fit time:\n- weight.*now missing:\n- size"),
        (lambda f: f.drop(columns="colour"), "(?s)seen at fit time, yet now missing:\n- colour"),
        (lambda f: f.assign(extra=1), "unseen at fit time:\n- extra"),
        (lambda f: f[["colour", "size"]], "must be in the same order"),
    ],
    ids=["renamed", "dropped", "added", "reordered"],
)
def test_columns_at_predict_that_differ_are_named(model, method, change, message):
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(change(table()))


def test_columns_of_eval_set_that_differ_are_named():
    with pytest.raises(ValueError, match="unseen at fit time:\n- weight"):
        HopularClassifier(**SMALL).fit(table(), LABELS, eval_set=(table().rename(columns={"size": "weight"}), LABELS))


def test_array_of_another_width():
    model = fit(table()[["size"]].to_numpy())
    with pytest.raises(ValueError, match="X has 2 features, but HopularClassifier is expecting 1 features"):
        model.predict(np.zeros((3, 2)))


def test_one_dimensional_array():
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        fit(np.arange(N))


def test_sparse_matrix(model):
    X = sparse.csr_matrix(np.eye(N, 2))
    with pytest.raises(TypeError, match="Sparse data was passed"):
        fit(X)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        model.predict(X)


# ------------------------------------------------------------------------------------------------------------- eval_set


def test_eval_set_that_is_no_pair():
    with pytest.raises(ValueError, match=r"eval_set must be a tuple \(X, y\) or \(X, y, sample_weight\), not list"):
        HopularClassifier(**SMALL).fit(table(), LABELS, eval_set=[(table(), LABELS)])


def test_eval_set_of_unequal_lengths():
    with pytest.raises(ValueError, match=f"eval_set has {N} rows of X and {N - 1} of y"):
        HopularClassifier(**SMALL).fit(table(), LABELS, eval_set=(table(), LABELS[1:]))
