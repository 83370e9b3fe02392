"""Blend: choose a weighted mean of candidates, its temperature and its class multipliers on out-of-fold predictions.

Whatever the metric, weights and temperature are chosen by the mean of a loss per row: log loss for classes, squared
error for numbers, and absolute error where the metric is `mae`. Label metrics and ROC AUC change little or not at all
with a weight, so that on few rows they cannot tell candidates apart; a lower log loss serves them too. Class
multipliers alone are chosen by the label metric itself.

Few rows are easily fitted too well. So weights are the mean of several greedy selections, each on most of the
rows, and a single candidate, a temperature or multipliers have to gain more than their own noise.

Rows for which a candidate has no prediction (NaN) decide nothing. `cross_fit` tells what the choice itself is worth: it
predicts each group of rows by what was chosen on the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hopular.evaluation.metrics import LABEL_METRICS, METRICS, label_scores
from hopular.util import InputError, did_you_mean

MAX_MEMBERS = 10
LEAST_WEIGHT = 0.02  # a member with less costs time at each prediction and changes nothing
BAGS = 8  # greedy selections whose mean is the weights
STEPS = 50  # of adding a member in each of them
SHARE = 0.8  # of the rows that each of them looks at
MAX_POOL = 30  # candidates that take part in it
MAX_ROWS = 1_000  # rows that it looks at
GROUPS = 5  # that the rows of a single fold are divided into for cross-fitting
MAX_MISSING = 0.1  # a candidate that lacks a larger share of the rows is left out, instead of the rows
TEMPERATURES = (0.5, 3.0)
MAX_CLASSES = 20  # with more classes than this multipliers are left at 1
FACTORS = np.geomspace(0.25, 4.0, 33)  # that a multiplier is tried with
SWEEPS = 2  # over the classes, each trying all factors
DRAWS = 200  # of the bootstrap that tells the noise of a label metric
_LEAST = 1e-15  # the smallest probability that the log loss tells from 0
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Candidate:
    """The predictions of a trial for each row while the row was held out; NaN where it never was.

    Predictions are probabilities (rows, classes) or numbers (rows).
    """

    method: str
    slot: int
    predictions: Array


@dataclass(frozen=True)
class Blend:
    """A weighted mean of candidates: their places, the weightiest first, and weights that add up to one."""

    places: tuple[int, ...]
    weights: tuple[float, ...]
    temperature: float = 1.0  # probabilities are taken to the power of 1 / temperature
    multipliers: tuple[float, ...] = ()  # of each class' probability before the largest is chosen; () for numbers

    def apply(self, predictions: Sequence[Array]) -> Array:
        """Return the probabilities or numbers, from those of the members in the order of `places`."""
        weighted = zip(self.weights, predictions, strict=True)
        mean = np.asarray(sum(weight * values.astype(np.float64) for weight, values in weighted))
        return mean if mean.ndim == 1 else _softened(mean, self.temperature)

    def labels(self, probabilities: Array) -> Array:
        """Return the place of the predicted class of each row."""
        return np.asarray((probabilities * np.asarray(self.multipliers)).argmax(axis=1))


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Predictions of each row by what was chosen on other rows; NaN and -1 for rows without a prediction."""

    predictions: Array
    labels: Array | None  # places of classes; None for numbers


def choose(
    candidates: Sequence[Candidate], truth: Any, classes: Sequence[str] | None, metric: str, seed: int = 0
) -> Blend:
    """Choose the blend, or the single candidate if that does better on rows that did not choose it.

    `classes` are in the order of the probabilities' columns, None for numbers. Labels are compared as text.
    """
    evidence = _read(candidates, truth, classes, metric)
    return _choose(evidence, evidence.rows, seed)


def cross_fit(
    candidates: Sequence[Candidate],
    truth: Any,
    classes: Sequence[str] | None,
    fold: Array,
    metric: str,
    seed: int = 0,
) -> CrossFitted:
    """Predict the rows of each fold by what `choose` does on the rows of the others; a single fold is divided first."""
    evidence = _read(candidates, truth, classes, metric)
    return _cross_fit(evidence, fold, seed, _choose)


def cross_fit_single(
    candidates: Sequence[Candidate],
    truth: Any,
    classes: Sequence[str] | None,
    fold: Array,
    metric: str,
    seed: int = 0,
) -> CrossFitted:
    """Predict as `cross_fit` does, but by the one candidate that is best on the other rows: a method's own figure."""
    evidence = _read(candidates, truth, classes, metric)
    return _cross_fit(evidence, fold, seed, _choose_single)


# ------------------------------------------------------------------------------------------- what there is to choose by


@dataclass(frozen=True, eq=False)
class _Evidence:
    """The candidates that can be used and the rows that all of them predict."""

    predictions: Sequence[Array]  # of all candidates
    places: Array  # of the candidates that can be used
    rows: Array  # that can be used
    methods: Sequence[str]  # of all candidates
    codes: Array  # the true class of each row, the number of classes if there is no such class; empty for numbers
    n_classes: int  # 0 for numbers
    errors: Array  # (usable candidates, all rows): a mean of them is the probability of the true class, or the error
    metric: str

    def losses(self, errors: Array) -> Array:
        """Return the loss of each row."""
        if self.n_classes:
            return np.asarray(-np.log(np.maximum(errors, _LEAST)))
        return np.abs(errors) if self.metric == "mae" else np.asarray(errors * errors)

    def mean_losses(self, errors: Array) -> Array:
        """Return the mean of `losses` over the rows of each candidate, in less time."""
        if not self.n_classes:
            return np.asarray(self.losses(errors).mean(axis=1))
        values = np.maximum(errors, _LEAST)
        # The logarithm of a product of 16 is that of each, added up, and 1e-15 to the power of 16 is no underflow.
        products = np.multiply.reduceat(values, np.arange(0, values.shape[1], 16), axis=1)
        return np.asarray(-np.log(products).sum(axis=1) / values.shape[1])


def _read(candidates: Sequence[Candidate], truth: Any, classes: Sequence[str] | None, metric: str) -> _Evidence:
    if metric not in METRICS:
        raise InputError(
            f"there is no metric {metric!r}.{did_you_mean(metric, METRICS)} The metrics are: {', '.join(METRICS)}"
        )
    task = "regression" if classes is None else "classification"
    if METRICS[metric].task != task:
        fitting = ", ".join(item.name for item in METRICS.values() if item.task == task)
        raise InputError(f"metric {metric!r} is not for {task}: use one of {fitting}")
    if not candidates:
        raise InputError("no trial was completed, so there is nothing to choose from: give the search more time")
    predictions = [candidate.predictions for candidate in candidates]
    places, rows = _usable(predictions)
    codes, n_classes = np.zeros(0, dtype=np.int64), 0
    if classes is None:
        numbers = np.asarray(truth, dtype=np.float64)
        errors = [predictions[place] - numbers for place in places]
    else:
        n_classes = len(classes)
        known = {str(label): code for code, label in enumerate(classes)}
        codes = np.array([known.get(str(label), n_classes) for label in truth], dtype=np.int64)
        errors = [_of_truth(predictions[place], codes) for place in places]
    methods = [candidate.method for candidate in candidates]
    return _Evidence(predictions, places, rows, methods, codes, n_classes, np.array(errors, dtype=np.float64), metric)


def _usable(predictions: Sequence[Array]) -> tuple[Array, Array]:
    """Return the places of candidates to choose among, and the rows that all of those have predicted.

    A candidate with an infinite prediction has diverged, and one that lacks many rows was not finished.
    """
    flat = [values.reshape(len(values), -1) for values in predictions]
    has = np.array([~np.isnan(values).any(axis=1) for values in flat])
    diverged = np.array([np.isinf(values).any() for values in flat])
    lacks = 1 - has.sum(axis=1) / max(1, has.any(axis=0).sum())
    places = np.flatnonzero(~diverged & (lacks <= MAX_MISSING))
    if not len(places):
        raise InputError("no trial has finite predictions for the rows held out: leave out the methods that diverge")
    return places, np.flatnonzero(has[places].all(axis=0))


def _of_truth(probabilities: Array, codes: Array) -> Array:
    """Return the probability of each row's true class: 0 if the class is unknown."""
    known = codes < probabilities.shape[1]
    chosen = probabilities[np.arange(len(codes)), np.where(known, codes, 0)] / probabilities.sum(axis=1)
    return np.asarray(np.where(known, chosen, 0.0))


# ----------------------------------------------------------------------------------------------------- cross-fitting


def _cross_fit(evidence: _Evidence, fold: Array, seed: int, choice: Any) -> CrossFitted:
    predictions = np.full(evidence.predictions[0].shape, np.nan)
    labels = np.full(len(predictions), -1) if evidence.n_classes else None
    for inside, outside in _groups(evidence.rows, np.asarray(fold), seed):
        blend = choice(evidence, inside, seed)
        predictions[outside] = blend.apply([evidence.predictions[place][outside] for place in blend.places])
        if labels is not None:
            labels[outside] = blend.labels(predictions[outside])
    return CrossFitted(predictions, labels)


def _groups(rows: Array, fold: Array, seed: int) -> Iterator[tuple[Array, Array]]:
    """Yield for each group of rows the others, which choose, and its own, which are predicted."""
    group = fold[rows]
    if len(np.unique(group)) == 1:
        group = np.random.default_rng(seed).permutation(len(rows)) % GROUPS
    for number in np.unique(group):
        yield rows[group != number], rows[group == number]


# ------------------------------------------------------------------------------------------------------- the choices


def _choose(evidence: _Evidence, rows: Array, seed: int) -> Blend:
    equal = np.ones(len(evidence.places))  # which is no choice
    shares = _bagged_weights(evidence, rows, seed) if len(rows) else equal
    return _tuned(evidence, rows, _as_blend(evidence, shares), seed)


def _choose_single(evidence: _Evidence, rows: Array, seed: int) -> Blend:
    shares = np.zeros(len(evidence.places))
    shares[_best(evidence, rows) if len(rows) else 0] = 1.0
    return _tuned(evidence, rows, _as_blend(evidence, shares), seed)


def _best(evidence: _Evidence, rows: Array) -> int:
    return int(evidence.losses(evidence.errors[:, rows]).mean(axis=1).argmin())


def _as_blend(evidence: _Evidence, shares: Array) -> Blend:
    """Drop small shares and those of more than `MAX_MEMBERS`."""
    order = np.argsort(-shares, kind="stable")[:MAX_MEMBERS]
    kept = order[shares[order] >= LEAST_WEIGHT * shares.sum()]
    weights = shares[kept] / shares[kept].sum()
    places = tuple(int(place) for place in evidence.places[kept])
    return Blend(places, tuple(float(weight) for weight in weights), 1.0, (1.0,) * evidence.n_classes)


def _tuned(evidence: _Evidence, rows: Array, blend: Blend, seed: int) -> Blend:
    """Add the temperature and the multipliers."""
    if not evidence.n_classes or len(rows) < 2:
        return blend
    codes = evidence.codes[rows]
    members = [evidence.predictions[place][rows] for place in blend.places]
    blend = replace(blend, temperature=_temperature(blend.apply(members), codes))
    if evidence.metric not in LABEL_METRICS or evidence.n_classes > MAX_CLASSES:
        return blend
    multipliers = _multipliers(blend.apply(members), codes, evidence.metric, seed)
    return replace(blend, multipliers=tuple(float(value) for value in multipliers))


# ------------------------------------------------------------------------------------------------------- the weights


def _bagged_weights(evidence: _Evidence, rows: Array, seed: int) -> Array:
    """Return the mean weights of greedy selections, each on a random share of the rows.

    A single candidate gets all the weight if it has a lower loss on the rows that selections did not see, by more than
    noise: selections on fewer rows are a little worse than their mean.
    """
    random = np.random.default_rng(seed)
    pool = _pool(evidence, rows)
    if len(pool) == 1 or len(rows) < 4:
        return _one_hot(int(pool[0]), len(evidence.places))
    errors = evidence.errors[np.ix_(pool, rows)]
    losses = evidence.losses(errors)
    shares, outside, singles = np.zeros((BAGS, len(pool))), np.ones((BAGS, len(rows)), dtype=bool), []
    for bag in range(BAGS):
        drawn = random.permutation(len(rows))[: min(MAX_ROWS, int(SHARE * len(rows)))]
        outside[bag, drawn] = False
        singles.append(losses[:, drawn].mean(axis=1).argmin())
        shares[bag] = _greedy(evidence, errors[:, drawn])
    times = outside.sum(axis=0)
    seen = times > 0
    by_others = (shares.T @ outside)[:, seen] / times[seen]  # the weights that each row had no part in
    of_blend = evidence.losses((by_others * errors[:, seen]).sum(axis=0))
    of_single = (losses[singles] * outside).sum(axis=0)[seen] / times[seen]
    if _is_more_than_noise(of_blend - of_single):
        return _one_hot(int(pool[losses.mean(axis=1).argmin()]), len(evidence.places))
    weights = np.zeros(len(evidence.places))
    weights[pool] = shares.mean(axis=0)
    return weights


def _pool(evidence: _Evidence, rows: Array) -> Array:
    """Return the best candidates on the rows, the best of each method among them; the best comes first."""
    losses = evidence.losses(evidence.errors[:, rows]).mean(axis=1)
    order = np.argsort(losses, kind="stable")
    methods = [evidence.methods[evidence.places[place]] for place in order]
    leads = sorted(methods.index(name) for name in set(methods))
    chosen = dict.fromkeys([*leads[:MAX_POOL], *range(len(order))])
    return np.asarray(order[sorted(list(chosen)[:MAX_POOL])])


def _greedy(evidence: _Evidence, errors: Array) -> Array:
    """Return the weights of the candidates in the mean that is built by adding, each time, what is best for it."""
    counts, total = np.zeros(len(errors)), np.zeros(errors.shape[1])
    for size in range(1, STEPS + 1):
        added = int(evidence.mean_losses((total + errors) / size).argmin())
        counts[added] += 1
        total = total + errors[added]
    return np.asarray(counts / counts.sum())


def _is_more_than_noise(gains: Array) -> bool:
    """Tell whether the mean of the rows' gains is larger than two of its standard errors."""
    return len(gains) > 1 and bool(gains.mean() > 2 * gains.std(ddof=1) / np.sqrt(len(gains)))


def _one_hot(place: int, count: int) -> Array:
    return np.asarray(np.arange(count) == place, dtype=np.float64)


# --------------------------------------------------------------------------------------------------- the temperature


def _softened(probabilities: Array, temperature: float) -> Array:
    if temperature != 1.0:
        with np.errstate(divide="ignore"):  # what is impossible stays so
            logs = np.log(probabilities) / temperature
        probabilities = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))


def _temperature(probabilities: Array, codes: Array) -> float:
    """Return the temperature with the lowest log loss; 1 unless it gains far more than noise.

    At the best of one parameter, two standard errors of the gain are about four standard deviations from 1. The rule is
    strict because an out-of-fold prediction comes from a single model of a bag, whereas what is delivered is the mean
    of all of them, which is softer already: the best temperature here tends to be too high for it.
    """
    known = codes < probabilities.shape[1]
    if known.sum() < 2:
        return 1.0
    logs = np.log(np.maximum(probabilities[known], _LEAST))
    own = np.take_along_axis(logs, codes[known, None], axis=1)[:, 0]

    def losses(temperature: float) -> Array:
        scaled = logs / temperature
        top = scaled.max(axis=1)
        return np.asarray(top + np.log(np.exp(scaled - top[:, None]).sum(axis=1)) - own / temperature)

    best = _minimum(lambda power: float(losses(np.exp(power)).mean()), *np.log(TEMPERATURES))
    found = float(np.exp(best))
    gains = losses(1.0) - losses(found)
    return found if _is_more_than_noise(gains) else 1.0


def _minimum(function: Any, low: float, high: float) -> float:
    """Return where a function with one minimum is lowest, to a thousandth, by golden sections."""
    ratio = (np.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 1e-3:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return float((low + high) / 2)


# --------------------------------------------------------------------------------------------------- the multipliers


def _multipliers(probabilities: Array, codes: Array, metric: str, seed: int) -> Array:
    """Return a multiplier per class that is good for a label metric; ones unless they gain far more than noise.

    For two classes this is the threshold. The search begins at what would be right for exact probabilities: with
    balanced accuracy that is one over the class's share.
    """
    n_classes = probabilities.shape[1]
    ones = np.ones(n_classes)
    shares = np.bincount(codes, minlength=n_classes)[:n_classes] + 1.0
    starts = [ones] if metric == "accuracy" else [ones, shares**-0.5, shares**-1.0]
    found = starts[int(np.argmax([_score(probabilities * start, codes, metric) for start in starts]))]
    for _ in range(SWEEPS):
        for place in range(n_classes if n_classes > 2 else 1):
            found = _improve(probabilities, codes, metric, found, place)
    found = found / found.mean()
    before, after = probabilities.argmax(axis=1), (probabilities * found).argmax(axis=1)
    return found if _is_gain(codes, before, after, n_classes, metric, seed) else ones


def _improve(probabilities: Array, codes: Array, metric: str, multipliers: Array, place: int) -> Array:
    """Return the multipliers with the one of a class changed by the factor that is best for the metric.

    With a factor, the class is chosen for all rows where it exceeds the best other class; so one table of counts tells
    the metric of every factor. Scores of neighbouring factors are averaged, since a single peak is chance.
    """
    size = probabilities.shape[1] + 1
    weighted = probabilities * multipliers
    own = weighted[:, place].copy()
    weighted[:, place] = -1.0
    other = weighted.argmax(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.nan_to_num(weighted.max(axis=1) / own, nan=np.inf)  # the factor from which on the class wins
    bins = np.searchsorted(FACTORS, needed)
    cells = (bins * size + codes) * size + other
    counts = np.bincount(cells, minlength=(len(FACTORS) + 1) * size * size).reshape(-1, size, size).astype(np.float64)
    moved = counts.cumsum(axis=0)[:-1]  # rows that are of the class with each factor
    confusion = counts.sum(axis=0) - moved
    confusion[:, :, place] += moved.sum(axis=2)
    scores = label_scores(metric, confusion)
    smooth = np.convolve(np.pad(scores, 2, mode="edge"), [0.1, 0.2, 0.4, 0.2, 0.1], mode="valid")
    middle = len(FACTORS) // 2
    near = np.flatnonzero(smooth >= smooth.max() - 1e-12)
    best = near[np.abs(near - middle).argmin()]
    changed = multipliers.copy()
    changed[place] *= FACTORS[best]
    return changed


def _score(weighted: Array, codes: Array, metric: str) -> float:
    size = weighted.shape[1] + 1
    cells = np.bincount(codes * size + weighted.argmax(axis=1), minlength=size * size)
    return float(label_scores(metric, cells.reshape(1, size, size).astype(np.float64))[0])


def _is_gain(codes: Array, before: Array, after: Array, n_classes: int, metric: str, seed: int) -> bool:
    """Tell whether labels are better than those before by more than two standard errors of the difference.

    Two, since the multipliers were chosen by the same rows, of which few lie near the border between two classes.
    Rows with the same labels are alike, so drawing rows is drawing how many there are of each kind.
    """
    size = n_classes + 1
    kinds, counts = np.unique((codes * size + before) * size + after, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(codes), counts / len(codes), size=DRAWS)
    drawn = np.vstack([counts, drawn]).astype(np.float64)
    truth, old, new = kinds // (size * size), kinds // size % size, kinds % size
    difference = np.zeros(len(drawn))
    for sign, labels in ((1, new), (-1, old)):
        confusion = np.zeros((len(drawn), size * size))
        np.add.at(confusion.T, truth * size + labels, drawn.T)
        difference += sign * label_scores(metric, confusion.reshape(-1, size, size))
    return bool(difference[0] > 2 * difference[1:].std())
