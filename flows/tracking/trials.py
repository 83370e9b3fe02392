"""Trials: a child run for each, written in three calls, once, and later if the store is away now."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flows.tracking.lineage import Lineage
from flows.tracking.store import is_away
from hopular.redaction import without_secrets

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, Run

    from hopular.trials.trial import Trial

PARENT, SLOT = "mlflow.parentRunId", "hopular.slot"
STATUS = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
TWICE = re.compile(r"UNIQUE constraint|duplicate key|Duplicate entry")  # as sqlite, PostgreSQL and MySQL put it
PAUSE = 15.0  # seconds after which a store that was away is tried again


def log_trial(client: MlflowClient, parent: str, lineage: Lineage, record: Trial, experiment: str = "") -> str:
    """Write a finished trial as a child run and return its id. `experiment` saves a call where it is known."""
    experiment = experiment or client.get_run(parent).info.experiment_id
    end = int(time.time() * 1000)
    child = client.create_run(
        experiment,
        start_time=end - _milliseconds(record),
        tags=_tags(parent, lineage, record),
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
    """The child runs of a unit: by slot, and of one slot the finished and earliest first."""
    found: list[Run] = []
    token: str | None = None
    while True:
        page = client.search_runs([experiment], f"tags.`{PARENT}` = '{parent}'", max_results=1000, page_token=token)
        found += [run for run in page if SLOT in run.data.tags]
        token = page.token
        if not token:
            break

    def rank(run: Run) -> tuple[int, bool, int, str]:
        return int(run.data.tags[SLOT]), run.info.status == "RUNNING", run.info.start_time, run.info.run_id

    return sorted(found, key=rank)


class TrialLog:
    """Writes each trial as it is finished; `search(..., on_trial=TrialLog(...))`.

    While the store is away training goes on: the records wait here for the next success, and those that are still
    waiting in the end are written by `reconcile`, from the study, which has them all.
    """

    def __init__(self, client: MlflowClient, parent: str, lineage: Lineage) -> None:
        self.client, self.parent, self.lineage = client, parent, lineage
        self.waiting: list[Trial] = []
        self.problem = ""  # the last one, for whoever wants to tell people
        self._experiment = ""
        self._next = 0.0

    def __call__(self, record: Trial, slots: int) -> None:
        self.waiting.append(record)
        if time.monotonic() >= self._next:
            self.flush()

    def flush(self) -> bool:
        """Try to write what waits; whether nothing waits any more."""
        try:
            if not self._experiment:
                self._experiment = self.client.get_run(self.parent).info.experiment_id
            while self.waiting:
                log_trial(self.client, self.parent, self.lineage, self.waiting[0], self._experiment)
                self.waiting.pop(0)
        except Exception as error:
            if not is_away(error):
                raise
            self.problem = str(error).partition("\n")[0]
            self._next = time.monotonic() + PAUSE
        return not self.waiting


def _tags(parent: str, lineage: Lineage, record: Trial) -> dict[str, str]:
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
    """Parameters, metrics and the end of a trial. Times follow from the child's start, so twice is the same as once."""
    from mlflow.exceptions import MlflowException

    start, run_id = child.info.start_time, child.info.run_id
    metrics, params = list(_metrics(record, start)), list(_params(lineage, record))
    try:
        client.log_batch(run_id, metrics=metrics, params=params)
    except MlflowException as error:
        if not TWICE.search(error.message):
            raise
        client.log_batch(run_id, metrics=metrics, params=params)  # another process did it; now that is seen
    client.set_terminated(run_id, STATUS[record.state], start + _milliseconds(record))


def _params(lineage: Lineage, record: Trial) -> Iterator[Param]:
    from mlflow.entities import Param

    yield Param("method", lineage.method)
    yield Param("split", lineage.split)
    for name, value in record.params.items():
        yield Param(f"setting.{name}" if name in ("method", "split") else name, str(value))


def _metrics(record: Trial, timestamp: int) -> Iterator[Metric]:
    """Those of the validation rows, of the cost, and the learning curve with percent of training as steps."""
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
