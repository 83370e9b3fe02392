"""Test whether ranks and scores differ by more than chance, after Demsar (2006) and Benavoli et al. (2017).

A test that cannot be made raises ValueError and says why. Methods that have no rank on some dataset are left out of
the tests that need complete tables; the results name them or show their number of datasets.
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
ALPHA = 0.05  # the level of all tests
_DRAWS = 20_000  # from the posterior: probabilities to about 0.4 %
_EXACT = 50  # datasets up to which Wilcoxon's p-value is exact, as in SciPy
_PRIOR = 0.5  # weight of the prior belief that both are equal, in datasets


@dataclass(frozen=True)
class Friedman:
    """A test of whether all methods rank alike."""

    statistic: float
    f: float  # the less conservative statistic of Iman and Davenport
    p_value: float  # of `f`
    n_methods: int
    n_datasets: int
    left_out: tuple[str, ...]  # methods without a rank on some dataset


def complete(ranks: pd.DataFrame) -> pd.DataFrame:
    """Rank those methods among themselves that have a rank on every dataset; drop datasets without any ranks."""
    ranked = ranks.dropna(how="all")
    return ranked.dropna(axis=1).rank(axis=1, method="average")


def friedman(ranks: pd.DataFrame) -> Friedman:
    """Make Friedman's test over a table of ranks, corrected for ties."""
    from scipy import stats

    table = complete(ranks)
    n, k = table.shape
    _check_size(n, k, least_methods=3, test="Friedman's test")
    values = table.to_numpy(dtype=float)
    if (values == values[:, :1]).all():
        raise ValueError(f"all {k} methods tie on all {n} datasets: there is no difference to test")
    statistic = float(stats.friedmanchisquare(*values.T).statistic)
    room = n * (k - 1) - statistic  # 0 where all datasets rank the methods alike
    f = (n - 1) * statistic / room if room > 1e-9 else np.inf
    left_out = tuple(sorted(set(ranks.columns) - set(table.columns)))
    return Friedman(statistic, float(f), float(stats.f.sf(f, k - 1, (k - 1) * (n - 1))), k, n, left_out)


def critical_difference(n_methods: int, n_datasets: int) -> float:
    """Return by how much two mean ranks must differ to be significant in Nemenyi's test."""
    from scipy import stats

    _check_size(n_datasets, n_methods, least_methods=2, test="The critical difference", least_datasets=1)
    q = float(stats.studentized_range.ppf(1 - ALPHA, n_methods, np.inf)) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets)))


def cliques(mean_ranks: pd.Series[float], difference: float) -> list[tuple[str, ...]]:
    """Return the largest groups of at least two methods whose mean ranks differ by less than `difference`.

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


def wilcoxon_holm(
    matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Make Wilcoxon's signed-rank test of all pairs of methods, with p-values adjusted by Holm's procedure.

    There is a row per pair: methods `a` and `b`, `datasets` that both were run on, `statistic`, `p_value`, `adjusted`,
    and `better` (the method with the larger rank sum, or None). Losses of different datasets have different scales, so
    their differences are taken relative to the larger loss; a failure is worse by more than any other difference.
    """
    from statsmodels.stats.multitest import multipletests

    _check_size(*matrix.shape, least_methods=2, test="Wilcoxon's test")
    rows = []
    for a, b, gain in differences(matrix, directions, missing):
        statistic, p_value, better = signed_rank(gain)
        winner = {1: a, -1: b}.get(better)
        rows.append(
            {"a": a, "b": b, "datasets": len(gain), "statistic": statistic, "p_value": p_value, "better": winner}
        )
    table = pd.DataFrame(rows)
    table["adjusted"] = multipletests(table["p_value"].to_numpy(dtype=float), method="holm")[1]
    return table[["a", "b", "datasets", "statistic", "p_value", "adjusted", "better"]]


def signed_rank(gain: Array) -> tuple[float, float, int]:
    """Return Wilcoxon's statistic, its p-value, and the sign of the larger rank sum.

    Differences of 0 count half for either side, as in Demsar; p is 1 where nothing differs. Up to 50 datasets the
    p-value is exact, also with ties, for which SciPy would go through all permutations; beyond that it is SciPy's.
    """
    from scipy import stats

    ranks = stats.rankdata(np.abs(gain))
    for_a, for_b = (float((ranks * ((gain * sign > 0) + 0.5 * (gain == 0))).sum()) for sign in (1, -1))
    if not gain.any():
        p_value = 1.0
    elif len(gain) > _EXACT:
        p_value = float(stats.wilcoxon(gain, zero_method="zsplit").pvalue)
    else:
        p_value = _exact(np.round(2 * ranks[gain != 0]).astype(int), round(2 * float(ranks[gain > 0].sum())))
    return min(for_a, for_b), p_value, int(np.sign(for_a - for_b))


def _exact(doubled_ranks: Array, observed: int) -> float:
    """Return the two-sided p-value of a sum of ranks (doubled, to be integers), each in it with probability 1/2."""
    chances = np.zeros(doubled_ranks.sum() + 1)
    chances[0] = 1.0
    for rank in doubled_ranks:
        without = chances / 2
        chances = without.copy()
        chances[rank:] += without[:-rank]
    return float(min(1.0, 2 * min(chances[: observed + 1].sum(), chances[observed:].sum())))


def pairwise(matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None) -> pd.DataFrame:
    """Count wins, ties and losses of `a` against `b` over the datasets that both were run on, for all ordered pairs."""
    signs = {(a, b): np.sign(gain) for a, b, gain in differences(matrix, directions, missing)}
    signs |= {(b, a): -sign for (a, b), sign in signs.items()}
    rows = [(a, b, *(int((signs[a, b] == sign).sum()) for sign in (1, 0, -1))) for a, b in sorted(signs)]
    return pd.DataFrame(rows, columns=["a", "b", "wins", "ties", "losses"])


def differences(
    matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None
) -> Iterator[tuple[str, str, Array]]:
    """Yield for all pairs by how much `a` is better than `b` on each dataset that both were run on.

    `wilcoxon_holm` says how losses and failures count. A dataset on which all methods failed is left out.
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
    """Probabilities that `a` is better in practice, that both are equivalent, and that `b` is better."""

    a_better: float
    equivalent: float
    b_better: float


def bayesian_signed_rank(gains: Sequence[float] | Array, rope: float) -> SignedRank:
    """Make the Bayesian signed-rank test of `gains`: by how much `a` is better than `b` on each dataset.

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
    weights = np.random.default_rng(0).dirichlet([_PRIOR, *np.ones(len(gain))], size=_DRAWS)
    sums = np.round(values[:, None] + values, 12)
    a_wins, b_wins = (((weights @ region) * weights).sum(axis=1) for region in (sums > 2 * rope, sums < -2 * rope))
    shares = np.stack([a_wins, 1 - a_wins - b_wins, b_wins], axis=1)
    won = np.bincount(shares.argmax(axis=1), minlength=3) / _DRAWS
    return SignedRank(*(float(share) for share in won))


def _check_size(n_datasets: int, n_methods: int, *, least_methods: int, test: str, least_datasets: int = 2) -> None:
    if n_methods < least_methods:
        raise ValueError(f"{test} needs at least {least_methods} methods that ran on all datasets, got {n_methods}")
    if n_datasets < least_datasets:
        raise ValueError(f"{test} needs at least {least_datasets} datasets, got {n_datasets}: add datasets")
