"""Fits: what `hopular fit` found, in MLflow: one run in the dataset's experiment, a child run per trial, and the model
registered under a name of one's choice.
"""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.tracking.models import PACKAGES, saving, signature_of
from flows.tracking.pictures import draw_pictures
from flows.tracking.runs import Lineage, dataset_experiment, finish_unit, log_scores, log_trial
from flows.tracking.store import open_store, tracking_uri
from hopular.methods import get_method
from hopular.methods.fingerprint import requirement_of
from hopular.redaction import without_secrets
from hopular.util import InputError

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from hopular.automl.fitted import Fitted

SCRIPT = Path(__file__).with_name("pyfunc_fitted.py")
_NAME = re.compile(r"[^/:\s][^/:]{0,199}")


def check_name(name: str) -> None:
    """Refuse a name that MLflow's registry would not take: better before a fit than after it."""
    if not _NAME.fullmatch(name):
        raise InputError(f"a model cannot be registered as {name!r}: use up to 200 characters without / and :")


def log_fit(fitted: Fitted, name: str) -> str:
    """Write a fit to the tracking store and register its model as `name`; return the run's address, or its id."""
    check_name(name)
    client, facts = open_store(), fitted.facts
    lineage = Lineage(
        benchmark=f"fit of {facts.dataset}",
        kind="fit",
        dataset=facts.dataset,
        dataset_fingerprint=facts.fingerprint,
        source=fitted.described.source,
        method=facts.method,
        seed=facts.seed,
        versions=f"hopular {facts.version}, Python {platform.python_version()}",
    )
    experiment = dataset_experiment(client, lineage)
    tags = {**lineage.tags(), "hopular.command": without_secrets(facts.command), "hopular.trained_on": facts.trained_on}
    run_id = str(client.create_run(experiment, tags=tags, run_name=f"fit {facts.title}"[:250]).info.run_id)
    try:
        _describe(client, run_id, fitted)
        for trial in fitted.trials:
            if trial.state != "running":
                log_trial(client, run_id, replace(lineage, method=trial.method), trial, experiment)
        with tempfile.TemporaryDirectory() as temporary:
            folder = fitted.save(Path(temporary, "fitted"))
            _log_files(client, run_id, fitted, folder)
            _register(client, name, run_id, fitted, _log_model(client, run_id, experiment, fitted, folder))
    except BaseException as error:
        finish_unit(client, run_id, "FAILED", f"{type(error).__name__}: {error}")
        raise
    finish_unit(client, run_id, "FINISHED")
    uri = tracking_uri()
    if not uri.startswith("http"):
        return run_id
    return f"{without_secrets(uri).rstrip('/')}/#/experiments/{experiment}/runs/{run_id}"


def _describe(client: MlflowClient, run_id: str, fitted: Fitted) -> None:
    """Log what the fit was, and its scores."""
    from mlflow.entities import Param

    facts = fitted.facts
    values = {"dataset": facts.dataset, "method": facts.method, "seed": facts.seed, "task": fitted.schema.task}
    values |= {f"member.{place}": f"{name} {weight:.4f}" for place, (name, weight, _) in enumerate(facts.members)}
    client.log_batch(run_id, params=[Param(name, str(value)) for name, value in values.items()])
    kinds = {"out_of_fold": "valid"}  # as in the runs of benchmarks
    scores = {
        f"{kinds.get(rows, rows)}_{name}": v for rows, found in facts.metrics.items() for name, v in found.items()
    }
    log_scores(client, run_id, {**scores, "seconds": facts.seconds, "rows": facts.table_rows})


def _log_files(client: MlflowClient, run_id: str, fitted: Fitted, folder: Path) -> None:
    """Keep report, leaderboard, and pictures of the rows that were held out."""
    with tempfile.TemporaryDirectory() as temporary:
        files = Path(temporary)
        for name in ("report.html", "command.txt"):
            shutil.copy2(folder / name, files)
        fitted.leaderboard.to_csv(files / "leaderboard.csv", index=False, lineterminator="\n")
        done = [trial for trial in fitted.trials if trial.state == "complete"]
        held = fitted.out_of_fold
        drawn = (fitted.schema.task, fitted.schema.classes, held.truth, held.predictions, done)
        draw_pictures(files / "pictures", *drawn)
        client.log_artifacts(run_id, str(files))


def _log_model(client: MlflowClient, run_id: str, experiment: str, fitted: Fitted, folder: Path) -> Any:
    """Keep the fitted folder as a model that MLflow loads anywhere, without pickle."""
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus
    from mlflow.models import Model
    from mlflow.pyfunc import save_model

    facts, schema = fitted.facts, fitted.schema
    model = client.create_logged_model(
        experiment,
        name=re.sub(r"[^A-Za-z0-9_-]+", "-", f"fit-{facts.dataset}")[:200],
        source_run_id=run_id,
        tags={"hopular.method": facts.method, "hopular.trained_on": facts.trained_on},
        params={"task": schema.task, "method": facts.method},
        model_type=facts.method,
    )
    makers = [get_method(method) for method, _, _ in facts.members]
    packages = [package for maker in makers for package in (*maker.packages, *maker.model_packages)]
    kinds = {column.name: "continuous" if _is_number(column) else "any" for column in schema.columns}
    try:
        with tempfile.TemporaryDirectory() as temporary:
            target = Path(temporary, "model")
            with saving:
                save_model(
                    target,
                    python_model=str(SCRIPT),
                    artifacts={"fitted": str(folder)},
                    signature=signature_of(kinds, schema.task),
                    pip_requirements=list(dict.fromkeys(filter(None, map(requirement_of, (*PACKAGES, *packages))))),
                    mlflow_model=Model(artifact_path=model.artifact_location, run_id=run_id, model_id=model.model_id),
                )
            for cache in target.rglob("__pycache__"):
                shutil.rmtree(cache)
            client.log_model_artifacts(model.model_id, str(target))
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    except BaseException:
        client.delete_logged_model(model.model_id)
        raise
    client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    client.set_tag(run_id, "hopular.model", model.model_id)
    return model


def _is_number(column: Any) -> bool:
    """Tell whether a column takes numbers only; one that was written as text may come so again."""
    return column.kind == "continuous" and not column.form


def _register(client: MlflowClient, name: str, run_id: str, fitted: Fitted, model: Any) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    client.create_model_version(
        name,
        model.artifact_location,  # models:/... would ask MLflow's default store
        run_id=run_id,
        description=f"{fitted.facts.title} on {fitted.facts.dataset}, {fitted.facts.trained_on}",
        model_id=model.model_id,
    )
