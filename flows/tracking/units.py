"""Units: the run of one method on one split, found again by its content key, with its dataset and its scores."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from flows.tracking.experiments import PREFIX, SHORT, dataset_experiment
from flows.tracking.lineage import Lineage, read_versions
from flows.tracking.store import one_at_a_time
from flows.tracking.trials import PARENT
from hopular.redaction import without_secrets

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Run

    from hopular.data.dataset import Dataset
    from hopular.trials.trial import Trial

State = Literal["FINISHED", "FAILED", "KILLED"]
UNIT, REASON, BEST = "hopular.unit", "hopular.reason", "best."
MAKER = ("hopular.commit", "hopular.versions", "mlflow.source.git.commit")  # may differ between equal fingerprints
SAME = ("hopular.split_fingerprint", "hopular.method", "hopular.seed", "hopular.budget")  # what runs are compared by
MAX_COLUMNS = 500  # described in a dataset's schema; MLflow bounds its length


def start_unit(client: MlflowClient, lineage: Lineage, key: str, dataset: Dataset | None) -> str:
    """The id of the unit's run, made or found again by `key`, and RUNNING.

    A unit that is there already is gone on with: it keeps its lineage, except that it is of whoever finishes it, and a
    tag `hopular.in.<benchmark>` says which benchmarks it is part of.
    """
    from mlflow.entities import RunTag

    experiment = dataset_experiment(client, lineage)
    membership = f"hopular.in.{lineage.benchmark}"
    with one_at_a_time("units"):
        run = find_unit(client, experiment, key)
        if run is None:
            tags = {**replace(lineage, kind="unit").tags(), UNIT: key, membership: "made"}
            run = client.create_run(experiment, tags=tags, run_name=f"{lineage.method} {lineage.split}")
        if not run.data.params:  # it is new, or the process that made it was killed before it could describe it
            _describe(client, run, lineage, dataset)
    run_id = str(run.info.run_id)
    maker = {name: value for name, value in lineage.tags().items() if name in MAKER}
    if not maker.items() <= run.data.tags.items():
        client.log_batch(run_id, tags=[RunTag(name, value) for name, value in maker.items()])
    if membership not in run.data.tags:
        client.set_tag(run_id, membership, "reused")
    if run.info.status != "RUNNING":
        client.update_run(run_id, status="RUNNING")
    return run_id


def find_unit(client: MlflowClient, experiment: str, key: str) -> Run | None:
    """The run of a unit; the first one if several processes should have made it at once."""
    runs = client.search_runs(
        [experiment], f"tags.`{UNIT}` = '{key}'", order_by=["attributes.start_time ASC"], max_results=100
    )
    return min(runs, key=lambda run: (run.info.start_time, run.info.run_id), default=None)


def reasons(client: MlflowClient, units: Mapping[str, Lineage]) -> dict[str, str]:
    """Say why units, given by their keys, are computed again although the same was asked for before.

    A unit that has a run of its own is not computed again but gone on with; one that was never asked for is new.
    """
    tags = {key: lineage.tags() for key, lineage in units.items()}
    found: dict[str, str] = {}
    for dataset, fingerprint in {(lineage.dataset, lineage.dataset_fingerprint) for lineage in units.values()}:
        runs = _units_of(client, dataset, fingerprint)
        known = {run.data.tags.get(UNIT) for run in runs}
        latest = {tuple(run.data.tags.get(name) for name in SAME): run for run in runs}
        for key, own in tags.items():
            before = latest.get(tuple(own.get(name) for name in SAME))
            if units[key].dataset_fingerprint == fingerprint and key not in known and before is not None:
                found[key] = _difference(before.data.tags, own, _day(before.info.start_time))
    return found


def _units_of(client: MlflowClient, dataset: str, fingerprint: str) -> list[Run]:
    """Find all units of the rows of a dataset, the latest last."""
    names = (PREFIX + dataset, f"{PREFIX}{dataset} {fingerprint[:SHORT]}")
    experiments = [found.experiment_id for name in names if (found := client.get_experiment_by_name(name))]
    wanted = f"tags.`hopular.kind` = 'unit' AND tags.`hopular.dataset_fingerprint` = '{fingerprint}'"
    runs: list[Run] = []
    token: str | None = None
    while experiments:
        page = client.search_runs(
            experiments, wanted, order_by=["attributes.start_time ASC"], max_results=1000, page_token=token
        )
        runs += page
        token = page.token
        if not token:
            break
    return runs


def _difference(before: Mapping[str, str], now: Mapping[str, str], since: str) -> str:
    """Say what a unit is made with now in place of what it was made with before, by the tags of both."""
    if "hopular.code" not in before:
        return f"was made on {since}, when its code was not yet noted"
    old, new = (read_versions(tags["hopular.versions"]) for tags in (before, now))
    changed = [name for name in new if name in old and old[name] != new[name] and name not in ("python", "hopular")]
    parts = [f"{name} {old[name]} is now {new[name]}" for name in changed]
    if before["hopular.device"] != now["hopular.device"]:
        parts.append(f"was run on {before['hopular.device']}, now on {now['hopular.device']}")
    if before["hopular.code"] != now["hopular.code"]:
        parts.append(f"its code has changed since {since}")
    return "; ".join(parts) or f"its members or its scoring have changed since {since}"


def _day(milliseconds: int) -> str:
    """Write a moment as a day, such as '12 May', with the year if it is another one."""
    moment, now = datetime.fromtimestamp(milliseconds / 1000), datetime.now()
    return f"{moment.day} {moment:%B}" if moment.year == now.year else f"{moment.day} {moment:%B %Y}"


def finish_unit(client: MlflowClient, run_id: str, state: State, reason: str = "") -> None:
    """End a unit's run; the reason of a failure becomes a tag, and that of an earlier one goes."""
    if reason:
        client.set_tag(run_id, REASON, without_secrets(reason))
    elif REASON in client.get_run(run_id).data.tags:
        client.delete_tag(run_id, REASON)
    client.set_terminated(run_id, state)


def is_there(client: MlflowClient, run_id: str) -> bool:
    """Whether a run exists and was not deleted."""
    from mlflow.exceptions import MlflowException

    try:
        return bool(client.get_run(run_id).info.lifecycle_stage == "active")
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return False


def end_running(client: MlflowClient, keys: Collection[str], state: State, reason: str) -> None:
    """End those of these units' runs that are still RUNNING, because whoever worked on them is gone.

    Their unfinished trials go: a search that is taken up again writes them from its study.
    """
    experiments = [found.experiment_id for found in client.search_experiments(filter_string=f"name LIKE '{PREFIX}%'")]
    running = client.search_runs(experiments, "attributes.status = 'RUNNING'", max_results=5000) if experiments else []
    ended = {run.info.run_id for run in running if run.data.tags.get(UNIT) in keys}
    for run in running:
        if run.data.tags.get(PARENT) in ended:
            client.delete_run(run.info.run_id)
    for run_id in ended:
        finish_unit(client, run_id, state, reason)


def log_scores(client: MlflowClient, run_id: str, metrics: Mapping[str, float]) -> None:
    """Write metrics such as test_accuracy, test_accuracy_low, valid_accuracy and fit_seconds; NaN is left out."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    known = {name: float(value) for name, value in metrics.items() if not math.isnan(float(value))}
    client.log_batch(run_id, metrics=[Metric(name, value, now, 0) for name, value in known.items()])


def unit_metrics(scores: pd.DataFrame) -> dict[str, float]:
    """The rows of one unit in a table of scores (SCORE_COLUMNS) as metrics: means over its seeds.

    `_low` and `_high` bound the interval of the mean over test rows, `_error` is the standard error over seeds.
    """
    metrics: dict[str, float] = {}
    for name, rows in scores.groupby("metric"):
        metrics[f"test_{name}"] = float(rows["value"].mean())
        metrics[f"test_{name}_low"] = float(rows["low"].mean())
        metrics[f"test_{name}_high"] = float(rows["high"].mean())
        metrics[f"test_{name}_error"] = float(rows["value"].std()) / math.sqrt(len(rows))
    if len(scores):
        models = scores.drop_duplicates("seed")
        metrics["fit_seconds"] = float(models["seconds"].mean())
        metrics["predict_seconds"] = float(models["predict_seconds"].mean())
        metrics["peak_memory_mb"] = float(models["memory"].max()) / 1e6
        metrics["seeds"] = float(len(models))
    return {name: value for name, value in metrics.items() if not math.isnan(value)}


def log_best(client: MlflowClient, run_id: str, record: Trial, chosen_by: str) -> None:
    """Write the best trial's setting as tags `best.*`, what chose it, and its validation metrics as the unit's own.

    They are tags and not parameters because a search that goes on may find a better one.
    """
    from mlflow.entities import RunTag

    old = [name for name in client.get_run(run_id).data.tags if name.startswith(BEST)]
    new = {f"{BEST}{name}": str(value) for name, value in record.params.items()}
    new |= {"hopular.best_slot": str(record.slot), "hopular.chosen_by": f"valid_{chosen_by}"}
    for name in old:
        if name not in new:
            client.delete_tag(run_id, name)
    client.log_batch(run_id, tags=[RunTag(name, value) for name, value in new.items()])
    valid = {f"valid_{name}": value for name, value in record.metrics.items()}
    score = {} if record.score is None else {"valid_score": record.score}
    log_scores(client, run_id, {**valid, **score})


def _describe(client: MlflowClient, run: Run, lineage: Lineage, dataset: Dataset | None) -> None:
    """The dataset as the run's input, and the parameters that MLflow's compare view sets side by side."""
    from mlflow.entities import Param

    names = ("dataset", "method", "split", "seed", "budget", "architecture", "device")
    values = {name: getattr(lineage, name) for name in names}
    params = [Param(name, str(value)) for name, value in values.items() if value not in ("", None)]
    if dataset is not None:
        client.log_inputs(run.info.run_id, datasets=[_input(dataset)])
    client.log_batch(run.info.run_id, params=params)


def _input(dataset: Dataset) -> DatasetInput:
    """The dataset as MLflow describes one: name, digest, source, schema and size."""
    from mlflow.entities import Dataset as Described
    from mlflow.entities import DatasetInput, InputTag

    kinds: dict[str, Any] = dict(list(dataset.kinds.items())[:MAX_COLUMNS])
    columns = [
        {"type": "double" if kind == "continuous" else "string", "name": name, "required": True}
        for name, kind in kinds.items()
    ]
    target = {"type": "double" if dataset.task == "regression" else "string", "name": str(dataset.y.name)}
    source = without_secrets(dataset.source)
    is_web = source.startswith(("http://", "https://"))
    described = Described(
        name=dataset.name[:500],
        digest=dataset.fingerprint[:36],
        source_type="http" if is_web else "local",
        source=json.dumps({"url" if is_web else "uri": source}),
        schema=json.dumps({"mlflow_colspec": [*columns, {**target, "required": True}]}),
        profile=json.dumps({"num_rows": len(dataset), "num_elements": len(dataset) * (dataset.X.shape[1] + 1)}),
    )
    return DatasetInput(described, tags=[InputTag("mlflow.data.context", "benchmark")])
