"""What the two estimators share: parameters, checks of the input, fit, prediction, saving and loading."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from hopular.model.architecture import Architecture, Parts, choose_architecture, choose_parts
from hopular.model.encoding import Attribute, as_frame, learn_encoding
from hopular.model.holdout import holdout
from hopular.model.imputation import fill_missing
from hopular.model.network import Hopular, Memory
from hopular.model.parameters import check_parameters
from hopular.model.prediction import predict_target, read_weights
from hopular.model.recipe import Recipe, make_recipe
from hopular.model.storage import load_model, save_model
from hopular.model.training import HOPULAR, Hook, Procedure, Result, train

EvalSet = tuple[Any, Any]


def choose_device(device: str) -> torch.device:
    """`auto` takes a CUDA or Apple GPU if there is one, otherwise the CPU."""
    if device != "auto":
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


class HopularEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """What classifier and regressor share. Parameters that are None are chosen by the recipe.

    Parameters
    ----------
    n_blocks, n_networks, embedding_dim, beta
        L, M, e and the beta-scaling factor of the paper (Section A.3).
    dropout_embedding, dropout_block, dropout_summary
        The dropouts p_i, p_h and p_o.
    architecture
        "default", "paper" (as the paper describes it) or "released" (as in the code released with it). None means
        "paper" with the paper's recipe, otherwise "default". docs/architecture-options.md compares them.
    embedding, values, summary
        Override single parts of the architecture: "sum" or "projected" embedding, "tied" or "separate" values,
        "attribute" or "joint" summarisation.
    recipe
        "default" is made for a laptop; "paper" is the published one, 10,000 full-batch epochs.
    gamma, mask_probability, replace_probability, weight_decay
        Initial weight of the feature loss, BERT masking, and LAMB's weight decay.
    max_epochs, batch_size, memory_ratio, learning_rate, slow_rate, patience, selection
        Override the recipe: passes over the data, rows a step, share of the stored rows a step sees, LAMB's rate,
        rate of the slow weights, validations without improvement before stopping, and whether validation "score" or
        "loss" picks the state that is kept.
    max_seconds
        Time limit of `fit`. If training would take longer, its schedules are made to end with the limit, and the result
        depends on the machine's speed.
    validation_fraction
        Share of the rows held out, stratified, when `fit` gets no `eval_set`.
    categorical_features
        Columns (names or positions) to treat as categories although they hold numbers.
    device, precision
        "auto", "cpu", "cuda" or "mps"; "auto", "float32" or "bfloat16" (auto: bfloat16 on CUDA alone).
    random_state
        Seed; the same seed on the same machine gives the same model bit for bit.
    """

    _task: Literal["classification", "regression"]
    _format = 1  # of saved models; raised when older ones can no longer be read, or would mean something else

    def __init__(
        self,
        *,
        n_blocks: int = 4,
        n_networks: int = 8,
        embedding_dim: int = 32,
        beta: float = 1.0,
        dropout_embedding: float = 0.1,
        dropout_block: float = 0.1,
        dropout_summary: float = 0.01,
        architecture: Literal["default", "paper", "released"] | None = None,
        embedding: Literal["sum", "projected"] | None = None,
        values: Literal["tied", "separate"] | None = None,
        summary: Literal["attribute", "joint"] | None = None,
        recipe: Literal["default", "paper"] = "default",
        gamma: float = 1.0,
        mask_probability: float = 0.025,
        replace_probability: float = 0.175,
        weight_decay: float = 0.1,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        memory_ratio: float | None = None,
        learning_rate: float | None = None,
        slow_rate: float | None = None,
        patience: int | None = None,
        selection: Literal["score", "loss"] | None = None,
        max_seconds: float | None = None,
        validation_fraction: float = 0.2,
        categorical_features: Sequence[str | int] | None = None,
        device: str = "auto",
        precision: Literal["auto", "float32", "bfloat16"] = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_blocks = n_blocks
        self.n_networks = n_networks
        self.embedding_dim = embedding_dim
        self.beta = beta
        self.dropout_embedding = dropout_embedding
        self.dropout_block = dropout_block
        self.dropout_summary = dropout_summary
        self.architecture = architecture
        self.embedding = embedding
        self.values = values
        self.summary = summary
        self.recipe = recipe
        self.gamma = gamma
        self.mask_probability = mask_probability
        self.replace_probability = replace_probability
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.memory_ratio = memory_ratio
        self.learning_rate = learning_rate
        self.slow_rate = slow_rate
        self.patience = patience
        self.selection = selection
        self.max_seconds = max_seconds
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.device = device
        self.precision = precision
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = False
        return tags

    # -------------------------------------------------------------------------------------------------------- input

    def _check_table(self, X: Any, reset: bool) -> pd.DataFrame:
        if isinstance(X, pd.DataFrame):
            frame = as_frame(X)
        else:
            if isinstance(X, list | tuple) and np.asarray(X).dtype.kind in "US":
                X = np.asarray(X, dtype=object)  # keeps the numbers of a mixed list numbers
            array = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0)
            frame = as_frame(array)
            if array.dtype == object:
                frame = frame.infer_objects()
        for count, what in ((len(frame), "sample"), (frame.shape[1], "feature")):
            if count == 0:
                raise ValueError(
                    f"Found array with 0 {what}(s) (shape={frame.shape}) while a minimum of 1 is required. "
                    f"Give X at least one {what}."
                )
        validate_data(self, X=X, reset=reset, skip_check_array=True)
        return frame

    def _categorical_places(self, frame: pd.DataFrame) -> set[int]:
        names = list(frame.columns)
        places = set()
        for feature in () if self.categorical_features is None else self.categorical_features:
            if feature in names:
                places.add(names.index(feature))
            elif isinstance(feature, int | np.integer) and 0 <= feature < len(names):
                places.add(int(feature))
            else:
                raise ValueError(f"categorical_features names {feature!r}, which is not among the columns {names}")
        return places

    @abstractmethod
    def _encode_y(self, y: Any) -> np.ndarray[Any, Any]:
        """The target as codes or standardised numbers; NaN for a class not seen in training."""

    @abstractmethod
    def _check_y(self, y: Any) -> np.ndarray[Any, Any]:
        """y as a vector without missing values."""

    def _learn_classes(self, y: np.ndarray[Any, Any]) -> None:
        """What has to be known of y before rows are held out."""

    @abstractmethod
    def _target_attribute(self, y: np.ndarray[Any, Any]) -> Attribute:
        """The target as an attribute of the network, from the training rows."""

    # ---------------------------------------------------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any, eval_set: EvalSet | None = None, hooks: Sequence[Hook] = ()) -> Any:
        """Train on X and y. `eval_set=(X, y)` replaces the inner hold-out; `hooks` follow training as it goes.

        If anything fails, the estimator stays as it was before.
        """
        before = dict(self.__dict__)
        try:
            self._fit(X, y, eval_set, hooks)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, y: Any, eval_set: EvalSet | None, hooks: Sequence[Hook]) -> None:
        self._check_parameters()
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        frame = self._check_table(X, reset=True)
        target = self._check_y(y)
        self._learn_classes(target)
        if len(target) != len(frame):
            raise ValueError(f"X has {len(frame)} rows and y has {len(target)}: inconsistent numbers of samples")
        if len(frame) < 2:
            raise ValueError(f"Found n_samples={len(frame)}: training needs at least 2 rows. Give more rows.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.train_index_ = np.arange(len(frame))
        if eval_set is None:
            classes = target if self._task == "classification" else None
            self.train_index_, held_out = holdout(len(frame), self.validation_fraction, classes, seed)
            eval_frame, eval_target = frame.iloc[held_out], target[held_out]
        else:
            eval_frame, eval_target = self._check_eval_set(eval_set)

        train_frame, train_target = frame.iloc[self.train_index_], target[self.train_index_]
        self.encoding_ = learn_encoding(
            train_frame, self._categorical_places(frame), self._target_attribute(train_target)
        )
        device = choose_device(self.device)
        rows = self.encoding_.encode(train_frame, self._encode_y(train_target)).to(device)
        validation = self.encoding_.encode(eval_frame, self._encode_y(eval_target))
        validation = validation[~validation[:, self.encoding_.target].isnan()].to(device)
        result = self._train(rows, validation if len(validation) else None, seed, hooks)
        self._set_network(result.network, rows)
        self.history_, self.best_epoch_ = result.history, result.best_epoch

    def _check_parameters(self) -> None:
        check_parameters(self.get_params(deep=False))

    def _recipe(self, n_rows: int, n_attributes: int) -> Recipe:
        return make_recipe(
            self.recipe,
            n_rows,
            n_attributes,
            gamma=self.gamma,
            mask_probability=self.mask_probability,
            replace_probability=self.replace_probability,
            weight_decay=self.weight_decay,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            memory_ratio=self.memory_ratio,
            learning_rate=self.learning_rate,
            slow_rate=self.slow_rate,
            patience=self.patience,
            selection=self.selection,
        )

    def _procedure(self) -> Procedure:
        return HOPULAR

    def _train(self, rows: Tensor, validation: Tensor | None, seed: int, hooks: Sequence[Hook]) -> Result:
        """Train a new network on encoded rows, in the way and at the place that the parameters ask for."""
        return train(
            self._new_network(seed).to(rows.device),
            rows,
            validation,
            self._recipe(len(rows), rows.shape[1]),
            seed=seed,
            max_seconds=self.max_seconds,
            hooks=hooks,
            bfloat16=self.precision == "bfloat16" or (self.precision == "auto" and rows.device.type == "cuda"),
            procedure=self._procedure(),
        )

    def _check_eval_set(self, eval_set: EvalSet) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
        if not (isinstance(eval_set, tuple) and len(eval_set) == 2):
            raise ValueError(f"eval_set must be a tuple (X, y), not {type(eval_set).__name__}")
        frame = self._check_table(eval_set[0], reset=False)
        target = self._check_y(eval_set[1])
        if len(target) != len(frame):
            raise ValueError(f"eval_set has {len(frame)} rows of X and {len(target)} of y")
        return frame, target

    def _parts(self) -> Parts:
        name = choose_architecture(self.architecture, self.recipe)
        return choose_parts(name, self.embedding, self.values, self.summary)

    def _new_network(self, seed: int) -> Hopular:
        architecture = Architecture(
            widths=self.encoding_.widths,
            target=self.encoding_.target,
            n_blocks=self.n_blocks,
            n_networks=self.n_networks,
            embedding_dim=self.embedding_dim,
            beta=self.beta,
            dropout_embedding=self.dropout_embedding,
            dropout_block=self.dropout_block,
            dropout_summary=self.dropout_summary,
            **asdict(self._parts()),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return Hopular(architecture)

    def _set_network(self, network: Hopular, rows: Tensor) -> None:
        """Keep the network and its training rows, with what `store` makes of them: it serves every prediction."""
        self.network_, self.rows_ = network, rows
        with torch.inference_mode():
            self._memory: Memory = network.store(rows)

    # ------------------------------------------------------------------------------------------------------ predict

    def _encode_table(self, X: Any) -> Tensor:
        check_is_fitted(self, "network_")
        rows: Tensor = self.encoding_.encode(self._check_table(X, reset=False))
        return rows.to(self.rows_.device)

    def _predict_target(self, X: Any) -> Tensor:
        rows = self._encode_table(X)
        return predict_target(self.network_, rows, self._memory).cpu()

    def retrieve(self, X: Any, k: int = 5) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The k training rows that each prediction was read from: their positions in the X given to `fit`, and weights.

        A weight is the association of H_s, averaged over networks and blocks; all weights of a row sum to one. Rows
        held out for validation are not stored and never appear.
        """
        rows = self._encode_table(X)
        if not (isinstance(k, int | np.integer) and 1 <= k <= len(self.train_index_)):
            raise ValueError(f"k must be an integer from 1 to the {len(self.train_index_)} stored rows, not {k!r}")
        weights, places = read_weights(self.network_, rows, self._memory, k)
        return self.train_index_[places.cpu().numpy()], weights.cpu().numpy()

    def impute(self, X: Any) -> pd.DataFrame:
        """X as a frame with its missing feature values filled by the model's own predictions of them.

        Columns that were left out in training stay as they are.
        """
        rows = self._encode_table(X)
        frame = self._check_table(X, reset=False)
        return fill_missing(frame, rows, self.encoding_, self.network_, self._memory)

    # ------------------------------------------------------------------------------------------------- save and load

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_memory", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "network_" in state:
            self._set_network(self.network_, self.rows_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file; `load` reads it on any device, and no pickle is involved."""
        check_is_fitted(self, "network_")
        save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "auto") -> Any:
        """Read a model written by `save`."""
        return load_model(cls, path, choose_device(device))

    def _fitted_json(self) -> dict[str, Any]:
        """Fitted attributes beside network and encoding, for `save`."""
        names = getattr(self, "feature_names_in_", None)
        return {"n_features_in": self.n_features_in_, "feature_names_in": None if names is None else list(names)}

    def _set_fitted_json(self, data: dict[str, Any]) -> None:
        self.n_features_in_ = data["n_features_in"]
        if data["feature_names_in"] is not None:
            self.feature_names_in_ = np.asarray(data["feature_names_in"], dtype=object)
