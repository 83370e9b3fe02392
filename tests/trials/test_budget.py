"""Budgets: presets, their changes, and what is refused."""

from __future__ import annotations

import pytest

from hopular import HopularClassifier
from hopular.methods import Run, get_method
from hopular.model.architecture import ARCHITECTURES
from hopular.model.npt_estimator import NPTClassifier
from hopular.trials.budget import PRESETS, Budget, preset


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
    settings = {"beta": 1.0, "recipe": "paper", "architecture": "paper"}
    assert paper.settings_of(get_method("hopular"), {"beta": 1.0}) == settings
    assert paper.settings_of(get_method("npt"), {}) == {"recipe": "paper"}
    for name in ("mlp", "snn", "xgboost", "ensemble"):
        assert paper.settings_of(get_method(name), {"a": 1}) == {"a": 1}
    assert PRESETS["smoke"].settings_of(get_method("hopular"), {}) == {"max_epochs": 10, "architecture": "default"}
    for estimator in (HopularClassifier(recipe="paper"), NPTClassifier(recipe="paper")):
        recipe = estimator._recipe(150, 5)
        assert (recipe.max_epochs, recipe.learning_rate, recipe.batch_size) == (10_000, 0.001, 150)
    assert HopularClassifier(recipe="paper")._recipe(150, 5).slow_rate == 0.005


def test_the_papers_budget_gives_the_papers_architecture_unless_another_is_asked_for():
    hopular = get_method("hopular")
    for asked, given in ((None, "paper"), ("default", "default"), ("released", "released"), ("paper", "paper")):
        settings = preset("paper", architecture=asked).settings_of(hopular, {})
        assert settings["architecture"] == given
        parts = hopular.make("classification", settings, Run())._parts()
        assert parts == ARCHITECTURES[given]
    for name in ("smoke", "quick"):
        assert PRESETS[name].settings_of(hopular, {})["architecture"] == "default"
    for name in ("npt", "mlp", "snn", "xgboost", "ensemble"):
        assert "architecture" not in preset("paper", architecture="released").settings_of(get_method(name), {})


def test_a_trial_among_several_has_one_member_of_the_default_architecture():
    hopular = get_method("hopular")
    assert Budget().settings_of(hopular, {}, trials=12)["n_members"] == 1
    assert "n_members" not in Budget().settings_of(hopular, {})
    for architecture in ("paper", "released"):
        settings = Budget(architecture=architecture).settings_of(hopular, {}, trials=12)
        assert "n_members" not in settings
        assert hopular.make("classification", settings, Run())._default_members(100, 5) == 1
    for name in ("npt", "mlp", "xgboost"):
        assert Budget().settings_of(get_method(name), {}, trials=12) == {}


def test_a_search_space_may_choose_the_architecture():
    chosen = {"architecture": "released"}
    assert PRESETS["paper"].settings_of(get_method("hopular"), chosen)["architecture"] == "released"
    assert preset("quick", architecture="paper").settings_of(get_method("hopular"), chosen)["architecture"] == "paper"


def test_the_architecture_is_in_the_name_of_a_study_that_it_changes():
    """The same model has one name however it was asked for, and is not trained again for another's architecture."""
    assert repr(Budget(recipe="paper")) == repr(Budget(recipe="paper", architecture="paper"))
    assert repr(Budget(architecture="default")) == repr(Budget())
    budgets = [Budget(recipe=recipe, architecture=name) for recipe in (None, "paper") for name in ARCHITECTURES]
    assert len({repr(budget) for budget in budgets}) == 6
    quick = [preset("quick", architecture=name) for name in (None, *ARCHITECTURES)]
    for name, different in (("hopular", 3), ("ensemble", 3), ("knn", 1), ("npt", 1), ("xgboost", 1)):
        assert len({repr(budget.concerning(get_method(name))) for budget in quick}) == different


def test_an_unknown_architecture_is_refused():
    with pytest.raises(ValueError, match=r"no architecture 'papre'.*'paper'\?.*: default, paper, released"):
        Budget(architecture="papre")


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
