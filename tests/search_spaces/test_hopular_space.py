"""Hopular's grids: row by row as the paper prints it, and that of the default architecture beside it."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from hopular.methods.hopular import METHOD
from hopular.methods.method import Run
from hopular.model.architecture import ARCHITECTURES, choose_sizes
from hopular.trials.budget import Budget, preset
from hopular.trials.space import Proposer
from search_spaces.hopular import grid

NAMES = (
    *("n_blocks", "n_networks", "beta", "mask_probability", "replace_probability", "weight_decay"),
    *("dropout_embedding", "dropout_block", "dropout_summary"),
)
REGULARISED = (0.025, 0.175, 0.1, 0.1, 0.1, 0.01)  # as published


def table(
    networks: tuple[int, int], betas: tuple[int, int, int], regularised: tuple[float, ...]
) -> list[tuple[float, ...]]:
    """The rows "small and medium"."""
    sizes = [(blocks, count) for blocks in (4, 8) for count in networks]
    return [(*size, beta, *regularised) for size in sizes for beta in betas]


PUBLISHED = table((8, 16), (1, 100, 1000), REGULARISED)
DEFAULT = table((2, 4), (1, 10, 100), (0.025, 0.0, 0.1, 0.2, 0.2, 0.01))
TABLES = {"default": DEFAULT, "paper": PUBLISHED, "released": PUBLISHED}
UNREGULARISED = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)  # "medium"


def rows(size: str, architecture: str) -> list[tuple[object, ...]]:
    """The grid as the table has it, by what the estimator is given or has by itself; the start of gamma last."""
    settings = [{"architecture": architecture, **setting} for setting in grid(size, architecture)]
    made = [METHOD.make("classification", setting, Run()) for setting in settings]
    values = [model.get_params() | asdict(model._regularisation()) for model in made]
    return [tuple(of_one[name] for name in (*NAMES, "gamma")) for of_one in values]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_small_tables_get_the_twelve_settings_with_gamma_from_one(architecture: str) -> None:
    found = rows("small", architecture)
    assert sorted(found) == sorted((*row, 1.0) for row in TABLES[architecture])
    assert len(found) == 12


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_medium_tables_get_both_starts_of_gamma_and_the_unregularised_setting(architecture: str) -> None:
    found, regularised = rows("medium", architecture), TABLES[architecture]
    largest = (*regularised[-1][:2], 1, *UNREGULARISED)
    assert sorted(found) == sorted((*row, gamma) for row in [*regularised, largest] for gamma in (1.0, 0.5))
    assert len(found) == 26


@pytest.mark.parametrize("size", ["small", "medium"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_first_setting_is_the_architectures_own_and_the_smallest_network(size: str, architecture: str) -> None:
    sizes = choose_sizes(architecture, 10)
    own = {"n_blocks": sizes.n_blocks, "n_networks": sizes.n_networks, "beta": 1.0, "gamma": 1.0}
    assert grid(size, architecture)[0] == own
    assert min((s["n_blocks"], s["n_networks"]) for s in grid(size, architecture)) == (sizes.n_blocks, sizes.n_networks)


def test_networks_of_the_default_architecture_have_the_dimensions_of_the_published_ones() -> None:
    dimensions = {
        name: sorted({choose_sizes(name, 10).embedding_dim / s["n_networks"] for s in grid("small", name)})
        for name in ARCHITECTURES
    }
    assert dimensions["default"] == dimensions["paper"] == dimensions["released"] == [2, 4]


@pytest.mark.parametrize(
    ("budget", "architecture"),
    [
        (Budget(), "default"),
        (preset("paper"), "paper"),
        (preset("paper", architecture="default"), "default"),
        (preset("quick", architecture="released"), "released"),
    ],
)
def test_the_budgets_architecture_decides_which_grid_is_searched(budget: Budget, architecture: str) -> None:
    proposer = Proposer("hopular", "medium", 0, architecture=budget.architecture_of(METHOD))
    assert proposer.grid == grid("medium", architecture)
