"""Whether ranks and scores differ by more than chance, after Demsar (2006) and Benavoli et al. (2017).

Each test raises ValueError, and says why, where it cannot be made. Methods that have no rank on some dataset are left
out of the tests that need complete tables; the results name them or show their number of datasets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from hopular.evaluation.scores import orient
from hopular.formatting import plural

Array = np.ndarray[Any, Any]
DRAWS = 20_000  # from the posterior: probabilities to about 0.4 %
EXACT = 50  # datasets up to which Wilcoxon's p-value is exact, as in SciPy
PRIOR = 0.5  # weight of the prior belief that both are equal, in datasets


@dataclass(frozen=True)
class Friedman:
    """The test of whether all methods rank alike; `f` is the less conservative statistic of Iman and Davenport."""

    statistic: float
    p_value: float
    f: float
    f_p_value: float
    n_methods: int
    n_datasets: int
    left_out: tuple[str, ...]  # methods without a rank on some dataset


def complete(ranks: pd.DataFrame) -> pd.DataFrame:
    """Ranks among the methods that have one on every dataset; datasets on which nothing could be ranked are gone."""
    ranked = ranks.dropna(how="all")
    return ranked.dropna(axis=1).rank(axis=1, method="average")


def friedman(ranks: pd.DataFrame, *, correct_ties: bool = True) -> Friedman:
    """Friedman's test over a table of ranks; without the correction for ties it is Demsar's formula."""
    from scipy import stats

    table = complete(ranks)
    n, k = table.shape
    _check_size(n, k, least_methods=3, test="Friedman's test")
    values = table.to_numpy(dtype=float)
    if (values == values[:, :1]).all():
        raise ValueError(f"all {k} methods tie on all {n} datasets: there is no difference to test")
    statistic = 12 * n / (k * (k + 1)) * float(((values.mean(axis=0) - (k + 1) / 2) ** 2).sum())
    if correct_ties:
        sizes = [np.unique(row, return_counts=True)[1] for row in values]
        tied = sum(int((counts**3 - counts).sum()) for counts in sizes)
        statistic /= 1 - tied / (n * k * (k * k - 1))
    room = n * (k - 1) - statistic  # 0 where all datasets rank the methods alike
    f = (n - 1) * statistic / room if room > 1e-9 else np.inf
    left_out = tuple(sorted(set(ranks.columns) - set(table.columns)))
    p_value, f_p_value = stats.chi2.sf(statistic, k - 1), stats.f.sf(f, k - 1, (k - 1) * (n - 1))
    return Friedman(float(statistic), float(p_value), float(f), float(f_p_value), k, n, left_out)


def nemenyi(ranks: pd.DataFrame) -> pd.DataFrame:
    """p-values (methods x methods) of Nemenyi's test of all pairs by their mean ranks."""
    from scikit_posthocs import posthoc_nemenyi_friedman  # type: ignore[import-untyped]

    table = complete(ranks)
    _check_size(*table.shape, least_methods=2, test="Nemenyi's test")
    values = posthoc_nemenyi_friedman(table.to_numpy(dtype=float)).to_numpy()
    return pd.DataFrame(values, index=table.columns, columns=table.columns)


def critical_difference(n_methods: int, n_datasets: int, alpha: float = 0.05) -> float:
    """By how much two mean ranks must differ to be significant at `alpha` in Nemenyi's test."""
    from scipy import stats

    _check_size(n_datasets, n_methods, least_methods=2, test="The critical difference", least_datasets=1)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}; use 0.05")
    q = float(stats.studentized_range.ppf(1 - alpha, n_methods, np.inf)) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets)))


def cliques(mean_ranks: pd.Series[float], difference: float) -> list[tuple[str, ...]]:
    """Groups of at least two methods whose mean ranks differ by less than `difference`, as large as can be.

    They are the bars of a critical-difference diagram, best first.
    """
    ordered = mean_ranks.dropna().sort_index().sort_values(kind="stable")
    names, values = list(ordered.index), ordered.to_numpy(dtype=float)
    found: list[tuple[str, ...]] = []
    reached = 0
    for start in range(len(names)):
        stop = int(np.searchsorted(values, values[start] + difference, side="left"))
        if stop - start >= 2 and stop > reached:
            found.append(tuple(names[start:stop]))
            reached = stop
    return found


def full_methods(ranks: pd.DataFrame) -> list[str]:
    """The methods that have a rank on every dataset on which anything could be ranked: only these can be compared."""
    ranked = ranks.dropna(how="all")
    return [str(name) for name in ranked.columns[ranked.notna().all(axis=0)]] if len(ranked) else []


def wilcoxon_holm(
    matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Wilcoxon's signed-rank test of all pairs of methods, with p-values adjusted by Holm's procedure.

    One row per pair: methods `a` and `b`, `datasets` that both were run on, `statistic`, `p_value`, `adjusted`, and
    `better` (the method with the larger rank sum, or None). Losses of different datasets have different scales, so
    their differences are taken relative to the larger loss; a failure is worse by more than any other difference.
    """
    _check_size(*matrix.shape, least_methods=2, test="Wilcoxon's test")
    rows = []
    for a, b, gain in differences(matrix, directions, missing):
        statistic, p_value, better = signed_rank(gain)
        winner = {1: a, -1: b}.get(better)
        rows.append(
            {"a": a, "b": b, "datasets": len(gain), "statistic": statistic, "p_value": p_value, "better": winner}
        )
    table = pd.DataFrame(rows)
    table["adjusted"] = holm(table["p_value"].to_numpy(dtype=float))
    return table[["a", "b", "datasets", "statistic", "p_value", "adjusted", "better"]]


def signed_rank(gain: Array) -> tuple[float, float, int]:
    """Wilcoxon's statistic, its p-value, and the sign of what prevails.

    Differences of 0 count half for either side, as in Demsar; p is 1 where nothing differs. Up to 50 datasets the
    p-value is exact, also with ties, for which SciPy would go through all permutations; beyond it is SciPy's.
    """
    from scipy import stats

    ranks = stats.rankdata(np.abs(gain))
    for_a, for_b = (float((ranks * ((gain * sign > 0) + 0.5 * (gain == 0))).sum()) for sign in (1, -1))
    if not gain.any():
        p_value = 1.0
    elif len(gain) > EXACT:
        p_value = float(stats.wilcoxon(gain, zero_method="zsplit").pvalue)
    else:
        p_value = _exact(np.round(2 * ranks[gain != 0]).astype(int), round(2 * float(ranks[gain > 0].sum())))
    return min(for_a, for_b), p_value, int(np.sign(for_a - for_b))


def _exact(doubled_ranks: Array, observed: int) -> float:
    """Two-sided p-value of a sum of ranks (all times 2, so that they are integers), each in it with probability 1/2."""
    chances = np.zeros(doubled_ranks.sum() + 1)
    chances[0] = 1.0
    for rank in doubled_ranks:
        without = chances / 2
        chances = without.copy()
        chances[rank:] += without[:-rank]
    return float(min(1.0, 2 * min(chances[: observed + 1].sum(), chances[observed:].sum())))


def holm(p_values: Array) -> Array:
    """Holm's adjusted p-values: the smallest times their number, the next times one less, never decreasing."""
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p_values[order] * factors))
    return adjusted


def pairwise(matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None) -> pd.DataFrame:
    """Wins, ties and losses of `a` against `b` over the datasets that both were run on, for all ordered pairs."""
    signs = {(a, b): np.sign(gain) for a, b, gain in differences(matrix, directions, missing)}
    signs |= {(b, a): -sign for (a, b), sign in signs.items()}
    rows = [(a, b, *(int((signs[a, b] == sign).sum()) for sign in (1, 0, -1))) for a, b in sorted(signs)]
    return pd.DataFrame(rows, columns=["a", "b", "wins", "ties", "losses"])


def differences(
    matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None
) -> Iterator[tuple[str, str, Array]]:
    """For all pairs: by how much `a` is better than `b` on the datasets that both were run on (see `wilcoxon_holm`).

    A dataset on which all methods failed says nothing of any, so it is left out.
    """
    values = orient(matrix, directions).to_numpy(dtype=float)
    is_loss = ~directions.loc[matrix.index].to_numpy(dtype=bool)
    run = np.repeat(~np.isnan(values).all(axis=1, keepdims=True), values.shape[1], axis=1)
    if missing is not None:
        run &= ~missing.loc[matrix.index, matrix.columns].to_numpy(dtype=bool)
    places = {str(name): place for place, name in enumerate(matrix.columns)}
    for a, b in combinations(sorted(places), 2):
        both = run[:, places[a]] & run[:, places[b]]
        yield a, b, _gain(values[both, places[a]], values[both, places[b]], is_loss[both])


def _gain(a: Array, b: Array, is_loss: Array) -> Array:
    larger = np.maximum(np.abs(a), np.abs(b))
    gain = (a - b) / np.where(is_loss & (larger > 0), larger, 1.0)
    failed = np.isnan(gain)
    most = 1 + 2 * np.abs(gain[~failed]).max(initial=0.0)
    return np.asarray(np.round(np.where(failed, most * (np.isnan(b) * 1.0 - np.isnan(a)), gain), 12))


@dataclass(frozen=True)
class SignedRank:
    """The probabilities that `a` is better in practice, that both are equivalent, and that `b` is better."""

    a_better: float
    equivalent: float
    b_better: float


def bayesian_signed_rank(gains: Sequence[float] | Array, rope: float, *, seed: int = 0) -> SignedRank:
    """The Bayesian signed-rank test of by how much `a` is better than `b` on each dataset (see `differences`).

    `rope` is the difference below which two scores are the same in practice, such as 0.01 for accuracy.
    """
    gain = np.asarray(gains, dtype=float)
    if not np.isfinite(gain).all():
        lost = plural(int((~np.isfinite(gain)).sum()), "score")
        raise ValueError(f"{lost} not finite: leave out datasets with failures")
    if rope < 0:
        raise ValueError(f"rope must be at least 0, got {rope}: it is a difference that does not matter")
    if len(gain) < 2:
        raise ValueError(f"the signed-rank test needs at least 2 datasets, got {len(gain)}: add datasets")
    values = np.concatenate([[0.0], np.sort(gain)])
    weights = np.random.default_rng(seed).dirichlet([PRIOR, *np.ones(len(gain))], size=DRAWS)
    sums = np.round(values[:, None] + values, 12)
    a_wins, b_wins = (((weights @ region) * weights).sum(axis=1) for region in (sums > 2 * rope, sums < -2 * rope))
    shares = np.stack([a_wins, 1 - a_wins - b_wins, b_wins], axis=1)
    won = np.bincount(shares.argmax(axis=1), minlength=3) / DRAWS
    return SignedRank(*(float(share) for share in won))


def _check_size(n_datasets: int, n_methods: int, *, least_methods: int, test: str, least_datasets: int = 2) -> None:
    if n_methods < least_methods:
        raise ValueError(f"{test} needs at least {least_methods} methods that ran on all datasets, got {n_methods}")
    if n_datasets < least_datasets:
        raise ValueError(f"{test} needs at least {least_datasets} datasets, got {n_datasets}: add datasets")
