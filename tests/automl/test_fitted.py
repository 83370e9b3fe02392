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
from hopular.automl.fit import NO_TIME, hold_out
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
    with pytest.raises(ValueError, match="has format 99, and this version of hopular reads up to 3: fit it again"):
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


def test_a_model_of_an_earlier_version_is_read(model: Path) -> None:
    note = model / "hopular-model.json"
    values = json.loads(note.read_text())
    facts = {name: value for name, value in values["facts"].items() if name not in ("table_rows", "no_refit")}
    older = {**values, "format": 2, "facts": {**facts, "trained_on": "training rows", "rows": 57}}
    note.write_text(json.dumps(older))
    assert load_fitted(model).facts.trained_on == "trained on the 57 training rows of 90: it was not refitted"


@pytest.mark.parametrize(
    ("rows", "no_refit", "said"),
    [
        ((150,), "", "trained on all 150 rows"),
        ((126,), "", "trained on 126 of 150 rows; validation rows tell networks when to stop"),
        ((126, 150), "", "members trained on 126 to 150 of 150 rows; validation rows tell networks when to stop"),
        ((96, 96), NO_TIME, "trained on the 96 training rows of 150: no time was left to refit"),
        ((150, 96), f"{NO_TIME} 1 of 2 members", f"members trained on 96 to 150 of 150 rows: {NO_TIME} 1 of 2 members"),
    ],
)
def test_the_rows_are_said_for_each_member(watched: Watched, rows: tuple[int, ...], no_refit: str, said: str) -> None:
    members = tuple(("mlp", 1 / len(rows)) for _ in rows)
    facts = replace(watched.fitted.facts, members=members, rows=rows, table_rows=150, no_refit=no_refit)
    assert facts.trained_on == facts.delivered.trained_on == said


@pytest.mark.slow
def test_hopular_tells_the_training_rows_behind_an_answer(tmp_path: Path) -> None:
    rows = pd.Series(range(100, 190))  # where they are in their file
    dataset = replace(flowers(), file_rows=rows)
    fitted: Fitted = fit_table(dataset, 12, methods=["hopular"])
    models = getattr(fitted.model, "estimators_", [fitted.model])
    assert fitted.facts.rows == tuple(len(model.train_index_) for model in models)
    assert max(fitted.facts.rows) <= 90 - len(hold_out(dataset).valid)  # a network needs them to stop by
    again = load_fitted(fitted.save(tmp_path / "model"))
    places, weights = again.why(dataset.X.head(2))
    assert places.shape == weights.shape == (2, 3)
    assert set(places.ravel()) <= set(rows)
    assert (np.diff(weights, axis=1) <= 0).all()
    trained = set(hold_out(dataset).train + 100) | set(hold_out(dataset).test + 100)
    assert set(places.ravel()) <= trained  # those of validation tell when to stop
