"""Budgets: presets, their changes, and what is refused."""

from __future__ import annotations

import pytest

from hopular import HopularClassifier
from hopular.methods import get_method
from hopular.model.npt_estimator import NPTClassifier
from hopular.search.budget import PRESETS, Budget, preset


def test_presets_grow():
    smoke, quick, paper = (PRESETS[name] for name in ("smoke", "quick", "paper"))
    assert smoke.trials < quick.trials < paper.trials == 1000
    assert paper.slots(24) == 24
    assert quick.slots(24) == 3
    assert smoke.slots(24) == 1
    assert paper.slots(None) == 1000
    assert smoke.seconds_per_trial is not None
    assert quick.seconds is not None
    assert paper.seconds is paper.seconds_per_trial is None


def test_a_small_grid_is_tried_once():
    assert Budget(trials=2, grid_trials=5).slots(3) == 3


def test_a_grid_is_tried_whole_unless_limited():
    assert Budget(trials=2).slots(24) == 24


def test_preset_with_changes():
    assert preset("quick", trials=3) == Budget(**{**vars(PRESETS["quick"]), "trials": 3})
    assert PRESETS["quick"].trials == 15


@pytest.mark.parametrize("name", ["trials", "grid_trials", "max_epochs", "replicates"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "3", True])
def test_counts_are_whole_numbers_from_one_on(name, value):
    with pytest.raises(ValueError, match=f"{name} is .*whole number"):
        Budget(**{name: value})


@pytest.mark.parametrize("name", ["seconds_per_trial", "seconds", "memory"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "1"])
def test_limits_are_above_zero(name, value):
    with pytest.raises(ValueError, match=f"{name} is .*above 0"):
        Budget(**{name: value})


def test_the_papers_budget_trains_by_the_published_recipe():
    paper = PRESETS["paper"]
    assert paper.settings_of(get_method("hopular"), {"beta": 1.0}) == {"beta": 1.0, "recipe": "paper"}
    assert paper.settings_of(get_method("npt"), {}) == {"recipe": "paper"}
    for name in ("mlp", "snn", "xgboost", "ensemble"):
        assert paper.settings_of(get_method(name), {"a": 1}) == {"a": 1}
    assert PRESETS["smoke"].settings_of(get_method("hopular"), {}) == {"max_epochs": 10}
    for estimator in (HopularClassifier(recipe="paper"), NPTClassifier(recipe="paper")):
        recipe = estimator._recipe(150, 5)
        assert (recipe.max_epochs, recipe.learning_rate, recipe.batch_size) == (10_000, 0.001, 150)
    assert HopularClassifier(recipe="paper")._recipe(150, 5).slow_rate == 0.005


def test_the_papers_budget_chooses_by_accuracy_and_prunes_nothing_and_the_others_choose_by_loss():
    assert (PRESETS["paper"].criterion, PRESETS["paper"].prunes) == ("accuracy", False)
    for name in ("smoke", "quick"):
        assert (PRESETS[name].criterion, PRESETS[name].prunes) == ("loss", True)


def test_an_unknown_recipe_or_criterion_is_refused():
    with pytest.raises(ValueError, match="recipe is 'papre': use one of default, paper"):
        Budget(recipe="papre")
    with pytest.raises(ValueError, match="criterion is 'auc': use one of loss, accuracy"):
        Budget(criterion="auc")


def test_unknown_names_get_a_hint():
    with pytest.raises(ValueError, match="Did you mean 'smoke'"):
        preset("smok")
    with pytest.raises(ValueError, match="Did you mean 'seconds'"):
        preset("quick", second=3)
