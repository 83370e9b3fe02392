"""Settings of the classifier against each other on the published folds: `python -m benchmarks.accuracy STUDY`.

The recipe was chosen with `recipe` and `options`, the default architecture with `unseen`, which is of other folds. Each
writes its table to docs/. One process per core, one thread each.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from hopular import HopularClassifier
from hopular.data import load, make_splits

DATASETS = ("glass", "statlog-heart", "haberman", "ecoli", "vertebral-column3", "breast-cancer")
DOCS = Path(__file__).resolve().parent.parent / "docs"
RECIPES = {
    "paper, 2,000 epochs": {"recipe": "paper", "max_epochs": 2_000},
    "default": {"recipe": "default"},
}
OPTIONS = {
    "sum, tied, attribute (paper)": {"embedding": "sum", "values": "tied", "summary": "attribute"},
    "separate values": {"embedding": "sum", "values": "separate", "summary": "attribute"},
    "projected embedding": {"embedding": "projected", "values": "tied", "summary": "attribute"},
    "joint summary": {"embedding": "sum", "values": "tied", "summary": "joint"},
    "projected, separate, joint (released code)": {"embedding": "projected", "values": "separate", "summary": "joint"},
}
STUDIES: dict[str, tuple[dict[str, dict[str, Any]], tuple[int, ...]]] = {  # settings and folds
    "recipe": (RECIPES, (0, 1)),
    "options": (OPTIONS, (0,)),
    "unseen": ({"paper, 2,000 epochs": RECIPES["paper, 2,000 epochs"], **OPTIONS}, (2, 3)),
}


def run(label: str, settings: dict[str, Any], dataset: str, fold: int) -> dict[str, Any]:
    """Fit one setting on one fold with its validation rows, and score the test rows."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    data = load(dataset)
    split = make_splits(data)[fold]
    train, valid, test = ((data.X.iloc[rows], data.y.iloc[rows]) for rows in (split.train, split.valid, split.test))
    model = HopularClassifier(random_state=0, **settings)
    start = time.perf_counter()
    model.fit(*train, eval_set=valid)
    seconds = time.perf_counter() - start
    return {"setting": label, "accuracy": model.score(*test), "dataset": dataset, "fold": fold, "seconds": seconds}


def study(settings: dict[str, dict[str, Any]], folds: tuple[int, ...]) -> pd.DataFrame:
    """Run all settings on all datasets and folds."""
    os.environ["OMP_NUM_THREADS"] = "1"
    results = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        work = [
            pool.submit(run, label, chosen, dataset, fold)
            for dataset in DATASETS
            for fold in folds
            for label, chosen in settings.items()
        ]
        for number, done in enumerate(as_completed(work), start=1):
            r = done.result()
            results.append(r)
            text = f"[{number}/{len(work)}] {r['setting']}: {r['dataset']} fold {r['fold']}"
            print(f"{text}: {r['accuracy']:.3f} in {r['seconds']:.1f} s", flush=True)
    return pd.DataFrame(results)


def markdown(results: pd.DataFrame, order: list[str]) -> str:
    """Mean test accuracy per dataset and over all, and mean seconds, one row per setting."""
    accuracy = results.pivot_table(index="setting", columns="dataset", values="accuracy")[list(DATASETS)]
    accuracy = accuracy.loc[[label for label in order if label in accuracy.index]]
    accuracy["mean"] = accuracy.mean(axis=1)
    seconds = results.groupby("setting")["seconds"].mean()
    lines = ["| setting | " + " | ".join(accuracy.columns) + " | seconds |", "|---" * (len(accuracy.columns) + 2) + "|"]
    for label, row in accuracy.iterrows():
        cells = " | ".join(f"{value:.3f}" for value in row)
        lines.append(f"| {label} | {cells} | {seconds[label]:.1f} |")
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in STUDIES:
        raise SystemExit(f"usage: python -m benchmarks.accuracy {'|'.join(STUDIES)}")
    settings, folds = STUDIES[sys.argv[1]]
    results = study(settings, folds)
    table = markdown(results, list(settings))
    print(table)
    results.sort_values(["setting", "dataset", "fold"]).round(4).to_csv(
        DOCS / f"{sys.argv[1]}-results.csv", index=False
    )
    (DOCS / f"{sys.argv[1]}-table.md").write_text(table + "\n")


if __name__ == "__main__":
    main()
