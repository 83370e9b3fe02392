"""Story: what the report of a fit tells, put together from the fitted model."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hopular import formatting
from hopular.automl.choice import OutOfFold
from hopular.automl.explain import most_uncertain, most_wrong, reliability
from hopular.automl.intervals import coverage, rows_needed
from hopular.data.dataset import Dataset
from hopular.evaluation.results import describe_machine, title
from hopular.methods import methods
from hopular.report.fit_page import Coverage, FitStory, Member, MethodRow, Reading, ReadRow, Scored, write_fit_report

if TYPE_CHECKING:
    from hopular.automl.fitted import Facts, Fitted

LEVEL = 0.9  # of the intervals whose coverage is shown
READ_ROWS = 3  # rows that the report shows Hopular's reading of, and training rows for each


def write_report(fitted: Fitted, path: Path) -> None:
    """Write the report of a model that is still in memory, as `fit_table` returns it."""
    write_fit_report(tell_story(fitted), path)


def tell_story(fitted: Fitted) -> FitStory:
    """Return all that the report tells."""
    facts, schema, evidence = fitted.facts, fitted.schema, fitted.out_of_fold
    is_classes, classes = schema.task == "classification", schema.classes
    named = {name: method.group for name, method in methods().items()}
    dataset = fitted.dataset
    tested, tests = fitted.tested, None
    if tested is not None and fitted.test_table is not None:
        tests = Scored(tested.truth, tested.predictions, tested.rows, fitted.test_table, tested.labels)
    return FitStory(
        facts=fitted.described,
        target=schema.target,
        classes=classes,
        criterion=facts.metric,
        members=tuple(
            Member(title(name, params), named[name], weight, _rows(facts), _setting(params))
            for name, weight, params in facts.members
        ),
        scored=_scored(dataset, evidence),
        holdout=tests,
        units=None if dataset is None or dataset.groups is None else int(dataset.groups.nunique()),
        temperature=None if facts.temperature == 1.0 else facts.temperature,
        multipliers=None if facts.multipliers is None else dict(zip(classes, facts.multipliers, strict=True)),
        importance=fitted.importance,
        reliability=reliability(evidence.truth, evidence.predictions, classes) if is_classes else None,
        uncertain=most_uncertain(evidence.predictions) if is_classes else None,
        wrong=most_wrong(schema.task, evidence.truth, evidence.predictions, classes or None),
        coverage=() if is_classes else _coverage(evidence),
        curve=_curve(fitted),
        methods=tuple(
            MethodRow(
                row["title"], named[row["method"]], row[facts.metric], row["seconds"], row["trials"], row["share"]
            )
            for row in fitted.leaderboard.to_dict("records")
            if row[facts.metric] == row[facts.metric]
        ),
        untried=_untried(fitted),
        readings=_readings(fitted),
        seconds=facts.seconds,
        spent=tuple(facts.spent.items()),
        limits=tuple(sentence for sentence in fitted.left_out.values() if "the limit is" in sentence),
        command=facts.command,
        made_with={
            "versions": f"hopular {facts.version}, Python {platform.python_version()}",
            "machine": describe_machine(),
            "seed": str(facts.seed),
        },
        next_steps=(
            ("hopular predict MODEL new.csv -o answers.csv", "predict new rows"),
            ("hopular serve MODEL", "answer over HTTP"),
            ("hopular fit --more 10 MODEL", "go on for ten minutes"),
        ),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _scored(dataset: Dataset | None, evidence: OutOfFold) -> Scored:
    features, places = pd.DataFrame(index=range(len(evidence.rows))), evidence.rows
    if dataset is not None:
        features = dataset.X.iloc[evidence.rows].reset_index(drop=True)
        places = _file_rows(dataset)[evidence.rows]
    return Scored(evidence.truth, evidence.predictions, places, features, evidence.labels)


def _file_rows(dataset: Dataset) -> np.ndarray[Any, Any]:
    return np.arange(len(dataset)) if dataset.file_rows is None else dataset.file_rows.to_numpy()


def _rows(facts: Facts) -> str:
    """Name the rows that a member knows."""
    rows = formatting.of_rows([facts.rows], facts.table_rows)
    return rows if facts.folds == 1 else f"{facts.folds} fold models, together {rows}"


def _setting(params: Mapping[str, Any]) -> str:
    said = {name: value for name, value in params.items() if name != "architecture"}
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in said.items()
    )


def _coverage(evidence: OutOfFold) -> tuple[Coverage, ...]:
    """Measure how many true values lie in the intervals that `hopular predict --interval` gives."""
    residuals = evidence.truth - evidence.predictions
    if len(residuals) < 2 * rows_needed(LEVEL):
        return ()
    width = 2 * float(np.quantile(np.abs(residuals), LEVEL))
    return (Coverage(LEVEL, coverage(evidence.fold, residuals, LEVEL), width, len(residuals)),)


def _curve(fitted: Fitted) -> tuple[tuple[float, float], ...]:
    """Return the best single setting's score by seconds, where the criterion is the loss of trials."""
    if fitted.facts.metric == "log_loss":
        return tuple(fitted.curve)
    if fitted.facts.metric == "rmse":
        return tuple((seconds, math.sqrt(loss)) for seconds, loss in fitted.curve)
    return ()


def _untried(fitted: Fitted) -> tuple[tuple[str, str], ...]:
    board = fitted.leaderboard
    failed = board[board[fitted.facts.metric].isna()]
    reasons = dict(zip(failed["title"], failed["reason"], strict=True))
    reasons |= {title(name): reason for name, reason in fitted.left_out.items()}
    return tuple((str(name), str(reason)) for name, reason in reasons.items())


def _readings(fitted: Fitted) -> tuple[Reading, ...]:
    """Show for a few rows what Hopular read, if it is part of the model and there was time to explain it."""
    dataset, evidence = fitted.dataset, fitted.out_of_fold
    if dataset is None or fitted.importance is None or "hopular" not in {name for name, _, _ in fitted.facts.members}:
        return ()
    chosen = np.arange(min(READ_ROWS, len(evidence.rows)))
    if fitted.schema.task == "classification":
        chosen = most_uncertain(evidence.predictions, READ_ROWS)["place"].to_numpy()
    rows, files = evidence.rows[chosen], _file_rows(dataset)
    places = {int(file_row): place for place, file_row in enumerate(files)}
    frame = dataset.X.iloc[rows].reset_index(drop=True)
    predicted, (read, weights) = fitted.predict(frame), fitted.why(frame, READ_ROWS)

    def values(place: int) -> dict[str, Any]:
        return {str(name): value for name, value in dataset.X.iloc[place].items()}

    def truth(place: int) -> str:
        return str(dataset.y.iloc[place])

    return tuple(
        Reading(
            int(files[row]),
            truth(row),
            str(answer),
            values(row),
            tuple(
                ReadRow(int(file_row), float(weight), truth(places[int(file_row)]), values(places[int(file_row)]))
                for file_row, weight in zip(*of_row, strict=True)
            ),
        )
        for row, answer, of_row in zip(rows, predicted, zip(read, weights, strict=True), strict=True)
    )
