"""Draw the report's plots as small SVG pictures.

Colours come from the page's style sheet by class, so that one drawing serves light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from hopular import formatting

_LETTER = 6.3  # width of an average letter in a label, in units of the drawings
_COLOURS = 8  # classes c0 to c7 of the style sheet


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
    ranks: Mapping[str, float], cliques: Sequence[Sequence[str]], difference: float, ours: str
) -> str:
    """Draw mean ranks on a line, best to the left; bars join methods that the data do not tell apart (Demsar 2006)."""
    order = sorted(ranks, key=lambda name: (ranks[name], name))
    width, left, right, row, axis = 780.0, 232.0, 548.0, 21.0, 52.0
    place = Scale(1, max(len(order), 2), left, right)
    top = axis + 20 + 9 * len(cliques) + 10
    marks = [element("line", class_="axis", x1=left, x2=right, y1=axis, y2=axis)]
    step = max(1, math.ceil(len(order) / 12))
    for rank in range(1, len(order) + 1, step):
        marks.append(element("line", class_="axis", x1=place(rank), x2=place(rank), y1=axis - 5, y2=axis))
        marks.append(text(str(rank), place(rank), axis - 10, class_="tick", text_anchor="middle"))
    if difference <= place.high - 1:
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
        style = " hero" if name == ours else ""
        marks.append(element("path", class_=f"leader{style}", d=path([(x, axis), (x, y), (edge, y)])))
        anchor, shift = ("end", -6) if is_left else ("start", 6)
        marks.append(text(_short(name, 31), edge + shift, y + 4, class_=f"name{style}", text_anchor=anchor))
        inner = "start" if is_left else "end"
        marks.append(text(formatting.number(ranks[name]), edge - shift / 3, y - 4, class_="rank", text_anchor=inner))
    summary = ", ".join(f"{name} {formatting.number(ranks[name])}" for name in order)
    return _drawing(
        width, top + row * middle, f"Critical-difference diagram of mean ranks: {summary}", marks, "plot wide"
    )


def cost(points: Sequence[Point], unit: Literal["seconds", "memory"], ours: str) -> str:
    """Draw relative scores against what a training costs (logarithmic); a line joins the front that nothing beats.

    The scale is made for the methods that compete: those of the group "floor" that lie below it are hollow dots at its
    lower end.
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
    write = formatting.seconds if unit == "seconds" else formatting.memory
    cost_label = "training time, mean of one fit" if unit == "seconds" else "peak memory of a training process"
    marks = [*_grid(x, y, [_round_cost(tick, unit) for tick in x.ticks]), text("relative score", 0, 12, class_="tick")]
    marks.append(text(cost_label, right, height - 8, class_="tick", text_anchor="end"))
    front = sorted((point for point in shown if point.is_on_front), key=lambda point: point.cost)
    if len(front) > 1:
        corners = [spots[front[0]]]
        for point in front[1:]:
            corners += [(spots[point][0], corners[-1][1]), spots[point]]
        marks.append(element("path", class_="front", d=path(corners)))
    for point, (at_x, at_y) in spots.items():
        told = f"{point.title}: relative score {formatting.number(point.score, 3)}, {write(point.cost)}"
        style = f"dot {point.group}{' on-front' if point.is_on_front else ''}{' off' if point.score < y.low else ''}"
        size = 5.5 if point.is_on_front else 4
        marks.append(element("circle", _hint(told), class_=style, cx=at_x, cy=at_y, r=size))
    taken = [(at_x - 6, at_y - 6, at_x + 6, at_y + 6) for at_x, at_y in spots.values()]
    for point in sorted(shown, key=lambda point: (point.title != ours, not point.is_on_front, -point.score)):
        wide = _LETTER * len(point.title) * (1.2 if point.title == ours else 1.0)  # bold is wider
        spot = _free_spot(wide, *spots[point], taken, (left, top - 8, right + 14, bottom + 4))
        if spot is not None:
            style = "name hero" if point.title == ours else "name" if point.is_on_front else "name quiet"
            marks.append(text(point.title, spot.x, spot.y, class_=style, text_anchor=spot.anchor))
    label = f"relative score against {cost_label}; on the front: {', '.join(point.title for point in front)}"
    return _drawing(width, height, label, marks)


def interval(value: float, low: float, high: float, scale: Scale, *, is_best: bool = False) -> str:
    """Draw one score with its interval, as wide as the table cell it stands in; `scale` runs from 0 to 100 percent.

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


def bar(value: float, scale: Scale, low: float = math.nan, high: float = math.nan) -> str:
    """Draw a value as a bar from 0, with its interval, as wide as the table cell it stands in; see `interval`."""
    if not math.isfinite(value):
        return ""
    zero, end, start, stop = (min(max(scale(place), 0.0), 100.0) for place in (0.0, value, low, high))
    left, width = min(zero, end), abs(end - zero)
    parts = [element("rect", x=f"{left:.1f}%", width=f"{width:.1f}%", y="15%", height="70%")]
    if math.isfinite(low) and math.isfinite(high):
        parts.append(element("line", x1=f"{start:.1f}%", x2=f"{stop:.1f}%", y1="50%", y2="50%"))
    if scale.low < 0:
        parts.append(element("line", class_="zero", x1=f"{zero:.1f}%", x2=f"{zero:.1f}%", y1="0", y2="100%"))
    return element("svg", *parts, class_="bar", aria_hidden="true")


def reliability(bins: Sequence[tuple[float, float, float, float, int]]) -> str:
    """Draw how often answers are right, with intervals, against how sure the model is: sure, right, low, high, rows."""
    width, height, left, right, top, bottom = 460.0, 380.0, 46.0, 444.0, 30.0, 334.0
    least = min(min(sure, low) for sure, _, low, _, _ in bins)
    floor = min(0.9, math.floor(10 * least) / 10)
    x, y = Scale(floor, 1, left, right), Scale(floor, 1, bottom, top)
    marks = [*_grid(x, y, [f"{tick:g}" for tick in x.ticks]), text("share that is right", 0, 12, class_="tick")]
    marks.append(text("probability of the class that is said", right, height - 4, class_="tick", text_anchor="end"))
    marks.append(element("path", class_="front", d=path([(left, bottom), (right, top)])))
    marks.append(element("path", class_="curve c0", d=path([(x(sure), y(share)) for sure, share, *_ in bins])))
    for sure, share, low, high, rows in bins:
        told = f"{rows:,} rows: sure to {formatting.percent(sure, 1)}, right on {formatting.percent(share, 1)}"
        marks.append(element("path", class_="whisker c0", d=path([(x(sure), y(low)), (x(sure), y(high))])))
        marks.append(element("circle", _hint(told), class_="dot on-front c0", cx=x(sure), cy=y(share), r=4.5))
    summary = ", ".join(f"{formatting.number(sure)}: {formatting.number(share)}" for sure, share, *_ in bins)
    return _drawing(width, height, f"Reliability, share that is right by how sure the model is: {summary}", marks)


def scatter(
    across: Sequence[float], up: Sequence[float], x_label: str, y_label: str, *, line: Literal["diagonal", "zero"]
) -> str:
    """Draw a dot per row, and the line on which all dots of a perfect model would lie."""
    pairs = [(a, b) for a, b in zip(across, up, strict=True) if math.isfinite(a) and math.isfinite(b)]
    if not pairs:
        return ""
    width, height, left, right, top, bottom = 460.0, 380.0, 62.0, 444.0, 30.0, 334.0
    xs, ys = [a for a, _ in pairs], [b for _, b in pairs]
    x_range, y_range = (span(xs + ys),) * 2 if line == "diagonal" else (span(xs), span([*ys, 0.0]))
    x, y = Scale(*x_range, left, right), Scale(*y_range, bottom, top)
    marks = [*_grid(x, y, [_axis_number(tick) for tick in x.ticks])]
    marks.append(text(_short(y_label, 40), 0, 12, class_="tick"))
    marks.append(text(_short(x_label, 50), right, height - 4, class_="tick", text_anchor="end"))
    dots = [element("circle", cx=x(a), cy=y(b), r=2.4) for a, b in pairs]
    marks.append(element("g", *dots, class_="cloud c0"))
    ends = [(left, bottom), (right, top)] if line == "diagonal" else [(left, y(0.0)), (right, y(0.0))]
    marks.append(element("path", class_="front", d=path(ends)))
    return _drawing(width, height, f"{y_label} against {x_label}, {len(pairs):,} rows", marks)


def progress(points: Sequence[tuple[float, float]], label: str, end: float = math.nan) -> str:
    """Draw the best score so far over the seconds, in steps; the last one lasts until `end`."""
    shown = [(seconds, value) for seconds, value in points if math.isfinite(value)]
    if len(shown) < 2:
        return ""
    width, height, left, right, top, bottom = 460.0, 260.0, 54.0, 444.0, 30.0, 214.0
    last = max(end, shown[-1][0]) if math.isfinite(end) else shown[-1][0]
    unit, name = (60.0, "minutes") if last >= 120 else (1.0, "seconds")
    x = Scale(0, last / unit or 1.0, left, right)
    y = Scale(*span([value for _, value in shown], 0.08), bottom, top)
    corners = [(x(shown[0][0] / unit), y(shown[0][1]))]
    for seconds, value in shown[1:]:
        corners += [(x(seconds / unit), corners[-1][1]), (x(seconds / unit), y(value))]
    corners.append((x(last / unit), corners[-1][1]))
    marks = [*_grid(x, y, [f"{tick:g}" for tick in x.ticks]), text(_short(label, 50), 0, 12, class_="tick")]
    marks.append(text(name, right, height - 6, class_="tick", text_anchor="end"))
    marks.append(element("path", class_="curve c0", d=path(corners)))
    for seconds, value in shown:
        told = f"{formatting.score(value)} after {formatting.seconds(seconds)}"
        marks.append(element("circle", _hint(told), class_="dot on-front c0", cx=x(seconds / unit), cy=y(value), r=3.5))
    story = f"from {formatting.score(shown[0][1])} to {formatting.score(shown[-1][1])} in {formatting.seconds(last)}"
    return _drawing(width, height, f"{label} of the best choice so far: {story}", marks)


def learning_curves(curves: Sequence[Curve], label: str, colours: Mapping[str, int]) -> str:
    """Draw validation scores during training: a line per split, a colour per method, its name beside the best line."""
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
        told = _hint(f"{curve.title}, split {curve.split}: best {formatting.score(max(value for _, value in points))}")
        style = f"curve c{colours[curve.title] % _COLOURS}"
        marks.append(element("path", told, class_=style, d=path(places)))
        ends[curve.title] = min(ends.get(curve.title, math.inf), places[-1][1])
    names = sorted(ends, key=lambda name: (ends[name], name))
    for name, at in zip(names, _spread([ends[name] for name in names], 15, bottom), strict=True):
        style = f"name on c{colours[name] % _COLOURS}"
        marks.append(text(_short(name, 31), right + 10, at + 4, class_=style))
    return _drawing(width, height, f"Learning curves: {label} of {', '.join(names)}", marks, "plot curves")


def stand_alone(plot: str, css: str) -> str:
    """Write a plot as a file of its own, with its style in it."""
    head, end, rest = plot.partition(">")
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f"{head}{end}<style><![CDATA[{css}]]></style>{rest}"


def _grid(x: Scale, y: Scale, x_labels: Sequence[str]) -> list[str]:
    """Draw faint lines at round values, with their labels."""
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
        if x(value) - last > _LETTER * len(shown) + 12:
            last = x(value)
            marks.append(element("line", class_="axis", x1=last, x2=last, y1=y.start, y2=y.start + 4))
            marks.append(text(shown, last, y.start + 18, class_="tick", text_anchor="middle"))
    return marks


def _axis_number(value: float) -> str:
    return (f"{value:g}" if abs(value) < 1e5 else f"{value:.1e}").replace("-", "−")


def _ruler(start: float, end: float, y: float) -> str:
    return path([(start, y - 4), (start, y + 4)]) + path([(start, y), (end, y)]) + path([(end, y - 4), (end, y + 4)])


def _short(name: str, letters: int) -> str:
    return name if len(name) <= letters else name[: letters - 1].rstrip() + "…"


_Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class _Spot:
    """The place of a label, and which part of the label is there."""

    x: float
    y: float
    anchor: Literal["start", "middle", "end"]

    def box(self, width: float) -> _Box:
        left = self.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * width
        return left, self.y - 11, left + width, self.y + 3


def _free_spot(width: float, x: float, y: float, taken: list[_Box], frame: _Box) -> _Spot | None:
    """Find a free place for a label of this width beside, above or below its dot; None if there is none."""
    for spot in (
        _Spot(x + 9, y + 4, "start"),
        _Spot(x - 9, y + 4, "end"),
        _Spot(x, y - 10, "middle"),
        _Spot(x, y + 19, "middle"),
        _Spot(x + 6, y - 9, "start"),
        _Spot(x - 6, y - 9, "end"),
        _Spot(x + 6, y + 17, "start"),
        _Spot(x - 6, y + 17, "end"),
    ):
        box = spot.box(width)
        is_inside = box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]
        if is_inside and not any(_overlap(box, other) for other in taken):
            taken.append(box)
            return spot
    return None


def _round_cost(value: float, unit: str) -> str:
    """Label a round value on the axis of costs."""
    if unit == "memory":
        return f"{value / 1e9:g} GB" if value >= 1e9 else f"{value / 1e6:g} MB"
    return f"{value:g} s" if value < 3600 else f"{value / 3600:.1f} h"


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _spread(places: Sequence[float], gap: float, most: float) -> list[float]:
    """Move sorted places apart until labels fit, none of them beyond `most`."""
    spread: list[float] = []
    for place in places:
        spread.append(max(place, spread[-1] + gap) if spread else place)
    limit = most
    for index in range(len(spread) - 1, -1, -1):
        spread[index] = min(spread[index], limit)
        limit = spread[index] - gap
    return spread


def _shown_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of all values, or of all but the worst twentieth where those would flatten the rest."""
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    usual = ordered[len(ordered) // 20]
    if high > usual and high - low > 2.5 * (high - usual):
        low = usual
    return span([low, high], 0.05)


# ------------------------------------------------------------------------------------------------------- SVG and scales


def element(tag: str, *content: str, **attributes: str | float) -> str:
    """Write an element around markup; the attribute `class_` becomes class, and `stroke_width` stroke-width."""
    pairs = "".join(f' {name.rstrip("_").replace("_", "-")}="{_plain(value)}"' for name, value in attributes.items())
    return f"<{tag}{pairs}>{''.join(content)}</{tag}>" if content else f"<{tag}{pairs}/>"


def text(label: str, x: float, y: float, **attributes: str | float) -> str:
    return element("text", escape(label), x=x, y=y, **attributes)


def _hint(text: str) -> str:
    """Write a tooltip for the element around it."""
    return element("title", escape(text))


def _drawing(width: float, height: float, label: str, content: Iterable[str], class_: str = "plot") -> str:
    """Write a picture with a description for those who cannot see it."""
    return element(
        "svg", *content, class_=class_, viewBox=f"0 0 {_plain(width)} {_plain(height)}", role="img", aria_label=label
    )


def path(points: Iterable[tuple[float, float]]) -> str:
    """Write the `d` of a line through points."""
    return "M" + "L".join(f"{_plain(x)} {_plain(y)}" for x, y in points)


def _plain(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True)
class Scale:
    """A map from values to places, logarithmic for quantities that span orders of magnitude."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log10(x) if self.is_log else x for x in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Return about five round values within the scale."""
        if not self.is_log:
            return _round_ticks(self.low, self.high)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for bases in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
            every = [base * 10.0**power for power in powers for base in bases]
            inside = [value for value in every if self.low <= value <= self.high]
            if len(inside) >= 3:
                break
        return inside


def span(values: Sequence[float], margin: float = 0.06, *, is_log: bool = False) -> tuple[float, float]:
    """Return the range of values with some room around them; equal values get room too."""
    low, high = min(values), max(values)
    if is_log:
        room = max((high / low) ** margin, 1.3)
        return low / room, high * room
    room = (high - low) * margin or abs(high) * margin or 1.0
    return low - room, high + room


def _round_ticks(low: float, high: float) -> list[float]:
    if not high > low:
        return [low]
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(base * power for base in (1, 2, 2.5, 5, 10) if base * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(place * step, 12) for place in range(first, math.floor(high / step + 1e-9) + 1)]
