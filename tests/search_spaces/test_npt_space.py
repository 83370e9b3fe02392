"""NPT's grid, row by row as the paper prints it."""

from __future__ import annotations

import pytest

from search_spaces.npt import grid

NAMES = (
    "n_layers",
    "n_heads",
    "label_mask_probability",
    "feature_mask_probability",
    "schedule",
    "embedding_dim",
)
TABLE = [  # as printed
    (8, 8, 1.0, 0.15, "cosine", 32),
    (16, 8, 1.0, 0.15, "cosine", 32),
    (8, 16, 1.0, 0.15, "cosine", 32),
    (16, 16, 1.0, 0.15, "cosine", 32),
    (8, 8, 0.1, 0.15, "cosine", 32),
    (8, 8, 0.5, 0.15, "cosine", 32),
    (8, 8, 1.0, 0.20, "cosine", 32),
    (8, 8, 1.0, 0.15, "cosine-cyclic", 32),
    (8, 8, 1.0, 0.15, "cosine", 128),
    (16, 8, 1.0, 0.15, "cosine", 128),
    (8, 16, 1.0, 0.15, "cosine", 128),
    (16, 16, 1.0, 0.15, "cosine", 128),
    (8, 8, 0.1, 0.15, "cosine", 128),
    (8, 8, 0.5, 0.15, "cosine", 128),
    (8, 8, 1.0, 0.20, "cosine", 128),
    (8, 8, 1.0, 0.15, "cosine-cyclic", 128),
]


@pytest.mark.parametrize(("size", "rows"), [("small", TABLE), ("medium", TABLE[:8])])
def test_the_grid_is_the_table(size: str, rows: list[tuple[object, ...]]) -> None:
    printed = [dict(zip(NAMES, row, strict=True)) for row in rows]
    names = {"cosine": "flat-and-anneal"}  # what the runs of Kossen et al. call the schedule of these settings
    assert grid(size) == [{**row, "schedule": names.get(row["schedule"], row["schedule"])} for row in printed]


def test_every_setting_makes_an_estimator() -> None:
    from hopular.methods.method import Run
    from hopular.methods.npt import METHOD

    for setting in grid("small"):
        parameters = METHOD.make("classification", setting, Run(seed=3)).get_params()
        assert {name: parameters[name] for name in setting} == setting
        assert parameters["random_state"] == 3
        assert (parameters["gamma"], parameters["dropout"]) == (1.0, 0.1)  # exp_tradeoff 1 in all of these runs


def test_settings_can_be_changed_without_changing_the_grid() -> None:
    grid("small")[0]["n_layers"] = 1
    assert grid("small")[0]["n_layers"] == 8
