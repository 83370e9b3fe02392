"""Fit jobs on a problem and measure them: what happens inside a worker process."""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hopular.methods import get_method
from hopular.methods.method import InvalidParametersError
from hopular.trials.criterion import Criterion, score_of
from hopular.trials.job import Job, Outcome
from hopular.trials.problem import Problem
from hopular.trials.record import Kind, rank_of

SOFT = 0.8  # share of the time after which a method that can stop by itself is to do so
SHORTEST = 0.1  # seconds for a fit whose imports have taken all the time there was
Report = Callable[[int, int, float], bool]  # place among the jobs, percent, score: whether to stop it
NO_MEMORY = ("out of memory", "allocate memory", "bad_alloc", "bad allocation")  # as libraries put it


class Stopped(Exception):  # noqa: N818
    """The pruner has seen enough."""


class CurveHook:
    """Reports the validation score of a training that goes on, by the search's criterion, and stops it when told to."""

    def __init__(self, report: Callable[[int, float], bool], criterion: Criterion) -> None:
        self._report, self._criterion, self._last = report, criterion, -1

    def on_epoch(self, progress: Any) -> None:
        pass

    def on_validation(self, progress: Any) -> None:
        percent = round(100 * progress.done)
        if percent > self._last:  # the first validation within each percent
            self._last = percent
            score = progress.score if self._criterion == "accuracy" else -progress.loss
            if self._report(percent, float(score)):
                raise Stopped


def fit_jobs(problem: Problem, jobs: Sequence[Job], started: Callable[[], None], report: Report) -> list[Outcome]:
    """Fit and score jobs, several of them in one training; whatever goes wrong becomes a failure of some kind.

    `started` is called by the fit, and `report` for every point of the learning curve of each job.
    """
    is_known = _forget_peak()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = _recall(jobs)
        if fitted:
            started()
        else:
            fitted = _train(problem, jobs, started, report)
        outcomes = [_use(problem, job, one) for job, one in zip(jobs, fitted, strict=True)]
    peak = _peak() if is_known else 0
    return [replace(outcome, peak_memory=peak, shared_by=len(jobs)) for outcome in outcomes]


@dataclass(frozen=True)
class Kept:
    """The best trial's own model, so that it need not be trained again if this process is asked for it."""

    job: Job
    outcome: Outcome
    estimator: Any

    @property
    def rank(self) -> tuple[float, float, int]:
        return rank_of(self.outcome.score, self.outcome.metrics, self.job.slot)


_kept: Kept | None = None


def _recall(jobs: Sequence[Job]) -> list[Kept | Outcome]:
    """Return the model that is kept, if that of a finished trial is wanted; a trial itself is always fitted."""
    if _kept is None or len(jobs) > 1 or jobs[0].X_test is None:
        return []
    trials = [(job.study, job.slot, job.run.seed) for job in (_kept.job, jobs[0])]
    return [_kept] if trials[0] == trials[1] else []


def _keep_if_better(fitted: Kept) -> None:
    global _kept
    if fitted.job.study and (_kept is None or _kept.job.study != fitted.job.study or fitted.rank < _kept.rank):
        _kept = fitted


def _use(problem: Problem, job: Job, fitted: Kept | Outcome) -> Outcome:
    """Predict the job's test rows and save the model into its folder, if it has them and the fit went well."""
    if isinstance(fitted, Outcome):
        return fitted
    try:
        test = None if job.X_test is None else predict_rows(fitted.estimator, problem.task, job.X_test)
        unsaved = "" if job.folder is None else _save(fitted.estimator, job.folder)
    except Exception as error:
        return _ended_by(error, fitted.outcome.fit_seconds)
    return replace(fitted.outcome, test_predictions=test, unsaved=unsaved)


def _ended_by(error: Exception, seconds: float) -> Outcome:
    if isinstance(error, Stopped):
        return Outcome("pruned", fit_seconds=seconds)
    message = f"{type(error).__name__}: {error}"[:2000]
    return Outcome("failed", fit_seconds=seconds, kind=_kind_of(error), message=message)


def _train(problem: Problem, jobs: Sequence[Job], started: Callable[[], None], report: Report) -> list[Kept | Outcome]:
    """Fit the jobs at once and score each by itself. The seconds of the fit are divided among them."""
    start = time.perf_counter()
    try:
        estimators, max_seconds = _make(problem, jobs)
        started()
        start = time.perf_counter()
        errors = _fit(problem, jobs, estimators, report)
    except Exception as error:
        return [_ended_by(error, (time.perf_counter() - start) / len(jobs))] * len(jobs)
    seconds = (time.perf_counter() - start) / len(jobs)
    share = None if max_seconds is None else max_seconds / len(jobs)
    fitted: list[Kept | Outcome] = []
    for job, estimator, ended in zip(jobs, estimators, errors, strict=True):
        try:
            if ended is not None:
                raise ended
            outcome = replace(_score(problem, job, estimator), fit_seconds=seconds, max_seconds=share)
        except Exception as error:
            fitted.append(_ended_by(error, seconds))
            continue
        kept = Kept(replace(job, X_test=None), outcome, estimator)
        _keep_if_better(kept)
        fitted.append(kept)
    return fitted


def _make(problem: Problem, jobs: Sequence[Job]) -> tuple[list[Any], float | None]:
    """Return an estimator for each job, and the seconds after which they are to end their fit."""
    method = get_method(jobs[0].method)
    try:
        method.make(problem.task, dict(jobs[0].params), jobs[0].run)  # imports its library, which is no part of the fit
        seconds = _seconds_for(jobs[0])
        runs = [replace(job.run, max_seconds=seconds) for job in jobs]
        made = [method.make(problem.task, dict(job.params), run) for job, run in zip(jobs, runs, strict=True)]
    except (TypeError, ValueError) as error:
        raise InvalidParametersError(str(error)) from error
    return made, seconds


def _fit(
    problem: Problem, jobs: Sequence[Job], estimators: Sequence[Any], report: Report
) -> Sequence[Exception | None]:
    """Fit the estimators, and return for each the error that ended it alone, if any."""
    frames: tuple[Any, ...] = (problem.X_train, problem.y_train, problem.X_valid, problem.y_valid)
    X, y, X_valid, y_valid = (frame.copy(deep=False) for frame in frames)  # changes stay within this trial
    hooks = [[CurveHook(partial(report, place), job.criterion)] for place, job in enumerate(jobs)]
    _seed(jobs[0].run.seed)
    if len(jobs) > 1:
        from hopular.model.table import fit_together

        return fit_together(estimators, X, y, (X_valid, y_valid), hooks)
    watched = {"hooks": hooks[0]} if get_method(jobs[0].method).has_curve else {}
    estimators[0].fit(X, y, eval_set=(X_valid, y_valid), **watched)
    return [None]


def _score(problem: Problem, job: Job, estimator: Any) -> Outcome:
    start = time.perf_counter()
    metrics, predictions = score_rows(estimator, problem.task, problem.X_valid.copy(deep=False), problem.y_valid)
    return Outcome(
        "complete",
        metrics,
        score_of(job.criterion, metrics),
        predictions,
        predict_seconds=time.perf_counter() - start,
        rounds=_rounds(estimator),
        rows=len(getattr(estimator, "train_index_", problem.X_train)),
        members=_members(estimator),
        classes=[str(label) for label in getattr(estimator, "classes_", [])],
        message=_left_out(estimator),
    )


def _rounds(estimator: Any) -> int | None:
    """The rounds of boosting up to the best one."""
    rounds = getattr(estimator, "best_iteration_", None)
    return None if rounds is None else int(rounds)


def _members(estimator: Any) -> list[tuple[int, float, int | None]]:
    """The members that an ensemble consists of: place among those it was to have, weight, rounds."""
    places = getattr(estimator, "places_", None)
    if places is None:
        return []
    parts = zip(places, estimator.weights_, estimator.estimators_, strict=True)
    return [(int(place), float(weight), _rounds(member)) for place, weight, member in parts]


def _left_out(estimator: Any) -> str:
    """Which members an ensemble has to do without, and why."""
    failures = getattr(estimator, "failures_", [])
    return f"left out of the ensemble: {'; '.join(failures)}"[:2000] if failures else ""


def _save(estimator: Any, folder: Path) -> str:
    """Write the model; some libraries know no way without pickle, which is no failure of the fit."""
    from hopular.methods.saved import NotSavableError, save_model

    try:
        save_model(estimator, folder)
    except NotSavableError as error:
        return str(error)
    return ""


def _seconds_for(job: Job) -> float | None:
    """How long a fit may take that can end by itself: as long as a trial may, and not beyond the end of the search."""
    limits = [] if job.run.max_seconds is None else [job.run.max_seconds]
    if job.deadline is not None:
        limits.append(max(SHORTEST, SOFT * (job.deadline - time.time())))
    return min(limits, default=None)


def score_rows(estimator: Any, task: str, X: Any, y: Any) -> tuple[dict[str, float], np.ndarray[Any, Any]]:
    """Return the metrics and the predictions on some rows."""
    predictions = predict_rows(estimator, task, X)
    if task == "regression":
        error = predictions - y.to_numpy(dtype=np.float64)
        with np.errstate(over="ignore"):
            mse = float(np.mean(error**2))
        if not np.isfinite(mse):
            raise FloatingPointError(f"predictions up to {np.abs(predictions).max():.3g} are too far off to be squared")
        return {"mse": mse, "mae": float(np.abs(error).mean())}, predictions.astype(np.float32)
    places = {str(label): place for place, label in enumerate(estimator.classes_)}
    codes = np.array([places.get(str(label), -1) for label in y])
    known = codes >= 0  # a class that training has never seen is always wrong
    accuracy = float((predictions.argmax(axis=1) == codes).mean())
    truth = np.where(known, predictions[np.arange(len(codes)), codes], 0.0)
    log_loss = float(np.abs(np.log(np.clip(truth, 1e-15, 1.0))).mean())
    return {"accuracy": accuracy, "log_loss": log_loss}, predictions.astype(np.float32)


def predict_rows(estimator: Any, task: str, X: Any) -> np.ndarray[Any, Any]:
    """Probabilities of the classes, or numbers; refused if they are not finite."""
    is_regression = task == "regression"
    predictions: np.ndarray[Any, Any]
    predictions = np.asarray(estimator.predict(X) if is_regression else estimator.predict_proba(X), dtype=np.float64)
    if not np.isfinite(predictions).all():
        raise FloatingPointError(f"{'predictions' if is_regression else 'probabilities'} are not finite numbers")
    return predictions


def _kind_of(error: Exception) -> Kind:
    text = f"{type(error).__name__} {error}".lower()
    if isinstance(error, MemoryError) or any(words in text for words in NO_MEMORY):
        return "out-of-memory"
    if isinstance(error, TimeoutError):
        return "time-out"
    if isinstance(error, InvalidParametersError) or "invalidparameter" in text or "invalid parameter" in text:
        return "invalid-parameters"
    return "error"


def _seed(seed: int) -> None:
    """Random numbers that a method draws from a common source depend on its own trial alone."""
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def _forget_peak() -> bool:
    """Let the kernel forget this process's peak memory so far; whether it can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return _peak() > 0


def _peak() -> int:
    """Peak resident memory in bytes since `_forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
