"""What the page shows of each dataset: facts, scores, learning curves, best settings, findings and failures."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from hopular import formatting
from hopular.data.dataset import Task
from hopular.evaluation.metrics import METRICS, PRIMARY, Metric
from hopular.evaluation.ranks import rank_results
from hopular.evaluation.results import DatasetFacts, Results, UnitResult, title
from hopular.evaluation.scores import NORMAL, failed_units, leaderboard_matrix, missing_units, summarise
from hopular.evaluation.verdict import per_dataset
from hopular.report import plots
from hopular.report.leaderboard import OURS, group_of
from hopular.report.svg import Scale, span

NAN = math.nan
Summary = dict[tuple[str, str], Mapping[Any, Any]]  # rows of `summarise` of one dataset by metric and method


@dataclass(frozen=True)
class ScoreRow:
    """One method on one dataset."""

    method: str
    title: str
    group: str
    rank: float
    score: float
    error: float
    mark: Markup
    seconds: float
    memory: float
    note: str  # why there is no score, or why it does not count


@dataclass(frozen=True)
class Setting:
    """The best hyperparameters of a method on one split."""

    title: str
    split: str
    chosen_by: str  # the metric that `valid_score` is in
    valid_score: float
    trials: str
    params: str  # JSON


@dataclass(frozen=True)
class Section:
    """Everything about one dataset."""

    anchor: str
    facts: DatasetFacts
    said: str  # who leads here, in words
    metric: str
    chosen_by: str  # the metric on the validation rows that chose the settings
    rows: tuple[ScoreRow, ...]
    metrics: tuple[str, ...]  # titles of all metrics
    values: tuple[tuple[str, tuple[float, ...]], ...]  # title of a method, its mean in each metric
    curves: Markup
    settings: tuple[Setting, ...]
    failures: tuple[tuple[str, UnitResult], ...]  # title of the method, and the unit

    @property
    def best(self) -> tuple[ScoreRow, ...]:
        """The leaders, several if they tie, none if all failed."""
        counted = [row for row in self.rows if not row.note]
        return tuple(row for row in counted if row.rank == counted[0].rank)

    @property
    def leaders(self) -> str:
        """The leaders in few words; Hopular is named first."""
        titles = [row.title for row in sorted(self.best, key=lambda row: row.method != OURS)]
        return " and ".join(titles) if len(titles) < 3 else f"{titles[0]} and {len(titles) - 1} others"

    @property
    def ours(self) -> ScoreRow | None:
        return next((row for row in self.rows if row.method == OURS), None)


def dataset_sections(results: Results) -> list[Section]:
    """One section per dataset, in the order of the benchmark."""
    summary: dict[str, Summary] = defaultdict(dict)
    for row in summarise(results.scores).to_dict("records"):
        summary[row["dataset"]][row["metric"], row["method"]] = row
    units: dict[str, list[UnitResult]] = defaultdict(list)
    for unit in results.units:
        units[unit.dataset].append(unit)
    ranks, said, absent = rank_results(results), per_dataset(results), missing_units(results)
    counted, failed = leaderboard_matrix(results).notna(), failed_units(results)
    curved = sorted({results.title(unit.method) for unit in results.units if len(unit.curve) > 1})
    ours = results.title(OURS)
    colours = {title: place for place, title in enumerate(sorted(curved, key=lambda title: title != ours))}
    return [
        _section(
            results,
            f"dataset-{place}",
            facts,
            said.get(facts.name, ""),
            summary[facts.name],
            ranks.T[facts.name],
            {str(m) for m in counted.columns if counted.at[facts.name, m]},
            {str(m) for m in absent.columns if absent.at[facts.name, m]},
            units[facts.name],
            [unit for unit in failed if unit.dataset == facts.name],
            colours,
        )
        for place, facts in enumerate(results.datasets, start=1)
    ]


def _section(
    results: Results,
    anchor: str,
    facts: DatasetFacts,
    said: str,
    summary: Summary,
    ranks: pd.Series[float],
    counted: set[str],
    absent: set[str],
    units: list[UnitResult],
    failed: list[UnitResult],
    colours: dict[str, int],
) -> Section:
    primary = PRIMARY[facts.task]
    found = {metric for metric, _ in summary}
    names = [name for name, metric in METRICS.items() if metric.task == facts.task and name in found]
    order = [str(name) for name in ranks.sort_values(kind="stable").index]
    values = tuple(
        (results.title(method), tuple(_at(summary, metric, method, "mean") for metric in names))
        for method in order
        if any((metric, method) in summary for metric in names)
    )
    notes = {method: _note(method, absent, units) for method in order if method not in counted}
    complete = [unit for unit in units if unit.state == "complete"]
    deciding = list(dict.fromkeys(_deciding(unit, facts.task) for unit in complete))  # several in merged results
    curves = [
        plots.Curve(results.title(unit.method), unit.split, unit.curve)
        for unit in complete
        if len(unit.curve) > 1 and _deciding(unit, facts.task) == deciding[0]
    ]
    label = f"{'' if deciding and deciding[0].higher_is_better else 'minus the '}validation {_named(deciding[:1])}"
    return Section(
        anchor=anchor,
        facts=facts,
        said=said,
        metric=METRICS[primary].title,
        chosen_by=_named(deciding),
        rows=_score_rows(results, summary, primary, ranks, order, notes),
        metrics=tuple(METRICS[name].title for name in names),
        values=values,
        curves=Markup(plots.learning_curves(curves, label, colours)),
        settings=tuple(
            _setting(unit, facts.task)
            for unit in sorted(complete, key=lambda u: (order.index(u.method), u.split))
            if unit.params
        ),
        failures=tuple((results.title(unit.method), unit) for unit in failed),
    )


def _score_rows(
    results: Results,
    summary: Summary,
    metric: str,
    ranks: pd.Series[float],
    order: list[str],
    notes: dict[str, str],
) -> tuple[ScoreRow, ...]:
    """All methods by rank; failed ones, and those that were not run, last."""
    bounds = {method: _bounds(summary, metric, method) for method in order}
    scale = _scale(list(bounds.values()), is_higher_better=METRICS[metric].higher_is_better)
    rows = []
    for method in order:
        score, low, high = bounds[method]
        is_best = ranks[method] == ranks.min() and method not in notes
        rows.append(
            ScoreRow(
                method=method,
                title=results.title(method),
                group=group_of(method),
                rank=float(ranks[method]),
                score=score,
                error=_at(summary, metric, method, "standard_error"),
                mark=Markup(plots.interval(score, low, high, scale, is_best=is_best)),
                seconds=_at(summary, metric, method, "seconds"),
                memory=_at(summary, metric, method, "memory"),
                note=notes.get(method, ""),
            )
        )
    return tuple(rows)


def _note(method: str, absent: set[str], units: list[UnitResult]) -> str:
    """Why the scores of a method on a dataset do not count."""
    states = [unit.state for unit in units if unit.method == method]
    if method in absent:
        return "not run on all splits" if states else "not run"
    if "failed" in states:
        return f"failed on {states.count('failed')} of {formatting.plural(len(states), 'split')}"
    return "no score on some splits"


def _scale(bounds: list[tuple[float, float, float]], *, is_higher_better: bool) -> Scale:
    """Wide enough for the better three quarters of the methods and whatever is not much worse than these."""
    known = [triple for triple in bounds if math.isfinite(triple[0])]
    if not known:
        return Scale(0, 1, 0, 100)
    ordered = sorted((score for score, _, _ in known), reverse=is_higher_better)
    best, usual = ordered[0], ordered[math.ceil(0.75 * len(ordered)) - 1]
    near = [triple for triple in known if abs(triple[0] - best) <= 2.5 * abs(usual - best)]
    return Scale(*span([value for triple in near for value in triple if math.isfinite(value)], 0.05), 0, 100)


def _bounds(summary: Summary, metric: str, method: str) -> tuple[float, float, float]:
    """Mean and 95 % interval: over test rows for a single split, of the mean over splits otherwise."""
    mean, splits = _at(summary, metric, method, "mean"), _at(summary, metric, method, "splits")
    if splits == 1:
        return mean, _at(summary, metric, method, "low"), _at(summary, metric, method, "high")
    reach = NORMAL * _at(summary, metric, method, "uncertainty")
    return mean, mean - reach, mean + reach


def _at(summary: Summary, metric: str, method: str, column: str) -> float:
    return float(summary[metric, method][column]) if (metric, method) in summary else NAN


def _setting(unit: UnitResult, task: Task) -> Setting:
    trials = ", ".join(f"{count} {state}" for state, count in unit.trials.items() if count)
    score = NAN if unit.valid_score is None else abs(unit.valid_score)
    params = json.dumps(dict(unit.params), ensure_ascii=False, default=str)
    return Setting(title(unit.method, unit.params), unit.split, _named([_deciding(unit, task)]), score, trials, params)


def _deciding(unit: UnitResult, task: Task) -> Metric:
    """Return the metric that chose the setting of a unit; results of older versions do not say it."""
    return METRICS[unit.chosen_by or PRIMARY[task]]


def _named(metrics: Sequence[Metric]) -> str:
    return " or ".join(metric.title.lower() for metric in metrics)
