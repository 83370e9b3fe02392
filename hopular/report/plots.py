"""The report's plots as small SVG drawings, whose colours the page's style sheet gives them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hopular import formatting
from hopular.report.svg import Scale, drawing, element, hint, path, span, text

LETTER = 6.3  # width of an average letter in a label, in units of the drawings
COLOURS = 8  # classes c0 to c7 of the style sheet


@dataclass(frozen=True)
class Point:
    """A method in the plot of score against cost."""

    title: str
    group: str
    cost: float
    score: float
    is_on_front: bool


@dataclass(frozen=True)
class Curve:
    """The validation score of one model while it trained."""

    title: str
    split: str
    points: Sequence[tuple[float, float]]  # percent of training, score


def critical_difference(
    ranks: Mapping[str, float], cliques: Sequence[Sequence[str]], difference: float | None, hero: str = "Hopular"
) -> str:
    """Mean ranks on a line, the best to the left; bars join methods that the data do not tell apart (Demsar 2006)."""
    order = sorted(ranks, key=lambda name: (ranks[name], name))
    width, left, right, row, axis = 780.0, 232.0, 548.0, 21.0, 52.0
    place = Scale(1, max(len(order), 2), left, right)
    top = axis + 20 + 9 * len(cliques) + 10
    marks = [element("line", class_="axis", x1=left, x2=right, y1=axis, y2=axis)]
    step = max(1, math.ceil(len(order) / 12))
    for rank in range(1, len(order) + 1, step):
        marks.append(element("line", class_="axis", x1=place(rank), x2=place(rank), y1=axis - 5, y2=axis))
        marks.append(text(str(rank), place(rank), axis - 10, class_="tick", text_anchor="middle"))
    if difference is not None and difference <= place.high - 1:
        marks.append(element("path", class_="ruler", d=_ruler(left, place(1 + difference), 16)))
        label = f"critical difference {formatting.number(difference)}"
        marks.append(text(label, place(1 + difference) + 10, 20, class_="tick"))
    for level, clique in enumerate(cliques):
        ends = [place(ranks[name]) for name in clique]
        y = axis + 14 + 9 * level
        marks.append(element("line", class_="clique", x1=min(ends) - 4, x2=max(ends) + 4, y1=y, y2=y))
    middle = math.ceil(len(order) / 2)
    for index, name in enumerate(order):
        is_left = index < middle
        y = top + row * (index if is_left else len(order) - 1 - index)
        x, edge = place(ranks[name]), left - 12 if is_left else right + 12
        style = " hero" if name == hero else ""
        marks.append(element("path", class_=f"leader{style}", d=path([(x, axis), (x, y), (edge, y)])))
        anchor, shift = ("end", -6) if is_left else ("start", 6)
        marks.append(text(_short(name, 31), edge + shift, y + 4, class_=f"name{style}", text_anchor=anchor))
        inner = "start" if is_left else "end"
        marks.append(text(formatting.number(ranks[name]), edge - shift / 3, y - 4, class_="rank", text_anchor=inner))
    summary = ", ".join(f"{name} {formatting.number(ranks[name])}" for name in order)
    return drawing(
        width, top + row * middle, f"Critical-difference diagram of mean ranks: {summary}", marks, "plot wide"
    )


def cost(points: Sequence[Point], cost_label: str, score_label: str, unit: str, hero: str = "Hopular") -> str:
    """Score against what a training costs (logarithmic); the front that nothing beats in both is a line.

    The scale is made for methods that compete: those of the group "floor" are hollow at its lower end if below it.
    """
    shown = [point for point in points if math.isfinite(point.score) and math.isfinite(point.cost) and point.cost > 0]
    width, height, left, right, top, bottom = 460.0, 330.0, 46.0, 444.0, 30.0, 284.0
    if not shown:
        return ""
    low, high = span([point.cost for point in shown], is_log=True)
    x = Scale(low, high, left, right, is_log=True)
    least = min((point.score for point in shown if point.group != "floor"), default=-math.inf)
    y = Scale(*span([point.score for point in shown if point.score >= least], 0.1), bottom, top)
    spots = {point: (x(point.cost), min(y(point.score), bottom)) for point in shown}
    say = formatting.seconds if unit == "seconds" else formatting.memory
    marks = [*_grid(x, y, [_round_cost(tick, unit) for tick in x.ticks]), text(score_label, 0, 12, class_="tick")]
    marks.append(text(cost_label, right, height - 8, class_="tick", text_anchor="end"))
    front = sorted((point for point in shown if point.is_on_front), key=lambda point: point.cost)
    if len(front) > 1:
        corners = [spots[front[0]]]
        for point in front[1:]:
            corners += [(spots[point][0], corners[-1][1]), spots[point]]
        marks.append(element("path", class_="front", d=path(corners)))
    for point, (at_x, at_y) in spots.items():
        told = f"{point.title}: {score_label} {formatting.number(point.score, 3)}, {say(point.cost)}"
        style = f"dot {point.group}{' on-front' if point.is_on_front else ''}{' off' if point.score < y.low else ''}"
        size = 5.5 if point.is_on_front else 4
        marks.append(element("circle", hint(told), class_=style, cx=at_x, cy=at_y, r=size))
    taken = [(at_x - 6, at_y - 6, at_x + 6, at_y + 6) for at_x, at_y in spots.values()]
    for point in sorted(shown, key=lambda point: (point.title != hero, not point.is_on_front, -point.score)):
        wide = LETTER * len(point.title) * (1.2 if point.title == hero else 1.0)  # bold is wider
        spot = _free_spot(wide, *spots[point], taken, (left, top - 8, right + 14, bottom + 4))
        if spot is not None:
            style = "name hero" if point.title == hero else "name" if point.is_on_front else "name quiet"
            marks.append(text(point.title, spot.x, spot.y, class_=style, text_anchor=spot.anchor))
    label = f"{score_label} against {cost_label}; on the front: {', '.join(point.title for point in front)}"
    return drawing(width, height, label, marks)


def interval(value: float, low: float, high: float, scale: Scale, *, is_best: bool = False) -> str:
    """One score with its interval, as wide as the table cell it stands in; `scale` runs from 0 to 100 percent.

    A score beyond the scale is a hollow dot at its end.
    """
    if not math.isfinite(value):
        return ""
    start, middle, end = (min(max(scale(place), 0.0), 100.0) for place in (low, value, high))
    parts = []
    is_off = not scale.low <= value <= scale.high
    if math.isfinite(low) and math.isfinite(high) and not is_off:
        parts.append(element("line", x1=f"{start:.1f}%", x2=f"{end:.1f}%", y1="50%", y2="50%"))
    style = {"class_": "off"} if is_off else {}
    parts.append(element("circle", **style, cx=f"{middle:.1f}%", cy="50%", r=4))
    return element("svg", *parts, class_="interval best" if is_best else "interval", aria_hidden="true")


def learning_curves(curves: Sequence[Curve], label: str, colours: Mapping[str, int]) -> str:
    """Validation scores during training: one line per split, one colour per method, its name beside the best line."""
    drawn = [(curve, [point for point in curve.points if math.isfinite(point[1])]) for curve in curves]
    drawn = [(curve, points) for curve, points in drawn if len(points) > 1]
    if not drawn:
        return ""
    width, height, left, right, top, bottom = 716.0, 250.0, 54.0, 500.0, 30.0, 214.0
    x = Scale(0, 100, left, right)
    y = Scale(*_shown_range([value for _, points in drawn for _, value in points]), bottom, top)
    marks = [*_grid(x, y, [f"{tick:g} %" for tick in x.ticks]), text(label, 0, 12, class_="tick")]
    marks.append(text("of training", right, height - 4, class_="tick", text_anchor="end"))
    ends: dict[str, float] = {}
    for curve, points in drawn:
        places = [(x(step), min(y(value), bottom)) for step, value in points]
        told = hint(f"{curve.title}, split {curve.split}: best {formatting.score(max(value for _, value in points))}")
        style = f"curve c{colours[curve.title] % COLOURS}"
        marks.append(element("path", told, class_=style, d=path(places)))
        ends[curve.title] = min(ends.get(curve.title, math.inf), places[-1][1])
    names = sorted(ends, key=lambda name: (ends[name], name))
    for name, at in zip(names, _spread([ends[name] for name in names], 15, bottom), strict=True):
        style = f"name on c{colours[name] % COLOURS}"
        marks.append(text(_short(name, 31), right + 10, at + 4, class_=style))
    return drawing(width, height, f"Learning curves: {label} of {', '.join(names)}", marks, "plot curves")


def _grid(x: Scale, y: Scale, x_labels: Sequence[str]) -> list[str]:
    """Quiet lines at round values, with their labels."""
    marks = []
    ticks = y.ticks
    digits = next(
        digits for digits in range(13) if all(math.isclose(round(t, digits), t, abs_tol=1e-12) for t in ticks)
    )
    for value in ticks:
        marks.append(element("line", class_="grid", x1=x.start, x2=x.end, y1=y(value), y2=y(value)))
        shown = f"{value:.{digits}f}" if abs(value) < 1e5 else f"{value:.1e}"
        marks.append(text(shown.replace("-", "−"), x.start - 8, y(value) + 4, class_="tick", text_anchor="end"))
    marks.append(element("line", class_="axis", x1=x.start, x2=x.end, y1=y.start, y2=y.start))
    last = -math.inf
    for value, shown in zip(x.ticks, x_labels, strict=True):
        if x(value) - last > LETTER * len(shown) + 12:
            last = x(value)
            marks.append(element("line", class_="axis", x1=last, x2=last, y1=y.start, y2=y.start + 4))
            marks.append(text(shown, last, y.start + 18, class_="tick", text_anchor="middle"))
    return marks


def _ruler(start: float, end: float, y: float) -> str:
    return path([(start, y - 4), (start, y + 4)]) + path([(start, y), (end, y)]) + path([(end, y - 4), (end, y + 4)])


def _short(name: str, letters: int) -> str:
    return name if len(name) <= letters else name[: letters - 1].rstrip() + "…"


Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Spot:
    """Where a label goes, and which end of it is there."""

    x: float
    y: float
    anchor: Literal["start", "middle", "end"]

    def box(self, width: float) -> Box:
        left = self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * width
        return left, self.y - 11, left + width, self.y + 3


def _free_spot(width: float, x: float, y: float, taken: list[Box], frame: Box) -> Spot | None:
    """Where a label of this width meets nothing else: beside its dot, above or below it; None if nowhere."""
    for spot in (
        Spot(x + 9, y + 4, "start"),
        Spot(x - 9, y + 4, "end"),
        Spot(x, y - 10, "middle"),
        Spot(x, y + 19, "middle"),
        Spot(x + 6, y - 9, "start"),
        Spot(x - 6, y - 9, "end"),
        Spot(x + 6, y + 17, "start"),
        Spot(x - 6, y + 17, "end"),
    ):
        box = spot.box(width)
        is_inside = box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]
        if is_inside and not any(_overlap(box, other) for other in taken):
            taken.append(box)
            return spot
    return None


def _round_cost(value: float, unit: str) -> str:
    """A round value on the axis of costs."""
    if unit == "memory":
        return f"{value / 1e9:g} GB" if value >= 1e9 else f"{value / 1e6:g} MB"
    return f"{value:g} s" if value < 3600 else f"{value / 3600:.1f} h"


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _spread(places: Sequence[float], gap: float, most: float) -> list[float]:
    """Sorted places moved apart until labels fit, none below `most`."""
    spread: list[float] = []
    for place in places:
        spread.append(max(place, spread[-1] + gap) if spread else place)
    limit = most
    for index in range(len(spread) - 1, -1, -1):
        spread[index] = min(spread[index], limit)
        limit = spread[index] - gap
    return spread


def _shown_range(values: Sequence[float]) -> tuple[float, float]:
    """All values, or all but the worst twentieth where those would flatten the rest."""
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    usual = ordered[len(ordered) // 20]
    if high > usual and high - low > 2.5 * (high - usual):
        low = usual
    return span([low, high], 0.05)
