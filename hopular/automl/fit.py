"""AutoML on one table: audit it, race all suitable methods for the given time, combine them, keep the best."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hopular import settings
from hopular.automl.candidate import Candidate
from hopular.automl.choice import Choice, choose, classes_of, make_ensemble, write_model
from hopular.automl.fitted import MODEL_FOLDER, ROWS_FILE, Facts, Fitted
from hopular.automl.outcome import make_leaderboard, make_results
from hopular.automl.portfolio import choose_methods
from hopular.automl.race import News, Race
from hopular.automl.refit import Rows, expected_seconds, refit, refit_rows
from hopular.automl.schema import learn_schema
from hopular.data.audit import Finding, audit
from hopular.data.dataset import Dataset
from hopular.data.splits import Split, make_splits
from hopular.evaluation.metrics import PRIMARY, evaluate
from hopular.search.problem import Problem, make_problem
from hopular.search.warm import keep_warm

VERSION = 1  # of the race; another one does not go on with earlier trials
FINISH = (5.0, 1 / 6)  # seconds for scores, model and report after the race, and at most this share of all
REFIT_SHARE = 0.25  # of the time: a refit that needs more is not begun
NO_MODEL = 30.0  # seconds that a race without any model may go on beyond its time
LOOK = 0.25  # seconds between looks at the clock
WARM = 4  # idle processes beside those at work: one for each family of methods


class FitError(RuntimeError):
    """No model came out; the message says what to do."""


def fit_table(
    dataset: Dataset,
    seconds: float = 60.0,
    *,
    methods: Sequence[str] | None = None,
    seed: int = 0,
    command: str = "",
    file_rows: Rows | None = None,
    on_news: Callable[[News], None] = lambda news: None,
) -> Fitted:
    """Find the best model for a table within `seconds`: all suitable methods, or those named, and their ensemble.

    A test part is set aside first, so the leaderboard is honest: test rows decide nothing. The final model is fitted
    again on all rows if there is time. Interrupted, the same call goes on with what was tried. `file_rows` says where
    the dataset's rows are in their file, if that is not their order.
    """
    if not seconds > 0:
        raise ValueError(f"seconds is {seconds!r}: use a number above 0")
    clock = _Clock(time.monotonic(), seconds)
    names, left_out = choose_methods(dataset.task, methods)
    split = hold_out(dataset)
    problem = make_problem(dataset, split)
    with _working_folder(problem, seed) as work:
        candidates = [Candidate(name, problem, seed, work / name) for name in names]
        race = Race(candidates, problem, dataset.X.iloc[split.test].reset_index(drop=True), clock.end, on_news)
        growth = len(dataset) / len(split.train)
        with keep_warm(race.workers + WARM):
            with race.run() as threads:
                findings = audit(dataset, [split])
                on_news(News("audit", findings=tuple(findings)))
                _wait(race, threads, problem, growth, clock)
            choice = choose(candidates, problem)
            if choice is None:
                raise FitError(_why_none(candidates, seconds))
            final = None
            if expected_seconds(choice, growth, race.workers) <= clock.end - time.monotonic():
                on_news(News("refit", choice.method))
                final = refit(choice, dataset, split, work / "refit", clock.end, race.workers, race.threads)
        on_news(News("write"))
        ensemble = make_ensemble(candidates, problem)
        classes = classes_of(problem)
        told = {"seconds": seconds, "seed": seed, "methods": names, "losses": _losses(candidates, ensemble)}
        results = make_results(dataset, split, findings, candidates, ensemble, classes, told, command)
        keeper = tempfile.TemporaryDirectory(prefix="hopular-")
        folder = Path(keeper.name)
        write_model(final or choice, problem if final is None else _whole(problem, dataset), folder / MODEL_FOLDER)
        rows = _rows_of_hopular(choice, split, is_refit=final is not None)
        if rows is not None:
            np.save(folder / ROWS_FILE, rows if file_rows is None else file_rows[rows])
        truth = dataset.y.iloc[split.test].to_numpy()
        facts = Facts(
            method=choice.method,
            members=tuple((member.candidate.name, member.weight) for member in choice.members),
            trained_on="training rows" if final is None else "all rows",
            rows=len(split.train) if final is None else len(dataset),
            dataset=dataset.name,
            fingerprint=dataset.fingerprint,
            seed=seed,
            metrics={
                "validation": dict(choice.metrics),
                "test": evaluate(dataset.task, truth, choice.test_predictions(), classes),
            },
            seconds=time.monotonic() - clock.start,
            command=command,
        )
        board = make_leaderboard(results, choice.method)
        fitted = Fitted(learn_schema(dataset), facts, board, results, left_out, folder, keeper)
    return fitted
