"""NPTClassifier and NPTRegressor: Non-Parametric Transformers behind the interface of Hopular's estimators."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from hopular.model.architecture import Architecture
from hopular.model.base import HopularEstimator
from hopular.model.estimator import HopularClassifier, HopularRegressor
from hopular.model.masking import LabelMasking, Masking
from hopular.model.network import Hopular
from hopular.model.npt import NPT
from hopular.model.objective import cosine, cosine_cyclic
from hopular.model.optimizer import Lamb, LambSettings, Lookahead
from hopular.model.parameters import check_parameters
from hopular.model.recipe import Recipe, make_recipe
from hopular.model.training import Procedure

MASKED = 0.9  # of the features chosen to be predicted; the others carry a random value
SCHEDULES = {"cosine": cosine, "cosine-cyclic": cosine_cyclic}
VISITS = 20_000  # the default recipe is Hopular's with fewer passes over the rows: a step costs several times as much
EPOCHS = (20, 200)
MEMORY = 384  # rows that a step of it passes through the network, its batch among them


class NPTProcedure(Procedure):
    """How NPTs are trained (Section A.3): labels masked by chance, LAMB inside Lookahead with alpha = 0.5 and k = 6."""

    def __init__(self, label_mask_probability: float, schedule: str) -> None:
        self.label_mask_probability = label_mask_probability
        self.schedule = SCHEDULES[schedule]

    def masking(self, arch: Architecture, recipe: Recipe, seed: int) -> Masking:
        shares = (recipe.mask_probability, recipe.replace_probability)
        return LabelMasking(arch.widths, arch.target, *shares, seed, self.label_mask_probability)

    def optimizer(self, network: Hopular, slow: Hopular, recipe: Recipe) -> Lamb:
        settings = LambSettings(weight_decay=recipe.weight_decay)
        return Lookahead(network.parameters(), slow.parameters(), settings, alpha=0.5, k=6)

    def learning_rate(self, recipe: Recipe, done: float) -> float:
        return self.schedule(recipe.learning_rate, done)


class NPTEstimator(HopularEstimator):
    """What classifier and regressor share. Parameters that are None are chosen by the recipe.

    Parameters
    ----------
    n_layers, n_heads, embedding_dim
        Layers, attention between rows and between attributes in turn; heads of each; numbers per attribute.
    label_mask_probability
        Share of the rows of a step whose label is masked and predicted; the others show it.
    feature_mask_probability
        Share of the features that are masked, or replaced by a random value, and predicted.
    schedule
        Learning rate over training: "cosine", or "cosine-cyclic" with four descents.
    dropout
        Of embedded values, attention weights and hidden units.
    recipe
        "default" is made for a laptop; "paper" is the published one, 10,000 full-batch epochs.
    gamma, weight_decay
        Initial weight of the feature loss and LAMB's weight decay, as released by the authors of NPTs.
    max_epochs, batch_size, memory_ratio, learning_rate, patience, selection
        Override the recipe: passes over the data, rows a step, share of the training rows a step sees, LAMB's rate,
        validations without improvement before stopping, and whether validation "score" or "loss" picks the state that
        is kept.
    max_seconds, validation_fraction, categorical_features, device, precision, random_state
        As in HopularClassifier.
    """

    def __init__(
        self,
        *,
        n_layers: int = 8,
        n_heads: int = 8,
        embedding_dim: int = 32,
        label_mask_probability: float = 1.0,
        feature_mask_probability: float = 0.15,
        schedule: Literal["cosine", "cosine-cyclic"] = "cosine",
        dropout: float = 0.1,
        recipe: Literal["default", "paper"] = "default",
        gamma: float = 0.5,
        weight_decay: float = 0.0,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        memory_ratio: float | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        selection: Literal["score", "loss"] | None = None,
        max_seconds: float | None = None,
        validation_fraction: float = 0.2,
        categorical_features: Sequence[str | int] | None = None,
        device: str = "auto",
        precision: Literal["auto", "float32", "bfloat16"] = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_layers = n_layers
        self.n_heads = n_heads
        self.embedding_dim = embedding_dim
        self.label_mask_probability = label_mask_probability
        self.feature_mask_probability = feature_mask_probability
        self.schedule = schedule
        self.dropout = dropout
        self.recipe = recipe
        self.gamma = gamma
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.memory_ratio = memory_ratio
        self.learning_rate = learning_rate
        self.patience = patience
        self.selection = selection
        self.max_seconds = max_seconds
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.device = device
        self.precision = precision
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_parameters({**self.get_params(deep=False), "mask_probability": 0.0, "replace_probability": 0.0})
        for name in ("n_layers", "n_heads"):
            value = getattr(self, name)
            if not (isinstance(value, numbers.Integral) and int(value) >= 1):
                raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
        for name in ("label_mask_probability", "feature_mask_probability"):
            value = getattr(self, name)
            if not (isinstance(value, numbers.Real) and 0 <= float(value) <= 1):
                raise ValueError(f"{name} must be a number from 0 to 1, not {value!r}")
        if self.label_mask_probability == 0:
            raise ValueError("label_mask_probability must be above 0: only masked labels are learnt")
        if not (isinstance(self.dropout, numbers.Real) and 0 <= self.dropout < 1):
            raise ValueError(f"dropout must be a number from 0 to below 1, not {self.dropout!r}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {list(SCHEDULES)}, not {self.schedule!r}")

    def _recipe(self, n_rows: int, n_attributes: int) -> Recipe:
        max_epochs, memory_ratio = self.max_epochs, self.memory_ratio
        if self.recipe == "default":
            max_epochs = max_epochs or min(max(math.ceil(VISITS / n_rows), EPOCHS[0]), EPOCHS[1])
            memory_ratio = memory_ratio or min(1.0, MEMORY / n_rows)
        return make_recipe(
            self.recipe,
            n_rows,
            n_attributes,
            gamma=self.gamma,
            mask_probability=MASKED * self.feature_mask_probability,
            replace_probability=(1 - MASKED) * self.feature_mask_probability,
            weight_decay=self.weight_decay,
            max_epochs=max_epochs,
            batch_size=self.batch_size,
            memory_ratio=memory_ratio,
            learning_rate=self.learning_rate,
            patience=self.patience,
            selection=self.selection,
        )

    def _procedure(self) -> Procedure:
        return NPTProcedure(self.label_mask_probability, self.schedule)

    def _new_network(self, seed: int) -> NPT:
        architecture = Architecture(
            widths=self.encoding_.widths,
            target=self.encoding_.target,
            n_blocks=self.n_layers,
            n_networks=self.n_heads,
            embedding_dim=self.embedding_dim,
            dropout_embedding=self.dropout,
            dropout_block=self.dropout,
            dropout_summary=0.0,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return NPT(architecture)


class NPTClassifier(NPTEstimator, HopularClassifier):
    """Non-Parametric Transformers for classification: binary or many classes, labels of any type."""


class NPTRegressor(NPTEstimator, HopularRegressor):
    """Non-Parametric Transformers for regression."""
