"""MLPs and the networks of Klambauer et al. 2017 as scikit-learn estimators.

Their constructors are those of dataclasses, so that the parameters that all of them have are declared once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from hopular.model.members import Draw
from hopular.model.parameters import check_choice, check_parameters
from hopular.model.perceptrons import KINDS, NORMS, Kind, NormKind, Perceptron, PerceptronStep, Shape, mlp, plain, snn
from hopular.model.recipe import Recipe
from hopular.model.table import TableClassifier, TableEstimator, TableRegressor

BATCH = (16, 256)  # fewest and most rows a step, if not set
STEPS = 16  # steps an epoch in between
SNN_SHAPES: tuple[Shape, ...] = ("rectangular", "conic")


@dataclass(kw_only=True, eq=False, repr=False)
class PerceptronEstimator(TableEstimator):
    """Fit feed-forward networks to a table.

    Parameters
    ----------
    n_members
        Networks that are trained together and whose mean is the prediction; None means 1. Several hold out a fold of
        the rows each, so that every row has a prediction of a member that did not learn from it: `oof_proba_` or
        `oof_prediction_`.
    n_layers, width, dropout
        Hidden layers, units of each (of the first, in a conic network), and the share of units dropped.
    learning_rate, weight_decay, max_epochs, batch_size, patience
        AdamW's rate and decay; passes over the data; rows a step at least, None for about 16 steps an epoch; epochs
        without a better validation loss before training stops.
    max_seconds, validation_fraction, categorical_features, device, verbose, keep_on_interrupt,
    random_state
        As in HopularClassifier.
    """

    _step = PerceptronStep

    n_members: int | None = None
    n_layers: int = 4
    width: int = 256
    dropout: float = 0.0
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    max_epochs: int = 200
    batch_size: int | None = None
    patience: int = 20
    max_seconds: float | None = None
    validation_fraction: float = 0.2
    categorical_features: Sequence[str | int] | None = None
    device: str = "auto"
    verbose: int = 0
    keep_on_interrupt: bool = False
    random_state: int | np.random.RandomState | None = None

    @abstractmethod
    def _layers(self, draw: Draw, inputs: int, outputs: int) -> Iterator[nn.Module]:
        """Make the layers between the inputs and the target."""

    def _check_parameters(self) -> None:
        check_parameters(self.get_params(deep=False), required=("max_epochs", "learning_rate", "patience"))

    def _default_members(self, n_rows: int, n_features: int) -> int:
        return 1

    def _build(self, seeds: Sequence[int], owners: Sequence[PerceptronEstimator]) -> Perceptron:
        return Perceptron(self.encoding_.widths, self.encoding_.target, seeds, self._layers)

    def _recipe(self, n_rows: int, n_attributes: int) -> Recipe:
        batch_size = self.batch_size or min(max(n_rows // STEPS, BATCH[0]), BATCH[1])
        return Recipe(
            max_epochs=self.max_epochs,
            batch_size=math.ceil(n_rows / max(1, n_rows // batch_size)),  # no step has fewer rows than `batch_size`
            memory_ratio=0.0,
            learning_rate=self.learning_rate,
            slow_rate=1.0,
            validate_every=1,
            patience=self.patience,
            selection="loss",
            weight_decay=self.weight_decay,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class MLPEstimator(PerceptronEstimator):
    """A network of ReLU layers; `norm` is "batch", "layer" or "none".

    See PerceptronEstimator for the other parameters.
    """

    n_layers: int = 3
    norm: NormKind = "batch"
    dropout: float = 0.2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("norm", self.norm, tuple(NORMS))
        if self.norm == "batch" and self.batch_size == 1:
            raise ValueError("batch_size must be at least 2 with norm='batch', not 1")

    def _layers(self, draw: Draw, inputs: int, outputs: int) -> Iterator[nn.Module]:
        return mlp(draw, inputs, outputs, self.n_layers, self.width, self.norm, self.dropout)


@dataclass(kw_only=True, eq=False, repr=False)
class SNNEstimator(PerceptronEstimator):
    """A self-normalising network of SELU layers with alpha dropout (Klambauer et al. 2017).

    `shape` is "rectangular" or "conic". See PerceptronEstimator for the other parameters.
    """

    shape: Shape = "conic"
    dropout: float = 0.05

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("shape", self.shape, SNN_SHAPES)

    def _layers(self, draw: Draw, inputs: int, outputs: int) -> Iterator[nn.Module]:
        return snn(draw, inputs, outputs, self.n_layers, self.width, self.shape, self.dropout)


@dataclass(kw_only=True, eq=False, repr=False)
class PlainEstimator(PerceptronEstimator):
    """A ReLU network that Klambauer et al. 2017 compare self-normalising ones with.

    `kind` is "msra", "highway", "resnet", "batch_norm", "weight_norm" or "layer_norm". `shape` is "rectangular"; that
    of a residual network may be "diavolo" (blocks with half as many units inside), that of the others but the highway
    network "conic". `n_layers` counts layers, or blocks of a residual network. See PerceptronEstimator for the other
    parameters.
    """

    kind: Kind = "msra"
    shape: Shape = "rectangular"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("kind", self.kind, tuple(KINDS))
        check_choice("shape", self.shape, KINDS[self.kind], f" with kind={self.kind!r}")
        if self.kind in ("batch_norm", "resnet") and self.batch_size == 1:
            raise ValueError(f"batch_size must be at least 2 with kind={self.kind!r}, not 1")

    def _layers(self, draw: Draw, inputs: int, outputs: int) -> Iterator[nn.Module]:
        return plain(draw, self.kind, inputs, outputs, self.n_layers, self.width, self.shape, self.dropout)


@dataclass(kw_only=True, eq=False, repr=False)
class MLPClassifier(MLPEstimator, TableClassifier):
    """A multilayer perceptron for classification."""


class MLPRegressor(MLPEstimator, TableRegressor):
    """A multilayer perceptron for regression."""


@dataclass(kw_only=True, eq=False, repr=False)
class SNNClassifier(SNNEstimator, TableClassifier):
    """A self-normalising network for classification."""


class SNNRegressor(SNNEstimator, TableRegressor):
    """A self-normalising network for regression."""


@dataclass(kw_only=True, eq=False, repr=False)
class PlainClassifier(PlainEstimator, TableClassifier):
    """A plain network for classification."""


class PlainRegressor(PlainEstimator, TableRegressor):
    """A plain network for regression."""
