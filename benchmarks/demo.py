"""`make benchmark`: Hopular beside gradient boosting and a linear model, on a table that ships with scikit-learn."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hopular import HopularClassifier

FOLDS = 3


def methods(seed: int) -> dict[str, Any]:
    return {
        "Hopular": HopularClassifier(random_state=seed),
        "gradient boosting": HistGradientBoostingClassifier(random_state=seed),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000)),
        "most frequent class": DummyClassifier(),
    }


def main() -> None:
    console = Console()
    X, y = load_wine(return_X_y=True, as_frame=True)
    console.print(f"wine: {len(X)} rows, {X.shape[1]} features, {y.nunique()} classes, {FOLDS}-fold cross-validation")
    scores: dict[str, list[tuple[float, float, float]]] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        for fold, (train, test) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y)):
            for name, model in methods(seed=fold).items():
                progress.update(task, description=f"fold {fold + 1} of {FOLDS}: {name}")
                start = time.perf_counter()
                model.fit(X.iloc[train], y.iloc[train])
                seconds = time.perf_counter() - start
                probabilities = model.predict_proba(X.iloc[test])
                accuracy = float(np.mean(model.predict(X.iloc[test]) == y.iloc[test]))
                scores.setdefault(name, []).append((accuracy, log_loss(y.iloc[test], probabilities), seconds))
    table = Table("method", "accuracy", "log loss", "fit seconds")
    means = {name: np.mean(values, axis=0) for name, values in scores.items()}
    for name, (accuracy, loss, seconds) in sorted(means.items(), key=lambda item: item[1][1]):
        table.add_row(name, f"{accuracy:.3f}", f"{loss:.3f}", f"{seconds:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
