"""Messy columns become float32 rows: kinds, missing values, categories, standardisation, order, and clear errors."""

from __future__ import annotations

import datetime
import json
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hopular.model.columns import as_frame, is_categorical
from hopular.model.encoding import MAX_CATEGORIES, Attribute, Encoding, learn_encoding

TARGET = Attribute("target", "categorical", -1, categories=("0", "1", "2"))
DAY = datetime.date(2024, 1, 1)


def learn(frame, categorical=()):
    return learn_encoding(frame, set(categorical), TARGET)


def encoded(encoding, frame, name):
    place = next(i for i, a in enumerate(encoding.attributes) if a.name == name)
    return encoding.encode(frame)[:, place].numpy()


# --------------------------------------------------------------------------------------------------------- column kinds

CONTINUOUS = {
    "float": pd.Series([1.5, np.nan, 2.0]),
    "int": pd.Series([1, 2, 3]),
    "datetime": pd.Series(pd.to_datetime(["2024-01-01", None, "2024-01-03"])),
    "datetime with time zone": pd.Series(pd.to_datetime(["2024-01-01", None, "2024-01-03"]).tz_localize("CET")),
    "timedelta": pd.Series(pd.to_timedelta([1, None, 3], unit="D")),
    "Int64": pd.Series([1, None, 3], dtype="Int64"),
    "Float64": pd.Series([1.0, None, 3.0], dtype="Float64"),
    "object of numbers": pd.Series([1, 2.5, None], dtype=object),
    "object of decimals": pd.Series([Decimal("1.5"), None, Decimal(2)], dtype=object),
    "object of dates": pd.Series([DAY, None, DAY + datetime.timedelta(2)], dtype=object),
    "object of timestamps": pd.Series([pd.Timestamp("2024-01-01"), pd.NaT, pd.Timestamp("2024-01-03")], dtype=object),
    "object of durations": pd.Series([datetime.timedelta(1), None, datetime.timedelta(3)], dtype=object),
}
CATEGORICAL = {
    "bool": pd.Series([True, False, True]),
    "string": pd.Series(["a", None, "b"]),
    "object of strings": pd.Series(["a", None, "b"], dtype=object),
    "category": pd.Series(["a", None, "b"], dtype="category"),
    "category of numbers": pd.Series([1, None, 2], dtype="category"),
    "boolean": pd.Series([True, None, False], dtype="boolean"),
    "string dtype": pd.Series(["a", None, "b"], dtype="string"),
    "object of booleans": pd.Series([True, None, False], dtype=object),
    "object of numbers and strings": pd.Series([1, "a", None], dtype=object),
    "object of floats and strings": pd.Series([1.5, "a", pd.NA], dtype=object),
}


@pytest.mark.parametrize("column", CONTINUOUS.values(), ids=CONTINUOUS.keys())
def test_numbers_dates_and_durations_are_continuous(column):
    assert not is_categorical(column, "c")
    values = encoded(learn(column.to_frame("c")), column.to_frame("c"), "c")
    assert np.array_equal(np.isnan(values), column.isna())
    assert np.nanmean(values) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("column", CATEGORICAL.values(), ids=CATEGORICAL.keys())
def test_strings_booleans_and_categories_are_categorical(column):
    assert is_categorical(column, "c")
    codes = encoded(learn(column.to_frame("c")), column.to_frame("c"), "c")
    assert np.array_equal(np.isnan(codes), column.isna())
    assert set(codes[~np.isnan(codes)]) == {0, 1}


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT], ids=["None", "nan", "NA", "NaT"])
@pytest.mark.parametrize("values", [[1.0, 2.0], ["a", "b"], [True, False], [DAY, DAY + datetime.timedelta(1)]])
def test_every_missing_marker_becomes_nan(values, missing):
    frame = pd.DataFrame({"c": pd.Series([*values, missing], dtype=object)})
    assert np.isnan(encoded(learn(frame), frame, "c")).tolist() == [False, False, True]


def test_a_date_means_the_same_as_object_timestamp_and_with_time_zone():
    dates = pd.Series(pd.to_datetime(["2024-01-01", "2024-01-05", "2024-03-01"]))
    encoding = learn(dates.to_frame("c"))
    expected = encoded(encoding, dates.to_frame("c"), "c")
    for same in (dates.dt.date.astype(object), dates.astype(object), dates.dt.tz_localize("UTC")):
        np.testing.assert_allclose(encoded(encoding, same.to_frame("c"), "c"), expected, rtol=1e-6)


# ----------------------------------------------------------------------------------------------------------- categories


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int64", "Float64", "str", "object", "category", "string"])
def test_categories_survive_a_change_of_dtype(dtype):
    encoding = learn(pd.DataFrame({"c": [1, 2, 10, 1]}), categorical=[0])
    later = pd.DataFrame({"c": pd.Series([10, 1, 2]).astype(dtype)})
    assert encoding.attributes[encoding.widths.index(3)].categories == ("1", "10", "2")
    assert encoded(encoding, later, "c").tolist() == [1, 0, 2]


def test_unseen_category_is_missing():
    encoding = learn(pd.DataFrame({"c": ["a", "b", "a"]}))
    codes = encoded(encoding, pd.DataFrame({"c": ["b", "zebra", "a"]}), "c")
    np.testing.assert_array_equal(codes, [1, np.nan, 0])


def test_rare_categories_beyond_the_limit_count_as_missing():
    frequent = [f"f{i}" for i in range(MAX_CATEGORIES)]
    rare = [f"r{i}" for i in range(200)]
    with pytest.warns(UserWarning, match="column 'c' has 1200 categories; the 1000 most frequent are kept"):
        encoding = learn(pd.DataFrame({"c": frequent * 2 + rare}))
    assert max(encoding.widths) == MAX_CATEGORIES
    assert np.isnan(encoded(encoding, pd.DataFrame({"c": rare}), "c")).all()
    assert not np.isnan(encoded(encoding, pd.DataFrame({"c": frequent}), "c")).any()


def test_decode_reverses_encode():
    frame = pd.DataFrame({"x": [1.0, 4.0, 9.0], "c": ["a", "b", "a"]})
    encoding = learn(frame)
    for attribute in encoding.attributes:
        if attribute.name in frame:
            back = pd.Series(attribute.decode(encoded(encoding, frame, attribute.name)))
            pd.testing.assert_series_equal(back, frame[attribute.name], check_dtype=False, check_names=False)


# -------------------------------------------------------------------------------------------- standardisation and order


def test_numbers_are_standardised_with_the_training_rows():
    rng = np.random.default_rng(0)
    train = pd.DataFrame({"x": rng.normal(50, 9, 300), "y": rng.exponential(1e-6, 300)})
    encoding = learn(train)
    for name in train:
        values = encoded(encoding, train, name)
        assert values.mean() == pytest.approx(0, abs=1e-5)
        assert values.std() == pytest.approx(1, abs=1e-5)
    later = pd.DataFrame({"x": [train["x"].mean() + 3 * train["x"].std(ddof=0)], "y": [train["y"].mean()]})
    assert encoded(encoding, later, "x")[0] == pytest.approx(3, abs=1e-4)


def test_large_offset_keeps_small_differences():
    frame = pd.DataFrame({"x": 1e9 + np.arange(4.0)})
    assert encoded(learn(frame), frame, "x").std() == pytest.approx(1, abs=1e-5)


def test_decoding_the_network_s_float32_keeps_a_large_offset():
    seconds = Attribute("day", "continuous", 0, mean=1.7e9, scale=100.0)
    assert seconds.decode(np.array([0.1, 0.2], dtype=np.float32)) == pytest.approx([1.7e9 + 10, 1.7e9 + 20], abs=0.01)


def test_a_far_outlier_stays_finite():
    encoding = learn(pd.DataFrame({"x": [0.0, 1.0, 2.0]}))
    assert np.isfinite(encoded(encoding, pd.DataFrame({"x": [1e300]}), "x")).all()


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ([3.0, 3.0, 3.0], "a single value"),
        ([0.3, 0.1 + 0.2, 0.3], "a single value"),
        ([3.0, np.nan, 3.0], "a single value"),
        (["a", "a", None], "a single value"),
        ([True, True, True], "a single value"),
        ([np.nan] * 3, "only missing values"),
        ([None] * 3, "only missing values"),
        ([pd.NaT] * 3, "only missing values"),
    ],
)
def test_constant_and_empty_columns_are_left_out_with_a_warning(values, state):
    frame = pd.DataFrame({"c": values, "x": [1.0, 2.0, 3.0]})
    with pytest.warns(UserWarning, match=f"column 'c' has {state} in the training rows and is left out"):
        encoding = learn(frame)
    assert [a.name for a in encoding.attributes] == ["x", "target"]
    assert encoding.encode(frame).shape == (3, 2)


def test_attributes_are_sorted_by_width_with_the_target_among_them():
    frame = pd.DataFrame({"five": list("abcde"), "two": list("abaab"), "x": range(5), "y": [0.5, 1, 2, 3, 9]})
    encoding = learn(frame)
    assert [a.name for a in encoding.attributes] == ["x", "y", "two", "target", "five"]
    assert encoding.widths == (1, 1, 2, 3, 5)
    assert encoding.target == 3
    rows = encoding.encode(frame, np.array([0, 1, 2, 1, 0]))
    assert rows[:, 3].tolist() == [0, 1, 2, 1, 0]
    assert rows[:, 4].tolist() == [0, 1, 2, 3, 4]
    assert encoding.encode(frame)[:, 3].isnan().all()


def test_json_round_trip():
    frame = pd.DataFrame({"x": [0.1, 0.2, 1 / 3], "c": ["a", "b", "ü"], "d": pd.date_range("2024", periods=3)})
    encoding = learn(frame)
    back = Encoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert back == encoding
    assert torch.equal(back.encode(frame).nan_to_num(-1), encoding.encode(frame).nan_to_num(-1))


# --------------------------------------------------------------------------------------------------------------- errors


def test_an_array_gets_column_names():
    assert list(as_frame(np.zeros((2, 3))).columns) == ["x0", "x1", "x2"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "object"])
def test_infinity_is_an_error(dtype):
    frame = pd.DataFrame({"size": pd.Series([1.0, np.inf, 2.0]).astype(dtype)})
    with pytest.raises(ValueError, match="Input X contains infinity in column 'size'"):
        learn(frame)


def test_duplicated_column_names_are_an_error():
    with pytest.raises(ValueError, match=r"column names must be unique; these occur more than once: \['a'\]"):
        as_frame(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]))


@pytest.mark.parametrize("value", [{"k": 1}, [1, 2], object()], ids=["dict", "list", "object"])
def test_values_that_are_no_category_are_an_error(value):
    kind = type(value).__name__
    with pytest.raises(TypeError, match=f"column 'c' holds a {kind} .* must be a string or a number"):
        learn(pd.DataFrame({"c": pd.Series([value, "a"], dtype=object)}))


def test_complex_numbers_are_an_error():
    with pytest.raises(ValueError, match="Complex data not supported: column 'c' holds complex numbers"):
        learn(pd.DataFrame({"c": [1 + 2j, 3]}))


def test_numeric_column_that_became_text_is_named():
    encoding = learn(pd.DataFrame({"size": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="column 'size' was numeric when the model was fitted and now holds other"):
        encoding.encode(pd.DataFrame({"size": ["large"]}))


def test_no_usable_feature_is_an_error():
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="no usable feature: all 2 columns are constant or empty"),
    ):
        learn(pd.DataFrame({"a": [1, 1], "b": [None, None]}))


# ------------------------------------------------------------------------------------------------------------- property

FLOATS = st.floats(allow_nan=True, allow_infinity=False)
TEXTS = st.none() | st.text(max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(FLOATS, TEXTS), min_size=1, max_size=12), st.lists(TEXTS, max_size=5))
def test_any_frame_encodes_to_float32_with_codes_in_range(rows, later):
    frame = pd.DataFrame({"x": [r[0] for r in rows], "c": pd.Series([r[1] for r in rows], dtype=object), "y": 0.0})
    frame["y"] += np.arange(len(frame))
    frame.loc[len(frame)] = [np.nan, None, -1.0]  # so that y at least is informative
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns, and overflow at the ends of the float range
        encoding = learn(frame)
    values = encoding.encode(frame)
    assert values.dtype == torch.float32
    assert values.shape == (len(frame), len(encoding.attributes))
    assert not values.isinf().any()
    for place, attribute in enumerate(encoding.attributes):
        if attribute.name == "c":
            others = attribute.encode(pd.Series([*frame["c"], *later], dtype=object))
            seen = others[~np.isnan(others)]
            assert np.array_equal(values[:, place].isnan(), frame["c"].isna())
            assert np.isin(seen, np.arange(attribute.width)).all()
        elif attribute.name in frame:
            assert np.array_equal(values[:, place].isnan(), frame[attribute.name].isna())
