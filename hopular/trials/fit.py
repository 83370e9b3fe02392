"""Fit jobs on a problem and measure them: this is what happens inside a worker process."""

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

from hopular.methods import Run, get_method
from hopular.methods.method import InvalidParametersError
from hopular.trials.budget import Criterion, score_of
from hopular.trials.problem import Problem
from hopular.trials.trial import Failure, Job, Trial

SOFT = 0.8  # share of the time after which a method that can stop by itself is to do so
SHORTEST = 0.1  # seconds for a fit whose imports have taken all the time there was
Report = Callable[[int, int, float], bool]  # place among the jobs, percent, score: whether to stop it
NO_MEMORY = ("out of memory", "allocate memory", "bad_alloc", "bad allocation")  # as libraries put it


class Pruned(Exception):  # noqa: N818
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
                raise Pruned


class Fitter:
    """Fits jobs, and keeps the best model of the last study, so that it need not be trained again if asked for."""

    def __init__(self) -> None:
        self.kept: _Model | None = None

    def fit(self, problem: Problem, jobs: Sequence[Job], started: Callable[[], None], report: Report) -> list[Trial]:
        """Fit and score jobs, several of them in one training; whatever goes wrong becomes a failure of the trial.

        `started` is called by the fit, and `report` for every point of the learning curve of each job.
        """
        is_known = _forget_peak()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = self._recall(jobs)
            if fitted:
                started()
            else:
                fitted = self._train(problem, jobs, started, report)
            trials = [_use(problem, job, one) for job, one in zip(jobs, fitted, strict=True)]
        peak = _peak() if is_known else 0
        return [replace(trial, peak_memory=peak, shared_by=len(jobs)) for trial in trials]

    def _recall(self, jobs: Sequence[Job]) -> list[_Model | Trial]:
        """Return the model that is kept, if that of a finished trial is wanted; a trial itself is always fitted."""
        if self.kept is None or len(jobs) > 1 or jobs[0].X_test is None:
            return []
        study, trial = jobs[0].study, jobs[0].trial
        is_same = (study, trial.slot, trial.seed) == (self.kept.study, self.kept.trial.slot, self.kept.trial.seed)
        return [self.kept] if is_same else []

    def _train(
        self, problem: Problem, jobs: Sequence[Job], started: Callable[[], None], report: Report
    ) -> list[_Model | Trial]:
        """Fit the jobs at once and score each by itself. The seconds of the fit are divided among them."""
        start = time.perf_counter()
        try:
            estimators, max_seconds = _make(problem, jobs)
            started()
            start = time.perf_counter()
            errors = _fit(problem, jobs, estimators, report)
        except Exception as error:
            return [_ended_by(job.trial, error, (time.perf_counter() - start) / len(jobs)) for job in jobs]
        seconds = (time.perf_counter() - start) / len(jobs)
        share = None if max_seconds is None else max_seconds / len(jobs)
        fitted: list[_Model | Trial] = []
        for job, estimator, ended in zip(jobs, estimators, errors, strict=True):
            try:
                if ended is not None:
                    raise ended
                trial = replace(_score(problem, job, estimator), fit_seconds=seconds, max_seconds=share)
            except Exception as error:
                fitted.append(_ended_by(job.trial, error, seconds))
                continue
            model = _Model(job.study, trial, estimator)
            self._keep_if_better(model)
            fitted.append(model)
        return fitted

    def _keep_if_better(self, model: _Model) -> None:
        kept = self.kept
        if model.study and (kept is None or kept.study != model.study or model.trial.rank < kept.trial.rank):
            self.kept = model


@dataclass(frozen=True)
class _Model:
    """A trial of a study and its fitted estimator."""

    study: str
    trial: Trial
    estimator: Any


def _use(problem: Problem, job: Job, fitted: _Model | Trial) -> Trial:
    """Predict the job's test rows and save the model into its folder, if it has them and the fit went well."""
    if isinstance(fitted, Trial):
        return fitted
    trial = fitted.trial
    try:
        test = None if job.X_test is None else predict_rows(fitted.estimator, problem.task, job.X_test)
        unsaved = "" if job.folder is None else _save(fitted.estimator, job.folder)
    except Exception as error:
        return _ended_by(job.trial, error, trial.fit_seconds)
    return replace(trial, test_predictions=test, unsaved=unsaved, message=trial.message or unsaved)


def _ended_by(trial: Trial, error: Exception, seconds: float) -> Trial:
    if isinstance(error, Pruned):
        return replace(trial, state="pruned", fit_seconds=seconds)
    message = f"{type(error).__name__}: {error}"[:2000]
    return replace(trial, state="failed", fit_seconds=seconds, failure=_failure_of(error), message=message)


def _make(problem: Problem, jobs: Sequence[Job]) -> tuple[list[Any], float | None]:
    """Return an estimator for each job, and the seconds after which they are to end their fit."""
    first = jobs[0]
    method = get_method(first.trial.method)

    def make(job: Job, seconds: float | None) -> Any:
        run = Run(job.trial.seed, job.threads, job.device, seconds)
        return method.make(problem.task, dict(job.trial.params), run)

    try:
        make(first, first.max_seconds)  # imports its library, which is no part of the fit
        seconds = _seconds_for(first)
        made = [make(job, seconds) for job in jobs]
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
    _seed(jobs[0].trial.seed)
    if len(jobs) > 1:
        from hopular.model.table import fit_together

        return fit_together(estimators, X, y, (X_valid, y_valid), hooks)
    watched = {"hooks": hooks[0]} if get_method(jobs[0].trial.method).has_curve else {}
    estimators[0].fit(X, y, eval_set=(X_valid, y_valid), **watched)
    return [None]


def _score(problem: Problem, job: Job, estimator: Any) -> Trial:
    start = time.perf_counter()
    metrics, predictions = score_rows(estimator, problem.task, problem.X_valid.copy(deep=False), problem.y_valid)
    return replace(
        job.trial,
        state="complete",
        metrics=metrics,
        score=score_of(job.criterion, metrics),
        predictions=predictions,
        predict_seconds=time.perf_counter() - start,
        rounds=_rounds(estimator),
        rows=len(getattr(estimator, "train_index_", problem.X_train)),
        members=_members(estimator),
        classes=tuple(str(label) for label in getattr(estimator, "classes_", [])),
        message=_left_out(estimator),
    )


def _rounds(estimator: Any) -> int | None:
    """Return the rounds of boosting up to the best one."""
    rounds = getattr(estimator, "best_iteration_", None)
    return None if rounds is None else int(rounds)


def _members(estimator: Any) -> tuple[tuple[int, float, int | None], ...]:
    """Return the members that an ensemble consists of: place among those it was to have, weight, rounds."""
    places = getattr(estimator, "places_", None)
    if places is None:
        return ()
    parts = zip(places, estimator.weights_, estimator.estimators_, strict=True)
    return tuple((int(place), float(weight), _rounds(member)) for place, weight, member in parts)


def _left_out(estimator: Any) -> str:
    """Say which members an ensemble has to do without, and why."""
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
    """Return how long a fit that can end by itself may take: as a trial may, and not beyond the end of the search."""
    limits = [] if job.max_seconds is None else [job.max_seconds]
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
    """Return probabilities of the classes, or numbers; refuse what is not finite."""
    is_regression = task == "regression"
    predictions: np.ndarray[Any, Any]
    predictions = np.asarray(estimator.predict(X) if is_regression else estimator.predict_proba(X), dtype=np.float64)
    if not np.isfinite(predictions).all():
        raise FloatingPointError(f"{'predictions' if is_regression else 'probabilities'} are not finite numbers")
    return predictions


def _failure_of(error: Exception) -> Failure:
    text = f"{type(error).__name__} {error}".lower()
    if isinstance(error, MemoryError) or any(words in text for words in NO_MEMORY):
        return "out-of-memory"
    if isinstance(error, TimeoutError):
        return "time-out"
    if isinstance(error, InvalidParametersError) or "invalidparameter" in text or "invalid parameter" in text:
        return "invalid-parameters"
    return "error"


def _seed(seed: int) -> None:
    """Make random numbers that a method draws from a common source depend on its own trial alone."""
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def _forget_peak() -> bool:
    """Let the kernel forget this process's peak memory so far; return whether it can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return _peak() > 0


def _peak() -> int:
    """Return the peak resident memory in bytes since `_forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
