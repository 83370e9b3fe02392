"""Runs: the runs of units and of their trials in MLflow, in one experiment per dataset, with where they came from.

A unit is one run, found again by its content key, with its dataset and its scores; each of its trials is a child run,
written in three calls, once, and later if the store is unavailable now. Whoever else makes the same run or experiment
at the same moment gets the same one.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from flows.tracking.store import artifact_location, is_unavailable, one_at_a_time
from hopular.redaction import without_secrets

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric, Param, Run

    from hopular.benchmark.unit import Unit
    from hopular.data.dataset import Dataset
    from hopular.evaluation.results import Maker
    from hopular.trials.trial import Trial

RunKind = Literal["benchmark", "fit", "unit", "trial"]
RunState = Literal["FINISHED", "FAILED", "KILLED"]
EXPERIMENT = "hopular-benchmarks"  # of the summaries; those of datasets begin with _PREFIX
_PREFIX = "hopular/"
_SHORT = 8  # characters of a fingerprint that tell two datasets of one name apart
_ONE_COMMIT = re.compile(r"[0-9a-f]{40,64}( \(changed\))?")  # a benchmark may have units of several
_UNIT, _REASON, _BEST = "hopular.unit", "hopular.reason", "best."
_MAKER = ("hopular.commit", "hopular.versions", "mlflow.source.git.commit")  # may differ between equal fingerprints
_SAME = ("hopular.split_fingerprint", "hopular.method", "hopular.seed", "hopular.budget")  # what runs are compared by
_MAX_COLUMNS = 500  # described in a dataset's schema; MLflow bounds its length
PARENT, SLOT = "mlflow.parentRunId", "hopular.slot"
_STATUS = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
_TWICE = re.compile(r"UNIQUE constraint|duplicate key|Duplicate entry")  # as sqlite, PostgreSQL and MySQL put it
PAUSE = 15.0  # seconds after which a store that was unavailable is tried again

# ---------------------------------------------------------------------------------------------------------- lineage


@dataclass(frozen=True)
class Lineage:
    """The origin of a run. Fields that are empty make no tag."""

    benchmark: str  # id of the benchmark that first made the run
    kind: RunKind = "unit"
    flow_run: str = ""
    dataset: str = ""
    dataset_fingerprint: str = ""
    source: str = ""
    split: str = ""
    split_fingerprint: str = ""
    method: str = ""
    seed: int | None = None
    budget: str = ""
    architecture: str = ""  # of Hopular
    device: str = ""
    commit: str = ""
    code: str = ""
    versions: str = ""

    def tags(self) -> dict[str, str]:
        """Return the tags of a run, all beginning with `hopular.` but for those that MLflow's own pages show."""
        return dict(self._tags())

    def _tags(self) -> Iterator[tuple[str, str]]:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value not in ("", None):
                yield f"hopular.{name}", without_secrets(str(value))
        yield "mlflow.source.name", "hopular"
        yield "mlflow.source.type", "JOB"
        if _ONE_COMMIT.fullmatch(self.commit):
            yield "mlflow.source.git.commit", self.commit.partition(" ")[0]


def lineage_of(unit: Unit, maker: Maker, benchmark: str, flow_run: str = "", source: str = "") -> Lineage:
    """Return where a unit came from."""
    return Lineage(
        benchmark=benchmark,
        flow_run=flow_run,
        dataset=unit.dataset,
        dataset_fingerprint=unit.dataset_fingerprint,
        source=source,
        split=unit.split,
        split_fingerprint=unit.split_fingerprint,
        method=unit.method,
        seed=unit.seed,
        budget=repr(unit.budget),
        architecture=unit.architecture,
        device=maker.device,
        commit=maker.commit,
        code=maker.code,
        versions=in_line(maker.versions),
    )


def in_line(versions: Mapping[str, str]) -> str:
    """Write versions as a tag has them: 'python 3.11.7, numpy 2.4.6'."""
    return ", ".join(f"{name} {found}" for name, found in versions.items())


def read_versions(line: str) -> dict[str, str]:
    """Read what `in_line` wrote."""
    return {name: found for name, _, found in (item.rpartition(" ") for item in line.split(", "))}


# ------------------------------------------------------------------------------------------------------ experiments


def dataset_experiment(client: MlflowClient, lineage: Lineage) -> str:
    """Return the id of a dataset's experiment.

    A changed file stays in its experiment. Another dataset of the same name, from another source and with other
    content, gets one that has its fingerprint in the name.
    """
    tags = {name: value for name, value in lineage.tags().items() if name in ("hopular.dataset", "hopular.source")}
    tags["hopular.dataset_fingerprint"] = lineage.dataset_fingerprint
    name = _PREFIX + lineage.dataset
    for attempt in (name, f"{name} {lineage.dataset_fingerprint[:_SHORT]}"):
        experiment = find_or_make(client, attempt, tags)
        found = client.get_experiment(experiment).tags
        if any(found.get(tag) == tags.get(tag) for tag in ("hopular.source", "hopular.dataset_fingerprint")):
            break
    return experiment


def find_or_make(client: MlflowClient, name: str, tags: dict[str, str] | None = None) -> str:
    """Return the id of the experiment of this name; one that was deleted comes back."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location(_folder(name)), tags))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)  # another process was quicker
            assert found is not None
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _folder(name: str) -> str:
    """Return a name of a folder that any file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:100] or "experiment"


def store_id(client: MlflowClient) -> str:
    """Name this store, by whatever address, and no other, not even one that was deleted and made again."""
    experiment = client.get_experiment(find_or_make(client, EXPERIMENT))
    return f"{experiment.experiment_id} {experiment.creation_time}"


def join_benchmark(client: MlflowClient, run_id: str, benchmark: str) -> None:
    """Note on a unit's run that a benchmark uses it; people filter by this tag."""
    client.set_tag(run_id, f"hopular.in.{benchmark}", "yes")


# ------------------------------------------------------------------------------------------------------------ units


def start_unit(client: MlflowClient, lineage: Lineage, key: str, dataset: Dataset | None) -> str:
    """Return the id of the unit's run, made or found again by `key`, and RUNNING.

    A unit that is there already is gone on with: it keeps its lineage, except that it is of whoever finishes it, and a
    tag `hopular.in.<benchmark>` says which benchmarks it is part of.
    """
    from mlflow.entities import RunTag

    experiment = dataset_experiment(client, lineage)
    used = f"hopular.in.{lineage.benchmark}"
    with one_at_a_time("units"):
        run = _find_unit(client, experiment, key)
        if run is None:
            tags = {**replace(lineage, kind="unit").tags(), _UNIT: key, used: "made"}
            run = client.create_run(experiment, tags=tags, run_name=f"{lineage.method} {lineage.split}")
        if not run.data.params:  # it is new, or the process that made it was killed before it could describe it
            _describe(client, run, lineage, dataset)
    run_id = str(run.info.run_id)
    maker = {name: value for name, value in lineage.tags().items() if name in _MAKER}
    if not maker.items() <= run.data.tags.items():
        client.log_batch(run_id, tags=[RunTag(name, value) for name, value in maker.items()])
    if used not in run.data.tags:
        client.set_tag(run_id, used, "reused")
    if run.info.status != "RUNNING":
        client.update_run(run_id, status="RUNNING")
    return run_id


def _find_unit(client: MlflowClient, experiment: str, key: str) -> Run | None:
    """Return the run of a unit; the first one if several processes should have made it at once."""
    runs = client.search_runs(
        [experiment], f"tags.`{_UNIT}` = '{key}'", order_by=["attributes.start_time ASC"], max_results=100
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
        known = {run.data.tags.get(_UNIT) for run in runs}
        latest = {tuple(run.data.tags.get(name) for name in _SAME): run for run in runs}
        for key, own in tags.items():
            before = latest.get(tuple(own.get(name) for name in _SAME))
            if units[key].dataset_fingerprint == fingerprint and key not in known and before is not None:
                found[key] = _difference(before.data.tags, own, _day(before.info.start_time))
    return found


def _units_of(client: MlflowClient, dataset: str, fingerprint: str) -> list[Run]:
    """Find all units of the rows of a dataset, the latest last."""
    names = (_PREFIX + dataset, f"{_PREFIX}{dataset} {fingerprint[:_SHORT]}")
    experiments = [found.experiment_id for name in names if (found := client.get_experiment_by_name(name))]
    wanted = f"tags.`hopular.kind` = 'unit' AND tags.`hopular.dataset_fingerprint` = '{fingerprint}'"
    return list(_runs(client, experiments, wanted)) if experiments else []


def _runs(client: MlflowClient, experiments: list[str], wanted: str) -> Iterator[Run]:
    """Yield all runs that a filter finds, the latest last, page by page."""
    token: str | None = None
    while token != "":
        page = client.search_runs(experiments, wanted, order_by=["attributes.start_time ASC"], page_token=token)
        yield from page
        token = page.token or ""


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


def finish_unit(client: MlflowClient, run_id: str, state: RunState, reason: str = "") -> None:
    """End a unit's run; the reason of a failure becomes a tag, and that of an earlier one goes."""
    if reason:
        client.set_tag(run_id, _REASON, without_secrets(reason))
    elif _REASON in client.get_run(run_id).data.tags:
        client.delete_tag(run_id, _REASON)
    client.set_terminated(run_id, state)


def is_there(client: MlflowClient, run_id: str) -> bool:
    """Tell whether a run exists and was not deleted."""
    from mlflow.exceptions import MlflowException

    try:
        return bool(client.get_run(run_id).info.lifecycle_stage == "active")
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return False


def end_running(client: MlflowClient, keys: Collection[str], state: RunState, reason: str) -> None:
    """End those of these units' runs that are still RUNNING, because whoever worked on them is gone.

    Their unfinished trials go: a search that is taken up again writes them from its study.
    """
    experiments = [found.experiment_id for found in client.search_experiments(filter_string=f"name LIKE '{_PREFIX}%'")]
    running = client.search_runs(experiments, "attributes.status = 'RUNNING'", max_results=5000) if experiments else []
    ended = {run.info.run_id for run in running if run.data.tags.get(_UNIT) in keys}
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
    """Return the rows of one unit in a table of scores as metrics: means over its seeds.

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

    old = [name for name in client.get_run(run_id).data.tags if name.startswith(_BEST)]
    new = {f"{_BEST}{name}": str(value) for name, value in record.params.items()}
    new |= {"hopular.best_slot": str(record.slot), "hopular.chosen_by": f"valid_{chosen_by}"}
    for name in old:
        if name not in new:
            client.delete_tag(run_id, name)
    client.log_batch(run_id, tags=[RunTag(name, value) for name, value in new.items()])
    valid = {f"valid_{name}": value for name, value in record.metrics.items()}
    score = {} if record.score is None else {"valid_score": record.score}
    log_scores(client, run_id, {**valid, **score})


def _describe(client: MlflowClient, run: Run, lineage: Lineage, dataset: Dataset | None) -> None:
    """Log the dataset as the run's input, and the parameters that MLflow's compare view sets side by side."""
    from mlflow.entities import Param

    names = ("dataset", "method", "split", "seed", "budget", "architecture", "device")
    values = {name: getattr(lineage, name) for name in names}
    params = [Param(name, str(value)) for name, value in values.items() if value not in ("", None)]
    if dataset is not None:
        client.log_inputs(run.info.run_id, datasets=[_input(dataset)])
    client.log_batch(run.info.run_id, params=params)


def _input(dataset: Dataset) -> DatasetInput:
    """Describe the dataset as MLflow does: name, digest, source, schema and size."""
    from mlflow.entities import Dataset as Described
    from mlflow.entities import DatasetInput, InputTag

    kinds: dict[str, Any] = dict(list(dataset.kinds.items())[:_MAX_COLUMNS])
    types = {"continuous": "double", "categorical": "string", "date": "datetime"}
    columns = [{"type": types[kind], "name": name, "required": True} for name, kind in kinds.items()]
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


# ----------------------------------------------------------------------------------------------------------- trials


def log_trial(client: MlflowClient, parent: str, lineage: Lineage, record: Trial, experiment: str = "") -> str:
    """Write a finished trial as a child run and return its id. `experiment` saves a call where it is known."""
    experiment = experiment or client.get_run(parent).info.experiment_id
    end = int(time.time() * 1000)
    child = client.create_run(
        experiment,
        start_time=end - _milliseconds(record),
        tags=_trial_tags(parent, lineage, record),
        run_name=f"{lineage.method} trial {record.slot}",
    )
    _complete(client, child, lineage, record)
    return str(child.info.run_id)


def reconcile(client: MlflowClient, parent: str, lineage: Lineage, records: Iterable[Trial]) -> int:
    """Make the children of a unit agree with its records, and return how many were not written before.

    A child that a kill left RUNNING is completed from its record, or deleted if there is none; of two of one slot the
    second goes. Done twice, or by two processes at once, it changes nothing more.
    """
    wanted = {record.slot: record for record in records}
    experiment = client.get_run(parent).info.experiment_id
    found: dict[int, Run] = {}
    for child in children(client, experiment, parent):
        slot = int(child.data.tags[SLOT])
        if slot in found or slot not in wanted:
            client.delete_run(child.info.run_id)
        else:
            found[slot] = child
    written = 0
    for slot, record in sorted(wanted.items()):
        if slot not in found:
            log_trial(client, parent, lineage, record, experiment)
            written += 1
        elif found[slot].info.status == "RUNNING":
            _complete(client, found[slot], lineage, record)
    return written


def children(client: MlflowClient, experiment: str, parent: str) -> list[Run]:
    """Return the child runs of a unit: by slot, and of one slot the finished and earliest first."""
    found = [run for run in _runs(client, [experiment], f"tags.`{PARENT}` = '{parent}'") if SLOT in run.data.tags]

    def rank(run: Run) -> tuple[int, bool, int, str]:
        return int(run.data.tags[SLOT]), run.info.status == "RUNNING", run.info.start_time, run.info.run_id

    return sorted(found, key=rank)


class TrialLog:
    """Writes each trial as it is finished.

    While the store is unavailable training goes on: the records wait here for the next success, and those that still
    wait in the end are written by `reconcile`, from the study, which has them all.
    """

    def __init__(self, client: MlflowClient, parent: str, lineage: Lineage) -> None:
        self.client, self.parent, self.lineage = client, parent, lineage
        self.waiting: list[Trial] = []
        self._experiment = ""
        self._next = 0.0

    def __call__(self, record: Trial) -> None:
        self.waiting.append(record)
        if time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> bool:
        """Try to write what waits; return whether nothing waits any more."""
        try:
            if not self._experiment:
                self._experiment = self.client.get_run(self.parent).info.experiment_id
            while self.waiting:
                log_trial(self.client, self.parent, self.lineage, self.waiting[0], self._experiment)
                self.waiting.pop(0)
        except Exception as error:
            if not is_unavailable(error):
                raise
            self._next = time.monotonic() + PAUSE
        return not self.waiting


def _trial_tags(parent: str, lineage: Lineage, record: Trial) -> dict[str, str]:
    tags = {
        **replace(lineage, kind="trial").tags(),
        PARENT: parent,
        SLOT: str(record.slot),
        "hopular.state": record.state,
        "hopular.trial_seed": str(record.seed),
    }
    if record.shared_by > 1:
        tags["hopular.shared_by"] = str(record.shared_by)  # trials of one fit, whose seconds are divided among them
    if record.failure:
        tags["hopular.failure"] = record.failure
        tags["hopular.reason"] = without_secrets(record.message)
    return tags


def _milliseconds(record: Trial) -> int:
    return round(1000 * (record.fit_seconds + record.predict_seconds))


def _complete(client: MlflowClient, child: Run, lineage: Lineage, record: Trial) -> None:
    """Write parameters, metrics and the end of a trial. Times follow from the child's start: twice is like once."""
    from mlflow.exceptions import MlflowException

    start, run_id = child.info.start_time, child.info.run_id
    metrics, params = list(_metrics(record, start)), list(_params(lineage, record))
    try:
        client.log_batch(run_id, metrics=metrics, params=params)
    except MlflowException as error:
        if not _TWICE.search(error.message):
            raise
        client.log_batch(run_id, metrics=metrics, params=params)  # another process did it; now that is seen
    client.set_terminated(run_id, _STATUS[record.state], start + _milliseconds(record))


def _params(lineage: Lineage, record: Trial) -> Iterator[Param]:
    from mlflow.entities import Param

    yield Param("method", lineage.method)
    yield Param("split", lineage.split)
    for name, value in record.params.items():
        yield Param(f"setting.{name}" if name in ("method", "split") else name, str(value))


def _metrics(record: Trial, timestamp: int) -> Iterator[Metric]:
    """Yield those of the validation rows, of the cost, and the learning curve with percent of training as steps."""
    from mlflow.entities import Metric

    values: dict[str, Any] = {f"valid_{name}": value for name, value in record.metrics.items()}
    values |= {"valid_score": record.score, "rounds": record.rounds}
    values |= {"fit_seconds": record.fit_seconds, "predict_seconds": record.predict_seconds}
    values["peak_memory_mb"] = record.peak_memory / 1e6 if record.peak_memory else None
    for name, value in values.items():
        if value is not None and not math.isnan(value):
            yield Metric(name, float(value), timestamp, 0)
    for percent, score in record.curve:
        yield Metric("valid_curve", score, timestamp, percent)
