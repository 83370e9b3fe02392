"""What the stored rows are good for beside prediction: retrieval of neighbours, and imputation."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
import torch

from hopular import HopularClassifier, HopularRegressor
from hopular.model import prediction
from tests.model.test_estimator import LEARNS, SMALL, held_out, member, messy, numbers


@pytest.fixture(scope="module")
def classifier():
    return HopularClassifier(**LEARNS).fit(*messy())


# ------------------------------------------------------------------------------------------------------------- retrieve


def test_retrieved_rows_and_weights(classifier):
    rows, weights = classifier.retrieve(messy(seed=1)[0], k=7)
    assert rows.shape == weights.shape == (150, 7)
    assert np.isin(rows, classifier.train_index_).all()  # so rows held out never appear
    assert (np.diff(weights, axis=1) <= 0).all()
    assert (weights >= 0).all()
    assert all(len(set(row)) == 7 for row in rows)


def test_all_weights_sum_to_one(classifier):
    k = len(classifier.train_index_)
    rows, weights = classifier.retrieve(messy(seed=1)[0].iloc[:5], k)
    assert weights.sum(1) == pytest.approx(1, abs=1e-5)
    for row in rows:
        assert sorted(row) == classifier.train_index_.tolist()
    top = classifier.retrieve(messy(seed=1)[0].iloc[:5], 3)
    assert np.array_equal(top[1], weights[:, :3])


@pytest.mark.parametrize("k", [0, -1, 1000])
def test_k_out_of_range(classifier, k):
    stored = len(classifier.train_index_)
    with pytest.raises(ValueError, match=f"k must be an integer from 1 to the {stored} stored rows, not {k}"):
        classifier.retrieve(messy()[0], k)


def test_k_that_is_no_integer(classifier):
    with pytest.raises((TypeError, ValueError), match=r"k must be .*, not 2\.5"):
        classifier.retrieve(messy()[0], 2.5)


@pytest.fixture(scope="module")
def three():
    return HopularClassifier(**{**LEARNS, "n_members": 3}).fit(*messy())


def test_weights_are_the_mean_of_the_members(three):
    """A member gives no weight to rows that it held out; all together read every row."""
    frame = messy(seed=1)[0].iloc[:20]
    mean = np.zeros((20, 150))
    for k, rows in enumerate(held_out(three)):
        of_member = member(three, k)
        places, weights = of_member.retrieve(frame, len(of_member.train_index_))
        assert not np.isin(places, rows).any()
        np.put_along_axis(each := np.zeros((20, 150)), places, weights, axis=1)
        mean += each / 3
    places, weights = three.retrieve(frame, 150)
    assert np.take_along_axis(mean, places, axis=1) == pytest.approx(weights, abs=1e-6)
    assert weights.sum(1) == pytest.approx(1, abs=1e-5)
    assert sorted(places[0]) == list(range(150))


def test_neighbours_do_not_depend_on_how_rows_are_cut(three, monkeypatch):
    frame = messy(seed=1)[0]
    rows, weights = three.retrieve(frame, 4)
    monkeypatch.setattr(prediction, "CHUNK_ROWS", 7)
    again = three.retrieve(frame, 4)
    assert again[1] == pytest.approx(weights, abs=1e-6)
    assert (again[0] == rows).mean() > 0.99  # but for ties


def test_where_queries_equal_keys_rows_are_read_from_their_nearest_neighbours():
    """Training decides what is similar, even that opposite rows tell most; here similar is made to mean close."""
    X, y = numbers()
    model = HopularClassifier(**{**SMALL, "max_epochs": 1}, beta=10.0, embedding="sum").fit(X, y)  # waves come around
    with torch.no_grad():
        for block in model.network_.blocks:
            block.samples.query.load_state_dict(block.samples.key.state_dict())
    stored = model.train_index_
    rows, weights = model.retrieve(X[stored], k=5)
    assert (rows == stored[:, None]).any(1).mean() > 0.6  # itself among them; by chance 5 / 48
    assert (y[rows] == y[stored, None]).mean() > 0.9
    assert weights[:, 0].mean() > 3 / len(stored)


# --------------------------------------------------------------------------------------------------------------- impute


def test_impute_fills_every_kind_of_column_and_changes_nothing_else(classifier):
    frame, _ = messy(seed=1)
    before = frame.copy()
    filled = classifier.impute(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert not filled.isna().any().any()
    assert filled.dtypes.to_dict() == frame.dtypes.to_dict()
    assert filled.index.equals(frame.index)
    for name in frame:
        present = frame[name].notna()
        pd.testing.assert_series_equal(filled.loc[present, name], frame.loc[present, name])
    assert set(filled["colour"]) == {"red", "green", "blue"}
    assert set(filled["grade"]) == {"A", "B", "C"}
    assert set(filled["open"]) == {True, False}
    assert filled["day"].between("2023-06-01", "2025-01-01").all()


def test_impute_beats_the_column_mean_on_correlated_columns():
    rng = np.random.default_rng(0)
    a = rng.normal(size=200)
    truth = pd.DataFrame({"a": a, "b": 5 * a + rng.normal(0, 0.5, 200), "c": rng.normal(0, 0.1, 200) - a})
    holes = rng.random(truth.shape) < 0.15
    frame = truth.mask(holes)
    filled = HopularRegressor(**{**SMALL, "max_epochs": 120}).fit(frame, a).impute(frame)

    def error(guess):
        return np.sqrt((((guess - truth) / truth.std()).to_numpy()[holes] ** 2).mean())

    assert error(filled) < 0.6 * error(frame.fillna(frame.mean()))


def test_imputed_numbers_are_the_mean_of_the_members(three):
    frame = messy(seed=1)[0]
    where = frame["size"].isna()
    each = [member(three, k).impute(frame).loc[where, "size"] for k in range(3)]
    assert three.impute(frame).loc[where, "size"].to_numpy() == pytest.approx(np.mean(each, axis=0), abs=1e-5)
    assert np.std(each, axis=0).mean() > 0


def test_imputed_categories_are_the_likeliest_by_the_mean_of_the_members(three):
    frame = messy(seed=1)[0]
    where = frame["colour"].isna()
    each = np.stack([member(three, k).impute(frame).loc[where, "colour"] for k in range(3)])
    agreed = (each == each[0]).all(0)
    assert agreed.any()
    assert (three.impute(frame).loc[where, "colour"].to_numpy()[agreed] == each[0, agreed]).all()


def test_impute_an_array():
    X, y = numbers()
    X[::7, 1] = np.nan
    filled = HopularClassifier(**SMALL).fit(X, y).impute(X)
    assert not filled.isna().any().any()
    assert np.array_equal(filled["x0"], X[:, 0])


def test_impute_keeps_rows_of_one_label_apart():
    X, y = numbers()
    frame = pd.DataFrame(X, columns=list("abc")).mask(np.arange(60)[:, None] % 7 == [0, 1, 2])
    model = HopularClassifier(**SMALL).fit(frame, y)
    same_label = model.impute(frame.set_axis([0] * 60))
    assert same_label.to_numpy().tolist() == model.impute(frame).to_numpy().tolist()


DAY = datetime.date(2024, 1, 1)
HOLES = {
    "nullable boolean": pd.array([True, None, False, True] * 15, dtype="boolean"),
    "objects, dates": pd.Series([DAY, None, DAY + datetime.timedelta(9), DAY] * 15, dtype=object),
    "objects, booleans": pd.Series([True, None, False, True] * 15, dtype=object),
    "float32": pd.Series([1.5, None, 2.5, 3.5] * 15, dtype="float32"),
    "date with time zone": pd.Series(pd.to_datetime(["2024", None, "2025", "2026"] * 15)).dt.tz_localize("CET"),
    "duration": pd.to_timedelta([1, None, 3, 4] * 15, unit="h"),
    "category of numbers": pd.Categorical([1, None, 2, 3] * 15),
}


@pytest.mark.parametrize("column", HOLES.values(), ids=HOLES.keys())
def test_imputed_values_have_the_type_of_the_others(column):
    X, y = numbers()
    frame = pd.DataFrame({"x": X[:, 0], "c": column})
    filled = HopularClassifier(**{**SMALL, "max_epochs": 2}).fit(frame, y).impute(frame)["c"]
    assert filled.dtype == frame["c"].dtype
    assert not filled.isna().any()
    assert isinstance(filled[1], type(filled[0]))


def test_impute_leaves_unused_columns_and_unseen_categories_alone():
    X, y = numbers()
    frame = pd.DataFrame({"x": X[:, 0], "constant": [1.0, None] * 30, "colour": ["red", "blue", None] * 20})
    with pytest.warns(UserWarning, match="column 'constant' has a single value"):
        model = HopularClassifier(**SMALL).fit(frame, y)
    frame.loc[0, "colour"] = "violet"
    filled = model.impute(frame)
    pd.testing.assert_frame_equal(filled[["x", "constant"]], frame[["x", "constant"]])
    assert filled["colour"][0] == "violet"
    assert set(filled["colour"]) == {"red", "blue", "violet"}


@pytest.mark.parametrize("row", [{"colour": np.nan}, {"open": np.nan}, {"grade": np.nan}, {"colour": None}], ids=repr)
def test_impute_a_column_of_which_every_value_is_missing(classifier, row):
    """A frame of one row has NaN in a float column, whatever the type of the column was in training."""
    frame = messy(seed=1)[0].iloc[:2].assign(**row)
    name = next(iter(row))
    known = set(messy()[0][name].dropna())
    assert set(classifier.impute(frame)[name]) <= known
