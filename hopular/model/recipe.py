"""Recipes of training: the published recipe and a practical one, as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from hopular.model.architecture import WIDE


@dataclass(frozen=True)
class Recipe:
    """Everything that steers training, resolved for a table of a known size."""

    max_epochs: int
    batch_size: int  # rows per optimiser step
    memory_ratio: float  # share of the stored rows that a step sees
    learning_rate: float
    slow_rate: float  # alpha of the slow weights
    validate_every: int  # epochs between validations
    patience: int  # validations without improvement before training stops
    selection: Literal["score", "loss"]  # which validation figure decides the state that is kept
    gamma: float = 1.0  # initial weight of the feature loss
    mask_probability: float = 0.025
    replace_probability: float = 0.175
    weight_decay: float = 0.1

    def __post_init__(self) -> None:
        for name in ("max_epochs", "batch_size", "validate_every", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)!r}")


EPOCHS = 1_600  # passes over the rows in the default schedule, divided by the root of their number,
EPOCHS_WIDTH = 14  # with more than so many attributes fewer, by the root of their number,
EPOCHS_MORE, EPOCHS_MORE_ROWS = 1.5, 500  # with fewer more, up to so many times, in tables of more rows than these,
EPOCHS_RANGE = (20, 200)  # but so many at least and at most
BATCH = 64
MEMORY = 192  # stored rows that a step sees
VALIDATIONS, PATIENCE = 20, 8  # at most in all, and without improvement before training stops,
PATIENCE_IN_WIDE_TABLES = 4  # whose steps cost most


def paper_recipe(n_rows: int, n_attributes: int = EPOCHS_WIDTH) -> Recipe:
    """Return that of Section A.3: 10,000 full-batch epochs, validated every ten, best validation score kept."""
    return Recipe(
        max_epochs=10_000,
        batch_size=n_rows,
        memory_ratio=1.0,
        learning_rate=1e-3,
        slow_rate=0.005,
        validate_every=10,
        patience=1_000,
        selection="score",
    )


def default_recipe(n_rows: int, n_attributes: int = EPOCHS_WIDTH) -> Recipe:
    """Return a schedule of hundreds of steps instead of thousands, at ten times the rate, in mini-batches.

    The slow weights follow ten times as fast, since a short schedule leaves them no time to lag. Each step reads a
    sample of the memory; wide tables are passed over less often, narrow ones of many rows more often. Validation loss
    picks the state: on a few dozen rows accuracy has too many ties.
    """
    epochs = round(EPOCHS / math.sqrt(n_rows) * _share_by_width(n_rows, n_attributes))
    max_epochs = min(max(epochs, EPOCHS_RANGE[0]), EPOCHS_RANGE[1])
    return Recipe(
        max_epochs=max_epochs,
        batch_size=min(BATCH, math.ceil(n_rows / 2)),
        memory_ratio=min(1.0, MEMORY / n_rows),
        learning_rate=1e-2,
        slow_rate=0.05,
        validate_every=math.ceil(max_epochs / VALIDATIONS),
        patience=PATIENCE if n_attributes <= WIDE else PATIENCE_IN_WIDE_TABLES,
        selection="loss",
    )


def _share_by_width(n_rows: int, n_attributes: int) -> float:
    """Return how much longer or shorter than that of 14 attributes the schedule of so many is."""
    ratio = EPOCHS_WIDTH / n_attributes
    if ratio < 1:
        return math.sqrt(ratio)
    return min(ratio, EPOCHS_MORE) if n_rows > EPOCHS_MORE_ROWS else 1.0


RECIPES = {"default": default_recipe, "paper": paper_recipe}


def make_recipe(name: str, n_rows: int, n_attributes: int = EPOCHS_WIDTH, **overrides: object) -> Recipe:
    """Return the named recipe for so many training rows and attributes; overrides that are None leave its value."""
    if name not in RECIPES:
        raise ValueError(f"recipe must be one of {sorted(RECIPES)}, not {name!r}")
    changes = {key: value for key, value in overrides.items() if value is not None}
    recipe = RECIPES[name](n_rows, n_attributes)
    if "max_epochs" in changes and "validate_every" not in changes and name == "default":
        changes["validate_every"] = math.ceil(int(changes["max_epochs"]) / VALIDATIONS)  # type: ignore[call-overload]
    return replace(recipe, **changes)  # type: ignore[arg-type]
