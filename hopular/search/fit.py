"""Fit one job on a problem and measure it: what happens inside a worker process."""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hopular.methods import get_method
from hopular.methods.method import InvalidParametersError
from hopular.search.criterion import Criterion, score_of
from hopular.search.job import Job, Outcome
from hopular.search.problem import Problem
from hopular.search.record import Kind, State, rank_of

SOFT = 0.8  # share of the time after which a method that can stop by itself is to do so
SHORTEST = 0.1  # seconds for a fit whose imports have taken all the time there was
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


def fit_job(problem: Problem, job: Job, started: Callable[[], None], report: Callable[[int, float], bool]) -> Outcome:
    """Fit and score one setting; whatever goes wrong becomes a failure of some kind. `started` is called by the fit."""
    is_known = _forget_peak()
    start = time.perf_counter()

    def start_clock() -> None:
        nonlocal start
        started()
        start = time.perf_counter()

    def ended(state: State, **values: Any) -> Outcome:
        return Outcome(state, fit_seconds=time.perf_counter() - start, **values)

    try:
        outcome = _fit(problem, job, start_clock, report)
    except Stopped:
        outcome = ended("pruned")
    except Exception as error:
        outcome = ended("failed", kind=_kind_of(error), message=f"{type(error).__name__}: {error}"[:2000])
    return replace(outcome, peak_memory=_peak() if is_known else 0)


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


def _fit(problem: Problem, job: Job, started: Callable[[], None], report: Callable[[int, float], bool]) -> Outcome:
    """Fit, unless the model is there already, and score; with test rows also predict them, with a folder also save."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = _kept if _kept is not None and _is_same(_kept.job, job) else None
        if fitted is None:
            fitted = Kept(replace(job, X_test=None), *_train(problem, job, started, report))
            _keep_if_better(fitted)
        else:
            started()
        test = None if job.X_test is None else predict_rows(fitted.estimator, problem.task, job.X_test)
        unsaved = "" if job.folder is None else _save(fitted.estimator, job.folder)
    return replace(fitted.outcome, test_predictions=test, unsaved=unsaved)


def _is_same(kept: Job, job: Job) -> bool:
    """Whether the model of a finished trial is wanted; a trial itself is always fitted."""
    is_trial = (kept.study, kept.slot, kept.run.seed) == (job.study, job.slot, job.run.seed)
    return is_trial and job.X_test is not None


def _keep_if_better(fitted: Kept) -> None:
    global _kept
    if fitted.job.study and (_kept is None or _kept.job.study != fitted.job.study or fitted.rank < _kept.rank):
        _kept = fitted


def _train(
    problem: Problem, job: Job, started: Callable[[], None], report: Callable[[int, float], bool]
) -> tuple[Outcome, Any]:
    method, params = get_method(job.method), dict(job.params)
    frames: tuple[Any, ...] = (problem.X_train, problem.y_train, problem.X_valid, problem.y_valid)
    X, y, X_valid, y_valid = (frame.copy(deep=False) for frame in frames)  # changes stay within this trial
    try:
        method.make(problem.task, params, job.run)  # imports its library, which is no part of the fit
        run = replace(job.run, max_seconds=_seconds_for(job))
        estimator = method.make(problem.task, params, run)
    except (TypeError, ValueError) as error:
        raise InvalidParametersError(str(error)) from error
    _seed(job.run.seed)
    hooks = {"hooks": [CurveHook(report, job.criterion)]} if method.has_curve else {}
    started()
    start = time.perf_counter()
    estimator.fit(X, y, eval_set=(X_valid, y_valid), **hooks)
    fitted = time.perf_counter()
    metrics, predictions = score_rows(estimator, problem.task, X_valid, y_valid)
    outcome = Outcome(
        "complete",
        metrics,
        score_of(job.criterion, metrics),
        predictions,
        fit_seconds=fitted - start,
        predict_seconds=time.perf_counter() - fitted,
        rounds=_rounds(estimator),
        rows=len(getattr(estimator, "train_index_", X)),
        members=_members(estimator),
        max_seconds=run.max_seconds,
        classes=[str(label) for label in getattr(estimator, "classes_", [])],
        message=_left_out(estimator),
    )
    return outcome, estimator


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
