"""Make up benchmarks for the tests of evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from hopular.evaluation.results import SCORE_COLUMNS, DatasetFacts, Results, UnitResult

Table = Mapping[str, Mapping[str, Sequence[float] | None]]  # dataset, method: a score per split, None if it failed


def make_results(
    table: Table,
    *,
    task: str = "classification",
    width: float = 0.02,
    doubtful: Sequence[str] = (),
    suite: str | None = None,
    split: str = "{}",
    seconds: Mapping[str, float] | None = None,
    memory: Mapping[str, float] | None = None,
    id: str = "a",
    created: str = "2026-01-01T00:00:00",
) -> Results:
    """Make a benchmark in the primary metric with intervals of +- `width`; a failed method fails on its first split."""
    metric = "accuracy" if task == "classification" else "mse"
    rows, units, facts = [], [], []
    for dataset, methods in table.items():
        findings = (("serious", "leaks", "a feature is the target"),) if dataset in doubtful else ()
        facts.append(
            DatasetFacts(dataset, task, 100, 4, 1, 2, 0.0, "made up", f"of {dataset}", suite, findings)  # type: ignore[arg-type]
        )
        for method, values in methods.items():
            if values is None:
                units.append(UnitResult(dataset, split.format(0), method, "failed", "error: it broke"))
                continue
            for number, value in enumerate(values):
                units.append(UnitResult(dataset, split.format(number), method, "complete"))
                cost = (seconds or {}).get(method, 1.0), 0.1, (memory or {}).get(method, 1e6)
                bounds = (value - width, value + width) if math.isfinite(width) else (math.nan, math.nan)
                rows.append((dataset, method, split.format(number), 0, metric, value, *bounds, *cost))
    scores = pd.DataFrame(rows, columns=list(SCORE_COLUMNS))
    return Results(id, created, scores, tuple(facts), tuple(units))


def with_architecture(results: Results, *names: str) -> Results:
    """Return the same benchmark with Hopular of these architectures, in turn by dataset."""
    order = [facts.name for facts in results.datasets]
    units = [
        replace(unit, params={"architecture": names[order.index(unit.dataset) % len(names)]})
        if unit.method == "hopular"
        else unit
        for unit in results.units
    ]
    return replace(results, units=tuple(units))


def random_results(n_datasets: int, n_methods: int, n_splits: int, seed: int = 0) -> Results:
    """Make a benchmark of random accuracies."""
    random = np.random.default_rng(seed)
    return make_results(
        {
            f"data{d:02}": {f"method{m:02}": list(random.random(n_splits)) for m in range(n_methods)}
            for d in range(n_datasets)
        }
    )
