"""Draw figures of one model's predictions for the tracking store, with matplotlib.

Each `Figure` is made directly and not through pyplot, whose current figure all threads of a process share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_INK, ACCENT, _QUIET = "#1f2933", "#0f766e", "#9aa5b1"
_MOST_CLASSES = 30  # with more, the cells of a confusion matrix are not labelled
_MOST_FEATURES = 20
_TITLE = 10  # points
_BINS = 15  # as of the expected calibration error


def confusion(truth: ArrayLike, predicted: ArrayLike, classes: Sequence[Any]) -> Figure:
    """Draw a confusion matrix, shaded by the share of each true class."""
    names = [str(name) for name in classes]
    place = {name: index for index, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), dtype=np.int64)
    unknown = 0
    for actual, guess in zip(_labels(truth), _labels(predicted), strict=True):
        if actual in place and guess in place:
            counts[place[actual], place[guess]] += 1
        else:
            unknown += 1
    size = min(max(3.6, 1.6 + 0.45 * len(names)), 12)
    figure, axes = _empty(size + 0.4, size)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="GnBu", vmin=0, vmax=1)
    axes.set(xlabel="predicted", ylabel="true")
    axes.set(xticks=[], yticks=[])
    if len(names) <= _MOST_CLASSES:
        is_crowded = len(names) > 4
        _name(axes.xaxis, names, rotation=45 if is_crowded else 0, ha="right" if is_crowded else "center")
        _name(axes.yaxis, names)
        for row, column in np.ndindex(*counts.shape):
            if counts[row, column]:
                colour = "white" if shares[row, column] > 0.55 else _INK
                axes.text(column, row, f"{counts[row, column]}", ha="center", va="center", color=colour, fontsize=9)
    right = int(np.trace(counts))
    title = f"{right:,} of {len(_labels(truth)):,} right"
    axes.set_title(
        f"{title},\n{unknown:,} of classes that the model does not know" if unknown else title, fontsize=_TITLE
    )
    axes.spines[:].set_visible(False)
    return figure


def residuals(truth: ArrayLike, predicted: ArrayLike) -> Figure:
    """Draw residuals against predictions, and their distribution."""
    actual, guess = np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    rest = actual - guess
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(4, 1))
    left.scatter(guess, rest, s=14, color=ACCENT, alpha=0.55, linewidths=0, rasterized=True)
    right.hist(rest[np.isfinite(rest)], bins=30, orientation="horizontal", color=ACCENT, alpha=0.7)
    for axes in (left, right):
        axes.axhline(0, color=_QUIET, linewidth=1)
        axes.spines[["top", "right"]].set_visible(False)
    left.set(xlabel="predicted", ylabel="true minus predicted")
    left.set_title(f"mean {rest.mean():.3g}, standard deviation {rest.std():.3g}", fontsize=_TITLE)
    right.set(xlabel="rows")
    return figure


def calibration(truth: ArrayLike, probabilities: ArrayLike, classes: Sequence[Any]) -> Figure:
    """Draw how often the most probable class was right against the probability the model gave it."""
    chances = np.asarray(probabilities, dtype=np.float64)
    names = [str(name) for name in classes]
    sure = chances.max(axis=1)
    right = np.array(
        [names[guess] == actual for guess, actual in zip(chances.argmax(axis=1), _labels(truth), strict=True)]
    )
    places = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    used = [places == place for place in np.unique(places)]
    shown, found = [sure[rows].mean() for rows in used], [right[rows].mean() for rows in used]
    sizes = np.array([rows.sum() for rows in used])
    figure, axes = _empty(4.6, 4.4)
    axes.plot([0, 1], [0, 1], color=_QUIET, linewidth=1, linestyle=(0, (4, 3)))
    axes.plot(shown, found, color=ACCENT, linewidth=1.5)
    axes.scatter(shown, found, s=20 + 120 * sizes / sizes.max(), color=ACCENT, alpha=0.8)
    axes.set(
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
        xlabel="probability of the predicted class",
        ylabel="share that was right",
    )
    axes.set_title("larger dots are more rows", fontsize=_TITLE)
    return figure


def curve(points: Sequence[tuple[float, float]]) -> Figure:
    """Draw the validation score during training, with its best point marked."""
    figure, axes = _empty(5.6, 3.4)
    axes.set(xlabel="percent of training", ylabel="validation score")
    finite = [(step, value) for step, value in points if np.isfinite(value)]
    if not finite:
        axes.set_title("no validation score was recorded", fontsize=_TITLE)
        return figure
    steps, values = zip(*finite, strict=True)
    axes.plot(steps, values, color=ACCENT, linewidth=1.6, marker="o" if len(finite) == 1 else None)
    best = int(np.argmax(values))
    axes.plot(steps[best], values[best], "o", color=ACCENT)
    axes.set_title(f"best {values[best]:.4g} at {steps[best]:g} %", fontsize=_TITLE)
    return figure


def importance(names: Sequence[str], values: ArrayLike) -> Figure:
    """Draw the most important features, the most important on top."""
    weights = np.asarray(values, dtype=np.float64)
    if len(names) != len(weights):
        raise ValueError(f"got {len(names)} names for {len(weights)} importances: give one name for each")
    order = np.argsort(-np.abs(weights), kind="stable")[:_MOST_FEATURES][::-1]
    figure, axes = _empty(5.6, 1.1 + 0.26 * len(order))
    axes.barh(range(len(order)), weights[order], color=ACCENT, height=0.62)
    _name(axes.yaxis, [str(names[place]) for place in order])
    axes.tick_params(axis="y", length=0)
    axes.margins(y=0.02)
    axes.set(xlabel="importance")
    if len(weights) > _MOST_FEATURES:
        axes.set_title(f"the top {_MOST_FEATURES} of {len(weights)} features", fontsize=_TITLE)
    return figure


def _labels(values: ArrayLike) -> NDArray[np.str_]:
    return np.asarray([str(value) for value in np.asarray(values, dtype=object)], dtype=np.str_)


def _name(axis: Axis, names: Sequence[str], **style: Any) -> None:
    """Label the ticks; dollar signs in names do not start formulas."""
    axis.set_ticks(range(len(names)), names, **style)
    for label in axis.get_ticklabels():
        label.set_parse_math(False)


def _empty(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
