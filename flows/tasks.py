"""The tasks of a benchmark: each is one arrow of its graph, a thin shell over a plain function.

Tasks that train are known by their content: finished once, they are not run again. What a task returns is plain JSON,
so that it can be kept without pickle and read by people.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import task_run

from flows.assignment import Assignment, content_key, problem_of, rows_of
from flows.gpu import slot
from flows.progress import tell
from flows.retries import FETCH_RETRY, RETRY
from flows.stopping import should_stop
from flows.tracking.champion import ROWS, TRAINED_ON, Decision, log_validation, promote
from flows.tracking.lineage import Lineage, in_line, make_maker
from flows.tracking.models import log_model, note_no_model
from flows.tracking.neighbours import log_neighbours
from flows.tracking.pictures import log_pictures
from flows.tracking.store import open_store, patiently
from flows.tracking.trials import TrialLog, reconcile
from flows.tracking.units import State, finish_unit, log_best, log_scores, start_unit, unit_metrics
from hopular import formatting, settings
from hopular.data import load, make_splits
from hopular.data.audit import audit as audit_dataset
from hopular.data.dataset import Task
from hopular.data.registry import entries
from hopular.evaluation.metrics import PRIMARY, bootstrap, row_losses
from hopular.evaluation.metrics import evaluate as evaluate_predictions
from hopular.evaluation.results import Maker
from hopular.methods import get_method
from hopular.methods.fingerprint import take_fingerprint
from hopular.methods.saved import load_model
from hopular.redaction import without_secrets
from hopular.trials.budget import metric_of
from hopular.trials.events import Event
from hopular.trials.refit import TRAIN_FACTOR, StoppedError, replicate_seeds
from hopular.trials.refit import refit as refit_record
from hopular.trials.refit import train as train_record
from hopular.trials.run import SearchResult, read_result
from hopular.trials.run import search as run_search
from hopular.trials.select import choose_members
from hopular.trials.trial import Trial
from hopular.trials.worker import WorkerPool
from hopular.util import OperationError

# Prefect warns that a time-out cannot interrupt a thread that blocks. Ours wait for their processes in short steps.
getLogger("prefect.task_runs").addFilter(lambda record: "running in a worker thread" not in str(record.msg))
Json = dict[str, Any]
SPARE = 600.0  # seconds for all that is no training
LONGEST = 30 * 86400.0  # seconds; what takes longer hangs


class UnitError(OperationError):
    """A method failed on a split; the message says how. It would fail again."""


KEPT: dict[str, Any] = {"persist_result": True, "result_serializer": "json"}


def _key(context: Any, parameters: Mapping[str, Any]) -> str:
    """Task and content; results kept for another tracking store do not count."""
    unit: Assignment = parameters["unit"]
    parts = [unit.key, unit.store]
    if get_method(unit.method).is_ensemble:  # it depends on which of the other methods succeeded
        parts += parameters["others"] if "others" in parameters else [json.dumps(parameters["found"]["best"]["params"])]
    return f"{context.task.name}-{content_key(*parts)}"


def _name() -> str:
    """The name of a run of a task that loads a dataset; what the address of one may hide is left out."""
    return without_secrets(f"{task_run.task_name} {task_run.parameters['reference']}")


@task(name="fetch", task_run_name=_name, cache_policy=NO_CACHE, timeout_seconds=1800, **FETCH_RETRY)
def fetch(reference: str, target: str | None) -> Json:
    """Load a dataset, from its origin or the cache, and say what it is."""
    dataset = load(reference, target=target)
    entry = entries().get(dataset.name)
    kinds = list(dataset.kinds.values())
    return {
        "name": dataset.name,
        "task": dataset.task,
        "rows": len(dataset),
        "features": len(kinds),
        "categorical": kinds.count("categorical"),
        "classes": len(dataset.classes),
        "missing": float(dataset.X.isna().to_numpy().mean()),
        "source": dataset.source,
        "fingerprint": dataset.fingerprint,
        "suite": None if entry is None else entry.suite,
        "notes": list(dataset.notes),
    }


@task(name="split", task_run_name=_name, cache_policy=NO_CACHE, timeout_seconds=600)
def split(reference: str, target: str | None) -> list[tuple[str, str]]:
    """Return the ids and fingerprints of all splits of a dataset."""
    return [(found.id, found.fingerprint) for found in make_splits(load(reference, target=target))]


@task(
    name="audit",
    task_run_name=_name,
    cache_key_fn=lambda _, values: f"audit-{content_key(values['fingerprint'], ' '.join(values['splits']))}",
    timeout_seconds=1800,
    **KEPT,
)
def audit(reference: str, target: str | None, fingerprint: str, splits: list[str]) -> list[tuple[str, str, str]]:
    """Audit a dataset and the splits in use, all named by their fingerprints; the worst findings come first."""
    dataset = load(reference, target=target)
    findings = audit_dataset(dataset, [found for found in make_splits(dataset) if found.fingerprint in splits])
    return [(found.severity, found.check, found.sentence) for found in findings]


def seconds_for(unit: Assignment, step: str, models: int = 1) -> float:
    """When a task that trains is to be given up: well after the budget's own limits, very late where it has none.

    `models` are those that an ensemble is made of. The wait for a GPU, which may be long, counts as well.
    """
    budget, each = unit.budget, unit.budget.seconds_per_trial
    limits = []
    if step == "search":
        if budget.seconds:
            limits.append(2 * budget.seconds)
        if each and budget.grid_trials:
            limits.append(2 * each * max(budget.trials, budget.grid_trials))
    elif each:
        limits.append(TRAIN_FACTOR * each * budget.replicates * models)
    limit = SPARE + min(limits) if limits else LONGEST
    return limit if unit.device == "cpu" else limit + LONGEST


@task(name="search", task_run_name="search {unit.title}", cache_key_fn=_key, **KEPT, **RETRY)
def search(unit: Assignment, others: list[str], pool: WorkerPool | None = None) -> Json:
    """Search the method's space on the validation rows; every trial goes to the tracking store as it is finished.

    `others` are the methods an ensemble may choose from.
    """
    check_code(unit)
    client, maker = open_store(), make_maker(unit.method, unit.device)
    dataset, _ = rows_of(unit)
    lineage, start = lineage_of(unit, maker, dataset.source), time.monotonic()
    chosen_by = metric_of(unit.budget.criterion, dataset.task)
    run_id = patiently(lambda: start_unit(client, lineage, unit.key, dataset))
    with _finishing(unit, run_id):
        tell(_event(unit, "search"))
        if get_method(unit.method).is_ensemble:
            result = _choose_members(unit, others)
        else:
            log = TrialLog(client, run_id, lineage)

            def on_trial(record: Trial, slots: int) -> None:
                scores.append(record.score)
                best = max((score for score in scores if score is not None), default=None)
                tell(_event(unit, "trial", trial=len(scores), trials=slots, best=best, message=chosen_by))
                log(record, slots)

            scores: list[float | None] = []
            with slot(unit.device):
                result = _search(unit, on_trial, pool)
            if not should_stop():
                patiently(lambda: reconcile(client, run_id, lineage, result.trials))
        if should_stop():
            raise StoppedError(f"the search of {unit.title} was stopped")
        if result.best is None:
            raise UnitError(_why(result))
        if not get_method(unit.method).is_ensemble:  # which has no validation score before it is trained
            log_best(client, run_id, result.best, chosen_by)
    return {
        "run_id": run_id,
        "study": result.study,
        "chosen_by": chosen_by,
        "best": result.best.to_json(),
        "records": [] if get_method(unit.method).is_ensemble else [r.to_json() for r in result.trials],
        "trials": dict(Counter(record.state for record in result.trials)),
        "summary": result.summary,
        "seconds": time.monotonic() - start,
        "maker": asdict(maker),
    }


def _search(unit: Assignment, on_trial: Any, pool: WorkerPool | None) -> SearchResult:
    return run_search(
        problem_of(*_rows(unit)),
        unit.method,
        unit.budget,
        seed=unit.seed,
        threads=unit.threads,
        device=unit.device,
        predictions=predictions_folder(),
        pool=pool,
        on_trial=on_trial,
        should_stop=should_stop,
    )


def _choose_members(unit: Assignment, others: list[str]) -> SearchResult:
    """An ensemble is not searched for: its members are chosen among all that the other methods tried."""
    problem = problem_of(*_rows(unit))
    tried = {method: read_result(problem, method, unit.budget, seed=unit.seed, device=unit.device) for method in others}
    folders = {method: predictions_folder() / result.study.rpartition(" ")[2] for method, result in tried.items()}
    members = choose_members(problem, {m: result.trials for m, result in tried.items()}, folders)
    record = Trial(0, unit.seed, {"members": members}, "complete", score=0.0)
    return SearchResult(unit.study, 1, [record])


@task(name="train", task_run_name="train {unit.title}", cache_key_fn=_key, **KEPT, **RETRY)
def train(unit: Assignment, found: Json, pool: WorkerPool | None = None) -> Json:
    """Train the best setting with each replicate seed; predictions of the test rows and the first model are kept."""
    check_code(unit)
    client, run_id, record = open_store(), found["run_id"], Trial.from_json(found["best"])
    dataset, rows = rows_of(unit)
    X_test = dataset.X.iloc[rows.test].reset_index(drop=True)
    seeds = replicate_seeds(record, unit.budget.replicates)
    replicates, kept = [], dict[str, Any]()
    with _finishing(unit, run_id), tempfile.TemporaryDirectory() as scratch:
        for place, seed in enumerate(seeds):
            tell(_event(unit, "train", trial=place, trials=len(seeds)))
            folder = Path(scratch, "model") if place == 0 else None
            outcome = _train(unit, record, X_test, seed, folder, pool)
            file = Path(scratch, f"seed-{seed}.npy")
            np.save(file, outcome.test_predictions)
            patiently(partial(client.log_artifact, run_id, str(file), "predictions"))
            replicates.append(_replicate(seed, f"predictions/{file.name}", outcome))
            if folder is not None:
                kept["valid_loss"] = patiently(partial(_keep_losses, unit, run_id, outcome))
                kept["model_id"] = patiently(partial(_keep_model, unit, run_id, folder, outcome, X_test))
                kept["members"] = outcome.members
    return {"replicates": replicates, **kept}


def _train(
    unit: Assignment, record: Trial, X_test: pd.DataFrame, seed: int, folder: Path | None, pool: WorkerPool | None
) -> Trial:
    with slot(unit.device):
        outcome = train_record(
            problem_of(*_rows(unit)),
            unit.method,
            record,
            unit.budget,
            X_test,
            seed=seed,
            study=unit.study,
            folder=folder,
            threads=unit.threads,
            device=unit.device,
            pool=pool,
            should_stop=should_stop,
        )
    if outcome.state != "complete":
        raise UnitError(f"training with seed {seed} failed: {outcome.failure}: {outcome.message}")
    return outcome


def _replicate(seed: int, file: str, outcome: Trial) -> Json:
    return {
        "seed": seed,
        "file": file,
        "valid_score": outcome.score,
        "valid_metrics": outcome.metrics,
        "classes": list(outcome.classes),
        "seconds": outcome.fit_seconds,
        "predict_seconds": outcome.predict_seconds,
        "memory": outcome.peak_memory,
    }


def _keep_losses(unit: Assignment, run_id: str, outcome: Trial) -> float:
    """Keep the loss on each validation row, which champions are compared by, and return the mean."""
    dataset, rows = rows_of(unit)
    truth = dataset.y.iloc[rows.valid].to_numpy()
    losses = row_losses(dataset.task, truth, outcome.predictions, list(outcome.classes) or None)
    log_validation(open_store(), run_id, rows.valid.tolist(), losses.tolist())
    return float(losses.mean())


def _keep_model(unit: Assignment, run_id: str, folder: Path, outcome: Trial, X_test: pd.DataFrame) -> str:
    """Log the trained model, and for one that retrieves training rows what it read for a few test rows."""
    client, (dataset, rows) = open_store(), rows_of(unit)
    if outcome.unsaved:
        note_no_model(client, run_id, outcome.unsaved)
        return ""
    metrics = {f"valid_{name}": value for name, value in outcome.metrics.items()}
    score = {} if outcome.score is None else {"valid_score": outcome.score}
    log_scores(client, run_id, {**metrics, **score})
    model_id = log_model(
        client, run_id, folder, unit.method, dataset.task, list(outcome.classes), X_test.head(5), metrics
    )
    if get_method(unit.method).retrieves:
        problem = problem_of(*_rows(unit))
        y_test = dataset.y.iloc[rows.test].reset_index(drop=True)
        log_neighbours(client, run_id, load_model(folder), problem.X_train, problem.y_train, X_test, y_test)
    return model_id


@task(name="evaluate", task_run_name="evaluate {unit.title}", cache_key_fn=_key, timeout_seconds=1800, **KEPT, **RETRY)
def evaluate(unit: Assignment, found: Json, trained: Json) -> Json:
    """Score the predictions of the test rows, draw what people want to look at, and finish the unit's run."""
    client, run_id = open_store(), found["run_id"]
    dataset, rows = rows_of(unit)
    truth = dataset.y.iloc[rows.test].to_numpy()
    scores: list[Json] = []
    with _finishing(unit, run_id), tempfile.TemporaryDirectory() as scratch:
        tell(_event(unit, "evaluate"))
        for place, replicate in enumerate(trained["replicates"]):
            predictions = np.load(client.download_artifacts(run_id, replicate["file"], scratch), allow_pickle=False)
            scores += _scores(unit, dataset.task, truth, predictions, replicate)
            if place == 0:
                records = [Trial.from_json(values) for values in found["records"]]
                log_pictures(client, run_id, dataset.task, replicate["classes"], truth, predictions, records)
        log_scores(client, run_id, unit_metrics(pd.DataFrame(scores).astype({"low": float, "high": float})))
        finish_unit(client, run_id, "FINISHED")
    return {"scores": scores}


def _scores(unit: Assignment, task: Task, truth: Any, predictions: Any, replicate: Json) -> list[Json]:
    """The rows of one trained model in the table of scores."""
    names = {"dataset": unit.dataset, "method": unit.method, "split": unit.split, "seed": replicate["seed"]}
    costs = {name: replicate[name] for name in ("seconds", "predict_seconds", "memory")}
    classes, primary = replicate["classes"] or None, PRIMARY[task]
    low, high = bootstrap(task, truth, predictions, classes, primary)
    bounds = {primary: {"low": low, "high": high}}
    nothing = {"low": None, "high": None}
    return [
        {**names, "metric": metric, "value": value, **bounds.get(metric, nothing), **costs}
        for metric, value in evaluate_predictions(task, truth, predictions, classes).items()
    ]


@task(name="refit", task_run_name="refit {unit.title}", cache_policy=NO_CACHE, **RETRY)
def refit(unit: Assignment, found: Json, trained: Json, decision: Decision, pool: WorkerPool | None = None) -> str:
    """Train the winner on all rows it can use and make that model the champion; returns a sentence on it."""
    check_code(unit)
    client, (dataset, rows) = open_store(), rows_of(unit)
    tell(_event(unit, "refit"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "model")
        with slot(unit.device):
            done = refit_record(
                dataset,
                rows,
                unit.method,
                Trial.from_json(found["best"]),
                unit.budget,
                folder,
                members=[(int(place), float(weight), rounds) for place, weight, rounds in trained["members"]],
                threads=unit.threads,
                device=unit.device,
                pool=pool,
                should_stop=should_stop,
            )
        count = "-".join(dict.fromkeys([str(min(done.rows)), str(max(done.rows))]))
        said = {ROWS: count, TRAINED_ON: f"trained on {formatting.of_rows(done.rows, len(dataset))}"}
        log = partial(log_model, client, found["run_id"], folder, unit.method, dataset.task, list(done.classes))
        model_id = patiently(partial(log, dataset.X.head(5), {}, said))
    return patiently(partial(promote, client, decision, model_id, said[ROWS], said[TRAINED_ON]))


def check_code(unit: Assignment) -> None:
    """Refuse to compute a unit with other code or libraries than it is known by."""
    if take_fingerprint(unit.method, unit.device).digest != unit.fingerprint:
        raise UnitError(
            f"the code of {unit.method} or a version of its libraries is another one here than where the benchmark "
            "began: start it again, with the same on all machines"
        )


def lineage_of(unit: Assignment, maker: Maker, source: str = "") -> Lineage:
    return Lineage(
        benchmark=unit.benchmark,
        flow_run=unit.flow_run,
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


def predictions_folder() -> Path:
    """Validation predictions of all trials, which ensembles choose from."""
    return settings.runs_folder() / "predictions"


@contextmanager
def _finishing(unit: Assignment, run_id: str) -> Iterator[None]:
    """If a task of the unit fails, its run says so before the error goes on."""
    try:
        yield
    except BaseException as error:
        state: State = "KILLED" if should_stop() or isinstance(error, StoppedError) else "FAILED"
        try:
            finish_unit(open_store(), run_id, state, f"{type(error).__name__}: {error}")
        except Exception as second:
            error.add_note(f"and its run could not be closed: {second}")
        raise


def _rows(unit: Assignment) -> tuple[str, str | None, str, str]:
    return unit.reference, unit.target, unit.dataset_fingerprint, unit.split


def _why(result: SearchResult) -> str:
    messages = [f"{record.failure}: {record.message}" for record in result.trials if record.message]
    return f"no trial succeeded ({result.summary})" + (f"; the first failed with {messages[0]}" if messages else "")


def _event(unit: Assignment, stage: Any, **values: Any) -> Event:
    return Event(stage, unit.dataset, unit.split, unit.label, **values)
