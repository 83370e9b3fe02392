"""From predictions to the tidy table of scores, to one figure per dataset and method, to ranks and costs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hopular.data.dataset import Task
from hopular.evaluation.metrics import METRICS, PRIMARY, bootstrap, evaluate
from hopular.evaluation.results import Results, Score, UnitResult
from hopular.util import InputError, did_you_mean

Array = np.ndarray[Any, Any]
NORMAL = 1.959963984540054  # half the width of a 95 % interval, in standard errors
_KEYS = ["dataset", "method", "metric"]
_NO_SCORE = "no score: it is missing or not a finite number"
_DRAWS = 5_000_000  # rows drawn for the interval of a score, at most, so that large tables take no longer
_KFOLD = r"^(kfold.*)-\d+$"  # ids of splits that test each row at most once; published folds may share test rows


# ---------------------------------------------------------------------------------------------------------- the scores


class Cost(NamedTuple):
    """Seconds and memory of a fitted model."""

    seconds: float  # of the fit
    predict_seconds: float
    memory: float  # peak, in bytes


def score_predictions(
    names: tuple[str, str, str], seed: int, task: Task, truth: Any, predictions: Any, classes: Any, cost: Cost
) -> tuple[Score, ...]:
    """Return the rows of one fitted model in the table of scores; `names` are its dataset, method and split.

    The primary metric has an interval over test rows.
    """
    dataset, method, split = names
    primary, nan = PRIMARY[task], float("nan")
    rounds = max(100, min(1000, _DRAWS // len(truth)))
    bounds = {primary: bootstrap(task, truth, predictions, classes, primary, rounds=rounds)}
    return tuple(
        Score(dataset, method, split, seed, metric, value, *bounds.get(metric, (nan, nan)), *map(float, cost))
        for metric, value in evaluate(task, truth, predictions, classes).items()
    )


def summarise(scores: pd.DataFrame) -> pd.DataFrame:
    """Summarise all splits and seeds: one row per dataset, method and metric.

    `mean` and `standard_error` (NaN for a single value) are of the `count` values that are not NaN, from `splits`
    splits; `seconds` is the mean of the fits, `memory` their peak. `low` and `high` are the mean bounds of the
    intervals over test rows, so they describe a single split. `uncertainty` is the standard error to judge differences
    by: the larger of `standard_error`, widened for few values, and of what the intervals say. A mean over the folds of
    one cross-validation has more test rows than a single split, so its interval is narrower by the root of their
    number. All other splits may share test rows, as published folds do, so their mean counts as a single split.
    """
    # A sum depends on its order in the last digit: sorted values make the mean independent of the order of rows.
    ordered = scores.sort_values([*_KEYS, "value"])
    ordered = ordered.assign(repeat=ordered["split"].astype(str).str.extract(_KFOLD)[0])
    groups = ordered.groupby(_KEYS, sort=True)
    table = groups.agg(
        mean=("value", "mean"),
        standard_error=("value", "sem"),
        count=("value", "count"),
        splits=("split", "nunique"),
        low=("low", "mean"),
        high=("high", "mean"),
        seconds=("seconds", "mean"),
        memory=("memory", "max"),
        in_folds=("repeat", "count"),
        repeats=("repeat", "nunique"),
        rows=("split", "size"),
    ).reset_index()
    is_disjoint = (table["in_folds"] == table["rows"]) & (table["repeats"] == 1)
    reach = np.fmax(table["high"] - table["mean"], table["mean"] - table["low"])  # to the farther end
    of_rows = reach / NORMAL / np.sqrt(table["splits"].where(is_disjoint, 1))
    table["uncertainty"] = np.fmax(widened(table["standard_error"], table["count"]), of_rows)
    return table.drop(columns=["in_folds", "repeats", "rows"])


def widened(standard_error: Any, count: Any) -> Any:
    """Widen a standard error of `count` values, so that 1.96 of it reach as far as Student's t requires."""
    from scipy import stats

    freedom = np.maximum(np.asarray(count, dtype=float) - 1, 1)
    return standard_error * stats.t.ppf(0.975, freedom) / NORMAL


def noise_of_difference(first: Any, second: Any) -> Any:
    """Return what the difference of two means must exceed to be more than noise, from their uncertainties.

    It is 1.96 standard errors of a difference of independent means; `summarise` has widened those of few values.
    Scores on the same test rows vary together, so this errs on the side of noise. The result is NaN if neither
    uncertainty is known.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    return np.where(np.isnan(a) & np.isnan(b), np.nan, NORMAL * np.hypot(np.nan_to_num(a), np.nan_to_num(b)))


def _primary_scores(results: Results) -> pd.DataFrame:
    """Return the scores in each dataset's primary metric.

    A unit that has no score in the primary metric, but one in a metric that does not exist, is a misspelling:
    ValueError.
    """
    wanted = _primary_metrics(results)
    scores = results.scores
    chosen = scores[scores["metric"] == scores["dataset"].map(wanted)]
    strange = scores[~scores["metric"].isin(METRICS)]
    lacking = _triples(strange) - _triples(chosen) if len(strange) else set()
    if lacking:
        dataset, method, _ = first = min(lacking)
        name = next(str(row.metric) for row in strange.itertuples() if (row.dataset, row.method, row.split) == first)
        raise InputError(
            f"the score of {method} on {dataset} is in {name!r}, which is no metric, and it has none in "
            f"{wanted[dataset]!r}.{did_you_mean(name, METRICS)} The metrics are: {', '.join(METRICS)}"
        )
    return chosen


def primary_summary(results: Results) -> pd.DataFrame:
    """Summarise the primary metrics by dataset and method, without units that failed or were not run in full."""
    table = summarise(_primary_scores(results)).set_index(["dataset", "method"])
    known = score_matrix(results).stack().dropna().index
    return table.loc[table.index.intersection(known)].sort_index()


def score_matrix(results: Results) -> pd.DataFrame:
    """Return datasets x methods: the mean of each dataset's primary metric.

    It is NaN where a unit failed or has no score, and where a method was not run: `missing_units` tells them apart.
    """
    chosen = _primary_scores(results)
    values: dict[tuple[str, str], list[float]] = {}
    for dataset, method, value in chosen[["dataset", "method", "value"]].itertuples(index=False, name=None):
        values.setdefault((dataset, method), []).append(value)
    failed = _failed_pairs(results) | {(dataset, method) for dataset, method, _ in units_run(results) - _scored(chosen)}
    missing = missing_units(results).stack()
    out = failed | set(missing.index[missing.to_numpy(dtype=bool)])
    # Sorted, since a sum depends in its last digit on the order of its terms.
    means = {pair: float(np.mean(np.sort(found))) for pair, found in values.items() if pair not in out}
    names, methods = list(_primary_metrics(results)), _methods(results)
    rows = [[means.get((dataset, method), np.nan) for method in methods] for dataset in names]
    return pd.DataFrame(rows, index=names, columns=methods, dtype=float)


def directions(results: Results) -> pd.Series[bool]:
    """Return for each dataset of `score_matrix` whether higher scores are better."""
    found = {name: METRICS[metric].higher_is_better for name, metric in _primary_metrics(results).items()}
    return pd.Series(found.values(), index=list(found), dtype=bool)


def orient(matrix: pd.DataFrame, directions: pd.Series[bool]) -> pd.DataFrame:
    """Turn the sign where lower is better, so that higher is better everywhere; differences by rounding are ties."""
    values = matrix.to_numpy(dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.floor(np.log10(np.abs(values)))
        scale = 10.0 ** np.clip(11 - exponent, -290, 290)  # to 12 significant digits
        rounded = np.round(values * scale) / scale
    sign = np.where(directions.loc[matrix.index], 1.0, -1.0)
    return pd.DataFrame(np.where(values == 0, 0.0, rounded), matrix.index, matrix.columns).mul(sign, axis=0)


def relative_scores(
    matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None
) -> pd.Series[float]:
    """Average the relative scores of each method: on each dataset 1 for the best method and 0 for the worst.

    The others lie between in proportion to their score; methods that all tie have 1, a failed one has 0. Datasets on
    which a method was not run (`missing`) do not count for it.
    """
    oriented = orient(matrix, directions)
    best, worst = oriented.max(axis=1), oriented.min(axis=1)
    spread = (best - worst).where(lambda width: width > 0)
    relative = oriented.sub(worst, axis=0).div(spread, axis=0)
    relative = relative.mask(spread.isna(), 1.0).mask(oriented.isna(), 0.0)
    relative = relative.mask(oriented.isna().all(axis=1))  # nothing is known where all failed
    if missing is not None:
        relative = relative.mask(missing.loc[matrix.index, matrix.columns])
    return relative.mean(axis=0)


def leaders(oriented: pd.DataFrame) -> dict[str, tuple[str, ...]]:
    """Return the best methods of each dataset from oriented scores: several if they tie, none if all failed."""
    best = oriented.eq(oriented.max(axis=1), axis=0)
    return {
        str(name): tuple(map(str, best.columns[row])) for name, row in zip(best.index, best.to_numpy(), strict=True)
    }


# ----------------------------------------------------------------------------------------------------------- the units


def units_run(results: Results) -> set[tuple[str, str, str]]:
    """Return dataset, method and split of everything that was run."""
    return {*_triples(results.scores), *((unit.dataset, unit.method, unit.split) for unit in results.units)}


def missing_units(results: Results) -> pd.DataFrame:
    """Return datasets x methods: whether a method was not run there, or not on all splits, without having failed.

    Such a method has no rank on the dataset, whereas one that failed ranks last.
    """
    units, failed = units_run(results), _failed_pairs(results)
    splits: dict[str, set[str]] = {facts.name: set() for facts in results.datasets}
    run: dict[tuple[str, str], set[str]] = {}
    for dataset, method, split in units:
        splits[dataset].add(split)
        run.setdefault((dataset, method), set()).add(split)
    methods = _methods(results)
    rows = {
        dataset: [(dataset, m) not in failed and (not all_ or run.get((dataset, m), set()) != all_) for m in methods]
        for dataset, all_ in splits.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=methods, dtype=bool)


def failed_units(results: Results) -> list[UnitResult]:
    """Return the units that failed, in the order of the benchmark; one without a finite score has failed as well."""
    lacking = units_run(results) - _scored(_primary_scores(results))
    found = []
    for unit in results.units:
        key = (unit.dataset, unit.method, unit.split)
        if unit.state == "failed":
            found.append(unit)
        elif key in lacking:
            found.append(replace(unit, state="failed", reason=_NO_SCORE))
        lacking.discard(key)
    return found + [
        UnitResult(dataset, split, method, "failed", _NO_SCORE) for dataset, method, split in sorted(lacking)
    ]


def _failed_pairs(results: Results) -> set[tuple[str, str]]:
    """Return dataset and method of all failed units."""
    return {(unit.dataset, unit.method) for unit in failed_units(results)}


def _primary_metrics(results: Results) -> dict[str, str]:
    """Return the metric by which each dataset is judged."""
    named = {facts.name for facts in results.datasets}
    unknown = sorted({*results.scores["dataset"].unique(), *(unit.dataset for unit in results.units)} - named)
    if unknown:
        raise InputError(f"the results have scores of {', '.join(unknown)} but no facts: add them to `datasets`")
    return {facts.name: PRIMARY[facts.task] for facts in results.datasets}


def _scored(chosen: pd.DataFrame) -> set[tuple[str, str, str]]:
    """Return the units whose chosen scores are all finite."""
    is_finite = np.isfinite(chosen["value"].to_numpy(dtype=float))
    return _triples(chosen[is_finite]) - _triples(chosen[~is_finite])


def _triples(scores: pd.DataFrame) -> set[tuple[str, str, str]]:
    return set(zip(*(scores[name].to_numpy(dtype=object) for name in ("dataset", "method", "split")), strict=True))


def _methods(results: Results) -> list[str]:
    """Return the names of all methods that were run, in alphabetical order."""
    return sorted({method for _, method, _ in units_run(results)})


# ----------------------------------------------------------------------------------------------------------- the ranks


def rank_table(matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None) -> pd.DataFrame:
    """Rank the methods on each dataset: 1 is best, ties share their average rank, failures (NaN) share the last ranks.

    A method that was not run on a dataset (`missing`) gets no rank there (NaN). Where all methods failed, none has one.
    """
    oriented = orient(matrix, directions)
    nothing = oriented.isna().all(axis=1)
    keyed = (-oriented).fillna(np.inf)
    if missing is not None:
        keyed = keyed.mask(missing.loc[matrix.index, matrix.columns])
    return keyed.mask(nothing).rank(axis=1, method="average")


def summarise_ranks(ranks: pd.DataFrame, *, rounds: int = 2000) -> pd.DataFrame:
    """Return the median and mean rank of each method, best mean first.

    `low` and `high` bound a 95 % bootstrap interval of the mean rank over datasets (NaN for fewer than two datasets),
    `median_low` and `median_high` one of the median; `wins` counts the datasets on which no method was better, `count`
    those on which it has a rank.
    """
    low, high = rank_interval(ranks, np.nanmean, rounds=rounds)
    median_low, median_high = rank_interval(ranks, nan_median, rounds=rounds)
    best = ranks.eq(ranks.min(axis=1), axis=0)
    table = pd.DataFrame(
        {
            "median": ranks.median(axis=0),
            "mean": ranks.mean(axis=0),
            "low": low,
            "high": high,
            "median_low": median_low,
            "median_high": median_high,
            "wins": best.sum(axis=0),
            "count": ranks.notna().sum(axis=0),
        }
    )
    table.index.name = "method"
    return table.sort_index().sort_values(["mean", "median"], kind="stable")


def rank_interval(
    ranks: pd.DataFrame, statistic: Callable[..., Array], *, rounds: int = 2000
) -> tuple[pd.Series[float], pd.Series[float]]:
    """Return a 95 % percentile interval of a statistic of each method's ranks, over datasets drawn with replacement."""
    ordered = ranks.sort_index()  # the draws must not depend on the order of the rows
    values = ordered.to_numpy(dtype=float)
    bounds = np.full((2, values.shape[1]), np.nan)
    if len(values) >= 2:
        drawn = np.random.default_rng(0).integers(len(values), size=(rounds, len(values)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a method may have no rank on any drawn dataset
            bounds = np.nanquantile(statistic(values[drawn], axis=1), [0.025, 0.975], axis=0)
    few = ranks.notna().sum(axis=0) < 2
    low, high = (pd.Series(bound, ordered.columns, dtype=float).mask(few) for bound in bounds)
    return low, high


def nan_median(values: Array, axis: int) -> Array:
    """Return what NumPy's nanmedian does, which is too slow for a bootstrap."""
    ordered = np.sort(values, axis=axis)  # NaN comes last
    count = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    middle = [np.take_along_axis(ordered, np.maximum(place, 0), axis) for place in ((count - 1) // 2, count // 2)]
    return np.asarray((middle[0] + middle[1]) / 2).squeeze(axis)


def full_methods(ranks: pd.DataFrame) -> list[str]:
    """Return the methods that have a rank wherever anything could be ranked: only these can be compared as a whole."""
    ranked = ranks.dropna(how="all")
    return [str(name) for name in ranked.columns[ranked.notna().all(axis=0)]] if len(ranked) else []


# ----------------------------------------------------------------------------------------------------------- the costs


def cost_table(results: Results, relative: pd.Series[float]) -> pd.DataFrame:
    """Return for each method its `relative` score, `seconds` of a fit and peak `memory`, and if it is on a front.

    Seconds are the mean over datasets of the mean over fits. `is_on_front` is of relative score against seconds,
    `is_on_memory_front` against memory; a memory of 0 was not measured and becomes NaN.
    """
    fits = _primary_scores(results)
    seconds = fits.groupby(["method", "dataset"])["seconds"].mean().groupby("method").mean()
    memory = fits.groupby("method")["memory"].max()
    table = pd.DataFrame(
        {"relative": relative, "seconds": seconds.astype(float), "memory": memory.where(memory > 0).astype(float)},
        index=relative.index,
    )
    for name, cost in (("is_on_front", "seconds"), ("is_on_memory_front", "memory")):
        table[name] = pareto_front(table.rename(columns={cost: "cost", "relative": "score"}))
    return table


def pareto_front(points: pd.DataFrame) -> pd.Series[bool]:
    """Tell for each point if no other has a `score` as high at a lower `cost`, or a higher one at the same `cost`."""
    known = points.dropna(subset=["cost", "score"]).sort_values(["cost", "score"], ascending=[True, False])
    best_before = known["score"].cummax().shift(fill_value=float("-inf"))
    is_first = ~known.duplicated("cost")  # of its cost, it has the highest score
    on_front = known["score"].where(is_first).gt(best_before)
    same = known.set_index(["cost", "score"]).index.isin(known[on_front].set_index(["cost", "score"]).index)
    return pd.Series(same, index=known.index, dtype=bool).reindex(points.index, fill_value=False)
