"""Make up results of any size, as a benchmark would leave them: good methods and bad, failures included."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from hopular.evaluation.results import SCORE_COLUMNS, DatasetFacts, Results, UnitResult
from hopular.methods import methods

STRENGTHS = {
    "catboost": 0.95,
    "hopular": 0.90,
    "xgboost": 0.80,
    "ensemble": 0.92,
    "lightgbm": 0.75,
    "random_forest": 0.6,
    "majority": -3.0,
    "decision_tree": -0.6,
    "knn": -0.2,
}
SECONDS = {"hopular": 42.0, "npt": 95.0, "catboost": 6.0, "ensemble": 180.0, "majority": 0.01, "mlp": 12.0}
CURVED = ("hopular", "npt", "mlp", "snn", "tabm")
NASTY = '<script>alert("x")</script> & <b>bold</b>'


def make_results(
    datasets: int = 3,
    names: tuple[str, ...] = ("catboost", "hopular", "xgboost", "random_forest", "majority"),
    splits: int = 2,
    *,
    seed: int = 0,
    failed: tuple[tuple[int, str], ...] = (),
    doubtful: tuple[int, ...] = (),
    regression: tuple[int, ...] = (),
    nasty: bool = False,
) -> Results:
    """Make results; `failed` has pairs of a dataset's place and a method, the other two have places of datasets."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    facts, units = [], []
    for place in range(datasets):
        name = NASTY if nasty and place == 0 else f"dataset-{place + 1}"
        task = "regression" if place in regression else "classification"
        findings = [("note", "rare-values", "3 of 12 columns hold values that occur once.")]
        if place in doubtful:
            findings.insert(0, ("serious", "duplicates", "41 of 214 test rows (19 %) are also in the training rows."))
        facts.append(
            DatasetFacts(
                name=name,
                task=task,
                rows=int(rng.integers(100, 1000)),
                features=int(rng.integers(4, 40)),
                categorical=int(rng.integers(0, 4)),
                classes=0 if task == "regression" else int(rng.integers(2, 6)),
                missing=0.03 if place % 2 else 0.0,
                source="openml:31",
                fingerprint=f"{place + 1:015x}",  # the same in every benchmark
                suite="small",
                findings=tuple(findings),
            )
        )
        level = rng.uniform(0.6, 1.6)
        for method in (name for name in names if task in methods()[name].tasks):
            strength = level + 0.5 * STRENGTHS.get(method, 0.3) + rng.normal(0, 0.08)
            for split in range(splits):
                is_failed = (place, method) in failed and split == 0
                units.append(_unit(rng, name, f"s{split}", method, strength, is_failed, nasty))
                if not is_failed:
                    rows += _scores(rng, name, f"s{split}", method, task, strength)
    return Results(
        id="20260101-demo",
        created="2026-01-01T12:00:00+00:00",
        scores=pd.DataFrame(rows, columns=list(SCORE_COLUMNS)),
        datasets=tuple(facts),
        units=tuple(units),
        settings={"suite": "demo", "budget": "quick", "methods": list(names), "seed": seed},
        provenance={"python": "3.11.9", "hopular": "0.1.0", "commit": "abc1234", "cpu": "2 cores", "seed": "0"},
        command="hopular benchmark --suite demo --budget quick --seed 0",
    )


def _scores(
    rng: np.random.Generator, dataset: str, split: str, method: str, task: str, strength: float
) -> list[dict[str, object]]:
    skill = 1 / (1 + math.exp(-(strength + rng.normal(0, 0.05)) * 1.5))
    metrics = (
        {"accuracy": skill, "log_loss": 1.2 * (1 - skill), "roc_auc": min(1.0, skill + 0.05)}
        if task == "classification"
        else {"mse": 40 * (1 - skill), "mae": 5 * (1 - skill), "r2": skill}
    )
    seconds = SECONDS.get(method, 1.5) * float(rng.lognormal(0, 0.3))
    memory = (250 + 12 * SECONDS.get(method, 1.5)) * 1e6 * float(rng.lognormal(0, 0.1))
    common = {"dataset": dataset, "method": method, "split": split, "seed": 0}
    costs = {"seconds": seconds, "predict_seconds": seconds / 50, "memory": int(memory)}
    return [
        {**common, "metric": metric, "value": value, "low": value * 0.96, "high": min(value * 1.03, 1e9), **costs}
        for metric, value in metrics.items()
    ]


def _unit(
    rng: np.random.Generator, dataset: str, split: str, method: str, strength: float, is_failed: bool, nasty: bool
) -> UnitResult:
    if is_failed:
        reason = "out-of-memory: could not allocate 12 GB"
        return UnitResult(dataset, split, method, "failed", reason=f"{reason} {NASTY}" if nasty else reason)
    curve: tuple[tuple[int, float], ...] = ()
    if method in CURVED:
        speed = rng.uniform(12, 30)
        curve = tuple(
            (step, float(0.9 * (1 - math.exp(-step / speed)) * (0.7 + 0.1 * strength) + rng.normal(0, 0.006)))
            for step in range(2, 101, 3)
        )
    params = {
        "learning_rate": float(rng.lognormal(-5, 1)),
        "depth": int(rng.integers(2, 10)),
        "reg_lambda": float(rng.lognormal()),
        "kind": "</script>" if nasty else "balanced",
    }
    return UnitResult(
        dataset,
        split,
        method,
        "complete",
        params=params,
        valid_score=float(0.8 + rng.normal(0, 0.02)),
        curve=curve,
        trials={"complete": 20, "pruned": 4, "failed": 1},
        search_seconds=float(rng.uniform(20, 90)),
        run_id=f"{rng.integers(2**60):015x}",
    )


def large() -> Results:
    """Make results of the size that a report must bear: 27 datasets, 20 methods, 4 splits."""
    left_out = ("mean", "realmlp", "adaboost", "pls", "lda")
    names = tuple(name for name, method in methods().items() if name not in left_out and method.group != "plain")
    assert len(names) == 20
    return make_results(
        27, names, 4, failed=((3, "npt"), (7, "svm"), (11, "npt")), doubtful=(2, 9), regression=(5, 14, 20)
    )
