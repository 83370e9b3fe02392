"""Draw pictures of one model's predictions and of its search, as SVG files that stand alone.

They take milliseconds, where a plotting library would take longer than many a fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hopular.formatting import plural
from hopular.report.plots import Scale, element, path, span, text

_INK, _ACCENT, _QUIET, _PAPER = "#1f2933", "#0f766e", "#9aa5b1", "#ffffff"
_MOST_CLASSES = 30  # with more, the cells of a confusion matrix are not labelled
_MOST_FEATURES = 20
_MOST_DOTS = 5_000  # of rows; of more, every second or third is drawn
_MOST_LABELS = 8  # of categories on an axis
_BINS = 15  # as of the expected calibration error
_WIDE = 100.0  # a ratio of the largest to the smallest value from which an axis is logarithmic
_LONGEST = 24  # characters of a label


def confusion(truth: ArrayLike, predicted: ArrayLike, classes: Sequence[Any]) -> str:
    """Draw a confusion matrix, shaded by the share of each true class."""
    names = [str(name) for name in classes]
    pairs = Counter(zip(_labels(truth), _labels(predicted), strict=True))
    known = {pair: count for pair, count in pairs.items() if pair[0] in names and pair[1] in names}
    totals = {name: sum(count for (actual, _), count in known.items() if actual == name) for name in names}
    side = 34.0 if len(names) <= _MOST_CLASSES else 600 / len(names)
    left, top = 130.0, 50.0
    parts = []
    for row, actual in enumerate(names):
        for column, guess in enumerate(names):
            count = known.get((actual, guess), 0)
            if not count:
                continue
            share, x, y = count / totals[actual], left + side * column, top + side * row
            parts.append(element("rect", x=x, y=y, width=side, height=side, fill=_ACCENT, fill_opacity=f"{share:.2f}"))
            if len(names) <= _MOST_CLASSES:
                colour = _PAPER if share > 0.55 else _INK
                middle = {"text_anchor": "middle", "fill": colour}
                parts.append(text(f"{count}", x + side / 2, y + side / 2 + 4, **middle))
    size = side * len(names)
    if len(names) <= _MOST_CLASSES:
        for place, name in enumerate(names):
            at = side * (place + 0.5)
            parts.append(text(_short(name), left - 6, top + at + 4, text_anchor="end"))
            where = f"translate({left + at:.0f} {top + size + 12:.0f}) rotate(35)"
            parts.append(element("g", text(_short(name), 0, 0), transform=where))
    parts.append(element("rect", x=left, y=top, width=size, height=size, fill="none", stroke=_QUIET))
    parts.append(text("rows: true, columns: predicted", left, top - 8, fill=_QUIET))
    right, total = sum(count for (a, b), count in pairs.items() if a == b), sum(pairs.values())
    unknown = total - sum(known.values())
    title = f"{right:,} of {total:,} right" + (f", {unknown:,} of classes unknown to the model" if unknown else "")
    return _picture(max(left + size + 110, 380), top + size + 120, title, parts)


def residuals(truth: ArrayLike, predicted: ArrayLike) -> str:
    """Draw true minus predicted values against the predictions, with a histogram at the side."""
    actual, guess = np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    rest = actual - guess
    is_finite = np.isfinite(rest) & np.isfinite(guess)
    x = Scale(*_span(guess[is_finite]), 70, 450)
    y = Scale(*_span([*rest[is_finite], 0.0]), 330, 40)
    parts = [_line([(70, y(0.0)), (580, y(0.0))], _QUIET)]
    every = max(1, -(-int(is_finite.sum()) // _MOST_DOTS))
    shown = zip(guess[is_finite][::every], rest[is_finite][::every], strict=True)
    parts += [_dot(x(a), y(b), 2.5) for a, b in shown]
    counts, edges = np.histogram(rest[is_finite], bins=30)
    for count, low, high in zip(counts, edges, edges[1:], strict=False):
        width, height = 110 * count / max(counts.max(), 1), y(low) - y(high)
        parts.append(_bar(470, y(high), width, height))
    title = f"mean {rest.mean():.3g}, standard deviation {rest.std():.3g}"
    return _picture(600, 390, title, [*parts, *_axes(x, y, "predicted", "true minus predicted")])


def calibration(truth: ArrayLike, probabilities: ArrayLike, classes: Sequence[Any]) -> str:
    """Draw how often the most probable class was right, against how sure the model was of it."""
    chances, names = np.asarray(probabilities, dtype=np.float64), [str(name) for name in classes]
    sure, guesses = chances.max(axis=1), chances.argmax(axis=1)
    right = np.array([names[guess] == actual for guess, actual in zip(guesses, _labels(truth), strict=True)])
    places = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    x, y = Scale(0, 1, 70, 410), Scale(0, 1, 380, 40)
    bins = [(sure[rows].mean(), right[rows].mean(), rows.sum()) for rows in (places == place for place in set(places))]
    points = [(x(float(shown)), y(float(found)), int(size)) for shown, found, size in sorted(bins)]
    most = max(size for _, _, size in points)
    parts = [_line([(x(0), y(0)), (x(1), y(1))], _QUIET), _line([(a, b) for a, b, _ in points], _ACCENT)]
    parts += [_dot(a, b, 3 + 6 * (size / most) ** 0.5) for a, b, size in points]
    labels = ("probability of the predicted class", "share that was right")
    return _picture(440, 440, "larger dots stand for more rows", [*parts, *_axes(x, y, *labels)])


def curve(points: Sequence[tuple[float, float]]) -> str:
    """Draw the validation score while a model trained, with its best point marked."""
    finite = [(step, value) for step, value in points if np.isfinite(value)]
    if not finite:
        return _picture(520, 320, "no validation score was recorded", [])
    x, y = Scale(*_span([step for step, _ in finite]), 70, 500), Scale(*_span([value for _, value in finite]), 260, 40)
    best = max(finite, key=lambda point: point[1])
    parts = [_line([(x(step), y(value)) for step, value in finite], _ACCENT), _dot(x(best[0]), y(best[1]), 4)]
    title = f"best {best[1]:.4g} at {best[0]:g} %"
    return _picture(520, 320, title, [*parts, *_axes(x, y, "percent of training", "validation score")])


def importance(names: Sequence[str], values: ArrayLike, title: str = "") -> str:
    """Draw the most important features, the first on top."""
    weights = np.asarray(values, dtype=np.float64)
    if len(names) != len(weights):
        raise ValueError(f"{len(names)} names for {len(weights)} importances: give one name for each")
    order = np.argsort(-np.abs(weights), kind="stable")[:_MOST_FEATURES]
    if len(weights) > _MOST_FEATURES:
        title = f"the top {_MOST_FEATURES} of {plural(len(weights), 'feature')}"
    bottom = 44.0 + 22 * len(order)
    x = Scale(min(0.0, float(weights[order].min())), float(weights[order].max()) or 1.0, 190, 500)
    parts = []
    for row, place in enumerate(order):
        start, end = sorted((x(0.0), x(float(weights[place]))))
        parts.append(text(_short(str(names[place])), 182, 58 + 22 * row, text_anchor="end"))
        parts.append(_bar(start, 46 + 22 * row, end - start, 15))
    return _picture(540, bottom + 50, title, [*parts, *_ticks(x, bottom), text("importance", 190, bottom + 38)])


def slices(panels: Sequence[tuple[str, Sequence[Any], Sequence[float]]]) -> str:
    """Draw scores against each parameter, from its name, its values and their scores; one panel for each."""
    columns, width, height = min(len(panels), 3), 250.0, 210.0
    y_range = _span([score for _, _, scores in panels for score in scores])
    parts: list[str] = []
    for place, (name, values, scores) in enumerate(panels):
        left, top = 70 + width * (place % columns), 50 + height * (place // columns)
        y = Scale(*y_range, top + height - 70, top)
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            is_log = min(values) > 0 and max(values) / min(values) >= _WIDE
            x = Scale(*span(values, is_log=is_log), left, left + width - 40, is_log)
            at = [x(value) for value in values]
            parts += _ticks(x, y.start)
        else:
            kinds = list(dict.fromkeys(str(value) for value in values))
            x = Scale(-0.5, len(kinds) - 0.5, left, left + width - 40)
            at = [x(kinds.index(str(value))) for value in values]
            for kind in kinds[:_MOST_LABELS]:
                where = x(kinds.index(kind))
                parts.append(text(_short(kind, 12), where, y.start + 15, text_anchor="middle", font_size=10))
        parts += [_dot(where, y(score), 3) for where, score in zip(at, scores, strict=True)]
        parts.append(_line([(left, y.start), (left + width - 40, y.start)], _QUIET))
        parts.append(text(_short(name), left, top - 8, font_weight="bold"))
        if place % columns == 0:
            parts += [text(f"{tick:.4g}", left - 8, y(tick) + 4, text_anchor="end", font_size=10) for tick in y.ticks]
    rows = -(-len(panels) // columns)
    return _picture(80 + width * columns, 50 + height * rows, "validation score of each trial", parts)


def _picture(width: float, height: float, title: str, content: Iterable[str]) -> str:
    head = text(title, 14, 22, font_size=14)
    return element(
        "svg",
        element("rect", width=width, height=height, fill=_PAPER),
        head,
        *content,
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        font_family="system-ui, sans-serif",
        font_size=12,
        fill=_INK,
    )


def _axes(x: Scale, y: Scale, x_label: str, y_label: str) -> Iterator[str]:
    yield _line([(x.start, y.end), (x.start, y.start), (x.end, y.start)], _QUIET)
    yield from _ticks(x, y.start)
    for tick in y.ticks:
        yield text(f"{tick:.4g}", x.start - 8, y(tick) + 4, text_anchor="end", font_size=10)
    yield text(x_label, (x.start + x.end) / 2, y.start + 38, text_anchor="middle")
    where = f"translate(18 {(y.start + y.end) / 2:.0f}) rotate(-90)"
    yield element("g", text(y_label, 0, 0, text_anchor="middle"), transform=where)


def _ticks(x: Scale, bottom: float) -> Iterator[str]:
    for tick in x.ticks:
        yield text(f"{tick:.4g}", x(tick), bottom + 15, text_anchor="middle", font_size=10)


def _line(points: Sequence[tuple[float, float]], colour: str) -> str:
    return element("path", d=path(points), fill="none", stroke=colour, stroke_width=1.5)


def _dot(x: float, y: float, radius: float) -> str:
    return element("circle", cx=x, cy=y, r=radius, fill=_ACCENT, fill_opacity="0.65")


def _bar(x: float, y: float, width: float, height: float) -> str:
    return element("rect", x=x, y=y, width=width, height=height, fill=_ACCENT, fill_opacity="0.8")


def _span(values: Sequence[float] | np.ndarray[Any, Any]) -> tuple[float, float]:
    return span([float(value) for value in values] or [0.0])


def _labels(values: ArrayLike) -> list[str]:
    return [str(value) for value in np.asarray(values, dtype=object)]


def _short(label: str, longest: int = _LONGEST) -> str:
    return label if len(label) <= longest else f"{label[: longest - 1]}…"
