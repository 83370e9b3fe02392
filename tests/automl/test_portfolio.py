"""Which methods take part, in which order."""

from __future__ import annotations

import pytest

from hopular.automl.portfolio import choose_methods
from hopular.methods import MethodError, methods


def test_all_that_suit_the_task_the_cheap_ones_first() -> None:
    names, left_out = choose_methods("classification", 600)
    assert names[0] == "majority"
    assert "mean" not in names
    assert "ensemble" not in names
    assert names.index("logistic") < names.index("random_forest") < names.index("hopular") < names.index("npt")
    assert "mean" not in left_out  # that it is for numbers is no news


def test_plain_networks_take_part_only_if_asked_for() -> None:
    plain = [name for name, method in methods().items() if method.group == "plain"]
    assert len(plain) == 6
    assert not set(plain) & set(choose_methods("regression", 600)[0])
    assert set(plain) < set(choose_methods("regression", 600, ["all"])[0])
    assert choose_methods("regression", 600, ["plain"])[0] == plain


def test_what_is_slow_needs_more_time_unless_asked_for() -> None:
    names, left_out = choose_methods("regression", 60)
    assert "npt" not in names
    assert left_out["npt"] == "is slow, it is tried from 3 minutes on"
    assert choose_methods("regression", 60, ["npt"]) == (["npt"], {})


def test_groups_and_names_together() -> None:
    names, _ = choose_methods("regression", 60, ["boosting", "glm"])
    assert names == ["lightgbm", "glm", "xgboost", "catboost"]


def test_nothing_to_try_is_an_error() -> None:
    with pytest.raises(MethodError, match="none of the methods ensemble can be used for regression"):
        choose_methods("regression", 60, ["ensemble"])
