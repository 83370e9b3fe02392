"""Fit jobs on a problem and measure them: this is what happens inside a worker process."""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hopular.data.dataset import Task
from hopular.methods import Run, get_method
from hopular.methods.method import InvalidParametersError
from hopular.trials.budget import Criterion, score_of
from hopular.trials.problem import Problem
from hopular.trials.trial import Failure, Job, Trial

SOFT = 0.8  # a method that can stop by itself is to do so after this share of its time
SHORTEST = 0.1  # a fit gets this many seconds even if its imports have taken all the time there was
Report = Callable[[int, int, float], bool]  # place among the jobs, percent, score: whether to stop it
NO_MEMORY = ("out of memory", "allocate memory", "bad_alloc", "bad allocation")  # words of libraries that lack memory


class _Pruned(Exception):  # noqa: N818
    """The pruner has seen enough."""


class _CurveHook:
    """Reports the validation score of a training that goes on, by the search's criterion, and stops it when told to.

    Percents are of the trainings on all folds, one after another.
    """

    def __init__(self, report: Callable[[int, float], bool], criterion: Criterion, fold: int, folds: int) -> None:
        self._report, self._criterion, self._last = report, criterion, -1
        self._fold, self._folds = fold, folds

    def on_epoch(self, progress: Any) -> None:
        pass

    def on_validation(self, progress: Any) -> None:
        percent = round(100 * (self._fold + progress.done) / self._folds)
        if percent > self._last:  # the first validation within each percent
            self._last = percent
            score = progress.score if self._criterion == "accuracy" else -progress.loss
            if self._report(percent, float(score)):
                raise _Pruned


class Fitter:
    """Fits jobs, and keeps the best model of the last study, so that it need not be trained again if asked for."""

    def __init__(self) -> None:
        self.kept: _Model | None = None

    def fit(self, problem: Problem, jobs: Sequence[Job], started: Callable[[], None], report: Report) -> list[Trial]:
        """Fit and score jobs, several of them in one training; whatever goes wrong becomes a failure of the trial.

        `started` is called by the fit, and `report` for every point of the learning curve of each job.
        """
        is_known = forget_peak()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = self._recall(jobs)
            if fitted:
                started()
            else:
                fitted = self._train(problem, jobs, started, report)
            trials = [_use(problem, job, one) for job, one in zip(jobs, fitted, strict=True)]
        peak = peak_memory() if is_known else 0
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
        """Fit the jobs at once, fold after fold, and score each by itself. They divide the seconds of the fits."""
        attempts = [_Attempt(job, place) for place, job in enumerate(jobs)]
        seconds, start = 0.0, time.perf_counter()
        try:
            _make(problem.task, jobs[0], jobs[0].max_seconds)  # imports its library, which is no part of the fit
            limit = _seconds_for(jobs[0])
            is_stacked = len(problem.folds) > 1 and get_method(jobs[0].trial.method).takes_folds
            fits = 1 if is_stacked else len(problem.folds)
            each = None if limit is None else limit / fits
            for attempt in attempts:
                attempt.estimators = [_make(problem.task, attempt.job, each) for _ in range(fits)]
            started()
            start = time.perf_counter()
            if is_stacked:
                seconds = _fit_stack(problem, attempts, report)
            else:
                for place in range(fits):
                    seconds += _fit_fold(problem, place, [one for one in attempts if one.error is None], report)
                    _report_folds(problem, place + 1, [one for one in attempts if one.error is None], report)
        except Exception as error:
            return [_ended_by(job.trial, error, (time.perf_counter() - start) / len(jobs)) for job in jobs]
        costs = {"fit_seconds": seconds / len(jobs), "max_seconds": None if limit is None else limit / len(jobs)}
        return [self._finish(problem, attempt, costs) for attempt in attempts]

    def _finish(self, problem: Problem, attempt: _Attempt, costs: dict[str, Any]) -> _Model | Trial:
        """Score what a job predicted for the validation rows, and keep its model if it is the best so far."""
        job = attempt.job
        try:
            if attempt.error is not None:
                raise attempt.error
            model = _Model(job.study, _score(problem, attempt), _bag(problem, job, attempt.estimators))
            row = None if job.folder is None else _seconds_of_a_row(model.estimator, problem)
            model = replace(model, trial=replace(model.trial, row_seconds=row, **costs))
        except Exception as error:
            return _ended_by(job.trial, error, costs["fit_seconds"])
        self._keep_if_better(model)
        return model

    def _keep_if_better(self, model: _Model) -> None:
        kept = self.kept
        if model.study and (kept is None or kept.study != model.study or model.trial.rank < kept.trial.rank):
            self.kept = model


@dataclass
class _Attempt:
    """A job at work: its estimators and their predictions of the validation rows, one of each fold."""

    job: Job
    place: int  # among the jobs
    estimators: list[Any] = field(default_factory=list)
    predictions: list[np.ndarray[Any, Any]] = field(default_factory=list)
    predict_seconds: float = 0.0
    error: Exception | None = None  # that has ended it alone


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
        test = None if job.X_test is None else _predict_rows(fitted.estimator, problem.task, job.X_test)
        is_worth_it = job.least_score is None or (trial.score is not None and trial.score >= job.least_score)
        unsaved = _save(fitted.estimator, job.folder) if job.folder is not None and is_worth_it else ""
    except Exception as error:
        return _ended_by(job.trial, error, trial.fit_seconds)
    return replace(trial, test_predictions=test, unsaved=unsaved, message=trial.message or unsaved)


def _ended_by(trial: Trial, error: Exception, seconds: float) -> Trial:
    if isinstance(error, _Pruned):
        return replace(trial, state="pruned", fit_seconds=seconds)
    message = f"{type(error).__name__}: {error}"[:2000]
    return replace(trial, state="failed", fit_seconds=seconds, failure=_failure_of(error), message=message)


def _make(task: Task, job: Job, seconds: float | None) -> Any:
    """Return an estimator that is to end its fit after `seconds`."""
    run = Run(job.trial.seed, job.threads, job.device, seconds)
    try:
        return get_method(job.trial.method).make(task, dict(job.trial.params), run)
    except (TypeError, ValueError) as error:
        raise InvalidParametersError(str(error)) from error


def _fit_fold(problem: Problem, place: int, attempts: Sequence[_Attempt], report: Report) -> float:
    """Fit all attempts on a fold at once and let each predict its validation rows; return the seconds of the fit."""
    if not attempts:
        return 0.0
    part = problem.of_fold(problem.folds[place])
    estimators = [attempt.estimators[place] for attempt in attempts]
    hooks = [[_CurveHook(partial(report, one.place), one.job.criterion, place, len(problem.folds))] for one in attempts]
    start = time.perf_counter()
    errors = _fit(part, attempts[0].job, estimators, hooks)
    fitted = time.perf_counter() - start
    for attempt, estimator, error in zip(attempts, estimators, errors, strict=True):
        start = time.perf_counter()
        try:
            if error is not None:
                raise error
            predictions = _predict_rows(estimator, problem.task, part.X_valid)
            attempt.predictions.append(_aligned(estimator, problem, predictions))
        except Exception as found:
            attempt.error = found
        attempt.predict_seconds += time.perf_counter() - start
    return fitted


def _report_folds(problem: Problem, done: int, attempts: Sequence[_Attempt], report: Report) -> None:
    """Report the score on the folds that are done, of several; an attempt that is told to stop is pruned.

    A method that reports a curve of its own has said it all.
    """
    for attempt in attempts if done < len(problem.folds) else ():
        if not get_method(attempt.job.trial.method).has_curve:
            truth = problem.y.iloc[np.concatenate([fold.valid for fold in problem.folds[:done]])]
            metrics = _metrics(problem.task, np.concatenate(attempt.predictions), truth, problem.classes)
            if report(attempt.place, round(100 * done / len(problem.folds)), score_of(attempt.job.criterion, metrics)):
                attempt.error = _Pruned()


def _fit_stack(problem: Problem, attempts: Sequence[_Attempt], report: Report) -> float:
    """Fit all attempts on all folds in one training, and take what each predicts for the rows that it held out."""
    from hopular.model.table import fit_together

    job, estimators = attempts[0].job, [attempt.estimators[0] for attempt in attempts]
    hooks = [[_CurveHook(partial(report, one.place), one.job.criterion, 0, 1)] for one in attempts]
    _seed(job.trial.seed)
    start = time.perf_counter()
    folds = [(fold.train, fold.valid) for fold in problem.folds]
    errors = fit_together(estimators, problem.X, problem.y, hooks=hooks, folds=folds)
    seconds = time.perf_counter() - start
    for attempt, estimator, error in zip(attempts, estimators, errors, strict=True):
        attempt.error = error
        if error is None:
            is_regression = problem.task == "regression"
            held_out = np.asarray(estimator.oof_prediction_ if is_regression else estimator.oof_proba_)
            predictions = held_out[np.concatenate([fold.valid for fold in problem.folds])].astype(np.float64)
            attempt.predictions.append(_aligned(estimator, problem, predictions))
            if not np.isfinite(predictions).all():
                attempt.error = FloatingPointError("out-of-fold predictions are not finite numbers")
    return seconds


def _fit(part: Problem, job: Job, estimators: Sequence[Any], hooks: list[list[Any]]) -> Sequence[Exception | None]:
    """Fit the estimators, and return for each the error that ended it alone, if any."""
    _seed(job.trial.seed)
    X, y, eval_set = part.X_train, part.y_train, (part.X_valid, part.y_valid)
    if len(estimators) > 1:
        from hopular.model.table import fit_together

        return fit_together(estimators, X, y, eval_set, hooks)
    watched = {"hooks": hooks[0]} if get_method(job.trial.method).has_curve else {}
    estimators[0].fit(X, y, eval_set=eval_set, **watched)
    return [None]


def _aligned(estimator: Any, problem: Problem, predictions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return probabilities with a column for each class of the problem; one that the fold has not seen gets none."""
    if problem.task == "regression" or len(problem.folds) == 1:
        return predictions
    places = {label: place for place, label in enumerate(problem.classes)}
    aligned = np.zeros((len(predictions), len(places)))
    aligned[:, [places[str(label)] for label in estimator.classes_]] = predictions
    return aligned


def _bag(problem: Problem, job: Job, estimators: list[Any]) -> Any:
    """Return the model of a trial: the estimator of its only fold, or the mean of those of all folds."""
    if len(estimators) == 1:
        return estimators[0]
    from hopular.methods.ensemble import Ensemble

    members = [(job.trial.method, 1 / len(estimators), estimator) for estimator in estimators]
    return Ensemble.from_members(members, problem.X.shape[1], problem.classes or None)


def _score(problem: Problem, attempt: _Attempt) -> Trial:
    """Return the trial with its score on the validation rows of all folds together."""
    job, first, is_one = attempt.job, attempt.estimators[0], len(problem.folds) == 1
    predictions = np.concatenate(attempt.predictions)
    classes = [str(label) for label in getattr(first, "classes_", [])] if is_one else problem.classes
    metrics = _metrics(problem.task, predictions, problem.y_valid, classes)
    trained = np.unique(np.concatenate([fold.train for fold in problem.folds]))
    rounds = [found for one in attempt.estimators if (found := _rounds(one)) is not None]
    return replace(
        job.trial,
        state="complete",
        metrics=metrics,
        score=score_of(job.criterion, metrics),
        predictions=predictions.astype(np.float32),
        predict_seconds=attempt.predict_seconds,
        rounds=round(sum(rounds) / len(rounds)) if rounds else None,
        rows=len(getattr(first, "train_index_", trained)) if is_one else len(trained),
        members=_members(first) if is_one else (),
        classes=tuple(classes),
        message=_left_out(first),
    )


def _seconds_of_a_row(estimator: Any, problem: Problem) -> float:
    """Measure how long the model needs for one row: the quicker of two calls, since the first one makes ready."""
    row, seconds = problem.X.head(1), []
    for _ in range(2):
        start = time.perf_counter()
        _predict_rows(estimator, problem.task, row)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


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
    predictions = _predict_rows(estimator, task, X)
    classes = [str(label) for label in getattr(estimator, "classes_", [])]
    return _metrics(task, predictions, y, classes), predictions.astype(np.float32)


def _metrics(task: str, predictions: np.ndarray[Any, Any], y: Any, classes: Sequence[str]) -> dict[str, float]:
    if task == "regression":
        error = predictions - y.to_numpy(dtype=np.float64)
        with np.errstate(over="ignore"):
            mse = float(np.mean(error**2))
        if not np.isfinite(mse):
            raise FloatingPointError(f"predictions up to {np.abs(predictions).max():.3g} are too far off to be squared")
        return {"mse": mse, "mae": float(np.abs(error).mean())}
    places = {label: place for place, label in enumerate(classes)}
    codes = np.array([places.get(str(label), -1) for label in y])
    known = codes >= 0  # a class that training has never seen is always wrong
    accuracy = float((predictions.argmax(axis=1) == codes).mean())
    truth = np.where(known, predictions[np.arange(len(codes)), codes], 0.0)
    log_loss = float(np.abs(np.log(np.clip(truth, 1e-15, 1.0))).mean())
    return {"accuracy": accuracy, "log_loss": log_loss}


def _predict_rows(estimator: Any, task: str, X: Any) -> np.ndarray[Any, Any]:
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


def forget_peak() -> bool:
    """Let the kernel forget this process's peak memory so far; return whether it can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return peak_memory() > 0


def peak_memory() -> int:
    """Return the peak resident memory in bytes since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
