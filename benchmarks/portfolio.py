"""Learn what `hopular fit` tries first: run settings over the development suite once, and simulate fits with them.

    taskset -c 0 python -m benchmarks.portfolio run FOLDER --arrays ARRAYS
    python -m benchmarks.portfolio choose --arrays ARRAYS

FOLDER is the suite. `run` takes the training rows of each table's division in benchmarks.automl, so that test rows have
no part in the portfolio, divides them into inner folds as a fit does, and runs each setting on all folds, as a trial
does. Out-of-fold predictions go to ARRAYS, and a line with loss and seconds (of processor time) to
docs/automl-portfolio.csv; what is there is not run again.

`choose` makes an ordered list of settings, for classes and for numbers: those whose blends are best on average after
10, 30, 100 and 300 seconds. A simulated fit runs the list in its order for so long, then weighs greedily what is
finished; rows are scored by weights that were chosen on other rows. The list goes to hopular/automl/portfolio.json.
Four more lists are made, each without a quarter of the tables, for benchmarks.automl to judge those tables by
(docs/automl-portfolios.json). `--without TABLE ...` prints the list without some tables, and writes nothing.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import json
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from benchmarks.automl import PORTFOLIOS, machine, read_tasks, read_text, split_rows
from benchmarks.development import current_commit

ROOT = Path(__file__).parents[1]
SCORES, PORTFOLIO = ROOT / "docs" / "automl-portfolio.csv", ROOT / "hopular" / "automl" / "portfolio.json"
COLUMNS = ("table", "task", "method", "params", "loss", "seconds", "commit")
CAP = 60.0  # a setting is to end by itself after so many seconds, all folds together
BUDGETS = (10.0, 30.0, 100.0, 300.0)
OVERHEAD = 5.0  # seconds of a fit that go into starting, reading and blending
LENGTH = 24  # settings in a list at most
LEAST_GAIN = 1e-4  # of the mean relative loss, for which a setting is added
STEPS = 25  # of a greedy choice of weights
GROUPS = 4  # of tables that are left out in turn
Task = Literal["classification", "regression"]
TASKS: tuple[Task, ...] = ("classification", "regression")
Array = np.ndarray[Any, Any]

# ------------------------------------------------------------------------------------------------------ the settings

DEFAULTS = (  # of these methods the defaults are run, in this order
    *("logistic", "glm", "lda", "naive_bayes", "knn", "pls", "svm", "lightgbm", "extra_trees", "random_forest"),
    *("xgboost", "catboost", "hopular"),
)
USUAL: tuple[tuple[str, dict[str, Any]], ...] = (  # what is usual on small tables, and differs from the defaults
    ("lightgbm", {"learning_rate": 0.05, "num_leaves": 8, "min_child_samples": 5, "colsample_bytree": 0.7}),
    (
        "lightgbm",
        {"learning_rate": 0.03, "num_leaves": 31, "min_child_samples": 10, "colsample_bynode": 0.5, "reg_lambda": 5.0},
    ),
    ("lightgbm", {"learning_rate": 0.05, "max_depth": 2, "num_leaves": 4, "subsample": 0.8, "colsample_bytree": 0.5}),
    ("xgboost", {"learning_rate": 0.05, "max_depth": 3, "subsample": 0.8, "colsample_bytree": 0.7}),
    (
        "xgboost",
        {"learning_rate": 0.05, "max_depth": 6, "subsample": 0.7, "colsample_bylevel": 0.5, "min_child_weight": 3.0},
    ),
    ("xgboost", {"learning_rate": 0.1, "max_depth": 1, "subsample": 0.8}),
    ("extra_trees", {"n_estimators": 100}),  # eight folds make a bag of 800 trees
    ("extra_trees", {"n_estimators": 100, "max_features": 1.0, "min_samples_leaf": 2}),
    ("extra_trees", {"n_estimators": 100, "max_features": "sqrt", "min_samples_leaf": 4}),
    ("random_forest", {"n_estimators": 100, "max_features": 0.5, "min_samples_leaf": 3}),
    ("random_forest", {"n_estimators": 100, "max_features": "sqrt", "min_samples_leaf": 5}),
    ("knn", {"n_neighbors": 25, "weights": "distance", "p": 1}),
)
DRAWN = (("lightgbm", 5), ("svm", 3), ("xgboost", 5))
SLOW: tuple[tuple[str, dict[str, Any]], ...] = (  # more of the same, which are run last
    ("catboost", {"one_hot_max_size": 25}),  # statistics of categories take most of the time
    ("catboost", {"depth": 4, "learning_rate": 0.1, "one_hot_max_size": 25}),
    ("mlp", {}),
    ("catboost", {"depth": 8, "learning_rate": 0.1, "l2_leaf_reg": 6.0, "one_hot_max_size": 25}),
    ("hopular", {"n_blocks": 4, "n_networks": 2, "beta": 100.0, "gamma": 1.0}),
    ("hopular", {"n_blocks": 4, "n_networks": 4, "beta": 10.0, "gamma": 1.0}),
    ("mlp", {"n_layers": 2, "width": 256, "norm": "layer", "dropout": 0.3, "learning_rate": 2e-3}),
)


@dataclass(frozen=True)
class Setting:
    """A method and what its `make` gets."""

    method: str
    params: str  # JSON with sorted keys

    @staticmethod
    def of(method: str, params: dict[str, Any]) -> Setting:
        return Setting(method, json.dumps(params, sort_keys=True))

    @property
    def key(self) -> str:
        """Return the name of its files."""
        return f"{self.method}-{hashlib.sha256(self.params.encode()).hexdigest()[:10]}"

    def to_json(self) -> dict[str, Any]:
        return {"method": self.method, "params": json.loads(self.params)}


def all_settings() -> list[Setting]:
    """Return the settings to run: defaults, usual ones, and some drawn from the methods' search spaces."""
    import optuna

    from hopular.trials.space import load_space

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    settings = [Setting.of(method, {}) for method in DEFAULTS]
    settings += [Setting.of(method, params) for method, params in USUAL]
    for method, count in DRAWN:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        settings += [Setting.of(method, load_space(method).suggest(study.ask(), "small")) for _ in range(count)]
    return settings + [Setting.of(method, params) for method, params in SLOW]


# ------------------------------------------------------------------------------------------------------ running them


def make_inner_problem(folder: Path, table: str, task: str) -> Any:
    """Return the training rows of a table as the problem of a fit: all of them, in inner folds."""
    from hopular.data import load
    from hopular.data.splits import Split, inner_folds
    from hopular.trials.problem import Fold, make_problem

    frame = read_text(folder, table)
    train, _ = split_rows(frame, task)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"{table}.csv"
        frame.iloc[train].to_csv(path, index=False)
        data = load(str(path), target="target")
    rows, none = np.arange(len(data), dtype=np.int64), np.zeros(0, dtype=np.int64)
    folds = [Fold(trained, held_out) for trained, held_out in inner_folds(data, rows)]
    return make_problem(data, Split("training rows", rows, none, none), folds)


def run_setting(problem: Any, setting: Setting, cap: float) -> tuple[Any, float]:
    """Return the trial of a setting on all folds, and its seconds of processor time."""
    from hopular.methods import get_method
    from hopular.trials.budget import Budget
    from hopular.trials.fit import Fitter
    from hopular.trials.trial import Job, Trial

    method = get_method(setting.method)
    for package in method.packages:
        import_module(package)  # is no part of a fit
    params = Budget().settings_of(method, json.loads(setting.params))
    start = time.process_time()
    job = Job(Trial(0, 0, params, method=setting.method), max_seconds=cap)
    (trial,) = Fitter().fit(problem, [job], lambda: None, lambda place, percent, score: False)
    return trial, time.process_time() - start


def loss_of(trial: Any, problem: Any) -> float:
    """Return the log loss of a trial, or its RMSE divided by the standard deviation; NaN if it has failed."""
    if problem.task == "classification":
        return float(trial.metrics.get("log_loss", np.nan))
    return float(np.sqrt(trial.metrics.get("mse", np.nan)) / problem.y_valid.std(ddof=0))


def save_truth(arrays: Path, table: str, problem: Any) -> None:
    """Keep what the predictions are compared with, in their order: class numbers, or numbers; and folds."""
    y, classes = problem.y_valid.to_numpy(), problem.classes
    if classes:
        y = pd.Index(classes).get_indexer(pd.Index([str(label) for label in y]))
    fold = np.concatenate([np.full(len(one.valid), place) for place, one in enumerate(problem.folds)])
    np.savez_compressed(arrays / f"{table}.npz", truth=y, fold=fold)


def run(folder: Path, arrays: Path, names: Sequence[str], tables: Sequence[str], cap: float) -> None:
    """Run what is not there yet, setting after setting."""
    import torch

    from hopular.methods import get_method

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    arrays.mkdir(parents=True, exist_ok=True)
    tasks, commit = read_tasks(folder), current_commit()
    if not SCORES.exists():
        SCORES.write_text(",".join(COLUMNS) + "\n")
    known = pd.read_csv(SCORES)
    done = set(zip(known["table"], known["method"], known["params"], strict=True))
    problems = {table: make_inner_problem(folder, table, tasks[table]) for table in tables or tasks}
    for table, problem in problems.items():
        save_truth(arrays, table, problem)
    for setting in all_settings():
        if names and setting.method not in names:
            continue
        for table, problem in problems.items():
            if (table, setting.method, setting.params) in done:
                continue
            if problem.task not in get_method(setting.method).tasks:
                continue
            trial, seconds = run_setting(problem, setting, cap)
            if trial.predictions is None:
                print(f"{setting.method} {setting.params} on {table}: {trial.message}", flush=True)
            else:
                np.savez_compressed(arrays / f"{table}-{setting.key}.npz", predictions=trial.predictions)
            loss = loss_of(trial, problem)
            row = (table, problem.task, setting.method, setting.params, f"{loss:.5f}", f"{seconds:.2f}", commit)
            with SCORES.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(row)
            print(*row, flush=True)


# ------------------------------------------------------------------------------------------------------ simulation


@dataclass(frozen=True)
class Bench:
    """A table with its truth, and of each setting the out-of-fold predictions and the seconds."""

    name: str
    task: Task
    fold: Array
    truth: Array  # numbers are standardised
    errors: dict[Setting, Array]  # probability of the true class, or the error; a mean of them is that of the blend
    seconds: dict[Setting, float]

    @cached_property
    def reference(self) -> float:
        """Return the loss of CatBoost's defaults, which makes losses of tables comparable."""
        return self.loss(self.errors[Setting.of("catboost", {})])

    @cached_property
    def prior(self) -> float:
        """Return the loss of a model that knows no features."""
        if self.task == "regression":
            return 1.0
        shares = np.bincount(self.truth) / len(self.truth)
        return float(-np.log(shares[self.truth]).mean())

    def losses(self, errors: Array) -> Array:
        """Return the loss of each row."""
        if self.task == "regression":
            return errors * errors
        return -np.log(np.maximum(errors, 1e-6))

    def loss(self, errors: Array) -> float:
        """Return log loss, or RMSE divided by the standard deviation."""
        mean = float(self.losses(errors).mean())
        return float(np.sqrt(mean)) if self.task == "regression" else mean


class Simulation:
    """Scores lists of settings by the fits that they would be."""

    def __init__(self, benches: Sequence[Bench], known: dict[tuple[str, frozenset[Setting]], float]) -> None:
        """Set up with the losses of blends that are `known`, which simulations share."""
        self.benches, self._known = benches, known

    def score(self, order: Sequence[Setting], budgets: Sequence[float] = BUDGETS) -> float:
        """Return the mean over tables and budgets of the logarithm of the loss relative to CatBoost's."""
        return float(
            np.mean(
                [np.log(self.loss_after(bench, order, T) / bench.reference) for bench in self.benches for T in budgets]
            )
        )

    def loss_after(self, bench: Bench, order: Sequence[Setting], seconds: float) -> float:
        """Return the loss of the blend of what is finished after so many seconds."""
        left, finished = seconds - OVERHEAD, []
        for setting in order:
            if setting not in bench.seconds:  # it has failed on this table
                continue
            left -= bench.seconds[setting]
            if left < 0:
                break
            finished.append(setting)
        if not finished:
            return bench.prior
        key = (bench.name, frozenset(finished))
        if key not in self._known:
            self._known[key] = blend_loss(bench, finished)
        return self._known[key]


def blend_loss(bench: Bench, settings: Sequence[Setting]) -> float:
    """Return the loss of a greedily weighted mean, each half of the folds by weights that the other half chose."""
    errors = np.stack([bench.errors[setting] for setting in settings])
    if len(errors) == 1:
        return bench.loss(errors[0])
    blended, odd = np.empty(errors.shape[1]), bench.fold % 2 == 1
    for inside in (odd, ~odd):
        counts = _greedy(bench, errors[:, inside])
        blended[~inside] = counts @ errors[:, ~inside] / counts.sum()
    return bench.loss(blended)


def _greedy(bench: Bench, errors: Array) -> Array:
    """Return how often each is in the mean that is built by adding, each time, what is best for it."""
    counts = np.zeros(len(errors))
    alone = bench.losses(errors).mean(axis=1)
    counts[np.argsort(alone, kind="stable")[:3]] = 1.0  # a few good ones first: on few rows the best is chance
    total = counts @ errors
    for size in range(int(counts.sum()) + 1, STEPS + 1):
        added = int(bench.losses((total + errors) / size).mean(axis=1).argmin())
        counts[added] += 1
        total = total + errors[added]
    return counts


def choose(simulation: Simulation, settings: Sequence[Setting]) -> list[Setting]:
    """Return the list that is built by putting in, each time, what is best where it is best, and then put in order."""
    chosen: list[Setting] = []
    best = np.inf
    while len(chosen) < LENGTH:
        orders = [
            [*chosen[:place], setting, *chosen[place:]]
            for setting in settings
            if setting not in chosen
            for place in range(len(chosen), -1, -1)
        ]
        scores = [simulation.score(order) for order in orders]
        if not scores or min(scores) > best - LEAST_GAIN:
            break
        best, chosen = min(scores), orders[int(np.argmin(scores))]
    return reorder(simulation, chosen)


def reorder(simulation: Simulation, chosen: list[Setting]) -> list[Setting]:
    """Move single settings to better places for as long as that helps."""
    best, is_better = simulation.score(chosen), True
    while is_better:
        is_better = False
        for setting in list(chosen):
            rest = [other for other in chosen if other != setting]
            orders = [[*rest[:place], setting, *rest[place:]] for place in range(len(chosen))]
            scores = [simulation.score(order) for order in orders]
            if min(scores) < best - 1e-6:
                best, chosen, is_better = min(scores), orders[int(np.argmin(scores))], True
    return chosen


def load_benches(arrays: Path) -> list[Bench]:
    """Return what was run, of settings that were run on every table of a task: elsewhere they would cost nothing."""
    known = pd.read_csv(SCORES).drop_duplicates(["table", "method", "params"], keep="last")
    tables = known.groupby("task")["table"].transform("nunique")
    known = known[known.groupby(["task", "method", "params"])["table"].transform("nunique") == tables]
    benches = []
    for (table, task), rows in known.groupby(["table", "task"]):
        with np.load(arrays / f"{table}.npz") as file:
            truth, fold = file["truth"], file["fold"]
        if task == "regression":
            center, scale = truth.mean(), truth.std()
        errors, seconds = {}, {}
        for row in rows.itertuples():
            setting = Setting(row.method, row.params)
            if not np.isfinite(row.loss):
                continue
            with np.load(arrays / f"{table}-{setting.key}.npz") as file:
                predictions = file["predictions"].astype(np.float64)
            if task == "regression":
                errors[setting] = ((predictions - center) - (truth - center)) / scale
            else:
                errors[setting] = predictions[np.arange(len(truth)), truth] / predictions.sum(axis=1)
            seconds[setting] = float(row.seconds)
        benches.append(Bench(str(table), task, fold, truth, errors, seconds))
    return benches


# ------------------------------------------------------------------------------------------------------ the lists


def make_lists(
    benches: Sequence[Bench], known: dict[tuple[str, frozenset[Setting]], float], without: Sequence[str] = ()
) -> dict[str, list[Setting]]:
    """Return the list of each task, made of all tables but some."""
    lists: dict[str, list[Setting]] = {}
    for task in TASKS:
        used = [bench for bench in benches if bench.task == task and bench.name not in without]
        settings = list(dict.fromkeys(setting for bench in used for setting in bench.errors))
        lists[task] = choose(Simulation(used, known), settings)
    return lists


def groups_of(benches: Sequence[Bench]) -> list[list[str]]:
    """Deal the tables out into groups, each with as many of either task."""
    groups: list[list[str]] = [[] for _ in range(GROUPS)]
    names = [bench.name for task in TASKS for bench in sorted(benches, key=lambda one: one.name) if bench.task == task]
    for place, name in enumerate(names):
        groups[place % GROUPS].append(name)
    return groups


def write_lists(path: Path, first: dict[str, Any], lists: dict[str, list[Setting]]) -> None:
    """Write lists as JSON with a line for each setting."""
    path.write_text(
        _block({**first, **{task: [one.to_json() for one in found] for task, found in lists.items()}}) + "\n"
    )


def _block(values: dict[str, Any], indent: str = "") -> str:
    parts = []
    for key, value in values.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n".join(f"{indent}  {json.dumps(item)}" for item in value)
            parts.append(f'{indent} "{key}": [\n{lines}\n{indent} ]')
        else:
            parts.append(f'{indent} "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def judge(benches: Sequence[Bench], lists: dict[str, list[Setting]], names: Sequence[str]) -> pd.DataFrame:
    """Return the relative loss that lists have on some tables after each budget."""
    rows = []
    for bench in benches:
        if bench.name in names:
            simulation = Simulation([bench], {})
            losses = {f"{T:g} s": simulation.loss_after(bench, lists[bench.task], T) / bench.reference for T in BUDGETS}
            rows.append({"table": bench.name, "task": bench.task, **losses})
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("--methods", nargs="+", default=[])
    running.add_argument("--tables", nargs="+", default=[])
    running.add_argument("--cap", type=float, default=CAP, help="seconds after which a setting is to end by itself")
    choosing = commands.add_parser("choose")
    choosing.add_argument("--without", nargs="+", metavar="TABLE", default=[])
    for command in (running, choosing):
        command.add_argument("--arrays", type=Path, required=True, help="folder of the out-of-fold predictions")
    chosen = parser.parse_args()
    if chosen.command == "run":
        run(chosen.folder, chosen.arrays, chosen.methods, chosen.tables, chosen.cap)
        return
    benches = load_benches(chosen.arrays)
    if chosen.without:
        print(
            _block(
                {
                    task: [one.to_json() for one in found]
                    for task, found in make_lists(benches, {}, chosen.without).items()
                }
            )
        )
        return
    made_with = {
        "script": "benchmarks/portfolio.py",
        "commit": current_commit(),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "tables": [bench.name for bench in benches],
    }
    known: dict[tuple[str, frozenset[Setting]], float] = {}
    write_lists(PORTFOLIO, {"made_with": made_with}, make_lists(benches, known))
    groups, judged = [], []
    for names in groups_of(benches):
        lists = make_lists(benches, known, names)
        groups.append({"tables": names, **{task: [one.to_json() for one in found] for task, found in lists.items()}})
        judged.append(judge(benches, lists, names))
    text = ",\n".join(_block(group, " ") for group in groups)
    PORTFOLIOS.write_text(f'{{"made_with": {json.dumps(made_with)},\n"groups": [\n{text}\n]}}\n')
    table = pd.concat(judged)
    print(table.round(3).to_string(), table.groupby("task").mean(numeric_only=True).round(3), sep="\n\n")


if __name__ == "__main__":
    main()
