"""Compare settings of Hopular, and CatBoost's defaults, on the development suite.

    python -m benchmarks.development FOLDER --settings default catboost --folds 0 1 2 3 4

FOLDER holds one CSV per table, its target in the column `target`, and INDEX.csv with their names and tasks. Outer folds
are five, shuffled with seed 0. Settings are chosen by `inner`, the out-of-fold loss on the training rows of an outer
fold; `outer` is the loss on its test rows: log loss with probabilities clipped at 1e-6, or the RMSE divided by the
standard deviation of the test targets. Results are appended to docs/development.csv as they come, with the commit of
the project, and what is there already of this commit is not run again. Without FOLDER, print the tables of all results.
Each table's are of the latest commit that has run all its folds: after a change only the tables that it concerns need
to be run.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import KFold, StratifiedKFold

from hopular.data import load
from hopular.data.dataset import Dataset

RESULTS = Path(__file__).parents[1] / "docs" / "development.csv"
COLUMNS = ("setting", "table", "fold", "inner", "outer", "seconds", "commit")
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "one member": {"n_members": 1},
    "linear embedding of numbers": {"embedding": "sum"},
    "values tied": {"values": "tied"},
    "summary joint": {"summary": "joint"},
    "e = 16": {"embedding_dim": 16},
    "one network": {"n_networks": 1},
    "four networks": {"n_networks": 4},
    "two blocks": {"n_blocks": 2},
    "gamma 0.5": {"gamma": 0.5},
    "values replaced as published": {"replace_probability": 0.175},
    "learning rate 0.02": {"learning_rate": 0.02},
}
COMPARED = {
    "default": "Hopular, 4 or 8 members",
    "catboost": "CatBoost",
    "3a96518": "Hopular before (one network, commit 3a96518)",
}
REGRESSION = ("budget_uk", "computers", "diamonds", "hedonic", "housing", "quakes", "sat_act", "wages")


def clipped_log_loss(probabilities: np.ndarray[Any, Any], truth: Any, classes: Any) -> float:
    """Return the mean log loss with probabilities clipped at 1e-6."""
    codes = pd.Index(classes).get_indexer(pd.Index(truth))
    of_truth = np.where(codes < 0, 0.0, probabilities[np.arange(len(codes)), codes])
    return float(-np.log(np.clip(of_truth, 1e-6, 1 - 1e-6)).mean())


def normalised_rmse(predicted: Any, truth: Any) -> float:
    """Return the root of the mean squared error in standard deviations of the truth."""
    return float(np.sqrt(np.mean((predicted - truth) ** 2)) / np.std(truth))


def outer_folds(data: Dataset) -> list[tuple[Any, Any]]:
    """Return training and test rows of each outer fold."""
    kind = StratifiedKFold if data.task == "classification" else KFold
    return list(kind(5, shuffle=True, random_state=0).split(data.X, data.y))


def fit_hopular(data: Dataset, train: Any, test: Any, settings: dict[str, Any]) -> tuple[float, float]:
    """Return the out-of-fold loss on the training rows and the loss on the test rows."""
    from hopular import HopularClassifier, HopularRegressor

    X, y, X_test, y_test = data.X.iloc[train], data.y.iloc[train], data.X.iloc[test], data.y.iloc[test].to_numpy()
    if data.task == "classification":
        model = HopularClassifier(random_state=0, **settings).fit(X, y)
        known = ~np.isnan(model.oof_proba_).any(1)
        inner = clipped_log_loss(model.oof_proba_[known], y.to_numpy()[known], model.classes_)
        return inner, clipped_log_loss(model.predict_proba(X_test), y_test, model.classes_)
    model = HopularRegressor(random_state=0, **settings).fit(X, y)
    known = ~np.isnan(model.oof_prediction_)
    inner = normalised_rmse(model.oof_prediction_[known], y.to_numpy()[known])
    return inner, normalised_rmse(model.predict(X_test), y_test)


def fit_catboost(data: Dataset, train: Any, test: Any) -> tuple[float, float]:
    """Fit CatBoost with its defaults to all training rows; there is no out-of-fold loss."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    X = data.X.copy()
    categories = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    for name in categories:
        X[name] = X[name].astype(object).where(X[name].notna(), "missing").astype(str)
    kind = CatBoostClassifier if data.task == "classification" else CatBoostRegressor
    model = kind(thread_count=1, verbose=0, random_seed=0, allow_writing_files=False)
    model.fit(X.iloc[train], data.y.iloc[train], cat_features=categories)
    y_test = data.y.iloc[test].to_numpy()
    if data.task == "classification":
        return np.nan, clipped_log_loss(model.predict_proba(X.iloc[test]), y_test, model.classes_)
    return np.nan, normalised_rmse(model.predict(X.iloc[test]), y_test)


def current_commit() -> str:
    """Return the commit that this checkout is of."""
    command = ["git", "-C", str(RESULTS.parent), "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run(folder: Path, settings: list[str], tables: list[str], folds: list[int]) -> None:
    """Run what is not among the results yet, and append it to them."""
    done, commit = set(), current_commit()
    if RESULTS.exists():
        known = pd.read_csv(RESULTS)
        known = known[known["commit"].isna() | (known["commit"] == commit)]  # CatBoost's results have none
        done = set(zip(known["setting"], known["table"], known["fold"], strict=True))
    else:
        RESULTS.write_text(",".join(COLUMNS) + "\n")
    for fold in folds:
        for setting in settings:
            for table in tables:
                if (setting, table, fold) in done:
                    continue
                data = load(str(folder / f"{table}.csv"), target="target")
                train, test = outer_folds(data)[fold]
                start, made_by = time.process_time(), "" if setting == "catboost" else commit
                if setting == "catboost":
                    inner, outer = fit_catboost(data, train, test)
                else:
                    inner, outer = fit_hopular(data, train, test, SETTINGS[setting])
                seconds = time.process_time() - start
                row = (setting, table, fold, f"{inner:.5f}", f"{outer:.5f}", f"{seconds:.1f}", made_by)
                with RESULTS.open("a", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerow(row)
                print(*row, flush=True)


def latest_results() -> pd.DataFrame:
    """Return the results of each setting and table of the latest commit that has run all five folds of it."""
    results = pd.read_csv(RESULTS)
    results = results[results["setting"].isin(COMPARED)].fillna({"commit": ""})
    folds = results.groupby(["setting", "table", "commit"])["fold"].transform("nunique")
    complete = results[folds == 5].drop_duplicates(["setting", "table", "fold"], keep="last")
    missing = set(zip(results["setting"], results["table"], strict=True))
    missing -= set(zip(complete["setting"], complete["table"], strict=True))
    if missing:
        raise ValueError(f"not all folds were run of {sorted(missing)}: run them first")
    return complete


def losses_by_table() -> pd.DataFrame:
    """Return the mean test loss of each table (rows) and each setting in COMPARED (columns) over all five folds."""
    return latest_results().pivot_table(index="table", columns="setting", values="outer")[list(COMPARED)]


def summary() -> str:
    """Return the table of mean losses and times over all five folds in Markdown."""
    losses, seconds = losses_by_table(), latest_results().groupby("setting")["seconds"].mean()
    numbers = losses.index.isin(REGRESSION)
    lines = [
        f"| default settings | {sum(~numbers)} tables: mean log loss | {sum(numbers)} tables: mean RMSE / std | "
        f"all {len(losses)} | seconds a fit (one thread) |",
        "|---|---|---|---|---|",
    ]
    means = pd.DataFrame({"classes": losses[~numbers].mean(), "numbers": losses[numbers].mean(), "all": losses.mean()})
    for setting, title in COMPARED.items():
        cells = [
            f"**{value:.3f}**" if value == means[column].min() else f"{value:.3f}"
            for column, value in means.loc[setting].items()
        ]
        lines.append(f"| {title} | {' | '.join(cells)} | {seconds[setting]:.0f} |")
    return "\n".join(lines)


def details() -> str:
    """Return the table of mean losses of each table over all five folds in Markdown."""
    lines = ["| table | Hopular | CatBoost | Hopular before |", "|---|---|---|---|"]
    for table, losses in losses_by_table().iterrows():
        cells = [f"**{value:.3f}**" if value == losses.min() else f"{value:.3f}" for value in losses]
        lines.append(f"| {table} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--settings", nargs="+", default=["default", "catboost"], choices=["catboost", *SETTINGS])
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--folds", nargs="+", type=int, default=[0])
    chosen = parser.parse_args()
    if chosen.folder is None:
        print(summary(), details(), sep="\n\n")
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    tables = chosen.tables or pd.read_csv(chosen.folder / "INDEX.csv")["name"].tolist()
    run(chosen.folder, chosen.settings, tables, chosen.folds)


if __name__ == "__main__":
    main()
