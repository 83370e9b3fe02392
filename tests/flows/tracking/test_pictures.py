"""Pictures and neighbours: what is drawn, and that there is nothing where there is nothing to see."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from flows.tracking.pictures import _panels, draw_pictures, parameter_importance, write_neighbours
from hopular import HopularClassifier
from hopular.data.dataset import Dataset
from hopular.trials.trial import Trial

MakeRecord = Callable[..., Trial]


def test_a_classifier_gets_all_pictures(tmp_path: Path, make_record: MakeRecord) -> None:
    truth = pd.Series(pd.Categorical(["rose", "lily", "rose", "lily"]))
    probabilities = np.array([[0.2, 0.8], [0.6, 0.4], [0.7, 0.3], [0.9, 0.1]])
    records = [make_record(slot, metrics={"accuracy": 0.5}) for slot in range(8)]
    drawn = draw_pictures(tmp_path, "classification", ["lily", "rose"], truth, probabilities, records)
    expected = {"confusion", "calibration", "learning_curve", "parameter_importance", "parameter_slices"}
    assert set(drawn) == expected
    assert {file.name for file in tmp_path.iterdir()} == {f"{name}.svg" for name in expected}


def test_a_regressor_without_curves_gets_residuals(tmp_path: Path, make_record: MakeRecord) -> None:
    one = [make_record(0, curve=[])]
    drawn = draw_pictures(tmp_path, "regression", [], np.arange(5.0), np.arange(5.0) + 0.1, one)
    assert drawn == ["residuals"]
    assert [file.name for file in tmp_path.iterdir()] == ["residuals.svg"]


def test_the_parameter_that_decides_is_the_most_important(make_record: MakeRecord) -> None:
    random = np.random.default_rng(0)
    records = [
        make_record(slot, params={"noise": a, "rate": b, "kind": "ab"[slot % 2], "same": 1}, score=b)
        for slot, (a, b) in enumerate(random.random((60, 2)).tolist())
    ]
    found = parameter_importance(records)
    assert next(iter(found)) == "rate"
    assert set(found) == {"noise", "rate", "kind"}


def test_odd_values_and_too_few_trials_are_no_trouble(make_record: MakeRecord) -> None:
    failed = make_record(9, state="failed", score=None)
    assert parameter_importance([make_record(0), failed]) == {}
    assert _panels([make_record(0), failed]) == []
    odd = [make_record(slot, params={"layers": [slot, 1], "none": None if slot % 2 else 0.1}) for slot in range(6)]
    assert set(parameter_importance(odd)) == {"layers", "none"}
    assert [name for name, _, _ in _panels(odd)] == ["layers", "none"]


def test_conditional_parameters_are_drawn_where_they_are_set(make_record: MakeRecord) -> None:
    records = [make_record(slot, params={"a": slot} | ({"b": 10.0**-slot} if slot > 1 else {})) for slot in range(6)]
    assert set(parameter_importance(records)) == {"a"}
    (a, a_values, _), (b, b_values, scores) = _panels(records)
    assert (a, len(a_values), b, len(b_values), len(scores)) == ("a", 6, "b", 4, 4)


def test_hopular_shows_what_it_read_from(flowers: Dataset, tmp_path: Path) -> None:
    X, y = flowers.X.rename(columns={"size": "<b>size"}), flowers.y
    model = HopularClassifier(max_epochs=2, n_blocks=1, embedding_dim=8, random_state=0, device="cpu")
    model.fit(X.iloc[:50], y.iloc[:50], eval_set=(X.iloc[50:], y.iloc[50:]))
    write_neighbours(tmp_path, model, X.iloc[:50], y.iloc[:50], X.iloc[50:], y.iloc[50:])
    shown = json.loads((tmp_path / "neighbours.json").read_text())
    assert len(shown) == 5
    assert len(shown[0]["neighbours"]) == 5
    nearest = shown[0]["neighbours"][0]
    assert 0 <= nearest["row"] < 50
    assert nearest["target"] == y.iloc[nearest["row"]]
    page = (tmp_path / "neighbours.html").read_text()
    assert "&lt;b&gt;size" in page
    assert "<b>size" not in page
