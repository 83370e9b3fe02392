"""The leaderboard of a fit, and the results that its report is made of."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from hopular import __version__
from hopular.data.audit import Finding
from hopular.data.dataset import Dataset
from hopular.data.splits import Split
from hopular.evaluation.metrics import PRIMARY
from hopular.evaluation.results import Delivered, Results, Score, UnitResult, describe, describe_machine, make_table
from hopular.evaluation.scores import Cost, score_predictions
from hopular.trials.budget import DEFAULT_CRITERION, metric_of
from hopular.trials.run import MethodSearch
from hopular.trials.select import Choice
from hopular.trials.trial import Trial


def make_results(
    dataset: Dataset,
    split: Split,
    findings: Sequence[Finding],
    searches: Sequence[MethodSearch],
    ensemble: Choice | None,
    classes: list[str] | None,
    settings: dict[str, Any],
    command: str,
    delivered: Delivered,
) -> Results:
    """Score every method's best model on the test rows; it was trained on the training rows alone."""
    truth = dataset.y.iloc[split.test].to_numpy()
    units, rows = [], list[Score]()
    for search in searches:
        units.append(_unit(dataset, split.id, search))
        if (best := search.best) is not None:
            names, answer = (dataset.name, best.method, split.id), search.predictions(best, "-test")
            rows += score_predictions(names, best.seed, dataset.task, truth, answer, classes, _cost([best]))
    if ensemble is not None:
        members = [member.trial for member in ensemble.members]
        units.append(_ensemble_unit(dataset, split.id, ensemble))
        names, answer = (dataset.name, "ensemble", split.id), ensemble.test_predictions()
        rows += score_predictions(names, settings["seed"], dataset.task, truth, answer, classes, _cost(members))
    return Results(
        id=f"fit of {dataset.name}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        scores=make_table(rows),
        datasets=(describe(dataset, findings),),
        units=tuple(units),
        settings=settings,
        provenance=_provenance(settings["seed"]),
        command=command,
        delivered=delivered,
    )


def make_leaderboard(results: Results, losses: Mapping[str, float], chosen: str) -> pd.DataFrame:
    """Return a row per method, the lowest of `losses` on the validation rows first; those without a model come last.

    `validation` and `test` are in the primary metric, `seconds` is the fit, `trials` counts the settings tried.
    """
    metric = PRIMARY[results.datasets[0].task]
    scores = results.scores[results.scores["metric"] == metric].set_index("method")
    rows: list[dict[str, Any]] = []
    for unit in results.units:
        is_done = unit.valid_score is not None
        rows.append(
            {
                "method": unit.method,
                "title": results.title(unit.method),
                "metric": metric,
                "loss": abs(losses[unit.method]) if unit.method in losses else None,  # a perfect one may be -0.0
                "validation": unit.valid_metrics[metric] if is_done else None,
                "test": float(scores["value"][unit.method]) if is_done else None,
                "seconds": float(scores["seconds"][unit.method]) if is_done else None,
                "trials": sum(unit.trials.values()),
                "is_chosen": unit.method == chosen,
                "reason": unit.reason,
            }
        )
    rows.sort(key=lambda row: float("inf") if row["loss"] is None else row["loss"])
    return pd.DataFrame(rows)


def _cost(trials: Sequence[Trial]) -> Cost:
    """Return what a model costs, or several together: their seconds added up, and the largest memory."""
    seconds = sum(trial.fit_seconds for trial in trials), sum(trial.predict_seconds for trial in trials)
    return Cost(*seconds, max(trial.peak_memory for trial in trials))


def _unit(dataset: Dataset, split: str, search: MethodSearch) -> UnitResult:
    best, tried, name = search.best, search.trials, search.method.name
    trials = dict(Counter[str](trial.state for trial in tried))
    if not tried:
        return UnitResult(dataset.name, split, name, "untried", "not tried: there was no time for a first fit")
    if best is None:
        failure = next(f"{trial.failure}: {trial.message}" for trial in tried if trial.failure)
        return UnitResult(dataset.name, split, name, "failed", failure, trials=trials, search_seconds=search.seconds)
    return UnitResult(
        dataset.name,
        split,
        name,
        "complete",
        params=best.params,
        valid_score=best.score,
        valid_metrics=best.metrics,
        chosen_by=metric_of(DEFAULT_CRITERION, dataset.task),
        trials=trials,
        search_seconds=search.seconds,
    )


def _ensemble_unit(dataset: Dataset, split: str, ensemble: Choice) -> UnitResult:
    members = [[member.method, member.trial.params, round(member.weight, 4)] for member in ensemble.members]
    return UnitResult(
        dataset.name,
        split,
        "ensemble",
        "complete",
        params={"members": members},
        valid_score=-ensemble.loss,
        valid_metrics=ensemble.metrics,
        chosen_by=metric_of(DEFAULT_CRITERION, dataset.task),
    )


def _provenance(seed: int) -> dict[str, str]:
    versions = f"hopular {__version__}, Python {platform.python_version()}"
    return {"versions": versions, "machine": describe_machine(), "seed": str(seed)}
