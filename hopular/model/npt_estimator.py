"""NPTClassifier and NPTRegressor: Non-Parametric Transformers behind scikit-learn's interface, beside Hopular."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from hopular.model.architecture import Architecture
from hopular.model.npt import MASKED, NPT, SCHEDULES, NPTStep
from hopular.model.parameters import check_choice, check_parameters
from hopular.model.recipe import VALIDATIONS, Recipe, make_recipe
from hopular.model.retrieval import RetrievingEstimator
from hopular.model.table import TableClassifier, TableRegressor
from hopular.model.trainer import Part

VISITS = 40_000  # rows that pass through the network in the default recipe: a row costs several times Hopular's
EPOCHS = (40, 400)  # and how often it passes over each at least and at most
BATCH = 384  # rows of a step of it, all of which read one another


@dataclass(kw_only=True, eq=False, repr=False)
class NPTEstimator(RetrievingEstimator):
    """Fit a Non-Parametric Transformer to a table. Parameters that are None are chosen by the recipe.

    Parameters
    ----------
    n_members
        Networks that are trained together, in one stack, and whose mean is the prediction, as in HopularClassifier.
        None means 1, as published.
    n_layers, n_heads, embedding_dim
        Layers, attention between rows and between attributes in turn; heads of each; numbers per attribute.
    label_mask_probability
        Share of the rows of a training step whose label is hidden and predicted; the others show theirs. Below 1 the
        training rows show all of their labels to a row that is predicted; at 1 no label is ever shown.
    feature_mask_probability
        Share of the features that are masked, or replaced by a random value, and predicted.
    schedule
        Learning rate over training: "flat-and-anneal" is constant for one half and follows a cosine to 0 in the other;
        "cosine-cyclic" rises for a fifth and then falls along cosines, each twice as long and half as high.
    dropout
        Of embedded values, attention weights, hidden units and what comes out of each part.
    recipe
        "default" is made for a laptop; "paper" is the published one, 10,000 full-batch epochs.
    gamma, weight_decay
        Initial weight of the feature loss, which falls to 0 along a cosine, and LAMB's weight decay; the defaults are
        those of the runs on small tables in the NPT authors' repository.
    max_epochs, batch_size, learning_rate, patience, selection
        Override the recipe: passes over the data, rows a step, which read one another, LAMB's rate, validations without
        improvement before stopping, and whether validation "score" or "loss" picks the state that is kept.
    max_seconds, validation_fraction, categorical_features, device, precision, verbose, keep_on_interrupt,
    random_state
        As in HopularClassifier.
    """

    n_members: int | None = None
    n_layers: int = 8
    n_heads: int = 8
    embedding_dim: int = 32
    label_mask_probability: float = 1.0
    feature_mask_probability: float = 0.15
    schedule: Literal["flat-and-anneal", "cosine-cyclic"] = "flat-and-anneal"
    dropout: float = 0.1
    recipe: Literal["default", "paper"] = "default"
    gamma: float = 1.0
    weight_decay: float = 0.0
    max_epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    patience: int | None = None
    selection: Literal["score", "loss"] | None = None
    max_seconds: float | None = None
    validation_fraction: float = 0.2
    categorical_features: Sequence[str | int] | None = None
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    verbose: int = 0
    keep_on_interrupt: bool = False
    random_state: int | np.random.RandomState | None = None

    def _check_parameters(self) -> None:
        check_parameters(self.get_params(deep=False), required=("embedding_dim",))
        check_choice("schedule", self.schedule, tuple(SCHEDULES))

    def _recipe(self, n_rows: int, n_attributes: int) -> Recipe:
        max_epochs, batch_size, patience = self.max_epochs, self.batch_size, self.patience
        if self.recipe == "default":
            max_epochs = max_epochs or min(max(math.ceil(VISITS / n_rows), EPOCHS[0]), EPOCHS[1])
            batch_size = batch_size or min(BATCH, n_rows)
            patience = patience or VALIDATIONS  # to the end of training
        return make_recipe(
            self.recipe,
            n_rows,
            n_attributes,
            gamma=self.gamma,
            mask_probability=MASKED * self.feature_mask_probability,
            replace_probability=(1 - MASKED) * self.feature_mask_probability,
            weight_decay=self.weight_decay,
            max_epochs=max_epochs,
            batch_size=batch_size,
            memory_ratio=0.0,  # nothing is read beside the rows of a step
            learning_rate=self.learning_rate,
            patience=patience,
            selection=self.selection,
        )

    def _default_members(self, n_rows: int, n_features: int) -> int:
        return 1

    def _build(self, seeds: Sequence[int], owners: Sequence[NPTEstimator]) -> NPT:
        architecture = Architecture(
            widths=self.encoding_.widths,
            target=self.encoding_.target,
            n_blocks=self.n_layers,
            n_networks=self.n_heads,
            embedding_dim=self.embedding_dim,
            dropout_embedding=self.dropout,
            dropout_block=self.dropout,
            dropout_summary=self.dropout,
            embedding="sum",
        )
        return NPT(architecture, seeds, shows_labels=self.label_mask_probability < 1)

    def _step(self, network: NPT, recipe: Recipe, seeds: Sequence[int], rows: Tensor, parts: Sequence[Part]) -> NPTStep:
        return NPTStep(
            network,
            recipe,
            seeds,
            rows,
            parts,
            label_mask_probability=self.label_mask_probability,
            schedule=self.schedule,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class NPTClassifier(NPTEstimator, TableClassifier):
    """Non-Parametric Transformers for classification: binary or many classes, labels of any type."""


class NPTRegressor(NPTEstimator, TableRegressor):
    """Non-Parametric Transformers for regression."""
