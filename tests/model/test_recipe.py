"""The recipes: how long a table of a given size is trained."""

from __future__ import annotations

from hopular.model.recipe import default_recipe, paper_recipe


def test_wide_tables_are_passed_over_less_often_by_default() -> None:
    epochs = [default_recipe(200, attributes).max_epochs for attributes in (5, 14, 28, 1000)]
    assert epochs == [250, 250, 125, 40]


def test_the_published_recipe_is_the_same_for_every_table() -> None:
    assert {paper_recipe(rows, attributes).max_epochs for rows in (100, 10_000) for attributes in (5, 50)} == {10_000}
