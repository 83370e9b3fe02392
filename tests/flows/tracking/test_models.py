"""Logged models: they load in a fresh process by MLflow alone and predict the same; nothing in them is a pickle."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.tracking.models import MAKER, PACKAGES, log_model, note_no_model
from flows.tracking.pyfunc_model import HopularModel
from flows.tracking.runs import Lineage, start_unit
from hopular.data.dataset import Dataset
from hopular.data.schema import Column, Schema
from hopular.methods import Run, get_method
from hopular.methods.saved import save_model
from tests.toys import plugin_methods, write_plugin

PREDICT = """
import sys, json, mlflow, pandas as pd
model = mlflow.pyfunc.load_model(sys.argv[1])
frame = pd.read_json(sys.argv[2], orient="split", dtype={"size": "float64"})
labels = model.predict(frame)
chances = model.predict(frame, params={"probabilities": True})
json.dump([list(labels), list(chances.columns), chances.to_numpy().tolist()], open(sys.argv[3], "w"))
"""


def fit(flowers: Dataset, folder: Path, method: str = "xgboost", **params: Any) -> Any:
    estimator = get_method(method).make("classification", params, Run(seed=1)).fit(flowers.X, flowers.y)
    save_model(estimator, folder)
    return estimator


def loaded(client: Any, model_id: str) -> Any:
    import mlflow

    location = client.get_logged_model(model_id).artifact_location
    return mlflow.pyfunc.load_model(location)


@pytest.fixture
def unit(client: Any, lineage: Lineage, flowers: Dataset) -> str:
    return start_unit(client, lineage, "key", flowers)


def test_a_fresh_process_predicts_the_same(client: Any, unit: str, flowers: Dataset, tmp_path: Path) -> None:
    estimator = fit(flowers, tmp_path / "saved", n_estimators=5)
    metrics = {"test_accuracy": 0.9, "nothing": float("nan")}
    example = flowers.X.head(3)
    model_id = log_model(
        client, unit, tmp_path / "saved", "xgboost", "classification", flowers.classes, example, metrics
    )
    flowers.X.to_json(tmp_path / "rows.json", orient="split")
    done = subprocess.run(
        [sys.executable, "-c", PREDICT, f"models:/{model_id}", str(tmp_path / "rows.json"), str(tmp_path / "out.json")],
        env={**os.environ, "MLFLOW_TRACKING_URI": client.tracking_uri, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    labels, columns, chances = json.loads((tmp_path / "out.json").read_text())
    assert labels == list(estimator.predict(flowers.X))
    assert columns == ["lily", "rose"]
    np.testing.assert_allclose(chances, estimator.predict_proba(flowers.X), rtol=1e-6)


def test_a_model_has_signature_example_requirements_and_metrics(
    client: Any, unit: str, flowers: Dataset, tmp_path: Path
) -> None:
    fit(flowers, tmp_path / "saved", n_estimators=5)
    arguments: Any = ("xgboost", "classification", flowers.classes, flowers.X, {"test_accuracy": 0.9})
    model_id = log_model(client, unit, tmp_path / "saved", *arguments)
    model, run = client.get_logged_model(model_id), client.get_run(unit)
    assert run.data.tags["hopular.model"] == model_id
    assert model.tags["hopular.method"] == "xgboost"
    assert model.name == "xgboost-kfold5-seed0-0"
    assert [(metric.key, metric.value, metric.dataset_name) for metric in model.metrics] == [
        ("test_accuracy", 0.9, "flowers")
    ]
    found = loaded(client, model_id)
    assert found.metadata.signature.inputs.input_names() == ["size", "colour"]
    assert list(found.input_example.columns) == ["size", "colour"]
    folder = Path(model.artifact_location.removeprefix("file://"))
    needs = (folder / "requirements.txt").read_text()
    assert "hopular==" in needs
    assert "xgboost==" in needs
    assert "torch==" not in needs
    assert not [path for path in folder.rglob("*") if path.suffix in (".pkl", ".pickle")]
    assert not [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:2] == b"\x80\x04"]


PLUGIN = """
from hopular.methods.method import Method
from hopular.methods.prepared import prepared


def make(task, params, run):
    from sklearn.naive_bayes import GaussianNB

    return prepared(task, GaussianNB())


METHOD = Method("mine", "Mine", "classical", make, packages=("dateutil",), model_packages=("safetensors",))
"""


def test_the_requirements_are_those_of_the_method_and_of_the_members_of_an_ensemble(
    client: Any, unit: str, flowers: Dataset, tmp_path: Path
) -> None:
    write_plugin(tmp_path, "mine", PLUGIN)
    with plugin_methods(tmp_path):
        fit(flowers, tmp_path / "alone", "mine")
        fit(flowers, tmp_path / "together", "ensemble", members=[("mine", {}, None)])
        for folder, method in (("alone", "mine"), ("together", "ensemble")):
            arguments: Any = (tmp_path / folder, method, "classification", flowers.classes, flowers.X, {})
            model = client.get_logged_model(log_model(client, unit, *arguments))
            needs = Path(model.artifact_location.removeprefix("file://"), "requirements.txt").read_text()
            assert {line.partition("==")[0] for line in needs.split()} == {*PACKAGES, "python-dateutil", "safetensors"}


def test_logging_again_replaces_the_model_unless_it_is_registered(
    client: Any, unit: str, flowers: Dataset, tmp_path: Path
) -> None:
    fit(flowers, tmp_path / "saved", n_estimators=5)
    arguments: Any = ("xgboost", "classification", flowers.classes, flowers.X, {})
    experiment = client.get_run(unit).info.experiment_id
    log_model(client, unit, tmp_path / "saved", *arguments)
    second = log_model(client, unit, tmp_path / "saved", *arguments)
    assert [model.model_id for model in client.search_logged_models([experiment])] == [second]
    client.create_registered_model("hopular-flowers")
    location = client.get_logged_model(second).artifact_location
    client.create_model_version("hopular-flowers", location, run_id=unit, model_id=second)
    third = log_model(client, unit, tmp_path / "saved", *arguments)
    assert {model.model_id for model in client.search_logged_models([experiment])} == {second, third}


def test_a_model_that_another_process_has_just_made_stays(
    client: Any, unit: str, flowers: Dataset, tmp_path: Path
) -> None:
    fit(flowers, tmp_path / "saved", n_estimators=5)
    arguments: Any = ("xgboost", "classification", flowers.classes, flowers.X, {})
    experiment = client.get_run(unit).info.experiment_id
    dead = log_model(client, unit, tmp_path / "saved", *arguments)
    client.set_logged_model_tags(dead, {MAKER: f"{2**22 + 1} {platform.node()}"})  # beyond the largest number
    theirs = client.create_logged_model(
        experiment, name="theirs", source_run_id=unit, tags={MAKER: f"{os.getppid()} {platform.node()}"}
    ).model_id
    mine = log_model(client, unit, tmp_path / "saved", *arguments)
    assert {model.model_id for model in client.search_logged_models([experiment])} == {theirs, mine}


def test_a_model_that_cannot_be_kept_leaves_nothing_behind(
    client: Any, unit: str, flowers: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="absent"):
        log_model(client, unit, tmp_path / "absent", "xgboost", "classification", flowers.classes, flowers.X, {})
    assert client.search_logged_models([client.get_run(unit).info.experiment_id]) == []
    note_no_model(client, unit, "realmlp cannot be saved without pickle")
    assert client.get_run(unit).data.tags["hopular.no_model"] == "realmlp cannot be saved without pickle"


def test_the_model_takes_strings_and_the_frame_of_a_dataset(
    client: Any, unit: str, flowers: Dataset, tmp_path: Path
) -> None:
    estimator = fit(flowers, tmp_path / "saved", "hopular", max_epochs=2, n_blocks=1, embedding_dim=8)
    arguments: Any = ("hopular", "classification", flowers.classes, flowers.X, {})
    found = loaded(client, log_model(client, unit, tmp_path / "saved", *arguments))
    expected = list(estimator.predict(flowers.X))
    assert list(found.predict(flowers.X)) == expected
    assert list(found.predict(flowers.X.astype({"colour": object})[["colour", "size"]])) == expected
    with pytest.raises(Exception, match="colour"):
        found.predict(flowers.X[["size"]])


def test_a_regressor_gives_numbers_and_no_probabilities(
    client: Any, unit: str, flowers: Dataset, tmp_path: Path
) -> None:
    X, y = flowers.X, pd.Series(np.arange(60.0))
    estimator = get_method("glm").make("regression", {}, Run()).fit(X, y)
    save_model(estimator, tmp_path / "saved")
    model_id = log_model(client, unit, tmp_path / "saved", "glm", "regression", [], X, {})
    np.testing.assert_allclose(loaded(client, model_id).predict(X), estimator.predict(X))
    model = HopularModel()
    model.estimator, model.schema = estimator, Schema.of(flowers)
    with pytest.raises(ValueError, match="probabilities are of classes, and this model predicts a number"):
        model.predict(None, X, {"probabilities": True})


def test_categories_may_be_numbers() -> None:
    """The schema reads them, as it does for `hopular predict`: tests/data/test_schema_applied.py has the rest."""
    model, seen = HopularModel(), []
    model.schema = Schema((Column("code", "categorical", ("1", "3")), Column("size", "continuous")), "", "regression")
    model.estimator = SimpleNamespace(predict=lambda frame: seen.append(frame) or [0.0] * len(frame))
    model.predict(None, pd.DataFrame({"size": [1, 2, 3, 4], "code": [1.0, None, 3.0, 7.0]}, index=[4, 5, 6, 7]))
    assert list(seen[0].columns) == ["code", "size"]
    assert seen[0]["code"].astype(object).where(seen[0]["code"].notna(), None).tolist() == ["1", None, "3", None]
    assert seen[0]["size"].dtype == np.float64
    with pytest.raises(ValueError, match="the model needs size, not among the columns of the new rows"):
        model.predict(None, pd.DataFrame({"code": ["1"]}))
