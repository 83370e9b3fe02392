"""Fit one system to the training rows of one table and predict its test rows; benchmarks.automl starts this.

    python -P benchmarks/automl_once.py SYSTEM FOLDER SECONDS STARTED

FOLDER holds train.csv, test.csv (which lacks the target) and task.txt. SECONDS is the time a system with a limit gets,
STARTED when this process was started, in seconds since 1970. predictions.csv is written to FOLDER (a column of
probabilities for each class, or one of numbers), and times.json: when the model was ready, and the seconds that the
predictions took. It runs in AutoGluon's interpreter too, so it imports the project only where that is fitted.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

TARGET = "target"
Predict = Callable[[pd.DataFrame], pd.DataFrame]


def fit_ours(folder: Path, task: str, left: float) -> Predict:
    """Fit as `hopular fit` does, with a portfolio that was made without this table if FOLDER has one."""
    from hopular.automl import fit_table
    from hopular.automl.portfolio import read_portfolio
    from hopular.data import load

    dataset, file = load(str(folder / "train.csv"), target=TARGET), folder / "portfolio.json"
    portfolio = read_portfolio(dataset.task, file) if file.exists() else None
    fitted = fit_table(dataset, seconds=left, portfolio=portfolio)
    (folder / "leaderboard.csv").write_text(fitted.leaderboard.to_csv(index=False))
    if task == "regression":
        return lambda test: pd.DataFrame({TARGET: fitted.predict(test)})
    return fitted.predict_proba


def fit_method(name: str, folder: Path, task: str) -> Predict:
    """Fit a method of the project with its defaults to all training rows; it sees no other rows."""
    from hopular.data import load
    from hopular.data.schema import Schema
    from hopular.methods import Run, get_method

    data = load(str(folder / "train.csv"), target=TARGET)
    model = get_method(name).make(data.task, {}, Run(seed=0, threads=1)).fit(data.X, data.y)
    schema = Schema.of(data)
    if task == "regression":
        return lambda test: pd.DataFrame({TARGET: model.predict(schema.apply(test)[0])})
    return lambda test: pd.DataFrame(model.predict_proba(schema.apply(test)[0]), columns=list(model.classes_))


def fit_autogluon(folder: Path, task: str, seconds: float) -> Predict:
    """Fit AutoGluon's best_quality; it starts to count its seconds once it is imported."""
    from autogluon.tabular import TabularPredictor

    train = pd.read_csv(folder / "train.csv")
    is_regression = task == "regression"
    kind = "regression" if is_regression else "binary" if train[TARGET].nunique() == 2 else "multiclass"
    metric = "root_mean_squared_error" if is_regression else "log_loss"
    predictor = TabularPredictor(TARGET, kind, metric, path=str(folder / "autogluon"), verbosity=1)
    predictor.fit(train, presets="best_quality", time_limit=seconds, num_cpus=1, num_gpus=0, dynamic_stacking=False)
    (folder / "leaderboard.csv").write_text(predictor.leaderboard().to_csv(index=False))
    if is_regression:
        return lambda test: predictor.predict(test).to_frame(TARGET)
    return predictor.predict_proba


def fit_catboost(folder: Path, task: str) -> Predict:
    """Fit CatBoost itself with its defaults: 1,000 trees on all training rows."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    from hopular.data import load
    from hopular.data.schema import Schema

    data = load(str(folder / "train.csv"), target=TARGET)
    schema, categories = Schema.of(data), [name for name, kind in data.kinds.items() if kind == "categorical"]

    def readable(X: pd.DataFrame) -> pd.DataFrame:
        words = {name: X[name].astype(object).where(X[name].notna(), "missing").astype(str) for name in categories}
        return X.assign(**words)

    kind = CatBoostRegressor if task == "regression" else CatBoostClassifier
    model = kind(thread_count=1, verbose=0, random_seed=0, allow_writing_files=False)
    model.fit(readable(data.X), data.y.to_numpy(), cat_features=categories)
    if task == "regression":
        return lambda test: pd.DataFrame({TARGET: model.predict(readable(schema.apply(test)[0]))})
    return lambda test: pd.DataFrame(model.predict_proba(readable(schema.apply(test)[0])), columns=list(model.classes_))


def main() -> None:
    system, folder, seconds, started = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    warnings.simplefilter("ignore")
    task = (folder / "task.txt").read_text().strip()
    fits: dict[str, Callable[[], Any]] = {
        "hopular": lambda: fit_ours(folder, task, seconds - (time.time() - started)),
        "autogluon": lambda: fit_autogluon(folder, task, seconds),
        "catboost": lambda: fit_catboost(folder, task),
        "realmlp": lambda: fit_method("realmlp", folder, task),
    }
    predict = fits[system]()
    ready = time.time()
    predictions = predict(pd.read_csv(folder / "test.csv"))
    predicted = time.time()
    predictions.to_csv(folder / "predictions.csv", index=False)
    part = folder / "times.json.part"
    part.write_text(json.dumps({"ready": ready, "predict": predicted - ready}))
    os.replace(part, folder / "times.json")


if __name__ == "__main__":
    main()
