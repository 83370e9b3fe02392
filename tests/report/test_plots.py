"""The report's SVG plots."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from hopular.report import plots
from hopular.report.plots import Curve, Point, Scale, span
from tests.report.synthetic import NASTY


def texts(drawing: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(drawing).iter("text")]


def by_class(drawing: str, name: str) -> list[ElementTree.Element]:
    return [node for node in ElementTree.fromstring(drawing).iter() if name in node.get("class", "").split()]


def test_scales_map_ends_to_ends_and_logarithms_evenly() -> None:
    assert [Scale(0, 10, 100, 200)(x) for x in (0, 5, 10)] == [100, 150, 200]
    assert Scale(1, 100, 0, 2, is_log=True)(10) == pytest.approx(1)
    assert Scale(3, 3, 0, 10)(3) == 5


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0, 100, 0, 1), [0, 20, 40, 60, 80, 100]),
        (Scale(0.812, 0.871, 0, 1), [0.82, 0.84, 0.86]),
        (Scale(0.5, 2000, 0, 1, is_log=True), [1, 10, 100, 1000]),
        (Scale(230, 1100, 0, 1, is_log=True), [300, 400, 500, 600, 800, 1000]),
    ],
)
def test_ticks_are_round(scale: Scale, ticks: list[float]) -> None:
    assert scale.ticks == pytest.approx(ticks)


@pytest.mark.parametrize("value", [0.0, 5.0, -2.0])
def test_equal_values_still_get_a_range(value: float) -> None:
    low, high = span([value, value])
    assert low < value < high


def test_the_critical_difference_diagram_shows_methods_bars_and_ruler() -> None:
    ranks = {"CatBoost": 1.5, "Hopular": 1.9, "Trees": 3.0, NASTY: 3.6}
    drawing = plots.critical_difference(ranks, [("CatBoost", "Hopular"), ("Trees", NASTY)], 0.9, "Hopular")
    shown = texts(drawing)
    assert {"CatBoost", "Hopular", "Trees", "critical difference 0.90", "1.50", "3.60"} <= set(shown)
    assert len(by_class(drawing, "clique")) == 2
    assert [node.text for node in by_class(drawing, "name") if "hero" in node.get("class", "")] == ["Hopular"]
    assert "<script" not in drawing


def test_better_methods_are_to_the_left() -> None:
    drawing = plots.critical_difference({"a": 1.0, "b": 2.0, "c": 3.0}, [], 5.0, "")
    starts = [float(node.get("d", "")[1:].split()[0]) for node in by_class(drawing, "leader")]
    assert starts == sorted(starts)
    assert not by_class(drawing, "ruler")


def test_the_cost_plot_marks_the_front_and_sets_the_floor_apart() -> None:
    points = [
        Point("Majority", "floor", 0.01, 0.0, True),
        Point("Trees", "boosting", 1.0, 0.9, True),
        Point("Hopular", "deep", 50.0, 0.95, True),
        Point("Slow", "deep", 90.0, 0.85, False),
        Point("Unknown", "deep", math.nan, 0.5, False),
        Point("Unmeasured", "deep", 0.0, 0.5, False),
    ]
    drawing = plots.cost(points, "seconds", "Hopular")
    assert len(by_class(drawing, "dot")) == 4
    assert len(by_class(drawing, "on-front")) == 3
    assert len(by_class(drawing, "off")) == 1
    assert len(by_class(drawing, "front")) == 1
    assert {"Hopular", "Trees", "10 s"} <= set(texts(drawing))


def test_labels_that_would_overlap_are_left_out() -> None:
    points = [Point(f"Method {n}", "classical", 1.0, 0.5, n == 7) for n in range(20)]
    drawing = plots.cost(points, "seconds", "Hopular")
    assert len(by_class(drawing, "dot")) == 20
    labels = {node.text: (node.get("x"), node.get("y")) for node in by_class(drawing, "name")}
    assert "Method 7" in labels  # the front comes first
    assert 0 < len(set(labels.values())) == len(labels) < 9


def test_nothing_measured_is_no_plot() -> None:
    assert plots.cost([Point("a", "deep", 0.0, 0.5, False)], "seconds", "Hopular") == ""
    assert plots.learning_curves([], "accuracy", {}) == ""
    assert plots.interval(math.nan, 0, 1, Scale(0, 1, 0, 100)) == ""


def test_an_interval_stays_within_its_cell() -> None:
    scale = Scale(0.5, 1.0, 0, 100)
    inside = ElementTree.fromstring(plots.interval(0.75, 0.7, 0.8, scale, is_best=True))
    assert inside.get("class") == "interval best"
    line, dot = inside
    assert (line.get("x1"), line.get("x2"), dot.get("cx")) == ("40.0%", "60.0%", "50.0%")
    outside = ElementTree.fromstring(plots.interval(0.1, 0.0, 0.2, scale))
    assert outside[-1].get("cx") == "0.0%"
    assert outside[-1].get("class") == "off"
    assert len(ElementTree.fromstring(plots.interval(0.75, math.nan, math.nan, scale))) == 1


def test_learning_curves_have_a_line_per_split_and_a_name_per_method() -> None:
    points = [(step, 1 - 1 / step) for step in range(1, 101, 9)]
    curves = [Curve(title, split, points) for title in ("Hopular", NASTY) for split in ("s0", "s1")]
    drawing = plots.learning_curves(curves, "validation accuracy", {"Hopular": 0, NASTY: 9})
    assert len(by_class(drawing, "curve")) == 4
    assert len(by_class(drawing, "c1")) == 3  # two lines and a name: colours start again after the last
    assert "Hopular" in texts(drawing)


def test_a_bad_start_does_not_flatten_learning_curves() -> None:
    points = [(1.0, -1e6), *((float(step), -1.0 + step / 200) for step in range(2, 101))]
    drawing = plots.learning_curves([Curve("Hopular", "s0", points)], "minus error", {"Hopular": 0})
    ticks = [
        float(node.text.replace("−", "-"))
        for node in by_class(drawing, "tick")
        if node.get("text-anchor") == "end" and node.text[-1].isdigit()
    ]
    assert min(ticks) > -2


def test_curves_with_values_that_are_no_numbers() -> None:
    curve = Curve("Hopular", "s0", [(1.0, math.nan), (50.0, 0.5), (100.0, 0.6)])
    drawing = plots.learning_curves([curve], "accuracy", {"Hopular": 0})
    assert "nan" not in drawing
    assert len(by_class(drawing, "curve")) == 1
