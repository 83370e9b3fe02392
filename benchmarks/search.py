"""Measure what a search costs beside the fits, and what a second worker and shared trainings gain.

Overhead is the time of a trial that is neither fit nor prediction: proposing, storing, and the way to the worker
process and back. It is measured with a method that does nothing (tests/methods_for_tests/methods/idle.py), at the start
of a study and with 1,000 finished trials of ten parameters in it. The speed-up is that of 60 XGBoost trials by two
workers over one, the start of the worker processes included; all 60 are drawn at random, so that both try the same
settings. One and two take turns, and the shortest time of each counts. Fingerprints are those of all methods together,
with no file parsed before. Three betas of Hopular are fitted in one training and one by one, in turns. A classical fit,
of which a search makes hundreds, is of 90 rows with numbers and categories, prediction included, in processor time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.table import Table

TOYS = Path(__file__).parents[1] / "tests" / "methods_for_tests"
AIM_START, AIM_LATE, AIM_SPEED_UP, AIM_FINGERPRINTS = 60, 150, 1.6, 200
CLASSICAL, AIM_CLASSICAL = ("logistic", "lda", "knn", "decision_tree"), 20


def overhead(url: str, trials: int, filled: int = 0) -> float:
    """Return the median seconds of a trial beside fit and prediction, after `filled` trials that are there already."""
    from hopular.data import load
    from hopular.data.splits import make_splits
    from hopular.trials.budget import Budget
    from hopular.trials.problem import make_problem
    from hopular.trials.run import _open, iterate

    dataset = load("breast-cancer-wisconsin")
    problem, budget = make_problem(dataset, make_splits(dataset)[0]), Budget(trials=filled + trials)
    fill(_open(problem, "idle", budget, 0, url, "cpu", None), filled)
    seconds, last = [], 0.0
    for place, record in enumerate(iterate(problem, "idle", budget, storage=url)):
        now = time.perf_counter()
        if place:  # the first one starts the worker process
            seconds.append(now - last - record.fit_seconds - record.predict_seconds)
        last = now
    return statistics.median(seconds)


def fill(search: object, trials: int) -> None:
    """Add finished trials with random parameters, as a search adds them."""
    import optuna
    from optuna.samplers import RandomSampler

    from hopular.trials.trial import Trial

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    for slot in range(trials):
        trial = study.ask()
        settings = search._proposer._module.suggest(trial, "small")  # type: ignore[attr-defined]
        record = Trial(slot, 0, settings, "complete", score=0.5 + settings["p0"] / 4)
        search.study.lease([slot])  # type: ignore[attr-defined]
        search.study.start(slot, trial.params, trial.distributions)  # type: ignore[attr-defined]
        search.study.add(record)  # type: ignore[attr-defined]


def seconds_of(url: str, workers: int, trials: int) -> float:
    """Time a search of `trials` XGBoost trials by so many workers."""
    from hopular.data import load
    from hopular.data.splits import make_splits
    from hopular.trials import space
    from hopular.trials.budget import Budget
    from hopular.trials.problem import make_problem
    from hopular.trials.run import search

    dataset = load("breast-cancer-wisconsin")
    problem = make_problem(dataset, make_splits(dataset)[0])
    space.STARTUP = trials
    start = time.perf_counter()
    result = search(problem, "xgboost", Budget(trials=trials), storage=url, workers=workers)
    assert result.complete, result.summary
    return time.perf_counter() - start


def fit(times: int) -> None:
    """Fit XGBoost on the same rows, without any search."""
    from hopular.data import load
    from hopular.methods import Run, get_method

    dataset = load("breast-cancer-wisconsin")
    for _ in range(times):
        get_method("xgboost").make(dataset.task, {"n_estimators": 300}, Run()).fit(dataset.X, dataset.y)


def possible(times: int = 8) -> float:
    """Return how much faster two bare processes fit than one, on this machine as busy as it is now."""
    with get_context("spawn").Pool(2) as pool:
        pool.map(fit, [1, 1], chunksize=1)
        start = time.perf_counter()
        pool.apply(fit, [2 * times])
        middle = time.perf_counter()
        pool.map(fit, [times, times], chunksize=1)
        return (middle - start) / (time.perf_counter() - middle)


def fingerprints() -> float:
    """Time the fingerprints of all installed methods together, in seconds."""
    from hopular.methods import fingerprint, methods

    names = [name for name, method in methods().items() if not method.missing_packages]
    fingerprint._sources.clear()
    fingerprint.version_of.cache_clear()
    start = time.perf_counter()
    for name in names:
        fingerprint.take_fingerprint(name)
    return time.perf_counter() - start


def classical(name: str, times: int = 20) -> float:
    """Return the shortest processor time of a method's fit to 90 rows and its prediction for them, in seconds."""
    import numpy as np
    import pandas as pd

    from hopular.methods import Run, get_method

    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(90, 8))).add_prefix("n")
    X.loc[::7, "n0"] = np.nan
    X = X.join(pd.DataFrame(random.choice(list("abcde"), size=(90, 4))).add_prefix("c"))
    y = (X["n1"] + random.normal(size=90) > 0).to_numpy()
    seconds = []
    for _ in range(times):
        start = time.process_time()
        get_method(name).make("classification", {}, Run()).fit(X, y).predict_proba(X)
        seconds.append(time.process_time() - start)
    return min(seconds)


def sharing(name: str, max_epochs: int | None = None) -> tuple[float, float]:
    """Return the processor seconds of three settings of Hopular on a dataset: one by one, and in one training."""
    from hopular.data import load
    from hopular.data.splits import make_splits
    from hopular.methods import get_method
    from hopular.trials.budget import Budget
    from hopular.trials.fit import Fitter
    from hopular.trials.problem import make_problem
    from hopular.trials.trial import Job, Trial
    from search_spaces.hopular import grid

    dataset, budget, method = load(name), Budget(max_epochs=max_epochs), get_method("hopular")
    problem = make_problem(dataset, make_splits(dataset)[0])
    settings = [budget.settings_of(method, setting, trials=3) for setting in grid("small")[:3]]
    jobs = [Job(Trial(slot, slot, params, method="hopular")) for slot, params in enumerate(settings)]

    def seconds(jobs: list[Job]) -> float:
        start = time.process_time()
        outcomes = Fitter().fit(problem, jobs, lambda: None, lambda *_: False)
        assert all(outcome.state == "complete" for outcome in outcomes), outcomes
        return time.process_time() - start

    seconds(jobs[:1])
    return sum(seconds([job]) for job in jobs), seconds(jobs)


def main(args: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--trials", type=int, default=50, help="trials that overhead is measured over")
    parser.add_argument("--filled", type=int, default=1000, help="trials that a long study has already")
    parser.add_argument("--booster-trials", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(args)
    os.environ["HOPULAR_PLUGINS"] = str(TOYS)
    os.environ["OMP_NUM_THREADS"] = "1"  # one worker uses one core, so that two are compared with that
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:

        def url(name: str) -> str:
            return f"sqlite:///{folder}/{name}.db"

        start = overhead(url("start"), options.trials)
        late = overhead(url("late"), options.trials, options.filled)
        times: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(options.repeats):
            for workers, seconds in times.items():
                seconds.append(seconds_of(url(f"{turn} {workers}"), workers, options.booster_trials))
        one, two = min(times[1]), min(times[2])
        bare = max(possible() for _ in range(options.repeats))
    table = Table("search, sqlite", "measured", "aim", title="the search engine")
    table.add_row(f"overhead, trials 1-{options.trials}, median", f"{1e3 * start:.0f} ms", f"<= {AIM_START} ms")
    table.add_row(f"overhead from trial {options.filled} on, median", f"{1e3 * late:.0f} ms", f"<= {AIM_LATE} ms")
    speed = f"{one:.1f} s / {two:.1f} s = {one / two:.2f}"
    table.add_row(f"{options.booster_trials} XGBoost trials, one worker / two", speed, f">= {AIM_SPEED_UP}")
    known = min(fingerprints() for _ in range(10))
    table.add_row("fingerprints of all methods", f"{1e3 * known:.0f} ms", f"<= {AIM_FINGERPRINTS} ms")
    for name in CLASSICAL:
        table.add_row(
            f"{name}, 90 rows, fit and prediction", f"{1e3 * classical(name):.1f} ms", f"<= {AIM_CLASSICAL} ms"
        )
    for name in ("iris", "wine"):
        alone, together = (min(turn) for turn in zip(*(sharing(name) for _ in range(options.repeats)), strict=True))
        measured = f"{together:.1f} s / {alone:.1f} s = {together / alone:.2f}"
        table.add_row(f"three betas of Hopular on {name}, together / one by one", measured, "< 1")
    table.add_row("bare XGBoost fits, one process / two", f"{bare:.2f}", "what is possible now")
    Console(width=100).print(table)
    print(f"{os.cpu_count()} cores, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
