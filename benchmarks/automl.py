"""Compare `hopular fit` with AutoGluon, CatBoost and RealMLP on the development suite, in the same seconds on one core.

    taskset -c 0 python -m benchmarks.automl FOLDER --systems hopular autogluon catboost realmlp

FOLDER holds one CSV per table, its target in the column `target`, and INDEX.csv with their names and tasks. Each table
is divided once: 30 % of the rows, drawn with seed 0 and stratified for classes, are for the test alone. Each fit is a
process of its own (benchmarks/automl_once.py), which sees the training rows, and the features of the test rows once it
has its model. `hopular` counts its start among the seconds, AutoGluon (`best_quality`) does not; CatBoost and RealMLP
have their defaults and take what they take. Of `hopular` a table is judged with a portfolio that was made without it
(docs/automl-portfolios.json).

The score is the log loss with probabilities clipped at 1e-6, or the RMSE divided by the standard deviation of the test
targets. Results are appended to docs/automl.csv; what is there is not run again, of `hopular` what is there of this
commit. Without FOLDER, print the tables of all results.

AutoGluon needs an environment of its own, which `--autogluon PYTHON` names; by default one is made in the folder of
runs, which takes some five minutes. A system that cannot be had is skipped, and it is said why.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks.development import current_commit, normalised_rmse
from hopular.trials.worker import THREAD_VARIABLES

DOCS = Path(__file__).parents[1] / "docs"
RESULTS, PORTFOLIOS = DOCS / "automl.csv", DOCS / "automl-portfolios.json"
COLUMNS = ("system", "table", "score", "accuracy", "seconds", "predict_seconds", "limit", "commit", "machine")
SYSTEMS = {
    "hopular": "`hopular fit`",
    "autogluon": "AutoGluon 1.6.3 best_quality",
    "catboost": "CatBoost, its defaults",
    "realmlp": "RealMLP, its defaults",
}
AUTOGLUON = ("torch==2.13.0", "autogluon.tabular[lightgbm,catboost,xgboost,fastai]==1.6.3")
TARGET = "target"
CLIP = 1e-6
WORSE = 1.05  # a table counts as lost to CatBoost beyond this ratio of scores
PATIENCE = 10  # a process is ended after this many times its seconds


class Skipped(Exception):  # noqa: N818
    """A system cannot be had here; the message says why."""


# ------------------------------------------------------------------------------------------------------ data and scores


def read_tasks(folder: Path) -> dict[str, str]:
    """Return the task of each table of the suite."""
    index = pd.read_csv(folder / "INDEX.csv")
    return dict(zip(index["name"], index["task"], strict=True))


def split_rows(frame: pd.DataFrame, task: str) -> tuple[Any, Any]:
    """Return the positions of the training and the test rows."""
    stratify = frame[TARGET] if task == "classification" else None
    train, test = train_test_split(np.arange(len(frame)), test_size=0.3, random_state=0, stratify=stratify)
    return np.sort(train), np.sort(test)


def read_text(folder: Path, table: str) -> pd.DataFrame:
    """Read a table as it is written, so that its parts can be written again without a change."""
    return pd.read_csv(folder / f"{table}.csv", dtype=str, keep_default_na=False)


def score(task: str, truth: pd.Series[str], predictions: pd.DataFrame) -> tuple[float, float]:
    """Return the score, lower is better, and the accuracy (NaN for numbers)."""
    if task == "regression":
        return normalised_rmse(predictions[TARGET].to_numpy(), truth.astype(float).to_numpy()), np.nan
    columns = pd.Index([_label(name) for name in predictions])
    codes = columns.get_indexer(pd.Index([_label(value) for value in truth]))
    values = predictions.to_numpy()
    of_truth = np.where(codes < 0, 0.0, values[np.arange(len(codes)), codes])
    loss = float(-np.log(np.clip(of_truth, CLIP, 1 - CLIP)).mean())
    return loss, float((values.argmax(axis=1) == codes).mean())


def _label(value: object) -> str:
    """Return a class as every system writes it: 1, 1.0 and "1" are the same, and so are "van" and "van "."""
    try:
        return repr(float(str(value)))
    except ValueError:
        return str(value).strip()


# ------------------------------------------------------------------------------------------------------ one fit


def fit_once(
    system: str, python: str, folder: Path, table: str, task: str, seconds: float
) -> tuple[float, float, float, float]:
    """Return score, accuracy, the seconds from the start of the process to the model, and those of prediction."""
    frame = read_text(folder, table)
    train, test = split_rows(frame, task)
    with tempfile.TemporaryDirectory(prefix="automl-") as name:
        work = Path(name)
        frame.iloc[train].to_csv(work / "train.csv", index=False)
        frame.iloc[test].drop(columns=TARGET).to_csv(work / "test.csv", index=False)
        (work / "task.txt").write_text(task)
        if system == "hopular" and PORTFOLIOS.exists():
            (work / "portfolio.json").write_text(json.dumps(portfolio_without(table)))
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), "HOPULAR_RUNS": str(work / "runs")}
        if system == "autogluon":
            environment.pop("PYTHONPATH", None)
        else:
            root = str(Path(__file__).parents[1])
            environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")]).strip(os.pathsep)
        script = str(Path(__file__).with_name("automl_once.py"))
        started = time.time()
        command = [python, "-P", script, system, str(work), str(seconds), str(started)]
        with (work / "log").open("w") as log:
            done = subprocess.run(
                command,
                env=environment,
                cwd=work,
                stdout=log,
                stderr=log,
                check=False,
                timeout=PATIENCE * seconds,
            )
        if done.returncode or not (work / "times.json").exists():
            raise RuntimeError(
                f"{system} on {table} ended with {done.returncode}: {(work / 'log').read_text()[-2000:]}"
            )
        times = json.loads((work / "times.json").read_text())
        result = score(task, frame[TARGET].iloc[test], pd.read_csv(work / "predictions.csv"))
        return *result, times["ready"] - started, times["predict"]


def portfolio_without(table: str) -> dict[str, Any]:
    """Return the portfolio that was made without a table."""
    groups = json.loads(PORTFOLIOS.read_text())["groups"]
    found = next((group for group in groups if table in group["tables"]), None)
    if found is None:
        raise ValueError(f"{PORTFOLIOS.name} has no portfolio made without {table}: run benchmarks.portfolio")
    return {
        "made_with": {"without": found["tables"]},
        **{task: found[task] for task in ("classification", "regression")},
    }


def find_python(system: str, autogluon: str | None) -> str:
    """Return the interpreter that has a system; Skipped says why there is none."""
    if system == "realmlp" and find_spec("pytabkit") is None:
        raise Skipped("pytabkit is not installed: pip install 'hopular[modern]'")
    if system != "autogluon":
        return sys.executable
    if autogluon is None:
        return _make_environment()
    check = [autogluon, "-c", "import autogluon.tabular"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skipped(f"{autogluon} cannot import autogluon.tabular: {done.stderr.strip().splitlines()[-1]}")
    return autogluon


def _make_environment() -> str:
    """Return the interpreter of AutoGluon's own environment, which is made if it is not there."""
    from hopular import settings

    folder = settings.make_runs_folder() / "autogluon"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"AutoGluon is being installed into {folder}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        for requirement in AUTOGLUON:  # torch first: together pip looks for a version for very long
            command = [str(python), "-m", "pip", "install", "-q", requirement]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Skipped(f"{requirement} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
        (folder / "complete").touch()
    return str(python)


def run(folder: Path, systems: list[str], tables: list[str], seconds: float, autogluon: str | None) -> None:
    """Run what is not among the results yet, and append it to them."""
    tasks, commit = read_tasks(folder), current_commit()
    done = set()
    if RESULTS.exists():
        known = pd.read_csv(RESULTS)
        known = known[(known["limit"] == seconds) & ((known["system"] != "hopular") | (known["commit"] == commit))]
        done = set(zip(known["system"], known["table"], strict=True))
    else:
        RESULTS.write_text(",".join(COLUMNS) + "\n")
    for system in systems:
        try:
            python = find_python(system, autogluon)
        except Skipped as skipped:
            print(f"{system} skipped: {skipped}", flush=True)
            continue
        for table in tables or list(tasks):
            if (system, table) in done:
                continue
            try:
                figures = fit_once(system, python, folder, table, tasks[table], seconds)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{system} on {table} failed: {error}", flush=True)
                continue
            row = (system, table, *(f"{figure:.5f}" for figure in figures), f"{seconds:g}", commit, machine())
            with RESULTS.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(row)
            print(*row, flush=True)


def machine() -> str:
    """Name the processor and the cores that this process may use."""
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    used = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{names[0] if names else platform.machine()}; {used} core{'s' if used != 1 else ''}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


# ------------------------------------------------------------------------------------------------------ the tables


def read_results(path: Path = RESULTS, limit: float = 60) -> pd.DataFrame:
    """Return the last result of each system on each table."""
    results = pd.read_csv(path)
    results = results[results["limit"] == limit]
    return results.drop_duplicates(["system", "table"], keep="last")


def summary(results: pd.DataFrame) -> str:
    """Return means, ranks and losses to CatBoost in Markdown, of the tables that all systems have been run on."""
    scores, is_class = _scores(results)
    ranks = scores.rank(axis=1).mean()
    lost = (scores.gt(WORSE * scores["catboost"], axis=0)).sum() if "catboost" in scores else None
    only = results[results["table"].isin(scores.index)].groupby("system")
    accuracy, seconds, predict = (only[name].mean() for name in ("accuracy", "seconds", "predict_seconds"))
    lines = [
        f"| {len(scores)} tables, {results['limit'].iloc[0]:g} s | mean log loss ({is_class.sum()} tables) "
        f"| mean accuracy | mean RMSE / std ({(~is_class).sum()} tables) | mean rank "
        "| more than 5 % worse than CatBoost | seconds a fit | seconds a prediction |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for system in scores:
        cells = [
            f"{scores[system][is_class].mean():.4f}",
            f"{accuracy[system]:.4f}",
            f"{scores[system][~is_class].mean():.4f}",
            f"{ranks[system]:.2f}",
            "" if lost is None or system == "catboost" else str(lost[system]),
            f"{seconds[system]:.1f}",
            f"{predict[system]:.2f}",
        ]
        lines.append(f"| {SYSTEMS[str(system)]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def details(results: pd.DataFrame) -> str:
    """Return the score of each table in Markdown, the best one in bold."""
    scores, is_class = _scores(results)
    lines = [
        f"| table | {' | '.join(SYSTEMS[str(system)] for system in scores)} |",
        "|---" * (scores.shape[1] + 1) + "|",
    ]
    for table, values in scores.iterrows():
        cells = [f"**{value:.4f}**" if value == values.min() else f"{value:.4f}" for value in values]
        lines.append(f"| {table}{'' if is_class[table] else ' (RMSE / std)'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _scores(results: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series[bool]]:
    """Return scores by table and system, of the tables that all systems have, and which are of classes."""
    scores = results.pivot_table(index="table", columns="system", values="score").dropna()
    scores = scores[[system for system in SYSTEMS if system in scores]]
    is_class = results.groupby("table")["accuracy"].count().loc[scores.index] > 0
    return scores, is_class


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--tables", nargs="+", default=[])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--autogluon", metavar="PYTHON", help="interpreter of an environment that has AutoGluon")
    chosen = parser.parse_args()
    if chosen.folder is None:
        results = read_results(limit=chosen.seconds)
        print(summary(results), details(results), sep="\n\n")
        return
    run(chosen.folder.resolve(), chosen.systems, chosen.tables, chosen.seconds, chosen.autogluon)


if __name__ == "__main__":
    main()
