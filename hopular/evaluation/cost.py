"""What accuracy costs: score against training seconds and against memory."""

from __future__ import annotations

import pandas as pd

from hopular.evaluation.ranks import rank_table
from hopular.evaluation.results import Results
from hopular.evaluation.scores import directions, leaderboard_matrix, missing_units, primary_scores, relative_scores


def pareto_front(points: pd.DataFrame) -> pd.Series[bool]:
    """Whether no other point has a `score` as high at a lower `cost`, or a higher one at the same; NaN is never."""
    known = points.dropna(subset=["cost", "score"]).sort_values(["cost", "score"], ascending=[True, False])
    best_before = known["score"].cummax().shift(fill_value=float("-inf"))
    is_first = ~known.duplicated("cost")  # of its cost, it has the highest score
    on_front = known["score"].where(is_first).gt(best_before)
    same = known.set_index(["cost", "score"]).index.isin(known[on_front].set_index(["cost", "score"]).index)
    return pd.Series(same, index=known.index, dtype=bool).reindex(points.index, fill_value=False)


def cost_table(results: Results, metric: str | None = None) -> pd.DataFrame:
    """Per method: `rank` (mean), `relative_score`, `seconds` of a fit, peak `memory`, and whether it is on a front.

    Seconds are the mean over datasets of the mean over fits. `is_on_front` is of relative score against seconds,
    `is_on_memory_front` against memory; a memory of 0 was not measured and becomes NaN.
    """
    matrix, higher, missing = leaderboard_matrix(results, metric), directions(results, metric), missing_units(results)
    fits = primary_scores(results, metric)
    groups = fits.groupby(["method", "dataset"])
    memory = fits.groupby("method")["memory"].max()
    table = pd.DataFrame(
        {
            "rank": rank_table(matrix, higher, missing).mean(axis=0),
            "relative_score": relative_scores(matrix, higher, missing),
            "seconds": groups["seconds"].mean().groupby("method").mean().astype(float),
            "memory": memory.where(memory > 0).astype(float),
        },
        index=matrix.columns,
    )
    table.index.name = "method"
    for name, cost in (("is_on_front", "seconds"), ("is_on_memory_front", "memory")):
        table[name] = pareto_front(table.rename(columns={cost: "cost", "relative_score": "score"}))
    return table.sort_index().sort_values("rank", kind="stable")
