"""Numbers as readers see them."""

from __future__ import annotations

import math

import pytest

from hopular.report import words


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
    assert words.seconds(value) == said


@pytest.mark.parametrize(("value", "said"), [(312e6, "312 MB"), (999.6e6, "1.0 GB"), (1.44e9, "1.4 GB"), (0, "–")])
def test_memory(value: float, said: str) -> None:
    assert words.memory(value) == said


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
    assert words.score(value) == said


def test_what_is_not_known_is_a_dash() -> None:
    writers = (words.number, words.whole, words.score, words.percent, words.seconds, words.memory, words.place)
    assert {write(math.nan) for write in writers} == {"–"}
    assert words.difference(math.nan) == words.spread(math.nan, 0.5) == "–"


def test_settings_say_what_their_names_stand_for() -> None:
    limits = {"trials": 20, "seconds": None}
    assert words.setting({"limits": limits, "methods": ["a", "b"]}) == "limits=trials=20, seconds=None, methods=a, b"
    assert words.setting(limits) == "trials=20, seconds=None"
    assert words.setting(["a", "b"]) == "a, b"
    assert words.setting("paper") == "paper"


def test_an_uncertainty_has_the_digits_of_its_score() -> None:
    assert words.spread(0.00451, 0.8123) == "0.0045"
    assert words.spread(12.3456, 1234.5) == "12.3"
    assert words.spread(1234.56, 145_800) == "1,235"


def test_differences_have_a_sign_and_ranks_no_needless_digits() -> None:
    assert (words.difference(-0.0123), words.difference(0.5)) == ("−0.0123", "+0.5000")
    assert (words.place(2.0), words.place(2.5)) == ("2", "2.5")


def test_plurals() -> None:
    assert [words.plural(n, "dataset") for n in (0, 1, 2)] == ["0 datasets", "1 dataset", "2 datasets"]
    assert words.plural(1200, "search") == "1,200 searches"


def test_nothing_is_below_zero_by_rounding_alone() -> None:
    writers = (words.number, words.whole, words.score, words.percent)
    assert [write(-0.0) for write in writers] == ["0.00", "0", "0.0000", "0.0 %"]
    assert (words.number(-0.001), words.whole(-0.2), words.percent(-0.0001)) == ("0.00", "0", "0.0 %")
    assert (words.number(-1.5), words.whole(-2.0)) == ("-1.50", "-2")
