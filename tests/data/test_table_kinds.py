"""Kinds of whole tables: what is asked for, what is guessed, the target, and any table at all."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.pandas import column, data_frames

from hopular.data.dataset import DataError, Dataset
from hopular.data.schema import KINDS, learn_features, learn_target, missing_target
from tests.data.test_kinds import COUNTING, SECONDS, is_category, one

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
        assert list(one(values, "date")[0]) == [SECONDS]
    assert list(one([1970, 1971], "date")[0]) == [0.0, 365 * SECONDS]
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
            "column 'size' cannot be continuous: 'big' in data row 3 is no number",
        ),
        (
            {"day": [None, "2020-01-01", "soon"]},
            {"day": "date"},
            "column 'day' cannot be date: 'soon' in data row 3 is no date",
        ),
        ({"day": [1.5]}, {"day": "date"}, "column 'day' cannot be date: '1.5' in data row 1 is no date"),
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
        (["1", "b"], "regression", "column 'y' cannot be continuous: 'b' in data row 2 is no number"),
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
