"""The verdict on a benchmark: its leaderboard, and in plain words who leads and whether that is more than noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from hopular.evaluation import scores as scoring
from hopular.evaluation.metrics import METRICS, PRIMARY, Metric
from hopular.evaluation.results import DatasetFacts, Results, UnitResult
from hopular.evaluation.significance import ALPHA, Friedman, friedman, wilcoxon_holm
from hopular.formatting import plural


@dataclass(frozen=True, eq=False)
class Standings:
    """The standings of a benchmark's methods. Each figure is computed once, when first asked for.

    Whatever shows a benchmark takes this value: the terminal, the report, its plots and the tracking store.
    """

    results: Results

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Return datasets x methods: the mean of each dataset's primary metric, see `score_matrix`."""
        return scoring.score_matrix(self.results)

    @cached_property
    def directions(self) -> pd.Series[bool]:
        """Return for each dataset whether higher scores are better."""
        return scoring.directions(self.results)

    @cached_property
    def missing(self) -> pd.DataFrame:
        """Return datasets x methods: whether a method was not run there."""
        return scoring.missing_units(self.results)

    @cached_property
    def failed(self) -> list[UnitResult]:
        """Return the units that failed."""
        return scoring.failed_units(self.results)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Return the primary metrics by dataset and method, with their uncertainty, see `primary_summary`."""
        return scoring.primary_summary(self.results)

    @cached_property
    def leaders(self) -> dict[str, tuple[str, ...]]:
        """Return the best methods of each dataset: several if they tie, none if all failed."""
        return scoring.leaders(scoring.orient(self.scores, self.directions))

    @cached_property
    def ranks(self) -> pd.DataFrame:
        """Return datasets x methods: the ranks, see `rank_table`."""
        return scoring.rank_table(self.scores, self.directions, self.missing)

    @cached_property
    def full(self) -> list[str]:
        """Return the methods that were run on every dataset: a mean rank over fewer is another figure."""
        return scoring.full_methods(self.ranks)

    @cached_property
    def friedman(self) -> Friedman:
        """Test whether all methods rank alike; ValueError says why that cannot be tested."""
        return friedman(self.ranks)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Test all pairs of `full` methods, see `wilcoxon_holm`; ValueError says why that cannot be tested."""
        return wilcoxon_holm(self.scores[self.full], self.directions, self.missing[self.full])

    @cached_property
    def costs(self) -> pd.DataFrame:
        """Return relative score, seconds and memory of each method, see `cost_table`."""
        return scoring.cost_table(self.results, scoring.relative_scores(self.scores, self.directions, self.missing))

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return the leaderboard: the best mean rank first, then, without a `place`, methods not run on every dataset.

        A mean over fewer datasets may be good because those were the easy ones. `rank_low` and `rank_high` bound a
        95 % interval of the mean rank, `median_low` and `median_high` one of the median; `sound_rank` and
        `sound_median` leave out datasets that have serious audit findings, `sound_place` is the place by that mean.
        """
        ranks = scoring.summarise_ranks(self.ranks)
        has_place = ranks.index.isin(self.full)
        ranks = pd.concat([ranks[has_place], ranks[~has_place]])
        has_place = ranks.index.isin(self.full)
        doubtful = [facts.name for facts in self.results.datasets if facts.is_doubtful]
        sound = scoring.summarise_ranks(self.ranks.drop(index=doubtful), rounds=1).reindex(ranks.index)
        costs = self.costs.reindex(ranks.index)
        failed = pd.Series([unit.method for unit in self.failed], dtype=object).value_counts()
        board = pd.DataFrame(
            {
                "place": ranks["mean"].where(has_place).rank(method="min"),
                "title": [self.results.title(name) for name in ranks.index],
                "group": [self.results.group(name) for name in ranks.index],
                "mean_rank": ranks["mean"],
                "median_rank": ranks["median"],
                "rank_low": ranks["low"],
                "rank_high": ranks["high"],
                "median_low": ranks["median_low"],
                "median_high": ranks["median_high"],
                "sound_rank": sound["mean"],
                "sound_median": sound["median"],
                "sound_place": sound["mean"].where(has_place).rank(method="min"),
                "relative": costs["relative"],
                "wins": ranks["wins"],
                "datasets": ranks["count"],
                "failed": failed.reindex(ranks.index, fill_value=0).astype(int),
                "seconds": costs["seconds"],
                "memory": costs["memory"],
            },
            index=ranks.index,
        )
        return board.reset_index(names="method")

    @cached_property
    def headline(self) -> str:
        """Say in one or two sentences who leads, and whether the lead over its rival is more than noise.

        On a single dataset scores decide. On several the mean rank does, and Wilcoxon's test says whether leader and
        rival differ: with Holm's correction over all pairs, since both are chosen after their scores are known. The
        rival is Hopular, or the best gradient boosting if Hopular leads, or else the second.
        """
        scored = self.scores.dropna(how="all").dropna(axis=1, how="all")
        if scored.empty:
            return _join(["No method has finished on any dataset, so there is nothing to compare.", _failures(self)])
        if len(scored) == 1:
            return _join([_each(self)[str(scored.index[0])], _failures(self)])
        return _join([_on_many(self), _without_doubtful(self), _failures(self)])

    @cached_property
    def per_dataset(self) -> dict[str, str]:
        """Say for each dataset who leads there, whether that is more than noise, and what failed."""
        totals = Counter(dataset for dataset, _, _ in scoring.units_run(self.results))
        return {
            name: _join(
                [said, _failed(self.results, [unit for unit in self.failed if unit.dataset == name], totals[name])]
            )
            for name, said in _each(self).items()
        }


def _value(mean: float, metric: Metric) -> str:
    if 1e4 <= abs(mean) < 1e9:  # an error of large numbers, which nobody reads as 1.458e+04
        return f"{mean:,.0f}"
    return f"{mean:z.{3 if metric.higher_is_better else 4}g}"


def _each(standings: Standings) -> dict[str, str]:
    results = standings.results
    table = standings.summary.reset_index()
    return {
        facts.name: _on_one(
            results, facts, standings.leaders[facts.name], table[table["dataset"] == facts.name].set_index("method")
        )
        for facts in results.datasets
    }


def _on_one(results: Results, facts: DatasetFacts, best: tuple[str, ...], table: pd.DataFrame) -> str:
    """Say who leads on one dataset; `best` are the leaders, `table` has a row per method that finished."""
    if not best:
        return f"No method has finished on {facts.name}."
    metric = METRICS[PRIMARY[facts.task]]
    table = table.sort_values("mean", ascending=not metric.higher_is_better, kind="stable")
    order, name = [str(method) for method in table.index], metric.title.lower()

    def value(method: str) -> str:
        return _value(float(table["mean"][method]), metric)

    if len(order) == 1:
        only = f"Only {results.title(order[0])} has finished on {facts.name} ({name} {value(order[0])})"
        return f"{only}: there is nothing to compare it with."
    if len(best) == len(order):
        return f"All {len(order)} methods tie on {facts.name} ({name} {value(order[0])})."
    if len(best) > 1:
        return f"{_list(map(results.title, best))} share the lead on {facts.name} ({name} {value(best[0])})."
    leader = best[0]
    rival = _rival(results, leader, order)
    gap = abs(table["mean"][leader] - table["mean"][rival])
    noise = float(scoring.noise_of_difference(table["uncertainty"][leader], table["uncertainty"][rival]))
    other = _naming(results, rival, leader, value(rival))
    lead = f"{results.title(leader)} leads on {facts.name} ({name} {value(leader)}); {other}"
    if noise != noise:
        return f"{lead} is behind it, and one fit each cannot tell whether that is more than noise."
    return f"{lead} is {'behind it by more than noise' if gap > noise else 'within noise of it'}."


def _on_many(standings: Standings) -> str:
    results = standings.results
    n = int(standings.ranks.notna().any(axis=1).sum())
    place = _place(results, n)
    if not standings.full:
        return f"No method was run on all of {place}, so none leads."
    table = scoring.summarise_ranks(standings.ranks[standings.full], rounds=1)
    order = [str(method) for method in table.index]
    if len(order) == 1 and len(standings.scores.columns) > 1:
        return f"Only {results.title(order[0])} was run on all of {place}: there is nothing to compare it with."
    if len(order) == 1:
        return f"Only {results.title(order[0])} has run on {place}: there is nothing to compare it with."
    if table["mean"].max() - table["mean"].min() < 1e-9:
        return f"All {len(order)} methods have the same mean rank on {place}: none leads."
    best = [method for method in order if table["mean"][method] - table["mean"][order[0]] < 1e-9]
    if len(best) > 1:
        return f"{_list(map(results.title, best))} share the lead on {place} (mean rank {table['mean'][best[0]]:.2f})."
    leader = best[0]
    rival = _rival(results, leader, order)
    tests = standings.pairs
    adjusted = float(tests.loc[tests["a"].isin([leader, rival]) & tests["b"].isin([leader, rival]), "adjusted"].iloc[0])
    figures = f"mean rank {table['mean'][leader]:.2f} against {table['mean'][rival]:.2f}"
    lead = f"{results.title(leader)} leads on {place}; {_naming(results, rival, leader)}"
    if len(tests) * 0.5 ** (n - 1) >= ALPHA:  # the least p-value there can be, with the leader best everywhere
        few = f"{plural(n, 'dataset')} {'is' if n == 1 else 'are'} too few"
        return f"{lead} is behind it ({figures}), but {few} to rule out chance."
    figures = f"{figures}, {_p(adjusted)}{' after Holm' if len(tests) > 1 else ''}"
    if adjusted < ALPHA:
        return f"{lead} is behind it by more than noise ({figures})."
    return f"{lead} is within noise of it ({figures})."


def _without_doubtful(standings: Standings) -> str:
    """Say who leads without the datasets that have serious audit findings, if that is somebody else."""
    doubtful = [facts.name for facts in standings.results.datasets if facts.is_doubtful]
    count = len(doubtful)
    best = _best(standings.ranks.drop(index=doubtful)) if count else []
    if not best or best == _best(standings.ranks):
        return ""
    what = "the dataset that has" if count == 1 else f"the {count} datasets that have"
    lead = "leads" if len(best) == 1 else "share the lead"
    return f"Without {what} serious findings, {_list(map(standings.results.title, best))} {lead}."


def _best(ranks: pd.DataFrame) -> list[str]:
    """Return the methods with the best mean rank among those that have a rank on every dataset."""
    means = ranks[scoring.full_methods(ranks)].mean(axis=0)
    return sorted(str(method) for method in means.index[means - means.min() < 1e-9])


def _rival(results: Results, leader: str, order: list[str]) -> str:
    """Choose the method that the leader is compared with: the question is Hopular or gradient boosting."""
    others = [method for method in order if method != leader]
    if leader != "hopular" and "hopular" in others:
        return "hopular"
    boosting = [method for method in others if leader == "hopular" and results.group(method) == "boosting"]
    return boosting[0] if boosting else others[0]


def _naming(results: Results, rival: str, leader: str, score: str = "") -> str:
    name = f"{results.title(rival)} ({score})" if score else results.title(rival)
    is_boosting = leader == "hopular" and results.group(rival) == "boosting"
    return f"{name}, the best gradient boosting," if is_boosting else name


def _place(results: Results, n: int) -> str:
    suites = {facts.suite for facts in results.datasets}
    if len(suites) == 1 and None not in suites:
        return f"{plural(n, 'dataset')} of the paper's {suites.pop()} suite"
    if n > 1 and suites == {None}:
        return f"these {n} datasets"
    return plural(n, "dataset")


def _failures(standings: Standings) -> str:
    return _failed(standings.results, standings.failed, len(scoring.units_run(standings.results)))


def _failed(results: Results, failed: list[UnitResult], total: int) -> str:
    if not failed:
        return ""
    names = _list(results.title(method) for method in sorted({unit.method for unit in failed}))
    return f"{plural(len(failed), 'unit')} of {total} failed and rank{'s' if len(failed) == 1 else ''} last: {names}."


def _p(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"


def _list(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _join(sentences: Iterable[str]) -> str:
    return " ".join(sentence for sentence in sentences if sentence)
