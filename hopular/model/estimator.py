"""HopularClassifier and HopularRegressor: the model behind scikit-learn's interface, for tables as people have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from hopular.model.architecture import (
    Architecture,
    Parts,
    Regularisation,
    Sizes,
    choose_architecture,
    choose_parts,
    choose_regularisation,
    choose_sample_space,
    choose_sizes,
)
from hopular.model.network import Hopular, HopularStep
from hopular.model.recipe import Recipe, make_recipe
from hopular.model.retrieval import RetrievingEstimator
from hopular.model.table import TableClassifier, TableRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class HopularEstimator(RetrievingEstimator):
    """Fit Hopular to a table. Parameters that are None are chosen by the table, the architecture or the recipe.

    Parameters
    ----------
    n_members
        Networks that are trained together, in one stack, and whose mean is the prediction. Each holds out a fold of the
        rows to stop by, so that every row has a prediction of a member that did not learn from it: `oof_proba_` or
        `oof_prediction_`. None means 8 up to 500 rows of fewer than 40 columns, else 4, and 1 with the architectures
        "paper" and "released" or the paper's recipe. A single one holds out `validation_fraction` of the rows.
    n_blocks, n_networks, embedding_dim, beta
        L, M, e and the beta-scaling factor of the paper (Section A.3). None means 4, 8 and 32 with the architectures
        "paper" and "released"; by default 4, 2 and 8, or 4, 1 and 4 in tables of 40 columns or more.
    dropout_embedding, dropout_block, dropout_summary
        The dropouts p_i, p_h and p_o. None means 0.1 with the architectures "paper" and "released", 0.2 by default.
    architecture
        "default", "paper" (as the paper describes it) or "released" (as in the code released with it). None means
        "paper" with the paper's recipe, otherwise "default", whose H_s compares rows in at most 64 dimensions in tables
        of up to 24 attributes, the target included. docs/architecture-options.md compares them.
    embedding, values, summary
        Override single parts of the architecture: "sum", "projected" or "periodic" embedding, "tied" or "separate"
        values, "attribute" or "joint" summarisation.
    recipe
        "default" is made for a laptop; "paper" is the published one, 10,000 full-batch epochs.
    gamma, weight_decay
        Initial weight of the feature loss, and LAMB's weight decay.
    mask_probability, replace_probability
        Shares of the features that a training step masks, or replaces by random values. None means 0.175 with the
        architectures "paper" and "released", and none by default.
    max_epochs, batch_size, memory_ratio, learning_rate, slow_rate, patience, selection
        Override the recipe: passes over the data, rows a step, share of the stored rows a step sees, LAMB's rate,
        rate of the slow weights, validations without improvement before stopping, and whether validation "score" or
        "loss" picks the state that is kept.
    max_seconds
        Time limit of `fit`. If training would take longer, its schedules are made to end with the limit, and the result
        depends on the machine's speed.
    validation_fraction
        Share of the rows held out, stratified, by a single member when `fit` gets no `eval_set`.
    categorical_features
        Columns (names or positions) to treat as categories although they hold numbers.
    device, precision
        "auto", "cpu", "cuda" or "mps"; "auto", "float32" or "bfloat16" (auto: bfloat16 on CUDA alone).
    verbose
        1 draws a bar of the epochs with the losses of training and validation, 0 nothing.
    keep_on_interrupt
        Whether Ctrl-C ends training and keeps the best state so far, with a warning. Otherwise `fit` raises
        KeyboardInterrupt and leaves the estimator as it was before, as a second Ctrl-C does.
    random_state
        Seed; the same seed on the same machine gives the same model bit for bit.
    """

    _step = HopularStep
    _own = ("random_state", "beta")

    n_members: int | None = None
    n_blocks: int | None = None
    n_networks: int | None = None
    embedding_dim: int | None = None
    beta: float = 1.0
    dropout_embedding: float | None = None
    dropout_block: float | None = None
    dropout_summary: float = 0.01
    architecture: Literal["default", "paper", "released"] | None = None
    embedding: Literal["sum", "projected", "periodic"] | None = None
    values: Literal["tied", "separate"] | None = None
    summary: Literal["attribute", "joint"] | None = None
    recipe: Literal["default", "paper"] = "default"
    gamma: float = 1.0
    mask_probability: float = 0.025
    replace_probability: float | None = None
    weight_decay: float = 0.1
    max_epochs: int | None = None
    batch_size: int | None = None
    memory_ratio: float | None = None
    learning_rate: float | None = None
    slow_rate: float | None = None
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

    def _architecture_name(self) -> str:
        return choose_architecture(self.architecture, self.recipe)

    def _parts(self) -> Parts:
        return choose_parts(self._architecture_name(), self.embedding, self.values, self.summary)

    def _sizes(self) -> Sizes:
        name, n_attributes = self._architecture_name(), len(self.encoding_.widths)
        return choose_sizes(name, n_attributes, self.n_blocks, self.n_networks, self.embedding_dim)

    def _regularisation(self) -> Regularisation:
        given = (self.dropout_embedding, self.dropout_block, self.replace_probability)
        return choose_regularisation(self._architecture_name(), *given)

    def _chosen(self) -> dict[str, Any]:
        return asdict(self._parts()) | asdict(self._sizes()) | asdict(self._regularisation())

    def _default_members(self, n_rows: int, n_features: int) -> int:
        is_published = self.recipe == "paper" or self._architecture_name() != "default"
        return 1 if is_published else super()._default_members(n_rows, n_features)

    def _build(self, seeds: Sequence[int], owners: Sequence[HopularEstimator]) -> Hopular:
        regularisation, n_attributes = self._regularisation(), len(self.encoding_.widths)
        architecture = Architecture(
            widths=self.encoding_.widths,
            target=self.encoding_.target,
            beta=self.beta,
            dropout_embedding=regularisation.dropout_embedding,
            dropout_block=regularisation.dropout_block,
            dropout_summary=self.dropout_summary,
            sample_space=choose_sample_space(self._architecture_name(), n_attributes),
            **asdict(self._sizes()),
            **asdict(self._parts()),
        )
        return Hopular(architecture, seeds, [owner.beta for owner in owners])

    def _recipe(self, n_rows: int, n_attributes: int) -> Recipe:
        return make_recipe(
            self.recipe,
            n_rows,
            n_attributes,
            gamma=self.gamma,
            mask_probability=self.mask_probability,
            replace_probability=self._regularisation().replace_probability,
            weight_decay=self.weight_decay,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            memory_ratio=self.memory_ratio,
            learning_rate=self.learning_rate,
            slow_rate=self.slow_rate,
            patience=self.patience,
            selection=self.selection,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class HopularClassifier(HopularEstimator, TableClassifier):
    """Hopular for classification: two or many classes, labels of any type."""


class HopularRegressor(HopularEstimator, TableRegressor):
    """Hopular for regression."""
