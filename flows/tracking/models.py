"""Logged models: the estimator's own files with signature and example, loaded by MLflow anywhere without pickle."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from hopular.methods import get_method
from hopular.methods.ensemble import member_names
from hopular.methods.fingerprint import requirement_of

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Run
    from mlflow.models import ModelSignature

    from hopular.data.dataset import Task

SCRIPT = Path(__file__).with_name("pyfunc_model.py")
MODEL, REFIT, NO_MODEL, MAKER = "hopular.model", "hopular.refit_model", "hopular.no_model", "hopular.maker"
_EXAMPLE_ROWS = 5
PACKAGES = ("hopular", "mlflow", "numpy", "pandas", "scikit-learn", "skops")
saving = threading.Lock()  # a model from code passes through a global variable of MLflow


def log_model(
    client: MlflowClient,
    run_id: str,
    folder: Path,
    method: str,
    task: Task,
    classes: list[str],
    input_example: pd.DataFrame,
    metrics: Mapping[str, float],
    refit: Mapping[str, str] | None = None,
) -> str:
    """Keep the estimator that `hopular.methods.saved.save_model` wrote to `folder`; return the id of the model.

    `models:/<id>` loads it. The run's tag `hopular.model` has the id too; earlier models of the unit go, unless they
    are registered or another process that works on the same unit has made them. `refit` are tags of a model that was
    trained on other rows than the unit's: it is kept beside the unit's own.
    """
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    run = client.get_run(run_id)
    tag, ending = (MODEL, "") if refit is None else (REFIT, " all rows")
    found = client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run_id}'")
    earlier = [model for model in found if (REFIT in model.tags) == (refit is not None)]
    tags = {name: value for name, value in run.data.tags.items() if name.startswith("hopular.") and name != REFIT}
    model = client.create_logged_model(
        run.info.experiment_id,
        name=re.sub(r"[^A-Za-z0-9_-]+", "-", f"{run.info.run_name}{ending}"),
        source_run_id=run_id,
        tags=tags | {MAKER: _maker()} | ({} if refit is None else {REFIT: "yes", **refit}),
        params={**run.data.params, "task": task},
        model_type=method,
    )
    try:
        with tempfile.TemporaryDirectory() as scratch:
            written = _write(Path(scratch, "model"), folder, method, task, classes, input_example, model, run_id)
            client.log_model_artifacts(model.model_id, str(written))
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    except BaseException:
        client.delete_logged_model(model.model_id)
        raise
    client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    _log_metrics(client, run, model.model_id, metrics)
    client.set_tag(run_id, tag, model.model_id)
    registered = {found.source for found in client.search_model_versions(f"run_id = '{run_id}'")}
    for old in earlier:
        if old.artifact_location not in registered and not _is_in_use(old.tags.get(MAKER, "")):
            client.delete_logged_model(old.model_id)
    return str(model.model_id)


def _maker() -> str:
    return f"{os.getpid()} {platform.node()}"


def _is_in_use(maker: str) -> bool:
    """Tell whether a model's maker may still want it: another process that is alive, as far as can be seen here."""
    pid, _, node = maker.partition(" ")
    return bool(node) and maker != _maker() and (node != platform.node() or psutil.pid_exists(int(pid)))


def note_no_model(client: MlflowClient, run_id: str, reason: str) -> None:
    """Say on a unit's run why it has no model, such as that its method cannot be saved without pickle."""
    client.set_tag(run_id, NO_MODEL, reason)


def _write(
    target: Path,
    folder: Path,
    method: str,
    task: Task,
    classes: list[str],
    input_example: pd.DataFrame,
    model: Any,
    run_id: str,
) -> Path:
    """Write the folder of an MLflow model: script, the estimator's files, signature, example and requirements."""
    from mlflow.models import Model
    from mlflow.pyfunc import save_model

    from hopular.data.schema import Schema, columns_of

    schema = Schema(columns_of(input_example), "", task, tuple(classes))
    kinds = {column.name: column.kind for column in schema.columns}
    example = input_example.head(_EXAMPLE_ROWS).copy()
    for name, kind in kinds.items():
        if kind == "categorical":
            example[name] = example[name].astype(object).where(example[name].notna(), None)
        elif kind == "date":
            example[name] = example[name].dt.strftime("%Y-%m-%dT%H:%M:%S")
    (target.parent / "schema.json").write_text(json.dumps(schema.to_json()), encoding="utf-8")
    with saving:
        save_model(
            target,
            python_model=str(SCRIPT),
            artifacts={"estimator": str(folder), "schema": str(target.parent / "schema.json")},
            signature=signature_of(kinds, task),
            input_example=example,
            pip_requirements=_requirements(method, folder),
            mlflow_model=Model(artifact_path=model.artifact_location, run_id=run_id, model_id=model.model_id),
        )
    for cache in target.rglob("__pycache__"):
        shutil.rmtree(cache)
    return target


def signature_of(kinds: Mapping[str, str], task: Task) -> ModelSignature:
    """Require every feature, so that a misspelt column is an error; categories are text or numbers, dates text."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
    from mlflow.types.schema import AnyType

    anything = AnyType()  # type: ignore[no-untyped-call]
    inputs = [ColSpec(DataType.double if kind == "continuous" else anything, name) for name, kind in kinds.items()]
    output = ColSpec(DataType.double if task == "regression" else DataType.string, "prediction")
    parameters = {}
    if task == "classification":
        parameters["params"] = ParamSchema([ParamSpec("probabilities", DataType.boolean, default=False)])
    return ModelSignature(inputs=Schema([*inputs]), outputs=Schema([output]), **parameters)


def _requirements(method: str, folder: Path) -> list[str]:
    """Return exact versions; `--env-manager local` needs this environment alone, others this project's wheel too."""
    makers = [get_method(name) for name in (method, *member_names(folder))]
    packages = [name for maker in makers for name in (*maker.packages, *maker.model_packages)]
    return list(dict.fromkeys(filter(None, map(requirement_of, (*PACKAGES, *packages)))))


def _log_metrics(client: MlflowClient, run: Run, model_id: str, metrics: Mapping[str, float]) -> None:
    """Log the unit's metrics once more, tied to model and dataset, so that MLflow's page of models can compare them."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    data = [item.dataset for item in run.inputs.dataset_inputs] if run.inputs else []
    tie: dict[str, Any] = {"model_id": model_id, "run_id": run.info.run_id}
    if data:
        tie |= {"dataset_name": data[0].name, "dataset_digest": data[0].digest}
    tied = [
        Metric(name, float(value), now, 0, **tie) for name, value in metrics.items() if not math.isnan(float(value))
    ]
    client.log_batch(run.info.run_id, metrics=tied)
