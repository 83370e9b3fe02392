"""Check how numbers are formatted for readers."""

from __future__ import annotations

import math

import pytest

from hopular.formatting import (
    difference,
    memory,
    number,
    percent,
    place,
    plural,
    score,
    seconds,
    setting,
    some,
    spread,
    whole,
)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0.00 s"),
        (0.421, "0.42 s"),
        (5.04, "5.0 s"),
        (99, "99 s"),
        (200, "3.3 min"),
        (7200, "2.0 h"),
        (4e5, "4.6 d"),
    ],
)
def test_durations_use_the_unit_with_the_fewest_digits(value: float, said: str) -> None:
    assert seconds(value) == said


@pytest.mark.parametrize(("value", "said"), [(312e6, "312 MB"), (999.6e6, "1.0 GB"), (1.44e9, "1.4 GB"), (0, "–")])
def test_memory(value: float, said: str) -> None:
    assert memory(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.95321, "0.9532"),
        (1.0, "1.0000"),
        (0.0, "0.0000"),
        (1234.5678, "1235"),
        (14580.6, "14,581"),
        (0.000123456, "0.0001235"),
    ],
)
def test_scores_of_any_size(value: float, said: str) -> None:
    assert score(value) == said


def test_what_is_not_known_is_a_dash() -> None:
    writers = (
        number,
        whole,
        score,
        percent,
        seconds,
        memory,
        place,
    )
    assert {write(math.nan) for write in writers} == {"–"}
    assert difference(math.nan) == spread(math.nan, 0.5) == "–"


def test_settings_say_what_their_names_stand_for() -> None:
    limits = {"trials": 20, "seconds": None}
    assert setting({"limits": limits, "methods": ["a", "b"]}) == "limits=trials=20, seconds=None, methods=a, b"
    assert setting(limits) == "trials=20, seconds=None"
    assert setting(["a", "b"]) == "a, b"
    assert setting("paper") == "paper"


def test_an_uncertainty_has_the_digits_of_its_score() -> None:
    assert spread(0.00451, 0.8123) == "0.0045"
    assert spread(12.3456, 1234.5) == "12.3"
    assert spread(1234.56, 145_800) == "1,235"


def test_differences_have_a_sign_and_ranks_no_needless_digits() -> None:
    assert (difference(-0.0123), difference(0.5)) == ("−0.0123", "+0.5000")
    assert (place(2.0), place(2.5)) == ("2", "2.5")


def test_shares_have_a_digit_after_the_point_where_it_matters() -> None:
    assert [percent(x) for x in (0, 1e-5, 0.014, 0.5, 0.995, 0.99999, 1)] == [
        *("0 %", "less than 0.1 %", "1.4 %", "50 %", "99.5 %", "more than 99.9 %", "100 %")
    ]


def test_plurals() -> None:
    assert [plural(n, "dataset") for n in (0, 1, 2)] == ["0 datasets", "1 dataset", "2 datasets"]
    assert plural(1200, "search") == "1,200 searches"


def test_nothing_is_below_zero_by_rounding_alone() -> None:
    writers = (number, whole, score, percent)
    assert [write(-0.0) for write in writers] == ["0.00", "0", "0.0000", "0 %"]
    assert (number(-0.001), whole(-0.2), percent(-0.0001)) == ("0.00", "0", "0 %")
    assert (number(-1.5), whole(-2.0)) == ("-1.50", "-2")


def test_a_long_list_of_names_is_cut_short() -> None:
    assert some(["a", "b"], 2) == "a, b"
    assert some(range(1205), 3) == "0, 1, 2 and 1,202 more"
