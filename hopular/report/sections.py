"""Sections of the page: ranks, tests and costs over all datasets, and one about each dataset."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from markupsafe import Markup

from hopular import formatting
from hopular.data.dataset import Task
from hopular.evaluation.metrics import METRICS, PRIMARY, Metric
from hopular.evaluation.results import DatasetFacts, Results, UnitResult, title
from hopular.evaluation.scores import NORMAL, summarise
from hopular.evaluation.significance import (
    ALPHA,
    SignedRank,
    bayesian_signed_rank,
    cliques,
    complete,
    critical_difference,
    differences,
    pairwise,
)
from hopular.evaluation.verdict import Standings
from hopular.report import plots
from hopular.report.leaderboard import OURS
from hopular.report.plots import Scale, span

_ROPE = 0.01  # a difference that does not matter in practice: of accuracy, or as a share of a loss
_Summary = Mapping[tuple[str, str], Mapping[Any, Any]]  # rows of `summarise` of one dataset by metric and method


# ------------------------------------------------------------------------------------------------ over all the datasets


@dataclass(frozen=True)
class Pair:
    """One cell of the pairwise table: wins, ties and losses of its row against its column."""

    wins: int
    ties: int
    losses: int
    is_significant: bool  # after Holm's correction

    @property
    def total(self) -> int:
        """Return the number of datasets that both were run on."""
        return self.wins + self.ties + self.losses

    @property
    def share(self) -> float:
        """Return the share of datasets that were won; ties count half."""
        return (self.wins + self.ties / 2) / self.total if self.total else 0.0


@dataclass(frozen=True)
class PairTable:
    """All methods against each other, best first; None on the diagonal."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Pair | None, ...], ...]
    note: str


def significance(standings: Standings) -> tuple[Markup, list[str]]:
    """Draw mean ranks with Nemenyi's critical difference, and say what Friedman's test found or why it was not made."""
    results = standings.results
    try:
        test = standings.friedman
    except ValueError as error:
        return Markup(), [f"Ranks were not tested: {error}."]
    difference = critical_difference(test.n_methods, test.n_datasets)
    means = complete(standings.ranks).mean(axis=0)
    titles = _distinct_titles(results, [str(name) for name in means.index])
    bars = [[titles[name] for name in clique] for clique in cliques(means, difference)]
    diagram = plots.critical_difference(
        {titles[str(name)]: float(means[name]) for name in means.index}, bars, difference, titles.get(OURS, "")
    )
    verdict = "do not all perform alike" if test.p_value < ALPHA else "cannot be told apart as a whole"
    chance = f"p = {test.p_value:.3f}" if test.p_value >= 0.001 else "p < 0.001"
    sentences = [
        f"Over {formatting.plural(test.n_datasets, 'dataset')}, the {test.n_methods} methods {verdict} "
        f"(Friedman's χ² = {test.statistic:.2f}; {chance} by the F statistic of Iman and Davenport)."
    ]
    if test.p_value >= ALPHA:
        sentences.append("Gaps between the bars of the diagram are therefore no evidence that methods differ.")
    if test.left_out:
        names = ", ".join(results.title(name) for name in test.left_out)
        sentences.append(f"Left out, because they were not run on every dataset: {names}.")
    return Markup(diagram), sentences


def pair_table(standings: Standings) -> PairTable | None:
    """Count wins, ties and losses of all pairs, in the order of the leaderboard; None if there is only one method."""
    order = list(standings.table["method"])
    if len(order) < 2:
        return None
    found: set[tuple[str, str]] = set()
    try:
        certain = standings.pairs[standings.pairs["adjusted"] < ALPHA]
        found = {*zip(certain["a"], certain["b"], strict=True), *zip(certain["b"], certain["a"], strict=True)}
        note = (
            f"Bold where Wilcoxon's signed-rank test with Holm's correction finds a difference (p < {ALPHA}) between "
            "methods that were run on every dataset."
        )
    except ValueError as error:
        note = f"Differences were not tested: {error}."
    counts = {
        (a, b): Pair(int(wins), int(ties), int(losses), (a, b) in found)
        for a, b, wins, ties, losses in pairwise(standings.scores, standings.directions, standings.missing).to_numpy()
    }
    rows = tuple(tuple(counts.get((a, b)) for b in order) for a in order)
    return PairTable(tuple(standings.results.title(name) for name in order), rows, note)


def leader_chances(standings: Standings) -> tuple[str, list[tuple[str, SignedRank]]]:
    """Return the leader's title, and those of the others with a place with the Bayesian signed-rank test against them.

    There are none if the lead is shared, or if there are fewer than two datasets.
    """
    results, placed = standings.results, standings.table[standings.table["place"].notna()]
    best = placed.loc[placed["place"] == 1, "method"].tolist()
    if len(best) != 1 or len(standings.scores.dropna(how="all")) < 2:
        return "", []
    leader, names = best[0], placed["method"].tolist()
    found = {}
    for a, b, gain in differences(standings.scores[names], standings.directions, standings.missing[names]):
        if leader in (a, b):
            found[b if a == leader else a] = bayesian_signed_rank(gain if a == leader else -gain, _ROPE)
    return results.title(leader), [(results.title(name), found[name]) for name in names if name != leader]


def cost_plots(standings: Standings) -> list[Markup]:
    """Draw relative scores against training seconds and against memory, unless these were not measured."""
    results, table = standings.results, standings.costs.reindex(standings.table["method"])

    def draw(cost: Literal["seconds", "memory"], front: str) -> Markup:
        points = [
            plots.Point(results.title(name), results.group(name), row[cost], row["relative"], bool(row[front]))
            for name, row in zip(map(str, table.index), table.to_dict("records"), strict=True)
        ]
        return Markup(plots.cost(points, cost, results.title(OURS)))

    return [plot for plot in (draw("seconds", "is_on_front"), draw("memory", "is_on_memory_front")) if plot]


def rank_marks(board: pd.DataFrame) -> list[Markup]:
    """Draw the mean rank of each method with its interval, all to one scale."""
    known = [value for name in ("mean_rank", "rank_low", "rank_high") for value in board[name].dropna()]
    scale = Scale(*span(known, 0.03), 0, 100) if known else Scale(0, 1, 0, 100)
    return [
        Markup(plots.interval(mean, low, high, scale))
        for mean, low, high in zip(board["mean_rank"], board["rank_low"], board["rank_high"], strict=True)
    ]


def _distinct_titles(results: Results, names: list[str]) -> dict[str, str]:
    """Return titles by name; methods that share a title, such as a plug-in of the same, also show their names."""
    titles = {name: results.title(name) for name in names}
    counts = Counter(titles.values())
    return {name: title if counts[title] == 1 else f"{title} ({name})" for name, title in titles.items()}


# ----------------------------------------------------------------------------------------------------- of each dataset


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
    verdict: str  # who leads here
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
        """Return the leaders: several if they tie, none if all failed."""
        counted = [row for row in self.rows if not row.note]
        return tuple(row for row in counted if row.rank == counted[0].rank)

    @property
    def leaders(self) -> str:
        """Name the leaders briefly, Hopular first."""
        titles = [row.title for row in sorted(self.best, key=lambda row: row.method != OURS)]
        return " and ".join(titles) if len(titles) < 3 else f"{titles[0]} and {len(titles) - 1} others"

    @property
    def ours(self) -> ScoreRow | None:
        """Return the row of Hopular, if it was run."""
        return next((row for row in self.rows if row.method == OURS), None)


def dataset_sections(standings: Standings) -> list[Section]:
    """Describe each dataset, in the order of the benchmark."""
    results = standings.results
    summary: dict[str, dict[tuple[str, str], Mapping[Any, Any]]] = defaultdict(dict)
    for row in summarise(results.scores).to_dict("records"):
        summary[row["dataset"]][row["metric"], row["method"]] = row
    ours, curved = results.title(OURS), {results.title(unit.method) for unit in results.units if len(unit.curve) > 1}
    colours = {title: place for place, title in enumerate(sorted(curved, key=lambda title: (title != ours, title)))}
    return [
        _section(standings, f"dataset-{place}", facts, summary[facts.name], colours)
        for place, facts in enumerate(results.datasets, start=1)
    ]


def _section(
    standings: Standings, anchor: str, facts: DatasetFacts, summary: _Summary, colours: Mapping[str, int]
) -> Section:
    results, primary, found = standings.results, PRIMARY[facts.task], {metric for metric, _ in summary}
    names = [name for name, metric in METRICS.items() if metric.task == facts.task and name in found]
    order = [str(name) for name in standings.ranks.T[facts.name].sort_values(kind="stable").index]
    values = tuple(
        (results.title(method), tuple(_at(summary, metric, method, "mean") for metric in names))
        for method in order
        if any((metric, method) in summary for metric in names)
    )
    complete = [unit for unit in results.units if unit.dataset == facts.name and unit.state == "complete"]
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
        verdict=standings.per_dataset[facts.name],
        metric=METRICS[primary].title,
        chosen_by=_named(deciding),
        rows=_score_rows(standings, facts.name, summary, primary, order),
        metrics=tuple(METRICS[name].title for name in names),
        values=values,
        curves=Markup(plots.learning_curves(curves, label, colours)),
        settings=tuple(
            _setting(unit, facts.task)
            for unit in sorted(complete, key=lambda u: (order.index(u.method), u.split))
            if unit.params
        ),
        failures=tuple((results.title(unit.method), unit) for unit in standings.failed if unit.dataset == facts.name),
    )


def _score_rows(
    standings: Standings, dataset: str, summary: _Summary, metric: str, order: list[str]
) -> tuple[ScoreRow, ...]:
    """List all methods by rank, with those that failed or were not run last."""
    results, ranks, counted = standings.results, standings.ranks.T[dataset], standings.scores.T[dataset].notna()
    bounds = {method: _bounds(summary, metric, method) for method in order}
    scale = _scale(list(bounds.values()), is_higher_better=METRICS[metric].higher_is_better)
    rows = []
    for method in order:
        score, low, high = bounds[method]
        note = "" if counted[method] else _note(standings, dataset, method)
        is_best = ranks[method] == ranks.min() and not note
        rows.append(
            ScoreRow(
                method=method,
                title=results.title(method),
                group=results.group(method),
                rank=float(ranks[method]),
                score=score,
                error=_at(summary, metric, method, "standard_error"),
                mark=Markup(plots.interval(score, low, high, scale, is_best=is_best)),
                seconds=_at(summary, metric, method, "seconds"),
                memory=_at(summary, metric, method, "memory"),
                note=note,
            )
        )
    return tuple(rows)


def _note(standings: Standings, dataset: str, method: str) -> str:
    """Say why the scores of a method on a dataset do not count."""
    units = standings.results.units
    states = [unit.state for unit in units if (unit.dataset, unit.method) == (dataset, method)]
    if standings.missing.at[dataset, method]:
        return "not run on all splits" if states else "not run"
    if "failed" in states:
        return f"failed on {states.count('failed')} of {formatting.plural(len(states), 'split')}"
    return "no score on some splits"


def _scale(bounds: list[tuple[float, float, float]], *, is_higher_better: bool) -> Scale:
    """Make a scale wide enough for the better three quarters of the methods and for those not much worse."""
    known = [triple for triple in bounds if math.isfinite(triple[0])]
    if not known:
        return Scale(0, 1, 0, 100)
    ordered = sorted((score for score, _, _ in known), reverse=is_higher_better)
    best, usual = ordered[0], ordered[math.ceil(0.75 * len(ordered)) - 1]
    near = [triple for triple in known if abs(triple[0] - best) <= 2.5 * abs(usual - best)]
    return Scale(*span([value for triple in near for value in triple if math.isfinite(value)], 0.05), 0, 100)


def _bounds(summary: _Summary, metric: str, method: str) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval: over test rows for a single split, else of the mean over splits."""
    mean, splits = _at(summary, metric, method, "mean"), _at(summary, metric, method, "splits")
    if splits == 1:
        return mean, _at(summary, metric, method, "low"), _at(summary, metric, method, "high")
    reach = NORMAL * _at(summary, metric, method, "uncertainty")
    return mean, mean - reach, mean + reach


def _at(summary: _Summary, metric: str, method: str, column: str) -> float:
    return float(summary[metric, method][column]) if (metric, method) in summary else math.nan


def _setting(unit: UnitResult, task: Task) -> Setting:
    trials = ", ".join(f"{count} {state}" for state, count in unit.trials.items() if count)
    score = math.nan if unit.valid_score is None else abs(unit.valid_score)
    params = json.dumps(dict(unit.params), ensure_ascii=False, default=str)
    return Setting(title(unit.method, unit.params), unit.split, _named([_deciding(unit, task)]), score, trials, params)


def _deciding(unit: UnitResult, task: Task) -> Metric:
    """Return the metric that chose the setting of a unit; results of older versions do not name it."""
    return METRICS[unit.chosen_by or PRIMARY[task]]


def _named(metrics: Sequence[Metric]) -> str:
    return " or ".join(metric.title.lower() for metric in metrics)
