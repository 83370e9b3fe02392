"""What the page shows of ranks, tests and costs over all datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pandas as pd
from markupsafe import Markup

from hopular import formatting
from hopular.evaluation.cost import cost_table
from hopular.evaluation.ranks import rank_results
from hopular.evaluation.results import Results
from hopular.evaluation.scores import directions, leaderboard_matrix, missing_units
from hopular.evaluation.significance import (
    bayesian_signed_rank,
    cliques,
    complete,
    critical_difference,
    differences,
    friedman,
    full_methods,
    pairwise,
    wilcoxon_holm,
)
from hopular.report import plots
from hopular.report.leaderboard import OURS, group_of
from hopular.report.svg import Scale, span

ALPHA = 0.05
ROPE = 0.01  # difference that does not matter in practice: of accuracy, or as a share of a loss
Found = TypeVar("Found")


@dataclass(frozen=True)
class Significance:
    """The critical-difference diagram and what the tests say; sentences explain what could not be tested."""

    diagram: Markup
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """One cell of the pairwise table: wins, ties and losses of its row against its column."""

    wins: int
    ties: int
    losses: int
    is_sure: bool  # the difference is significant after Holm's correction

    @property
    def total(self) -> int:
        """The datasets that both were run on."""
        return self.wins + self.ties + self.losses

    @property
    def share(self) -> float:
        """Of the datasets, how many were won; ties count half."""
        return (self.wins + self.ties / 2) / self.total if self.total else 0.0


@dataclass(frozen=True)
class Chance:
    """How probable it is that the leader is better than another method in practice, about the same, or worse."""

    title: str
    better: float
    same: float
    worse: float


@dataclass(frozen=True)
class PairTable:
    """All methods against all, best first; None on the diagonal."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Pair | None, ...], ...]
    note: str


def significance(results: Results) -> Significance:
    """Friedman's test, and the diagram of mean ranks with Nemenyi's critical difference."""
    ranks = rank_results(results)
    table = complete(ranks)
    test, reason = _try(lambda: friedman(ranks))
    if test is None:
        return Significance(Markup(), (f"Ranks were not tested: {reason}.",))
    difference = critical_difference(test.n_methods, test.n_datasets, ALPHA)
    means = table.mean(axis=0)
    titles = _distinct_titles(results, [str(name) for name in means.index])
    bars = [[titles[name] for name in clique] for clique in cliques(means, difference)]
    diagram = plots.critical_difference(
        {titles[str(name)]: float(means[name]) for name in means.index}, bars, difference, titles.get(OURS, "")
    )
    verdict = "do not all perform alike" if test.f_p_value < ALPHA else "cannot be told apart as a whole"
    sentences = [
        f"Over {formatting.plural(test.n_datasets, 'dataset')}, the {test.n_methods} methods {verdict} "
        f"(Friedman's χ² = {test.statistic:.2f}; {_chance(test.f_p_value)} by the F of Iman and Davenport)."
    ]
    if test.f_p_value >= ALPHA:
        sentences.append("So gaps between the bars of the diagram are no evidence that methods differ.")
    if test.left_out:
        names = ", ".join(results.title(name) for name in test.left_out)
        sentences.append(f"Left out, because they were not run on every dataset: {names}.")
    return Significance(Markup(diagram), tuple(sentences))


def pair_table(results: Results, order: list[str]) -> PairTable | None:
    """Wins, ties and losses of all pairs in the given order of methods; None if there is only one method."""
    if len(order) < 2:
        return None
    matrix, higher, missing = leaderboard_matrix(results), directions(results), missing_units(results)
    full = full_methods(rank_results(results))  # the same tests as those of the headline
    tests, reason = _try(lambda: wilcoxon_holm(matrix[full], higher, missing[full]))
    sure = set()
    if tests is not None:
        certain = tests[tests["adjusted"] < ALPHA]
        sure = set(zip(certain["a"], certain["b"], strict=True)) | set(zip(certain["b"], certain["a"], strict=True))
    counts = {
        (a, b): Pair(int(wins), int(ties), int(losses), (a, b) in sure)
        for a, b, wins, ties, losses in pairwise(matrix, higher, missing).to_numpy()
    }
    note = (
        f"Bold where Wilcoxon's signed-rank test with Holm's correction finds a difference (p < {ALPHA}) between "
        "methods that were run on every dataset."
        if tests is not None
        else f"Differences were not tested: {reason}."
    )
    rows = tuple(tuple(counts.get((a, b)) for b in order) for a in order)
    return PairTable(tuple(results.title(name) for name in order), rows, note)


def leader_chances(results: Results, board: pd.DataFrame) -> tuple[str, list[Chance]]:
    """The leader's title, and the Bayesian signed-rank test of it against each other method with a place.

    There are none if the lead is shared, or if there are fewer than two datasets.
    """
    placed = board[board["place"].notna()]
    best = placed.loc[placed["place"] == 1, "method"].tolist()
    matrix, higher, missing = leaderboard_matrix(results), directions(results), missing_units(results)
    if len(best) != 1 or len(matrix.dropna(how="all")) < 2:
        return "", []
    leader, names = best[0], placed["method"].tolist()
    found = {}
    for a, b, gain in differences(matrix[names], higher, missing[names]):
        if leader in (a, b):
            found[b if a == leader else a] = bayesian_signed_rank(gain if a == leader else -gain, ROPE)
    return results.title(leader), [
        Chance(results.title(name), found[name].a_better, found[name].equivalent, found[name].b_better)
        for name in names
        if name != leader
    ]


def cost_plots(results: Results) -> list[Markup]:
    """Relative score against training seconds and against memory; without plots of what was not measured."""
    table = cost_table(results)
    drawn = []
    for cost, front, label in (
        ("seconds", "is_on_front", "training time, mean of one fit"),
        ("memory", "is_on_memory_front", "peak memory of a training process"),
    ):
        points = [
            plots.Point(results.title(name), group_of(name), row[cost], row["relative_score"], bool(row[front]))
            for name, row in zip(map(str, table.index), table.to_dict("records"), strict=True)
        ]
        drawn.append(Markup(plots.cost(points, label, "relative score", cost, results.title(OURS))))
    return [plot for plot in drawn if plot]


def rank_marks(board: pd.DataFrame) -> list[Markup]:
    """The mean rank of each method with its interval, drawn to one scale."""
    known = [value for name in ("mean_rank", "rank_low", "rank_high") for value in board[name].dropna()]
    scale = Scale(*span(known, 0.03), 0, 100) if known else Scale(0, 1, 0, 100)
    return [
        Markup(plots.interval(mean, low, high, scale))
        for mean, low, high in zip(board["mean_rank"], board["rank_low"], board["rank_high"], strict=True)
    ]


def _distinct_titles(results: Results, names: list[str]) -> dict[str, str]:
    """Titles by name; two methods with one title, such as a plug-in of the same, are told apart by their names."""
    titles = {name: results.title(name) for name in names}
    counts = Counter(titles.values())
    return {name: title if counts[title] == 1 else f"{title} ({name})" for name, title in titles.items()}


def _chance(p_value: float) -> str:
    return f"p = {p_value:.3f}" if p_value >= 0.001 else "p < 0.001"


def _try(test: Callable[[], Found]) -> tuple[Found | None, str]:
    """The outcome of a test, or why it cannot be made, which is for the reader to see."""
    try:
        return test(), ""
    except ValueError as error:
        return None, str(error)
