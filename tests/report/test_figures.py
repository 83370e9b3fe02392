"""Figures for the tracking store."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from hopular.report import figures


def png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def test_confusion_counts_pairs_of_classes() -> None:
    truth, predicted = ["a", "a", "b", "b", "c"], ["a", "b", "b", "b", "a"]
    (axes,) = figures.confusion(truth, predicted, ["a", "b", "c"]).axes
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(0, 0): "1", (1, 0): "1", (1, 1): "2", (0, 2): "1"}
    assert axes.get_title() == "3 of 5 right"


def test_confusion_says_how_many_classes_it_does_not_know() -> None:
    (axes,) = figures.confusion(["a", "z"], ["a", "a"], ["a", "b"]).axes
    assert "1 of classes that the model does not know" in axes.get_title()


def test_names_with_dollar_signs_are_no_formulas() -> None:
    names = ["$\\frac{", "a$b$c", "<x>"]
    assert png(figures.confusion(names, names, names)).startswith(b"\x89PNG")
    assert png(figures.importance(names, [3, 2, 1])).startswith(b"\x89PNG")


def test_many_classes_are_drawn_without_labels() -> None:
    classes = [str(n) for n in range(60)]
    (axes,) = figures.confusion(classes, classes, classes).axes
    assert not axes.texts
    assert list(axes.get_xticks()) == []


def test_residuals_are_truth_minus_prediction() -> None:
    left, _ = figures.residuals([1.0, 2.0, 3.0], [1.5, 2.0, 2.0]).axes
    np.testing.assert_allclose(left.collections[0].get_offsets(), [[1.5, -0.5], [2.0, 0.0], [2.0, 1.0]])


def test_calibration_compares_certainty_with_success() -> None:
    probabilities = np.array([[0.9, 0.1]] * 10 + [[0.4, 0.6]] * 10)
    truth = ["a"] * 9 + ["b"] + ["b"] * 5 + ["a"] * 5
    (axes,) = figures.calibration(truth, probabilities, ["a", "b"]).axes
    np.testing.assert_allclose(axes.collections[0].get_offsets(), [[0.6, 0.5], [0.9, 0.9]])


def test_the_curve_marks_its_best_point() -> None:
    (axes,) = figures.curve([(10, 0.5), (20, 0.8), (30, float("nan")), (40, 0.7)]).axes
    assert axes.get_title() == "best 0.8 at 20 %"
    assert len(axes.lines[0].get_xdata()) == 3


def test_a_curve_without_points_says_so() -> None:
    (axes,) = figures.curve([]).axes
    assert axes.get_title() == "no validation score was recorded"


def test_importance_shows_the_largest_first_and_keeps_equal_names_apart() -> None:
    (axes,) = figures.importance(["x"] * 30, np.arange(30)).axes
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == list(range(10, 30))
    assert axes.get_title() == "the top 20 of 30 features"


def test_importance_needs_a_name_for_each_value() -> None:
    with pytest.raises(ValueError, match="2 names for 3 importances: give one name for each"):
        figures.importance(["a", "b"], [1, 2, 3])


def test_pyplot_is_not_involved() -> None:
    program = (
        "import io, sys; from hopular.report import figures; "
        "figures.curve([(1, 0.5), (2, 0.6)]).savefig(io.BytesIO()); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
