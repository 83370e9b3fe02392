"""MLPs and the networks of Klambauer et al. 2017 as scikit-learn estimators.

Everything around the network, from the frame to the saved file, is that of Hopular's estimators.
"""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from torch import Tensor, nn

from hopular.methods.neural.networks import (
    KINDS,
    NORMS,
    SHAPES,
    Inputs,
    Kind,
    Network,
    Norm,
    Schedule,
    Shape,
    mlp,
    plain,
    snn,
)
from hopular.methods.neural.networks import predict as predict_rows
from hopular.methods.neural.networks import train as train_network
from hopular.model.base import HopularEstimator
from hopular.model.estimator import HopularClassifier, HopularRegressor
from hopular.model.parameters import check_parameters
from hopular.model.training import Hook, Result

BATCH = (16, 256)  # fewest and most rows a step, if not set
STEPS = 16  # steps an epoch in between


class NeuralEstimator(HopularEstimator):
    """What all of them share.

    Parameters
    ----------
    n_layers, width, dropout
        Hidden layers, units of each (of the first, in a conic network), and the share of units dropped.
    learning_rate, weight_decay, max_epochs, batch_size, patience
        AdamW's rate and decay; passes over the data; rows a step, None for about 16 steps an epoch; epochs without a
        better validation loss before training stops.
    max_seconds, validation_fraction, categorical_features, device, random_state
        As in HopularClassifier.
    """

    n_layers: int
    width: int
    dropout: float

    @abstractmethod
    def _layers(self, inputs: int, outputs: int) -> Iterator[nn.Module]:
        """The network between the inputs and the target."""

    def _check_parameters(self) -> None:
        check_parameters({**self.get_params(deep=False), "mask_probability": 0.0, "replace_probability": 0.0})
        for name in ("n_layers", "width", "max_epochs", "patience"):
            value = getattr(self, name)
            if not (isinstance(value, numbers.Integral) and int(value) >= 1):
                raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
        if not (isinstance(self.dropout, numbers.Real) and 0 <= self.dropout < 1):
            raise ValueError(f"dropout must be a number from 0 to below 1, not {self.dropout!r}")
        if self.learning_rate is None:
            raise ValueError("learning_rate must be a positive number, not None")

    def _new_network(self, seed: int) -> Any:
        inputs = Inputs(self.encoding_.widths, self.encoding_.target)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Network(inputs, self._layers(inputs.size, self.encoding_.widths[self.encoding_.target]))

    def _train(self, rows: Tensor, validation: Tensor | None, seed: int, hooks: Sequence[Hook]) -> Result:
        assert self.max_epochs is not None
        assert self.learning_rate is not None
        assert self.patience is not None
        schedule = Schedule(
            max_epochs=self.max_epochs,
            batch_size=self.batch_size or min(max(len(rows) // STEPS, BATCH[0]), BATCH[1]),
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            patience=self.patience,
        )
        network = self._new_network(seed).to(rows.device)
        target = self.encoding_.target
        return train_network(
            network, rows, validation, target, schedule, seed=seed, max_seconds=self.max_seconds, hooks=hooks
        )

    def _set_network(self, network: Any, rows: Tensor) -> None:
        self.network_, self.rows_ = network.eval().requires_grad_(False), rows[:0]  # no prediction needs the rows

    def _predict_target(self, X: Any) -> Tensor:
        rows = self._encode_table(X)
        return predict_rows(self.network_, rows).cpu()

    retrieve = available_if(lambda self: False)(HopularEstimator.retrieve)
    impute = available_if(lambda self: False)(HopularEstimator.impute)


class MLPEstimator(NeuralEstimator):
    """A network of ReLU layers; `norm` is "batch", "layer" or "none". See NeuralEstimator for the other parameters."""

    def __init__(
        self,
        *,
        n_layers: int = 3,
        width: int = 256,
        norm: Norm = "batch",
        dropout: float = 0.2,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        max_epochs: int = 200,
        batch_size: int | None = None,
        patience: int = 20,
        max_seconds: float | None = None,
        validation_fraction: float = 0.2,
        categorical_features: Sequence[str | int] | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_layers = n_layers
        self.width = width
        self.norm = norm
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.patience = patience
        self.max_seconds = max_seconds
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.device = device
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.norm not in NORMS:
            raise ValueError(f"norm must be one of {list(NORMS)}, not {self.norm!r}")
        if self.norm == "batch" and self.batch_size == 1:
            raise ValueError("batch_size must be at least 2 with norm='batch', not 1")

    def _layers(self, inputs: int, outputs: int) -> Iterator[nn.Module]:
        return mlp(inputs, outputs, self.n_layers, self.width, self.norm, self.dropout)


class SNNEstimator(NeuralEstimator):
    """A self-normalising network of SELU layers with alpha dropout (Klambauer et al. 2017).

    `shape` is "rectangular" or "conic". See NeuralEstimator for the other parameters.
    """

    def __init__(
        self,
        *,
        n_layers: int = 4,
        width: int = 256,
        shape: Shape = "conic",
        dropout: float = 0.05,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        max_epochs: int = 200,
        batch_size: int | None = None,
        patience: int = 20,
        max_seconds: float | None = None,
        validation_fraction: float = 0.2,
        categorical_features: Sequence[str | int] | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_layers = n_layers
        self.width = width
        self.shape = shape
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.patience = patience
        self.max_seconds = max_seconds
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.device = device
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.shape not in SHAPES:
            raise ValueError(f"shape must be one of {list(SHAPES)}, not {self.shape!r}")

    def _layers(self, inputs: int, outputs: int) -> Iterator[nn.Module]:
        return snn(inputs, outputs, self.n_layers, self.width, self.shape, self.dropout)


class PlainEstimator(NeuralEstimator):
    """A ReLU network that Klambauer et al. 2017 compare self-normalising ones with.

    `kind` is "msra", "highway", "resnet", "batch_norm", "weight_norm" or "layer_norm". `shape` is "rectangular"; that
    of a residual network may be "diavolo" (blocks with half as many units inside), that of the others but the highway
    network "conic". `n_layers` counts layers, or blocks of a residual network. See NeuralEstimator for the other
    parameters.
    """

    def __init__(
        self,
        *,
        kind: Kind = "msra",
        n_layers: int = 4,
        width: int = 256,
        shape: Shape = "rectangular",
        dropout: float = 0.0,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        max_epochs: int = 200,
        batch_size: int | None = None,
        patience: int = 20,
        max_seconds: float | None = None,
        validation_fraction: float = 0.2,
        categorical_features: Sequence[str | int] | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kind = kind
        self.n_layers = n_layers
        self.width = width
        self.shape = shape
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.patience = patience
        self.max_seconds = max_seconds
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.device = device
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {list(KINDS)}, not {self.kind!r}")
        if self.shape not in KINDS[self.kind]:
            raise ValueError(
                f"shape must be one of {list(KINDS[self.kind])} with kind={self.kind!r}, not {self.shape!r}"
            )
        if self.kind in ("batch_norm", "resnet") and self.batch_size == 1:
            raise ValueError(f"batch_size must be at least 2 with kind={self.kind!r}, not 1")

    def _layers(self, inputs: int, outputs: int) -> Iterator[nn.Module]:
        return plain(self.kind, inputs, outputs, self.n_layers, self.width, self.shape, self.dropout)


class MLPClassifier(MLPEstimator, HopularClassifier):
    """A multilayer perceptron for classification."""


class MLPRegressor(MLPEstimator, HopularRegressor):
    """A multilayer perceptron for regression."""


class SNNClassifier(SNNEstimator, HopularClassifier):
    """A self-normalising network for classification."""


class SNNRegressor(SNNEstimator, HopularRegressor):
    """A self-normalising network for regression."""


class PlainClassifier(PlainEstimator, HopularClassifier):
    """A plain network for classification."""


class PlainRegressor(PlainEstimator, HopularRegressor):
    """A plain network for regression."""
