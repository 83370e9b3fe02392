"""The recipes: how long a table of a given size is trained."""

from __future__ import annotations

import pytest

from hopular.model.architecture import WIDE
from hopular.model.recipe import (
    BATCH,
    EPOCHS_MORE,
    EPOCHS_MORE_ROWS,
    EPOCHS_RANGE,
    EPOCHS_WIDTH,
    MEMORY,
    VALIDATIONS,
    default_recipe,
    make_recipe,
    paper_recipe,
)


def test_long_and_wide_tables_are_passed_over_less_often_by_default() -> None:
    fewest, most = EPOCHS_RANGE
    by_width = [default_recipe(400, attributes).max_epochs for attributes in (5, EPOCHS_WIDTH, 2 * EPOCHS_WIDTH, 1000)]
    assert by_width[0] == by_width[1] > by_width[2] > by_width[3]
    assert by_width[3] == fewest
    by_length = [default_recipe(rows).max_epochs for rows in (2, 50, 400, 1600, 10**6)]
    assert by_length == sorted(by_length, reverse=True)
    assert by_length[2] == 2 * by_length[3]
    assert (by_length[0], by_length[-1]) == (most, fewest)


def test_narrow_tables_of_many_rows_are_passed_over_more_often_up_to_a_limit() -> None:
    rows = 1600
    usual = default_recipe(rows, EPOCHS_WIDTH).max_epochs
    assert default_recipe(rows, 10).max_epochs == pytest.approx(usual * EPOCHS_WIDTH / 10, abs=0.5)
    assert default_recipe(rows, 2).max_epochs == default_recipe(rows, 5).max_epochs == EPOCHS_MORE * usual
    assert len({default_recipe(EPOCHS_MORE_ROWS, attributes).max_epochs for attributes in (2, 5, EPOCHS_WIDTH)}) == 1


def test_wide_tables_stop_sooner() -> None:
    assert default_recipe(400, WIDE + 1).patience < default_recipe(400, WIDE).patience == default_recipe(400).patience


def test_a_default_step_takes_half_of_a_small_table_and_a_sample_of_a_large_memory() -> None:
    assert [default_recipe(rows).batch_size for rows in (2, 5, 100, 10_000)] == [1, 3, 50, BATCH]
    assert [default_recipe(rows).memory_ratio for rows in (2, MEMORY, 2 * MEMORY)] == [1.0, 1.0, 0.5]


def test_the_published_recipe_is_that_of_section_a_3() -> None:
    recipe = paper_recipe(123)
    assert (recipe.max_epochs, recipe.batch_size, recipe.memory_ratio) == (10_000, 123, 1.0)
    assert (recipe.learning_rate, recipe.slow_rate, recipe.gamma) == (1e-3, 0.005, 1.0)
    assert (recipe.mask_probability, recipe.replace_probability, recipe.weight_decay) == (0.025, 0.175, 0.1)
    assert (recipe.validate_every, recipe.selection) == (10, "score")


def test_the_published_recipe_is_the_same_for_every_table() -> None:
    assert {paper_recipe(rows, attributes).max_epochs for rows in (100, 10_000) for attributes in (5, 50)} == {10_000}
    assert [paper_recipe(rows).batch_size for rows in (100, 10_000)] == [100, 10_000]


def test_overrides_replace_single_values_and_none_leaves_them() -> None:
    recipe = make_recipe("default", 400, learning_rate=0.5, patience=None)
    assert recipe.learning_rate == 0.5
    assert recipe.patience == default_recipe(400).patience
    often = VALIDATIONS * make_recipe("default", 400, max_epochs=10 * VALIDATIONS).validate_every
    assert often == 10 * VALIDATIONS  # as often in the whole as before
    assert make_recipe("paper", 400, max_epochs=200).validate_every == 10  # as published
    assert make_recipe("paper", 400, max_epochs=2000).validate_every == 10


@pytest.mark.parametrize("name", ["max_epochs", "batch_size", "validate_every", "patience"])
def test_counts_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        make_recipe("default", 400, **{name: 0})


def test_an_unknown_recipe_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match=r"recipe must be one of \['default', 'paper'\], not 'published'"):
        make_recipe("published", 400)
