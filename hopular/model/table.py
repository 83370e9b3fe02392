"""Turn a table into a fitted model: members of a network, trained in one stack, whose mean is the prediction.

A kind of network brings two things of its own: the network (`_build`) and how it takes a training step (`_step`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from hopular.model.architecture import WIDE
from hopular.model.checkpoint import Checkpoint
from hopular.model.columns import check_labels, check_numbers, check_table, mean_and_scale
from hopular.model.convergence import warn_of_end
from hopular.model.encoding import Attribute, learn_encoding
from hopular.model.folds import assign_folds, hold_out
from hopular.model.interrupt import noted_interrupt
from hopular.model.members import Network
from hopular.model.parameters import check_parameters
from hopular.model.prediction import gather, predict_target, store_rows
from hopular.model.progress import progress_bar
from hopular.model.recipe import Recipe
from hopular.model.storage import load_model, save_model
from hopular.model.trainer import Hook, Part, Result, train
from hopular.model.weights import Array, ClassWeight, weigh_classes, weigh_rows

EvalSet = tuple[Any, Any] | tuple[Any, Any, Any]  # X, y and, if rows differ in it, their weights
Folds = Sequence[tuple[Any, Any]]  # row positions to train on, and to hold out
MEMBERS, FEW_ROWS, MANY_MEMBERS = 4, 500, 8  # members by default; those of tables up to so many rows, if not wide
OUT_OF_FOLD = ("oof_proba_", "oof_prediction_")
THREADED = 1 << 21  # multiplications of a member's largest product from which a second thread is worth its wait


def choose_device(device: str) -> torch.device:
    """Return the device of that name; `auto` takes a CUDA or Apple GPU if there is one, otherwise the CPU."""
    if device != "auto":
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use so many threads within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class TableEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Fits members of a network to a table as people have it, and predicts by their mean."""

    _task: Literal["classification", "regression"]
    _step: Any  # how the network learns, called as in `train`
    _own: tuple[str, ...] = ("random_state",)  # parameters in which estimators may differ that are fitted together

    n_members: int | None
    validation_fraction: float
    max_seconds: float | None
    categorical_features: Sequence[str | int] | None
    device: str
    verbose: int
    keep_on_interrupt: bool
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = False
        return tags

    # -------------------------------------------------------------------------------------- what a network brings

    @abstractmethod
    def _build(self, seeds: Sequence[int], owners: Sequence[Self]) -> Network:
        """Make untrained members for `encoding_` from their seeds; `owners` are the estimators that they belong to."""

    @abstractmethod
    def _recipe(self, n_rows: int, n_attributes: int) -> Recipe:
        """Resolve how members are trained on so many rows."""

    def _default_members(self, n_rows: int, n_features: int) -> int:
        """Return how many members a table of this size gets: averaging gains less as rows grow, and costs more."""
        return MANY_MEMBERS if n_rows <= FEW_ROWS and n_features < WIDE else MEMBERS

    def _check_parameters(self) -> None:
        check_parameters(self.get_params(deep=False))

    def _settings(self) -> list[tuple[str, Any]]:
        """Return the class and the parameters that training may depend on, beside the seed and the rows."""
        left_out = (*self._own, "categorical_features", "max_seconds", "verbose", "keep_on_interrupt")
        parameters = self.get_params(deep=False).items()
        return [("class", type(self).__name__), *((name, value) for name, value in parameters if name not in left_out)]

    def _chosen(self) -> dict[str, Any]:
        """Return what parameters of the network stand for in this table where they are None: saved with the model."""
        return {}

    def _uses_bfloat16(self, device: torch.device) -> bool:
        """Return whether products of training are taken in bfloat16."""
        precision = getattr(self, "precision", "float32")
        return precision == "bfloat16" or (precision == "auto" and device.type == "cuda")

    # ------------------------------------------------------------------------------------------------------- input

    def _check_table(self, X: Any, reset: bool) -> pd.DataFrame:
        return check_table(self, X, reset)

    def _categorical_places(self, frame: pd.DataFrame) -> set[int]:
        names = list(frame.columns)[: self.n_features_in_]  # the parts of dates come after them
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
    def _check_y(self, y: Any) -> np.ndarray[Any, Any]:
        """Return y as a vector without missing values."""

    def _learn_classes(self, y: np.ndarray[Any, Any]) -> None:
        """Learn what has to be known of y before rows are held out."""

    def _weigh_classes(self, y: Array, sample_weight: Any) -> dict[Any, float]:
        """Return the weight of each class; empty if there are none."""
        return {}

    @abstractmethod
    def _target_attribute(self, y: np.ndarray[Any, Any]) -> Attribute:
        """Return the target as an attribute of the network, from the training rows."""

    @abstractmethod
    def _encode_y(self, y: Any) -> np.ndarray[Any, Any]:
        """Return the target as codes or standardised numbers; NaN for a class not seen in training."""

    # --------------------------------------------------------------------------------------------------------- fit

    def fit(
        self,
        X: Any,
        y: Any,
        eval_set: EvalSet | None = None,
        sample_weight: Any = None,
        hooks: Sequence[Hook] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        folds: Folds | None = None,
    ) -> Any:
        """Train on X and y. `eval_set=(X, y)` decides when to stop instead of rows of X; `hooks` follow training.

        `sample_weight` has a weight of at least 0 for each row, in what is minimised and in the losses to stop by; that
        of the rows of `eval_set=(X, y, sample_weight)` is 1 unless given. Networks that read training rows may read one
        of any weight.
        `folds` are pairs of row positions, to train on and to hold out, as scikit-learn's splitters give them: each
        member holds out one of them, or several if there are fewer members; a single member becomes one for each.
        `held_out_` has the positions that each member has held out, none with an `eval_set`.
        With a `checkpoint` training that was interrupted goes on from this file, bit for bit, and the file is renewed
        every minute; it is deleted in the end. If anything fails, the estimator stays as it was before.
        """
        with progress_bar(type(self).__name__) if self.verbose else nullcontext() as bar:
            hooks = hooks if bar is None else [*hooks, bar]
            (error,) = fit_together([self], X, y, eval_set, [hooks], checkpoint, folds, sample_weight)
        if error is not None:
            raise error
        return self

    def _prepare(self, X: Any, y: Any, eval_set: EvalSet | None, folds: Folds | None, sample_weight: Any) -> _Prepared:
        """Check and encode the input, and give each member its rows."""
        if eval_set is not None and folds is not None:
            raise ValueError("eval_set and folds were both given: name the rows that members stop by in one of them")
        self._check_parameters()
        frame = self._check_table(X, reset=True)
        target = self._check_y(y)
        if len(target) != len(frame):
            raise ValueError(f"X has {len(frame)} rows and y has {len(target)}: inconsistent numbers of samples")
        self._learn_classes(target)
        if len(frame) < 2:
            raise ValueError(f"Found n_samples={len(frame)}: training needs at least 2 rows. Give more rows.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        parts = self._divide(target, eval_set is not None, seed) if folds is None else self._take(folds, len(target))
        self.train_index_ = np.unique(torch.cat([part.train for part in parts]).numpy())
        attribute = self._target_attribute(target[self.train_index_])
        places = self._categorical_places(frame)
        self.encoding_ = learn_encoding(frame.iloc[self.train_index_], places, attribute)
        rows = self.encoding_.encode(frame, self._encode_y(target))
        of_classes = self._weigh_classes(target, sample_weight)
        weights = weigh_rows(target, sample_weight, of_classes)
        if eval_set is None:
            return _Prepared(self, rows, rows, parts, seed, weights)
        evaluation, of_evaluation = self._encode_eval_set(eval_set, of_classes)
        after = torch.arange(len(rows), len(rows) + len(evaluation))
        parts = [Part(part.train, after) for part in parts]
        if weights is not None or of_evaluation is not None:
            both = zip((weights, of_evaluation), (rows, evaluation), strict=True)
            weights = np.concatenate([np.ones(len(of)) if one is None else one for one, of in both])
        return _Prepared(self, rows, torch.cat([rows, evaluation]), parts, seed, weights)

    def _keep(self, prepared: _Prepared, result: Result, device: torch.device) -> None:
        """Take over trained members, and predict the rows that they held out."""
        rows, stored = prepared.rows, torch.from_numpy(self.train_index_)
        places = [torch.searchsorted(stored, part.train) for part in prepared.parts]
        self._set_members(result.network, rows[stored].to(device), places)
        self.history_, self.best_epochs_ = result.history, result.best_epochs
        is_inside = prepared.table is rows
        self.held_out_ = [part.valid.numpy() if is_inside else np.arange(0) for part in prepared.parts]
        for name in OUT_OF_FOLD:
            self.__dict__.pop(name, None)  # of an earlier fit
        if is_inside:
            self._set_oof(self._predict_held_out(rows, [part.valid for part in prepared.parts]))

    def _encode_eval_set(self, eval_set: EvalSet, of_classes: Mapping[Any, float]) -> tuple[Tensor, Array | None]:
        """Return the rows of `eval_set` whose class is known, and their weights if these differ."""
        if not (isinstance(eval_set, tuple) and len(eval_set) in (2, 3)):
            raise ValueError(f"eval_set must be a tuple (X, y) or (X, y, sample_weight), not {type(eval_set).__name__}")
        frame = self._check_table(eval_set[0], reset=False)
        target = self._check_y(eval_set[1])
        if len(target) != len(frame):
            raise ValueError(f"eval_set has {len(frame)} rows of X and {len(target)} of y")
        rows: Tensor = self.encoding_.encode(frame, self._encode_y(target))
        is_known = ~rows[:, self.encoding_.target].isnan()
        weights = weigh_rows(target, eval_set[2] if len(eval_set) == 3 else None, of_classes)
        return rows[is_known], None if weights is None else weights[is_known.numpy()]

    def _divide(self, target: np.ndarray[Any, Any], has_eval_set: bool, seed: int) -> list[Part]:
        """Give each member its rows: all with an `eval_set`, else all but a fold or, alone, but a held-out share."""
        n, classes = len(target), target if self._task == "classification" else None
        members, nothing = self.n_members or self._default_members(n, self.n_features_in_), torch.arange(0)
        if has_eval_set:
            return [Part(torch.arange(n), nothing)] * members
        members = min(members, n // 2)  # a fold has two rows at least
        if members <= 1:
            train_places, held_out = hold_out(n, self.validation_fraction, classes, seed)
            return [Part(torch.from_numpy(train_places), torch.from_numpy(held_out))]
        folds = torch.from_numpy(assign_folds(n, members, classes, seed))
        return [Part((folds != k).nonzero().squeeze(1), (folds == k).nonzero().squeeze(1)) for k in range(members)]

    def _take(self, folds: Folds, n: int) -> list[Part]:
        """Give the members the rows of given folds; one that holds out several trains on what all of them train on."""
        pairs = [(np.unique(learned), np.unique(held_out)) for learned, held_out in folds]
        if not pairs:
            raise ValueError("folds are empty: give at least one pair of row positions, to train on and to hold out")
        for learned, held_out in pairs:
            rows = np.union1d(learned, held_out)
            is_mixed = np.intersect1d(learned, held_out).size > 0
            if not len(learned) or not len(held_out) or is_mixed or rows[0] < 0 or rows[-1] >= n:
                raise ValueError(f"folds must be pairs of positions below {n}, some in each part and none in both")
        members = self.n_members or self._default_members(n, self.n_features_in_)
        members = len(pairs) if members == 1 else min(members, len(pairs))
        parts = []
        for k in range(members):
            learned = reduce(np.intersect1d, [one for one, _ in pairs[k::members]])
            held_out = reduce(np.union1d, [one for _, one in pairs[k::members]])
            parts.append(Part(torch.from_numpy(learned), torch.from_numpy(held_out)))
        return parts

    def _threads(self, network: Network, recipe: Recipe) -> int:
        """Return how many threads pay: one, unless products are so large that their wait for each other is short."""
        largest = max(p[0].numel() for p in network.parameters()) * recipe.batch_size
        return torch.get_num_threads() if largest >= THREADED else 1

    def _set_members(self, network: Network, rows: Tensor, places: Sequence[Tensor]) -> None:
        """Keep the members and their training rows, with what `store` makes of them: it serves every prediction."""
        self.network_, self.members_ = network.eval().requires_grad_(False), [place.cpu() for place in places]
        self.rows_ = rows if network.reads_rows else rows[:0]
        self._memory = store_rows(network, rows, [place.to(rows.device) for place in self.members_])

    def _predict_held_out(self, rows: Tensor, places: Sequence[Tensor]) -> Tensor:
        """Return the target predictions (n, width) of every row by the member that held it out; NaN where none did."""
        out = torch.full((len(rows), self.encoding_.widths[self.encoding_.target]), torch.nan)
        if not all(len(place) for place in places):
            return out
        held_out, _ = gather(rows.to(self.rows_.device), [place.to(self.rows_.device) for place in places])
        predicted = predict_target(self.network_, held_out, self._memory).cpu()
        for place, one in zip(places, predicted, strict=True):
            out[place] = one.T[: len(place)]
        return out

    @abstractmethod
    def _set_oof(self, predicted: Tensor) -> None:
        """Keep the out-of-fold predictions (n, width)."""

    # ----------------------------------------------------------------------------------------------------- predict

    def _encode_table(self, X: Any) -> Tensor:
        """Return the rows of X for every member (K, d, b)."""
        check_is_fitted(self, "network_")
        rows: Tensor = self.encoding_.encode(self._check_table(X, reset=False))
        return rows.to(self.rows_.device).T.expand(len(self.members_), -1, -1)

    def _predict_target(self, X: Any) -> Tensor:
        """Return every member's target predictions (K, width, b)."""
        rows = self._encode_table(X)
        return predict_target(self.network_, rows, self._memory).cpu().double()

    # ----------------------------------------------------------------------------------------------- save and load

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_memory", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "network_" in state:
            self._set_members(self.network_, self.rows_, self.members_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file; `load` reads it on any device, and no pickle is involved."""
        check_is_fitted(self, "network_")
        save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "auto") -> Any:
        """Read a model written by `save`."""
        return load_model(cls, path, choose_device(device))

    def _fitted_json(self) -> dict[str, Any]:
        """Return the fitted attributes beside network and encoding, for `save`."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else list(names),
            "date_parts": self.date_parts_,
        }

    def _fitted_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return fitted attributes that are arrays, for `save`."""
        return {name: np.ascontiguousarray(getattr(self, name)) for name in OUT_OF_FOLD if hasattr(self, name)}

    def _set_fitted_json(self, data: dict[str, Any]) -> None:
        self.n_features_in_ = data["n_features_in"]
        self.date_parts_ = data.get("date_parts", [])  # older files have none
        if data["feature_names_in"] is not None:
            self.feature_names_in_ = np.asarray(data["feature_names_in"], dtype=object)


@dataclass(frozen=True)
class _Prepared:
    """A table as the members of an estimator train on it."""

    estimator: TableEstimator
    rows: Tensor  # (n, d), those given to `fit`
    table: Tensor  # the same, followed by the rows of an `eval_set`
    parts: list[Part]
    seed: int
    weights: Array | None  # of the rows of `table`; None if all are the same

    @property
    def seeds(self) -> list[int]:
        return [self.seed + 7919 * k for k in range(len(self.parts))]


def fit_together(
    estimators: Sequence[TableEstimator],
    X: Any,
    y: Any,
    eval_set: EvalSet | None = None,
    hooks: Sequence[Sequence[Hook]] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    folds: Folds | None = None,
    sample_weight: Any = None,
) -> list[Exception | None]:
    """Fit estimators to one table in one stack: each becomes what it would be by itself, for less time.

    They may differ in `random_state` and, if they are of Hopular, in `beta`; a time limit is that of the stack. `hooks`
    are those of each estimator. Returns for each the error that a hook of its own has raised, if any; then it stays as
    it was before, as do all if anything else fails.
    """
    for other in estimators[1:]:
        _refuse_differences(estimators[0], other)
    hooks = hooks or [()] * len(estimators)
    if len(hooks) != len(estimators):
        raise ValueError(f"hooks must hold a sequence for each of the {len(estimators)} estimators, not {len(hooks)}")
    before = [dict(estimator.__dict__) for estimator in estimators]

    def put_back(place: int) -> None:
        estimators[place].__dict__.clear()
        estimators[place].__dict__.update(before[place])

    errors: list[Exception | None] = [None] * len(estimators)
    try:
        prepared = [estimator._prepare(X, y, eval_set, folds, sample_weight) for estimator in estimators]
        for number, places in enumerate(_stacks(prepared)):
            path = None if checkpoint is None else f"{os.fspath(checkpoint)}{f'.{number}' if number else ''}"
            of_stack = _train_stack([prepared[i] for i in places], [hooks[i] for i in places], path)
            for place, error in zip(places, of_stack, strict=True):
                errors[place] = error
    except BaseException:
        for place in range(len(estimators)):
            put_back(place)
        raise
    for place, error in enumerate(errors):
        if error is not None:
            put_back(place)
    return errors


def _stacks(prepared: Sequence[_Prepared]) -> list[list[int]]:
    """Return which tables can share a stack.

    All can, unless rows that a single member holds out have categories that the others lack.
    """
    stacks: dict[Any, list[int]] = {}
    for place, one in enumerate(prepared):
        encoding = one.estimator.encoding_
        stacks.setdefault((encoding.widths, encoding.target), []).append(place)
    return list(stacks.values())


def _refuse_differences(first: TableEstimator, other: TableEstimator) -> None:
    """Raise ValueError if two estimators differ in what members of one stack share."""
    differing = [f"class ({type(first).__name__} and {type(other).__name__})"]
    if type(first) is type(other):
        ours, theirs = first.get_params(deep=False), other.get_params(deep=False)
        shared = [name for name in ours if name not in first._own and not np.array_equal(ours[name], theirs[name])]
        differing = [f"{name} ({ours[name]!r} and {theirs[name]!r})" for name in shared]
    if differing:
        raise ValueError(
            f"estimators that are fitted together may differ in {' and '.join(first._own)} only, not in "
            f"{', '.join(differing)}. Fit them one by one."
        )


def _train_stack(
    prepared: Sequence[_Prepared], hooks: Sequence[Sequence[Hook]], checkpoint: str | None
) -> list[Exception | None]:
    """Train the members of several estimators at once, and hand them out."""
    first, offset, parts = prepared[0], 0, []
    for one in prepared:  # tables one below the other: encodings may differ with the rows that are held out
        parts += [Part(part.train + offset, part.valid + offset) for part in one.parts]
        offset += len(one.table)
    bags = [bag for bag, one in enumerate(prepared) for _ in one.parts]
    seeds = [seed for one in prepared for seed in one.seeds]
    device = choose_device(first.estimator.device)
    recipe = first.estimator._recipe(min(len(part.train) for part in parts), first.rows.shape[1])
    network = first.estimator._build(seeds, [prepared[bag].estimator for bag in bags])
    weights = None
    if first.weights is not None:  # the same rows have the same weights, whoever learns from them
        weights = torch.from_numpy(np.concatenate([one.weights for one in prepared])).float().to(device)
    with threads(first.estimator._threads(network, recipe)):
        with noted_interrupt(first.estimator.keep_on_interrupt) as is_interrupted:
            results = train(
                network.to(device),
                torch.cat([one.table for one in prepared]).to(device),
                [Part(part.train.to(device), part.valid.to(device)) for part in parts],
                recipe,
                seeds=seeds,
                bags=bags,
                weights=weights,
                max_seconds=first.estimator.max_seconds,
                hooks=hooks,
                step=first.estimator._step,
                bfloat16=first.estimator._uses_bfloat16(device),
                checkpoint=None if checkpoint is None else Checkpoint(checkpoint, first.estimator._settings()),
                is_interrupted=is_interrupted,
            )
        for one, result in zip(prepared, results, strict=True):
            if isinstance(result, Result):
                one.estimator._keep(one, result, device)
                warn_of_end(result.history, is_interrupted(), stacklevel=4)
    return [None if isinstance(result, Result) else result for result in results]


@dataclass(kw_only=True, eq=False, repr=False)
class TableClassifier(ClassifierMixin, TableEstimator):  # type: ignore[misc]
    """Predicts classes: two or many, labels of any type.

    Parameters
    ----------
    class_weight
        Weights of the rows of each class, which multiply `sample_weight`: a dict, or "balanced" for the same
        total weight of every class. None means that all rows weigh the same.
    """

    _task = "classification"

    class_weight: ClassWeight = None

    def _weigh_classes(self, y: Array, sample_weight: Any) -> dict[Any, float]:
        return weigh_classes(self.class_weight, y, sample_weight)

    def _check_y(self, y: Any) -> np.ndarray[Any, Any]:
        return check_labels(y)

    def _learn_classes(self, y: np.ndarray[Any, Any]) -> None:
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class only, {self.classes_.tolist()[0]!r}: a classifier needs at least two classes"
            )

    def _target_attribute(self, y: np.ndarray[Any, Any]) -> Attribute:
        return Attribute("target", "categorical", -1, categories=tuple(map(str, range(len(self.classes_)))))

    def _encode_y(self, y: Any) -> np.ndarray[Any, Any]:
        codes = pd.Index(self.classes_).get_indexer(pd.Index(y))
        return np.where(codes < 0, np.nan, codes.astype(np.float64))

    def _set_oof(self, predicted: Tensor) -> None:
        self.oof_proba_ = predicted.double().softmax(1).numpy()

    def predict_each(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the class probabilities (members, rows, classes) of each member by itself."""
        return self._predict_target(X).softmax(1).mT.numpy()

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """Return class probabilities, the mean of the members' own; columns are in the order of `classes_`."""
        return self._predict_target(X).softmax(1).mean(0).T.numpy()

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the most probable class of each row."""
        most_probable = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[most_probable])

    def _fitted_json(self) -> dict[str, Any]:
        classes = {"values": self.classes_.tolist(), "dtype": str(self.classes_.dtype)}
        return {**super()._fitted_json(), "classes": classes}

    def _set_fitted_json(self, data: dict[str, Any]) -> None:
        super()._set_fitted_json(data)
        self.classes_ = np.asarray(data["classes"]["values"], dtype=data["classes"]["dtype"])


class TableRegressor(RegressorMixin, TableEstimator):  # type: ignore[misc]
    """Predicts numbers."""

    _task = "regression"

    def _check_y(self, y: Any) -> np.ndarray[Any, Any]:
        return check_numbers(self, y)

    def _target_attribute(self, y: np.ndarray[Any, Any]) -> Attribute:
        mean, scale = mean_and_scale(y)
        return Attribute("target", "continuous", -1, mean, scale or 1.0)

    def _encode_y(self, y: Any) -> np.ndarray[Any, Any]:
        target = self.encoding_.attributes[self.encoding_.target]
        return (np.asarray(y, dtype=np.float64) - target.mean) / target.scale

    def _set_oof(self, predicted: Tensor) -> None:
        self.oof_prediction_ = self._decode(predicted.double().squeeze(1).numpy())

    def predict_each(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the number that each member by itself predicts for each row (members, rows)."""
        return self._decode(self._predict_target(X).squeeze(1).numpy())

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the predicted number for each row, the mean of the members' own."""
        return self._decode(self._predict_target(X).squeeze(1).mean(0).numpy())

    def _decode(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self.encoding_.attributes[self.encoding_.target].decode(values)
