"""Columns become typed values by rules that are simple and can be overruled; so does any table at all."""

from __future__ import annotations

import datetime
import time
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.pandas import column, data_frames

from hopular.data.dataset import DATE, DataError, Dataset
from hopular.data.notation import since_1970
from hopular.data.schema import KINDS, learn_features, learn_target, missing_target

ROWS = 60
COUNTING = np.arange(ROWS)
DAY = datetime.date(2020, 1, 1)
SECONDS = 86_400.0


def one(values, kind=None, name="c"):
    """Return the learned column, None if it was left out, and the notes."""
    series = values if isinstance(values, pd.Series) else pd.Series(values)
    learned = learn_features(series.to_frame(name), {} if kind is None else {name: kind})
    return learned.X.get(name), list(learned.notes)


def seconds(dates):
    """Return dates as seconds since 1970."""
    assert dates.dtype == DATE
    return since_1970(dates).tolist()


def is_category(series):
    return isinstance(series.dtype, pd.CategoricalDtype)


# ------------------------------------------------------------------------------------------------------------- numbers


def test_floats_are_continuous_and_say_nothing():
    result, notes = one([1.0, 2.0] * 30)
    assert result.dtype == np.float64
    assert notes == []


@pytest.mark.parametrize("dtype", ["int8", "uint64", "Int64", "int64[pyarrow]"])
def test_whole_numbers_with_few_values_are_categories(dtype):
    result, notes = one(pd.Series([10, 2, 1] * 20, dtype=dtype))
    assert list(result.cat.categories) == ["1", "2", "10"]
    assert list(result[:3]) == ["10", "2", "1"]
    assert notes == ["whole numbers with few values, taken as categories: c"]


@pytest.mark.parametrize(
    ("values", "name", "why"),
    [
        (COUNTING % 11, "c", "eleven values"),
        ([1, 2, 3] * 4, "c", "fewer than five rows of each"),
        ([0, 20] * 30, "c", "far apart"),
        ([0, 1, 2] * 20, "n_children", "counted"),
        ([0, 1, 2] * 20, "numberOfRooms", "counted"),
        ([0, 1, 2] * 20, "fixcount", "counted"),
        ([0, 1, 2] * 20, "Age", "an age"),
        ([0.5, 1.0] * 30, "c", "floats"),
    ],
)
def test_other_whole_numbers_are_continuous(values, name, why):
    result, notes = one(values, name=name)
    assert result.dtype == np.float64, why
    assert notes == []


@pytest.mark.parametrize("name", ["account", "country", "agent"])
def test_names_that_only_look_like_counts(name):
    assert is_category(one([0, 1, 2] * 20, name=name)[0])


def test_whole_floats_are_codes_only_if_some_are_missing():
    codes = pd.Series([1.0, 2.0] * 30)
    assert one(codes)[0].dtype == np.float64
    codes[5] = np.nan
    result, _ = one(codes)
    assert list(result.cat.categories) == ["1", "2"]
    assert result.isna().sum() == 1
    codes[6] = 1.5
    assert one(codes)[0].dtype == np.float64


def test_constant_columns_stay():
    assert one([3.5] * ROWS)[0].nunique() == 1
    assert one([3] * ROWS)[0].nunique() == 1
    assert one(["a"] * ROWS)[0].nunique() == 1


def test_columns_without_a_value_are_left_out():
    frame = pd.DataFrame(
        {"a": [np.nan] * 3, "b": [None] * 3, "c": ["", " ", None], "d": [pd.NaT] * 3, "e": [1.0, 2, 3]}
    )
    learned = learn_features(frame)
    result, notes = learned.X, list(learned.notes)
    assert list(result) == ["e"]
    assert notes == ["left out, no value in any row: a, b, c, d"]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([1.5, None, 2.5], dtype="Float64"),
        pd.Series([1.5, None, 2.5], dtype=pd.ArrowDtype(pa.float32())),
        pd.Series([1.5, None, 2.5], dtype="float16"),
        pd.Series([Decimal("1.5"), None, Decimal("2.5")], dtype=object),
        pd.Series([Decimal("1.5"), None, Decimal("2.5")], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        pd.Series([1.5, None, 2.5], dtype=object),
        pd.Series(["1.5", None, "2.5"]),
        pd.Series(["1.5", None, "2.5"], dtype=object),
        pd.Series(["1.5", None, "2.5"], dtype="string"),
        pd.Series(["1.5", None, "2.5"], dtype=pd.ArrowDtype(pa.string())),
        pd.Series([b"1.5", None, b"2.5"], dtype=object),
        pd.Series(pd.arrays.SparseArray([1.5, np.nan, 2.5])),
        pd.Series([" 1.5", "", "2.5 "]),
        pd.Series(["1.5", "?", "2.5"]),
        pd.Series(["1.5", "N/A", "25e-1"]),
        pd.Series(["1.5", "' '", "2.5"]),
    ],
    ids=lambda values: f"{values.dtype} {values[0]!r} {values[1]!r}",
)
def test_numbers_in_any_dress(values):
    result, _ = one(values)
    assert result.dtype == np.float64
    assert np.array_equal(result, [1.5, np.nan, 2.5], equal_nan=True)


def test_text_of_numbers_is_noted_and_follows_the_rules_of_numbers():
    assert one(["1", "2"] * 30)[1] == [
        "text read as numbers: c",
        "whole numbers with few values, taken as categories: c",
    ]
    assert one(["1.0", "2.0"] * 30)[0].dtype == np.float64
    assert one(["1.5", "x"] * 30)[0].dtype != np.float64
    assert is_category(one(["none", "-"] * 30)[0]), "marks alone are no numbers"


def test_leading_zeros_make_a_code():
    assert list(one(["01", "02", "10"] * 20)[0].cat.categories) == ["01", "02", "10"]
    assert one(["0.5", "0", "-0.25"] * 20)[0].dtype == np.float64


def test_large_integers_keep_their_value():
    assert list(one(pd.Series([2**40, 2**40 + 1, 5] * 20))[0][:3]) == [2.0**40, 2.0**40 + 1, 5.0]
    assert list(one(pd.Series([10**30, 10**20, 5], dtype=object))[0]) == [1e30, 1e20, 5.0]


# --------------------------------------------------------------------------------------------------------------- dates


@pytest.mark.parametrize(
    "texts",
    [
        ["2020-01-02", "2020-01-31"],
        ["2020/01/02", "2020/01/31"],
        ["2020.01.02", "2020.01.31"],
        ["2020-01-02T00:00:00Z", "2020-01-31"],
        ["2020-01-02 01:00+01:00", "2020-01-31 00:00:00.000"],
        ["01/02/2020", "01/31/2020"],
        ["02/01/2020", "31/01/2020"],
        ["1/2/2020 0:00", "1/31/2020 0:00"],
        ["1/2/2020 12:00 AM", "1/31/2020 12:00 AM"],
        ["1/2/20", "1/31/20"],
        ["2.1.2020", "31.1.2020"],
        ["02.01.2020 00:00:00", "31.01.2020 00:00:00"],
        ["01-02-2020", "01-31-2020"],
        ["02-01-2020", "31-01-2020"],
        ["02-Jan-2020", "31-Jan-2020"],
        ["2 January 2020", "31 January 2020"],
        ["Jan 2, 2020", "Jan 31, 2020"],
    ],
    ids=str,
)
def test_text_of_dates_becomes_dates(texts):
    result, notes = one(texts * 5)
    assert seconds(result[:2]) == [(18_262 + 1) * SECONDS, (18_262 + 30) * SECONDS]
    assert notes[0].startswith("text read as dates (")


def test_ambiguous_dates_are_month_first_with_slashes_and_day_first_otherwise():
    assert seconds(one(["01/02/2020"] * 3)[0])[0] == (18_262 + 1) * SECONDS
    assert one(["01/02/2020"] * 3)[1] == ["text read as dates (%m/%d/%Y): c"]
    assert seconds(one(["02-01-2020"] * 3)[0])[0] == (18_262 + 1) * SECONDS
    assert seconds(one(["02.01.2020"] * 3)[0])[0] == (18_262 + 1) * SECONDS


def test_a_day_above_twelve_decides_wherever_it_stands():
    days = [f"{d:02}/01/2020" for d in range(1, 13)] * 3 + ["31/01/2020"]
    assert seconds(one(days)[0])[1] == (18_262 + 1) * SECONDS


def test_a_few_values_that_are_no_dates_are_missing():
    days = [str(DAY + datetime.timedelta(d)) for d in range(99)]
    result, notes = one([*days, "soon"])
    assert result.isna().sum() == 1
    assert notes == ["text read as dates (ISO8601), unreadable values are missing: c"]
    assert one([*days, "?"])[1] == ["text read as dates (ISO8601): c"]
    assert one(["2020-01-01", "soon", "later"] * 5)[0].cat.categories.size == 3


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(pd.to_datetime(["1970-01-02", None])),
        pd.Series(pd.to_datetime(["1970-01-02", None])).astype("datetime64[ns]"),
        pd.Series(pd.to_datetime(["1970-01-02T01:00+01:00", None])),
        pd.Series([datetime.date(1970, 1, 2), None], dtype=object),
        pd.Series([datetime.datetime(1970, 1, 2), None], dtype=object),
        pd.Series([pd.Timestamp("1970-01-02", tz="UTC"), pd.NaT], dtype=object),
        pd.Series([datetime.date(1970, 1, 2), None], dtype=pd.ArrowDtype(pa.date32())),
        pd.Series([datetime.datetime(1970, 1, 2), None], dtype=pd.ArrowDtype(pa.timestamp("us"))),
        pd.Series(pd.PeriodIndex(["1970-01-02", None], freq="D")),
    ],
    ids=lambda values: f"{values.dtype} {type(values[0]).__name__}",
)
def test_dates_of_any_type_are_dates_in_utc(values):
    assert np.array_equal(seconds(one(values)[0]), [SECONDS, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(pd.to_timedelta([1, None], unit="D")),
        pd.Series([datetime.timedelta(1), None], dtype=object),
        pd.Series([datetime.timedelta(1), None], dtype=pd.ArrowDtype(pa.duration("s"))),
    ],
    ids=lambda values: f"{values.dtype} {type(values[0]).__name__}",
)
def test_durations_are_seconds(values):
    assert np.array_equal(one(values)[0], [SECONDS, np.nan], equal_nan=True)


def test_times_of_day_are_seconds():
    assert list(one(pd.Series([datetime.time(0, 1), datetime.time(1)], dtype=object))[0]) == [60.0, 3600.0]


# ---------------------------------------------------------------------------------------------------------- categories


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (["b", "a", "B"] * 20, ["B", "a", "b"]),
        ([" a", "a ", "a\t", "b"] * 20, ["a", "b"]),
        ([True, False] * 20, ["False", "True"]),
        (pd.Series([True, None, False], dtype="boolean"), ["False", "True"]),
        (pd.Series([True, None, False], dtype=object), ["False", "True"]),
        (pd.Series([True, None, False], dtype="bool[pyarrow]"), ["False", "True"]),
        (pd.Series([10, 9, 1], dtype="category"), ["1", "9", "10"]),
        (pd.Series([10.0, 9.5, None], dtype="category"), ["9.5", "10"]),
        (pd.Series(["10", "9", "1"], dtype="category"), ["1", "9", "10"]),
        (pd.Series(["10", "9", "x"], dtype="category"), ["10", "9", "x"]),
        (pd.Series(["b"], dtype=pd.CategoricalDtype(["c", "b", "a"])), ["b"]),
        (pd.Series(["mid", "low"], dtype=pd.CategoricalDtype(["low", "mid", "high"], ordered=True)), ["low", "mid"]),
        (pd.Series([1, "a", 2.0, True], dtype=object), ["1", "2", "True", "a"]),
        (pd.Series(pd.cut([1, 5], [0, 2, 9])), ["(0, 2]", "(2, 9]"]),
        (pd.Series(["ä", "\ud800x", "日"] * 9, dtype=object), ["?x", "ä", "日"]),
        (pd.Series(["a", "b"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))), ["a", "b"]),
    ],
    ids=str,
)
def test_names_are_categories_in_a_fixed_order(values, categories):
    result, _ = one(values)
    assert list(result.cat.categories) == categories
    assert not result.cat.ordered
    assert np.array_equal(result.isna(), pd.Series(values).isna())


def test_a_declared_category_is_not_read_as_number_or_date():
    assert is_category(one(pd.Series(["1.5", "2.5"] * 20, dtype="category"))[0])
    assert is_category(one(pd.Series(["2020-01-01", "2020-01-02"] * 20, dtype="category"))[0])


def test_thousands_of_categories_are_kept_with_a_note():
    result, notes = one([f"k{i % 1500}" for i in range(4000)])
    assert len(result.cat.categories) == 1500
    assert notes == ["kept with more than 1000 categories: c"]


# ------------------------------------------------------------------------------------------------------- ids and texts


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (COUNTING, "c"),
        (COUNTING + 1, "c"),
        (COUNTING.astype(str), "c"),
        (COUNTING[::-1] * 7 + 1000, "id"),
        (COUNTING[::-1] * 7 + 1000, "customer_id"),
        (COUNTING[::-1] * 7 + 1000, "PassengerId"),
        (COUNTING[::-1] * 7 + 1000, "customerID"),
        (COUNTING[::-1] * 7 + 1000, "ID"),
        (COUNTING[::-1] * 7 + 1000, "index"),
        (COUNTING[::-1], "Unnamed: 0"),
        (COUNTING[::-1], "RowNumber"),
        ([f"k{i}" for i in COUNTING], "c"),
        ([f"k{max(i, 2)}" for i in COUNTING], "c"),
        ([uuid.UUID(int=int(i)) for i in COUNTING], "c"),
        (pd.Series([f"k{i}" for i in COUNTING], dtype="category"), "c"),
    ],
    ids=str,
)
def test_ids_are_left_out(values, name):
    result, notes = one(values, name=name)
    assert result is None
    assert notes[-1] == f"left out, looks like an id (give its kind to keep it): {name}"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (COUNTING[::-1], "c"),
        (COUNTING + 2, "c"),
        (COUNTING.astype(float), "id"),
        (np.repeat(COUNTING[::-1], 2), "id"),
        (COUNTING[::-1], "grid"),
        (COUNTING[::-1], "body mass index"),
        (np.arange(9), "id"),
    ],
    ids=str,
)
def test_what_only_looks_a_little_like_an_id_stays(values, name):
    assert one(values, name=name)[0] is not None


def test_text_that_repeats_often_or_is_short_in_rows_is_no_id():
    assert one([f"k{i // 2}" for i in range(60)])[0] is not None
    assert one(list("abcdefghi"))[0] is not None


def test_free_text_is_left_out():
    said = [f"a rather long remark on row {i // 2 * 2}" for i in range(ROWS)]
    result, notes = one(said)
    assert result is None
    assert notes == ["left out, looks like free text (give its kind to keep it): c"]
    assert one([f"a rather long remark {i % 5}" for i in range(ROWS)])[0] is not None


# ---------------------------------------------------------------------------------------------------------------- kinds


def test_kinds_overrule_the_rules():
    assert one([1, 2] * 30, "continuous")[0].dtype == np.float64
    assert list(one([1.0, 2.5], "categorical")[0]) == ["1", "2.5"]
    assert list(one([True, False], "continuous")[0]) == [1.0, 0.0]
    assert list(one(["1", "?"], "continuous")[0].isna()) == [False, True]
    assert list(one(["01", "02"], "continuous")[0]) == [1.0, 2.0]
    assert list(one(pd.Series(["1", "2"], dtype="category"), "continuous")[0]) == [1.0, 2.0]
    assert list(one(["2020-01-01"], "categorical")[0]) == ["2020-01-01"]
    assert list(one(pd.to_datetime(["2020-01-01"]), "categorical")[0]) == ["2020-01-01 00:00:00"]
    assert list(one(pd.to_datetime(["1970-01-02"]), "continuous")[0]) == [SECONDS]
    assert one(COUNTING, "continuous")[0] is not None
    assert one([f"k{i}" for i in COUNTING], "categorical")[0] is not None


def test_date_reads_compact_dates_and_years_too():
    for values in (["1970-01-02"], ["19700102"], [19700102], pd.to_datetime(["1970-01-02"])):
        assert seconds(one(values, "date")[0]) == [SECONDS]
    assert seconds(one([1970, 1971], "date")[0]) == [0.0, 365 * SECONDS]
    assert list(one(["1970-01-02", "n/a"], "date")[0].isna()) == [False, True]


@pytest.mark.parametrize("kind", ["text", "id", "drop"])
def test_columns_are_left_out_as_asked(kind):
    result, notes = one([[1], {}], kind)
    assert result is None
    assert notes == [f"left out as {kind}, as asked: c"]


def test_notes_list_columns_but_not_without_end():
    frame = pd.DataFrame(np.tile([[1], [2]], (30, 25)), columns=[f"c{i}" for i in range(25)])
    (note,) = learn_features(frame).notes
    assert note.endswith("c18, c19 and 5 more")


@pytest.mark.parametrize(
    ("frame", "kinds", "message"),
    [
        ({"size": [1]}, {"sise": "drop"}, "kinds names a column 'sise' that is not there. Did you mean 'size'?"),
        (
            {"size": [1]},
            {"size": "continous"},
            "unknown kind 'continous' of column 'size': it is one of continuous, categorical, date, text, id, drop. "
            "Did you mean 'continuous'?",
        ),
        (
            {"size": ["1", "2", "big"]},
            {"size": "continuous"},
            "column 'size' cannot be continuous: 'big' in data row 3 is not a number",
        ),
        (
            {"day": [None, "2020-01-01", "soon"]},
            {"day": "date"},
            "column 'day' cannot be date: 'soon' in data row 3 is not a date",
        ),
        ({"day": [1.5]}, {"day": "date"}, "column 'day' cannot be date: '1.5' in data row 1 is not a date"),
        ({"size": [1.0, np.inf, -np.inf]}, {}, "column 'size' has 2 infinite values: replace or remove them"),
        ({"size": ["1", "inf"]}, {}, "column 'size' has 1 infinite value: replace or remove them"),
        (
            {"size": [[1], [2]]},
            {},
            "column 'size' holds [1], a list: make it numbers or text, or leave it out by kind 'drop'",
        ),
        (
            {"size": [1j, 2j]},
            {},
            "column 'size' holds 1j, a complex: make it numbers or text, or leave it out by kind 'drop'",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_converted_is_refused(frame, kinds, message):
    with pytest.raises(DataError) as error:
        learn_features(pd.DataFrame(frame), kinds)
    assert str(error.value) == message


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(DataError, match=r"^more than one column is named a: rename them$"):
        learn_features(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]))


def test_names_become_strings_and_the_index_stays():
    frame = learn_features(pd.DataFrame({0: [1.5, 2.5]}, index=[7, 9])).X
    assert list(frame) == ["0"]
    assert list(frame.index) == [7, 9]


def test_the_input_is_left_alone():
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": [" x", "y"]})
    before = frame.copy(deep=True)
    result = learn_features(frame).X
    result.loc[0, "a"] = 9.0
    pd.testing.assert_frame_equal(frame, before)


# --------------------------------------------------------------------------------------------------------------- target


@pytest.mark.parametrize(
    ("values", "task", "guessed"),
    [
        (["a", "b"], "classification", False),
        ([True, False], "classification", False),
        (pd.Series([1.5, 2.5], dtype="category"), "classification", False),
        (COUNTING % 20, "classification", True),
        (np.arange(2000) % 99, "classification", True),
        (np.arange(2000) % 100, "regression", True),
        (np.arange(2000) % 30, "classification", True),
        (np.arange(400) % 30, "regression", True),
        (COUNTING[:20], "regression", True),
        (["1", "2"] * 30, "classification", True),
        (["1.5", "2.5"] * 30, "regression", True),
        ([1.0, 2.0] * 30, "classification", True),
        ([1.0, 2.5] * 30, "regression", True),
        (np.arange(2000.0) % 30, "regression", True),
        (pd.to_datetime(["2020-01-01", "2021-01-01"]), "regression", True),
        (["2020-01-01", "2021-01-01"], "regression", True),
    ],
    ids=str,
)
def test_the_task_is_guessed(values, task, guessed):
    series = pd.Series(values, name="y")
    y, found, notes = learn_target(series)
    assert found == task
    assert is_category(y) == (task == "classification")
    assert y.dtype == np.float64 or task == "classification"
    assert notes[-1:] == ([f"task {task} was guessed from {series.nunique()} distinct values of y"] if guessed else [])


def test_the_task_can_be_given():
    y, task, notes = learn_target(pd.Series([1.0, 2.0, 10.0], name="y"), "classification")
    assert list(y.cat.categories) == ["1", "2", "10"]
    assert (task, notes, y.name) == ("classification", [], "y")
    assert list(learn_target(pd.Series([1, 2]), "regression")[0]) == [1.0, 2.0]
    assert list(learn_target(pd.Series(["1", "2"]), "regression")[0]) == [1.0, 2.0]
    assert list(learn_target(pd.Series([True, False]), "regression")[0]) == [1.0, 0.0]
    assert list(learn_target(pd.Series(["2020-01-01", "x"]), "classification")[0]) == ["2020-01-01", "x"]
    assert list(learn_target(pd.Series(["2020-01-01"]), "classification")[0]) == ["2020-01-01"]


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        ([1.0, None, None], None, "target 'y' is missing in 2 of 3 rows: drop them"),
        (["a", " ", None], None, "target 'y' is missing in 2 of 3 rows: drop them"),
        (["1", "2", "?"], None, "target 'y' is missing in 1 of 3 rows: drop them"),
        (["1", "2", "?"], "classification", "target 'y' is missing in 1 of 3 rows: drop them"),
        (["1", "b"], "regression", "column 'y' cannot be continuous: 'b' in data row 2 is not a number"),
        ([1.5, np.inf], None, "column 'y' has 1 infinite value: replace or remove them"),
        (
            [1],
            "regresion",
            "unknown task 'regresion': it is one of classification, regression. Did you mean 'regression'?",
        ),
        ([[1]], None, "column 'y' holds [1], a list: make it numbers or text, or leave it out by kind 'drop'"),
    ],
    ids=str,
)
def test_what_is_no_target_is_refused(values, task, message):
    with pytest.raises(DataError) as error:
        learn_target(pd.Series(values, name="y"), task)
    assert str(error.value) == message


@pytest.mark.parametrize("task", [None, "classification", "regression"])
def test_missing_targets_are_found(task):
    assert list(missing_target(pd.Series(["1", "2", "?", " ", None]), task)) == [False, False, True, True, True]


# -------------------------------------------------------------------------------------------------------- any table

ELEMENTS = {
    "float": st.floats(allow_infinity=True),
    "int": st.integers(-(2**63), 2**63 - 1),
    "text": st.text(max_size=6) | st.sampled_from(["1", "?", "2020-01-01", "01/02/2020", "inf", "nan", "007", "True"]),
    "object": st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.timedeltas(),
    "odd": st.none() | st.complex_numbers() | st.lists(st.integers(), max_size=1),
    "date": st.datetimes(pd.Timestamp("1700-01-01"), pd.Timestamp("2200-01-01")),
}
DTYPES = {"float": float, "int": "int64", "text": object, "object": object, "odd": object, "date": "datetime64[ns]"}


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 30))
    frame = {}
    for place, kind in enumerate(draw(st.lists(st.sampled_from(list(ELEMENTS)), min_size=1, max_size=3))):
        elements = ELEMENTS[kind]
        if draw(st.booleans()):  # few distinct values
            elements = st.sampled_from(draw(st.lists(elements, min_size=1, max_size=3)))
        values = draw(st.lists(elements, min_size=rows, max_size=rows))
        series = pd.Series(values, dtype=DTYPES[kind])
        if kind == "text" and draw(st.booleans()):
            series = series.astype(draw(st.sampled_from(["str", "string", "category"])))
        frame[draw(st.sampled_from(["id", "age", "c"])) + str(place)] = series
    return pd.DataFrame(frame)


@settings(max_examples=80, deadline=None)
@given(tables(), st.none() | st.sampled_from(KINDS))
def test_any_table_is_either_converted_or_refused(frame, kind):
    try:
        learned = learn_features(frame, {} if kind is None else {frame.columns[0]: kind})
    except DataError:
        return
    result = learned.X
    assert all(isinstance(note, str) for note in learned.notes)
    assert set(result) <= set(frame)
    if result.shape[1]:
        y = pd.Series(np.arange(len(frame) + 1.0)[: len(frame)])
        if len(frame) > 1:
            Dataset("any", result, y, "regression", "hypothesis")
    again = learn_features(result, {name: "continuous" for name in result if result[name].dtype == float}).X
    for name in again:
        assert is_category(again[name]) == is_category(result[name])


@settings(max_examples=30, deadline=None)
@given(data_frames([column("y", elements=st.floats() | st.integers(-3, 3).map(float), dtype=float)]))
def test_any_number_target_is_either_converted_or_refused(frame):
    try:
        y, task, _ = learn_target(frame["y"])
    except DataError:
        return
    assert is_category(y) == (task == "classification")
    assert not y.isna().any()


def test_many_floats_convert_in_milliseconds():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(10_000, 33)))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        learn_features(frame)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.1, "4 ms measured, with a margin for busy machines"
