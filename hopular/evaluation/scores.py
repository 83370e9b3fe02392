"""From the tidy table of scores to one figure per dataset and method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hopular.data.dataset import Task
from hopular.evaluation.metrics import METRICS, PRIMARY, bootstrap, evaluate, get_metric
from hopular.evaluation.results import Results, Score, UnitResult
from hopular.util import InputError, did_you_mean

KEYS = ["dataset", "method", "metric"]
NORMAL = 1.959963984540054  # half the width of a 95 % interval, in standard errors
NO_SCORE = "no score: it is missing, or no finite number"
KFOLD = r"^(kfold.*)-\d+$"  # ids of splits that test each row at most once; published folds may share test rows

DRAWS = 5_000_000  # rows drawn for the interval of a score, at most, so that large tables take no longer


class Cost(NamedTuple):
    """What a fitted model cost."""

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
    rounds = max(100, min(1000, DRAWS // len(truth)))
    bounds = {primary: bootstrap(task, truth, predictions, classes, primary, rounds=rounds)}
    return tuple(
        Score(dataset, method, split, seed, metric, value, *bounds.get(metric, (nan, nan)), *map(float, cost))
        for metric, value in evaluate(task, truth, predictions, classes).items()
    )


def summarise(scores: pd.DataFrame) -> pd.DataFrame:
    """One row per dataset, method and metric, over all splits and seeds.

    `mean` and `standard_error` (NaN for a single value) are of the `count` values that are not NaN, from `splits`
    splits; `seconds` is the mean of the fits, `memory` their peak. `low` and `high` are the mean bounds of the
    intervals over test rows, so they describe a single split. `uncertainty` is the standard error to judge differences
    by: the larger of `standard_error`, widened for few values, and of what the intervals say. A mean over the folds of
    one cross-validation has more test rows than a single split, so its interval is narrower by the root of their
    number; any other splits may have test rows in common (published folds do), and are taken for a single one.
    """
    # A sum depends on its order in the last digit: sorted values make the mean independent of the order of rows.
    ordered = scores.sort_values([*KEYS, "value"])
    ordered = ordered.assign(course=ordered["split"].astype(str).str.extract(KFOLD)[0])
    groups = ordered.groupby(KEYS, sort=True)
    table = groups.agg(
        mean=("value", "mean"),
        standard_error=("value", "sem"),
        count=("value", "count"),
        splits=("split", "nunique"),
        low=("low", "mean"),
        high=("high", "mean"),
        seconds=("seconds", "mean"),
        memory=("memory", "max"),
        in_folds=("course", "count"),
        courses=("course", "nunique"),
        rows=("split", "size"),
    ).reset_index()
    is_disjoint = (table["in_folds"] == table["rows"]) & (table["courses"] == 1)
    reach = np.fmax(table["high"] - table["mean"], table["mean"] - table["low"])  # to the farther end
    of_rows = reach / NORMAL / np.sqrt(table["splits"].where(is_disjoint, 1))
    table["uncertainty"] = np.fmax(widened(table["standard_error"], table["count"]), of_rows)
    return table.drop(columns=["in_folds", "courses", "rows"])


def widened(standard_error: Any, count: Any) -> Any:
    """A standard error from `count` values, such that 1.96 of it reach as far as Student's t asks for."""
    from scipy import stats

    freedom = np.maximum(np.asarray(count, dtype=float) - 1, 1)
    return standard_error * stats.t.ppf(0.975, freedom) / NORMAL


def primary_scores(results: Results, metric: str | None = None) -> pd.DataFrame:
    """The scores in each dataset's primary metric, or in `metric` for the datasets of its task.

    ValueError if a method has scores in a metric that does not exist and none in the primary one: it is misspelt.
    """
    wanted = _metrics(results, metric)
    scores = results.scores
    chosen = scores[scores["metric"] == scores["dataset"].map(wanted)]
    strange = scores[~scores["metric"].isin(METRICS)]
    lacking = _triples(strange) - _triples(chosen) if len(strange) and metric is None else set()
    if lacking:
        dataset, method, _ = first = min(lacking)
        name = next(str(row.metric) for row in strange.itertuples() if (row.dataset, row.method, row.split) == first)
        raise InputError(
            f"the score of {method} on {dataset} is in {name!r}, which is no metric, and it has none in "
            f"{wanted[dataset]!r}.{did_you_mean(name, METRICS)} The metrics are: {', '.join(METRICS)}"
        )
    return chosen


def leaderboard_matrix(results: Results, metric: str | None = None) -> pd.DataFrame:
    """Datasets x methods: the mean of each dataset's primary metric, or of `metric` for the datasets of its task.

    NaN where a unit failed or has no score, and where a method was not run: `missing_units` tells them apart.
    """
    wanted = _metrics(results, metric)
    chosen = primary_scores(results, metric)
    values: dict[tuple[str, str], list[float]] = {}
    for dataset, method, value in chosen[["dataset", "method", "value"]].itertuples(index=False, name=None):
        values.setdefault((dataset, method), []).append(value)
    failed = failed_pairs(results) | {(dataset, method) for dataset, method, _ in units_run(results) - _scored(chosen)}
    missing = missing_units(results).stack()
    out = failed | set(missing.index[missing.to_numpy(dtype=bool)])
    # Sorted, since a sum depends in its last digit on the order of its terms.
    means = {pair: float(np.mean(np.sort(found))) for pair, found in values.items() if pair not in out}
    methods = _methods(results)
    rows = [[means.get((dataset, method), np.nan) for method in methods] for dataset in wanted]
    return pd.DataFrame(rows, index=list(wanted), columns=methods, dtype=float)


def missing_units(results: Results) -> pd.DataFrame:
    """Datasets x methods: whether a method was not run there, or not on all splits, without having failed.

    Such a method has no rank on the dataset, as opposed to one that failed, which ranks last.
    """
    units, failed = units_run(results), failed_pairs(results)
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
    """The units that failed, in the order of the benchmark; one whose score is no number has failed as well."""
    lacking = units_run(results) - _scored(primary_scores(results))
    found = []
    for unit in results.units:
        key = (unit.dataset, unit.method, unit.split)
        if unit.state == "failed":
            found.append(unit)
        elif key in lacking:
            found.append(replace(unit, state="failed", reason=NO_SCORE))
        lacking.discard(key)
    return found + [
        UnitResult(dataset, split, method, "failed", NO_SCORE) for dataset, method, split in sorted(lacking)
    ]


def untried_units(results: Results) -> list[UnitResult]:
    """The units for which there was no time: they have not failed and have no rank."""
    return [unit for unit in results.units if unit.state == "untried"]


def failed_pairs(results: Results) -> set[tuple[str, str]]:
    """Dataset and method of all failed units."""
    return {(unit.dataset, unit.method) for unit in failed_units(results)}


def directions(results: Results, metric: str | None = None) -> pd.Series[bool]:
    """Whether higher is better, for each dataset of `leaderboard_matrix`."""
    found = {name: get_metric(wanted).higher_is_better for name, wanted in _metrics(results, metric).items()}
    return pd.Series(found.values(), index=list(found), dtype=bool)


def relative_scores(
    matrix: pd.DataFrame, directions: pd.Series[bool], missing: pd.DataFrame | None = None
) -> pd.Series[float]:
    """Average relative score of each method: on each dataset 1 for the best method and 0 for the worst.

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


def orient(matrix: pd.DataFrame, directions: pd.Series[bool]) -> pd.DataFrame:
    """The matrix with the sign turned where lower is better, so that higher is better everywhere."""
    sign = np.where(directions.loc[matrix.index], 1.0, -1.0)
    return level(matrix).mul(sign, axis=0)


def level(matrix: pd.DataFrame) -> pd.DataFrame:
    """Values to 12 significant digits: what differs by rounding alone is a tie."""
    values = matrix.to_numpy(dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.floor(np.log10(np.abs(values)))
        scale = 10.0 ** np.clip(11 - exponent, -290, 290)
        rounded = np.round(values * scale) / scale
    return pd.DataFrame(np.where(values == 0, 0.0, rounded), matrix.index, matrix.columns)


def without_doubtful(results: Results) -> Results:
    """The same benchmark without the datasets that have serious audit findings."""
    kept = {facts.name for facts in results.datasets if not facts.is_doubtful}
    return replace(
        results,
        scores=results.scores[results.scores["dataset"].isin(kept)],
        datasets=tuple(facts for facts in results.datasets if facts.name in kept),
        units=tuple(unit for unit in results.units if unit.dataset in kept),
    )


def _metrics(results: Results, metric: str | None) -> dict[str, str]:
    """The metric by which each dataset is judged."""
    named = {facts.name for facts in results.datasets}
    unknown = sorted({*results.scores["dataset"].unique(), *(unit.dataset for unit in results.units)} - named)
    if unknown:
        raise InputError(f"the results have scores of {', '.join(unknown)} but no facts: add them to `datasets`")
    if metric is None:
        return {facts.name: PRIMARY[facts.task] for facts in results.datasets}
    task = get_metric(metric).task
    return {facts.name: metric for facts in results.datasets if facts.task == task}


def units_run(results: Results) -> set[tuple[str, str, str]]:
    """Dataset, method and split of everything that was run; what was not tried for want of time is not among them."""
    tried = (unit for unit in results.units if unit.state != "untried")
    return {*_triples(results.scores), *((unit.dataset, unit.method, unit.split) for unit in tried)}


def _scored(chosen: pd.DataFrame) -> set[tuple[str, str, str]]:
    """What has scores in the chosen metric, all of them finite."""
    is_finite = np.isfinite(chosen["value"].to_numpy(dtype=float))
    return _triples(chosen[is_finite]) - _triples(chosen[~is_finite])


def _triples(scores: pd.DataFrame) -> set[tuple[str, str, str]]:
    return set(zip(*(scores[name].to_numpy(dtype=object) for name in ("dataset", "method", "split")), strict=True))


def _methods(results: Results) -> list[str]:
    """All methods that were run, by name."""
    return sorted({method for _, method, _ in units_run(results)})
