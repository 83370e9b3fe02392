"""A model's folder: what is refused, and what is behind an answer."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hopular.automl import Fitted, fit_table, load_fitted
from hopular.automl.fitted import check_target
from tests.automl.conftest import Watched, flowers


@pytest.fixture
def model(watched: Watched, tmp_path: Path) -> Path:
    return watched.fitted.save(tmp_path / "model")


def test_a_folder_of_something_else_is_never_overwritten(model: Path, tmp_path: Path) -> None:
    fitted = load_fitted(model)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    with pytest.raises(ValueError, match="photos' holds other files than a model of hopular: name another folder"):
        fitted.save(tmp_path / "photos")
    with pytest.raises(ValueError, match=r"cat\.jpg' is a file: name a folder for the model"):
        fitted.save(tmp_path / "photos" / "cat.jpg")
    other = fitted.save(tmp_path / "new")
    (other / "old").write_text("of an earlier model")
    fitted.save(other)
    assert not (other / "old").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_is_no_model_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder '.*missing': make a model with hopular fit"):
        load_fitted(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"is no model of hopular fit: it has no hopular-model\.json"):
        load_fitted(tmp_path)


def test_a_damaged_model_or_one_of_another_version_is_refused(model: Path) -> None:
    note = model / "hopular-model.json"
    values = json.loads(note.read_text())
    note.write_text(json.dumps({**values, "format": 99}))
    with pytest.raises(ValueError, match="has format 99, and this version of hopular reads 4: fit it again"):
        load_fitted(model)
    note.write_text(json.dumps({**values, "schema": {}}))
    with pytest.raises(ValueError, match=r"is damaged \('columns'\): fit it again"):
        load_fitted(model)
    note.write_text("{")
    with pytest.raises(ValueError, match=r"hopular-model\.json' is damaged"):
        load_fitted(model)
    note.write_text(json.dumps(values))
    next(model.rglob("*.skops")).write_bytes(b"none")
    with pytest.raises(ValueError, match=r"the model in .* is damaged"):
        load_fitted(model).predict(flowers().X)
    values["schema"]["columns"][0]["kind"] = "angle"
    note.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"column 'length' has the kind 'angle', not one of continuous, cat.*fit it"):
        load_fitted(model)


def test_a_place_where_nothing_can_be_written_is_refused(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ValueError, match=r"no model can be written to '.*file/sub' \(File exists: .*file\): make room, or name another"
    ):
        check_target(tmp_path / "file" / "sub")
    with pytest.raises(ValueError, match=r"no model can be written to '/proc/a/b' \(No such file"):
        check_target(Path("/proc/a/b"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"'\.' cannot be replaced by a model: name a folder in it"):
        check_target(Path("."))
    check_target(tmp_path / "new" / "deep")
    assert os.listdir(tmp_path / "new") == []


def test_a_link_to_a_model_stays_a_link(model: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(model)
    assert load_fitted(model).save(tmp_path / "link") == tmp_path / "link"
    assert (tmp_path / "link").is_symlink()
    assert load_fitted(tmp_path / "link").facts == load_fitted(model).facts


def test_another_model_than_hopular_has_no_rows_behind_it(model: Path) -> None:
    with pytest.raises(ValueError, match=r"no training rows behind an answer of .*Partial least squares: only"):
        load_fitted(model).why(flowers().X)


def test_a_model_of_an_earlier_version_is_refused_by_name(model: Path) -> None:
    note = model / "hopular-model.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "format": 3}))
    with pytest.raises(ValueError, match="has format 3, and this version of hopular reads 4: fit it again, or use"):
        load_fitted(model)


def test_the_rows_are_said(watched: Watched) -> None:
    facts = replace(watched.fitted.facts, rows=150, table_rows=150, members=(("mlp", 1.0, {}),))
    assert facts.trained_on == "8 fold models, trained on all 150 rows together"
    two = replace(facts, rows=120, members=(("mlp", 0.5, {}), ("knn", 0.5, {})))
    assert two.trained_on == "8 fold models of each member, trained on 120 of 150 rows together"
    assert two.title == "ensemble of Multilayer perceptron 50 %, Nearest neighbours 50 %"
    single = replace(facts, folds=1, rows=120)
    assert single.trained_on == "trained on 120 of 150 rows; the others told when to stop, and which model is best"


@pytest.mark.slow
def test_hopular_tells_the_training_rows_behind_an_answer(tmp_path: Path) -> None:
    rows = pd.Series(range(100, 190))  # where they are in their file
    dataset = replace(flowers(), file_rows=rows)
    fitted: Fitted = fit_table(dataset, trials=1, methods=["hopular"])
    assert fitted.facts.rows == 90
    again = load_fitted(fitted.save(tmp_path / "model"))
    places, weights = again.why(dataset.X.head(2))
    assert places.shape == weights.shape == (2, 3)
    assert set(places.ravel()) <= set(rows)
    assert (np.diff(weights, axis=1) <= 0).all()
    folds = again.predict_folds(dataset.X)
    assert folds.shape == (8, 90, 3)
    held_out = again.out_of_fold
    own = folds[held_out.fold, held_out.rows]
    assert np.allclose(own, held_out.predictions, atol=1e-4)  # a fold's member is the one that held its rows out
    assert np.allclose(folds.mean(axis=0), again.predict_proba(dataset.X), atol=1e-6)
