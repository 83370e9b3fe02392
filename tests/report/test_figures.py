"""Figures for the tracking store: what is drawn, read from the SVG itself."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from hopular.report import figures


def parts(picture: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


def texts(picture: str) -> list[str]:
    return [part.text or "" for part in parts(picture, "text")]


def dots(picture: str) -> list[tuple[float, float]]:
    return [(float(part.attrib["cx"]), float(part.attrib["cy"])) for part in parts(picture, "circle")]


def test_confusion_counts_pairs_of_classes() -> None:
    truth, predicted = ["a", "a", "b", "b", "c"], ["a", "b", "b", "b", "a"]
    picture = figures.confusion(truth, predicted, ["a", "b", "c"])
    assert sorted(word for word in texts(picture) if word.isdecimal()) == ["1", "1", "1", "2"]
    shares = [part.attrib["fill-opacity"] for part in parts(picture, "rect") if "fill-opacity" in part.attrib]
    assert shares == ["0.50", "0.50", "1.00", "1.00"]  # of the true class
    assert texts(picture)[0] == "3 of 5 right"


def test_confusion_says_how_many_classes_it_does_not_know() -> None:
    assert "1 of classes unknown to the model" in texts(figures.confusion(["a", "z"], ["a", "a"], ["a", "b"]))[0]


def test_names_are_text_and_no_markup() -> None:
    names = ["$\\frac{", "a&b", "<x>"]
    assert set(names) <= set(texts(figures.confusion(names, names, names)))
    assert set(names) <= set(texts(figures.importance(names, [3, 2, 1])))
    assert set(names) <= set(texts(figures.slices([(name, [1, 2], [0.5, 0.6]) for name in names])))


def test_many_classes_are_drawn_without_labels() -> None:
    classes = [str(n) for n in range(60)]
    picture = figures.confusion(classes, classes, classes)
    assert len(parts(picture, "rect")) == 62
    assert len(texts(picture)) == 2


def test_residuals_are_truth_minus_prediction() -> None:
    picture = figures.residuals([1.0, 2.0, 3.0], [1.5, 2.0, 2.0])
    (x1, y1), (x2, y2), (x3, y3) = dots(picture)
    assert x1 < x2 == x3
    assert y1 - y2 == pytest.approx((y2 - y3) / 2, abs=0.2)  # -0.5, 0, 1, upwards
    assert texts(picture)[0] == "mean 0.167, standard deviation 0.624"
    many = np.random.default_rng(0).normal(size=20_000)
    assert len(dots(figures.residuals(many, np.zeros(20_000)))) <= 5_000
    assert dots(figures.residuals([1.0, math.inf], [1.0, 1.0]))


def test_calibration_compares_certainty_with_success() -> None:
    probabilities = np.array([[0.9, 0.1]] * 10 + [[0.4, 0.6]] * 10)
    truth = ["a"] * 9 + ["b"] + ["b"] * 5 + ["a"] * 5
    found = dots(figures.calibration(truth, probabilities, ["a", "b"]))
    shares = [((x - 70) / 340, (380 - y) / 340) for x, y in found]
    np.testing.assert_allclose(shares, [(0.6, 0.5), (0.9, 0.9)], atol=0.001)


def test_the_curve_marks_its_best_point() -> None:
    picture = figures.curve([(10, 0.5), (20, 0.8), (30, float("nan")), (40, 0.7)])
    assert texts(picture)[0] == "best 0.8 at 20 %"
    assert parts(picture, "path")[0].attrib["d"].count("L") == 2
    assert len(dots(picture)) == 1
    assert texts(figures.curve([])) == ["no validation score was recorded"]


def test_importance_shows_the_largest_first_and_keeps_equal_names_apart() -> None:
    picture = figures.importance(["x"] * 30, np.arange(30))
    widths = [float(part.attrib["width"]) for part in parts(picture, "rect")[1:]]
    assert len(widths) == 20
    assert widths == sorted(widths, reverse=True)
    assert texts(picture)[0] == "the top 20 of 30 features"


def test_importance_needs_a_name_for_each_value() -> None:
    with pytest.raises(ValueError, match="2 names for 3 importances: give one name for each"):
        figures.importance(["a", "b"], [1, 2, 3])


def test_slices_have_a_panel_for_each_parameter_logarithmic_where_it_spans_orders_of_magnitude() -> None:
    scores = [0.1, 0.2, 0.3]
    picture = figures.slices([("rate", [0.001, 0.01, 0.1], scores), ("kind", ["a", None, True], scores)])
    (x1, _), (x2, _), (x3, _), *kinds = dots(picture)
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert len({x for x, _ in kinds}) == 3
    assert {"rate", "kind", "None", "True"} <= set(texts(picture))
