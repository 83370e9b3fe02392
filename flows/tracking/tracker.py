"""The tracker that writes to MLflow. While the store is unavailable it waits, and training goes on."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from flows.tracking.champion import write_losses
from flows.tracking.models import log_model, note_no_model
from flows.tracking.pictures import draw_pictures, write_neighbours
from flows.tracking.runs import (
    TrialLog,
    finish_unit,
    lineage_of,
    log_best,
    log_scores,
    reconcile,
    start_unit,
    unit_metrics,
)
from flows.tracking.store import retry_store
from hopular.benchmark.unit import Evaluated, Searched, Trained, Unit, unpack
from hopular.evaluation.results import Maker, make_table
from hopular.methods import get_method
from hopular.methods.saved import load_model
from hopular.trials.run import SearchResult
from hopular.trials.trial import Trial

if TYPE_CHECKING:
    from mlflow import MlflowClient

T = TypeVar("T")


class MlflowTracker:
    """Writes the units of one benchmark to MLflow, as hopular.benchmark.tracker.Tracker."""

    def __init__(
        self,
        client: MlflowClient,
        benchmark: str,
        flow_run: str = "",
        stop: threading.Event | None = None,
        temp_folder: Path | None = None,
    ) -> None:
        self.client, self._stop = client, stop or threading.Event()
        self._benchmark, self._flow_run, self._temp_folder = benchmark, flow_run, temp_folder
        self._logs: dict[str, TrialLog] = {}  # of the searches that run here, by the unit's run

    def start(self, unit: Unit, maker: Maker) -> str:
        dataset, _ = unit.rows()
        lineage = lineage_of(unit, maker, self._benchmark, self._flow_run, dataset.source)
        run_id = self._retry(lambda: start_unit(self.client, lineage, unit.key, dataset))
        self._logs[run_id] = TrialLog(self.client, run_id, lineage)
        return run_id

    def log_trial(self, run_id: str, trial: Trial) -> None:
        self._logs[run_id](trial)

    def log_search(self, run_id: str, found: SearchResult, chosen_by: str) -> None:
        lineage = self._logs.pop(run_id).lineage
        self._retry(lambda: reconcile(self.client, run_id, lineage, found.trials))
        if (best := found.best) is not None:
            self._retry(lambda: log_best(self.client, run_id, best, chosen_by))

    def log_model(self, unit: Unit, run_id: str, folder: Path, outcome: Trial, losses: Sequence[float]) -> str:
        dataset, split = unit.rows()
        X_test = dataset.X.iloc[split.test].reset_index(drop=True)
        with tempfile.TemporaryDirectory(dir=self._temp_folder) as files:
            write_losses(Path(files), split.valid.tolist(), losses)
            if get_method(unit.method).retrieves and not outcome.unsaved:
                problem, y_test = unit.problem(), dataset.y.iloc[split.test].reset_index(drop=True)
                trained_on = (problem.X_train, problem.y_train)
                write_neighbours(Path(files, "neighbours"), load_model(folder), *trained_on, X_test, y_test)
            self._retry(lambda: self.client.log_artifacts(run_id, files))
        if outcome.unsaved:
            self._retry(lambda: note_no_model(self.client, run_id, outcome.unsaved))
            return ""
        metrics = {f"valid_{name}": value for name, value in outcome.metrics.items()}
        score = {} if outcome.score is None else {"valid_score": outcome.score}
        described = (unit.method, dataset.task, list(outcome.classes), X_test)
        self._retry(lambda: log_scores(self.client, run_id, {**metrics, **score}))
        return self._retry(lambda: log_model(self.client, run_id, folder, *described, metrics))

    def log_scores(self, unit: Unit, searched: Searched, trained: Trained, evaluated: Evaluated) -> None:
        run_id, (dataset, split) = searched.run_id, unit.rows()
        truth, first = dataset.y.iloc[split.test].to_numpy(), trained.replicates[0]
        metrics = unit_metrics(make_table(evaluated.scores))
        with tempfile.TemporaryDirectory(dir=self._temp_folder) as files:
            folder = Path(files, "predictions")
            folder.mkdir()
            for replicate in trained.replicates:
                np.save(folder / f"seed-{replicate.seed}.npy", unpack(replicate.predictions))
            pictured = (dataset.task, first.classes, truth, unpack(first.predictions), searched.trials)
            draw_pictures(Path(files, "pictures"), *pictured)
            self._retry(lambda: self.client.log_artifacts(run_id, files))
        self._retry(lambda: log_scores(self.client, run_id, metrics))
        self._retry(lambda: finish_unit(self.client, run_id, "FINISHED"))

    def fail(self, run_id: str, error: BaseException, is_stopped: bool) -> None:
        self._logs.pop(run_id, None)
        reason = f"{type(error).__name__}: {error}"
        finish_unit(self.client, run_id, "KILLED" if is_stopped else "FAILED", reason)

    def _retry(self, action: Callable[[], T]) -> T:
        return retry_store(action, self._stop)
