"""Hopular's grid, row by row as the paper prints it."""

from __future__ import annotations

import pytest

from hopular.methods.hopular import METHOD
from hopular.methods.method import Run
from search_spaces.hopular import grid

NAMES = (
    *("n_blocks", "n_networks", "beta", "mask_probability", "replace_probability", "weight_decay"),
    *("dropout_embedding", "dropout_block", "dropout_summary"),
)
REGULARISED = (0.025, 0.175, 0.1, 0.1, 0.1, 0.01)
TABLE = [  # "small and medium"
    (blocks, networks, beta, *REGULARISED)
    for blocks, networks in ((4, 8), (8, 8), (4, 16), (8, 16))
    for beta in (1, 100, 1000)
]
UNREGULARISED = (8, 16, 1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # "medium"


def rows(size: str) -> list[tuple[object, ...]]:
    """The grid as the table has it, by what the estimator is given or has by itself; the start of gamma last."""
    made = [METHOD.make("classification", setting, Run()).get_params() for setting in grid(size)]
    return [tuple(values[name] for name in (*NAMES, "gamma")) for values in made]


def test_small_tables_get_the_twelve_settings_with_gamma_from_one() -> None:
    found = rows("small")
    assert sorted(found) == sorted((*row, 1.0) for row in TABLE)
    assert len(found) == 12


def test_medium_tables_get_both_starts_of_gamma_and_the_unregularised_setting() -> None:
    found = rows("medium")
    assert sorted(found) == sorted((*row, gamma) for row in [*TABLE, UNREGULARISED] for gamma in (1.0, 0.5))
    assert len(found) == 26


@pytest.mark.parametrize("size", ["small", "medium"])
def test_the_first_setting_is_the_smallest_network(size: str) -> None:
    assert grid(size)[0] == {"n_blocks": 4, "n_networks": 8, "beta": 1.0, "gamma": 1.0}
