"""The answer in plain words: who leads, and how Hopular and gradient boosting stand to each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd

from hopular.evaluation.compare import leaders, noise_of_difference, primary_summary
from hopular.evaluation.metrics import PRIMARY, Metric, get_metric
from hopular.evaluation.ranks import rank_results, rank_table, summary
from hopular.evaluation.results import DatasetFacts, Delivered, Results, UnitResult, model_title
from hopular.evaluation.scores import (
    directions,
    failed_units,
    leaderboard_matrix,
    missing_units,
    units_run,
    without_doubtful,
)
from hopular.evaluation.significance import full_methods, wilcoxon_holm
from hopular.formatting import plural
from hopular.methods import methods

ALPHA = 0.05


def headline(results: Results) -> str:
    """One or two sentences on the whole benchmark: the leader, its rival, and whether the lead is more than noise.

    On a single dataset scores decide. On several the mean rank does, and Wilcoxon's test says whether leader and rival
    differ: with Holm's correction over all pairs, since both are chosen after their scores are known. The rival is
    Hopular, or the best gradient boosting if Hopular leads, or else the second. Of a fit it is the model that counts.
    """
    if results.delivered is not None:
        return _join([_model(results, results.delivered), _failures(results)])
    matrix = leaderboard_matrix(results)
    scored = matrix.dropna(how="all").dropna(axis=1, how="all")
    if scored.empty:
        return _join(["No method has finished on any dataset, so there is nothing to compare.", _failures(results)])
    if len(scored) == 1:
        return _join([_each(results)[str(scored.index[0])], _failures(results)])
    return _join([_on_many(results, matrix), _without_doubtful(results), _failures(results)])


def per_dataset(results: Results) -> dict[str, str]:
    """A sentence on each dataset: who leads there, and by more than noise or not; and one on what failed."""
    failed, totals = failed_units(results), Counter(dataset for dataset, _, _ in units_run(results))
    return {
        name: _join([said, _failed(results, [unit for unit in failed if unit.dataset == name], totals[name])])
        for name, said in _each(results).items()
    }


def _model(results: Results, delivered: Delivered) -> str:
    """Name what is handed out, its score and its rows; and who is ahead on the test rows, which decided nothing."""
    facts = results.datasets[0]
    metric = get_metric(PRIMARY[facts.task])
    table = primary_summary(results).reset_index().set_index("method")
    name = metric.title.lower()
    own, low, high = (float(table[column][delivered.method]) for column in ("mean", "low", "high"))
    interval = f" (95 % interval {_value(low, metric)} to {_value(high, metric)})"
    model = model_title([(results.title(method), weight) for method, weight, _ in delivered.members])
    sentences = [
        f"The model is {'an ' if len(delivered.members) > 1 else ''}{model}: {name} {_value(own, metric)} on the test "
        f"rows{interval if low == low else ''}.",
        f"{delivered.trained_on[0].upper()}{delivered.trained_on[1:]}.",
    ]
    ahead = [method for method in leaders(results)[facts.name] if method != delivered.method]
    if ahead and table["mean"][ahead[0]] != own:
        who = f"{_list(map(results.title, ahead))} {'has' if len(ahead) == 1 else 'have'}"
        sentences.append(
            f"The validation rows decided; on the test rows, which had no part in it, {who} {name} "
            f"{_value(table['mean'][ahead[0]], metric)}."
        )
    return _join(sentences)


def _value(mean: float, metric: Metric) -> str:
    if 1e4 <= abs(mean) < 1e9:  # an error of large numbers, which nobody reads as 1.458e+04
        return f"{mean:,.0f}"
    return f"{mean:z.{3 if metric.higher_is_better else 4}g}"


def _each(results: Results) -> dict[str, str]:
    if results.delivered is not None:
        return {results.datasets[0].name: _model(results, results.delivered)}
    best, table = leaders(results), primary_summary(results).reset_index()
    return {
        facts.name: _on_one(results, facts, best[facts.name], table[table["dataset"] == facts.name].set_index("method"))
        for facts in results.datasets
    }


def _on_one(results: Results, facts: DatasetFacts, best: tuple[str, ...], table: pd.DataFrame) -> str:
    """`best` are the leaders, `table` has a row per method that finished."""
    if not best:
        return f"No method has finished on {facts.name}."
    metric = get_metric(PRIMARY[facts.task])
    table = table.sort_values("mean", ascending=not metric.higher_is_better, kind="stable")
    order, name = [str(method) for method in table.index], metric.title.lower()

    def value(method: str) -> str:
        return _value(float(table["mean"][method]), metric)

    if len(order) == 1:
        only = f"Only {results.title(order[0])} has finished on {facts.name} ({name} {value(order[0])})"
        return f"{only}: there is no other to compare."
    if len(best) == len(order):
        return f"All {len(order)} methods tie on {facts.name} ({name} {value(order[0])})."
    if len(best) > 1:
        return f"{_list(map(results.title, best))} share the lead on {facts.name} ({name} {value(best[0])})."
    leader = best[0]
    rival = _rival(leader, order)
    gap = abs(table["mean"][leader] - table["mean"][rival])
    noise = float(noise_of_difference(table["uncertainty"][leader], table["uncertainty"][rival]))
    other = _naming(results, rival, leader, value(rival))
    lead = f"{results.title(leader)} leads on {facts.name} ({name} {value(leader)}); {other}"
    if noise != noise:
        return f"{lead} is behind it, and one fit each is too little to say whether that is more than noise."
    return f"{lead} is {'behind it by more than noise' if gap > noise else 'within noise of it'}."


def _on_many(results: Results, matrix: pd.DataFrame) -> str:
    missing, higher = missing_units(results), directions(results)
    ranks = rank_table(matrix, higher, missing)
    n = int(ranks.notna().any(axis=1).sum())
    full = full_methods(ranks)  # a mean rank over fewer datasets is another figure
    place = _place(results, n)
    if not full:
        return f"No method was run on all of {place}, so none leads."
    table = summary(ranks[full], rounds=1)
    order = [str(method) for method in table.index]
    if len(order) == 1 and len(matrix.columns) > 1:
        return f"Only {results.title(order[0])} was run on all of {place}: there is no other to compare."
    if len(order) == 1:
        return f"Only {results.title(order[0])} has run on {place}: there is no other to compare."
    if table["mean"].max() - table["mean"].min() < 1e-9:
        return f"All {len(order)} methods have the same mean rank on {place}: none leads."
    best = [method for method in order if table["mean"][method] - table["mean"][order[0]] < 1e-9]
    if len(best) > 1:
        return f"{_list(map(results.title, best))} share the lead on {place} (mean rank {table['mean'][best[0]]:.2f})."
    leader = best[0]
    rival = _rival(leader, order)
    tests = wilcoxon_holm(matrix[full], higher, missing[full])
    adjusted = float(tests.loc[tests["a"].isin([leader, rival]) & tests["b"].isin([leader, rival]), "adjusted"].iloc[0])
    figures = f"mean rank {table['mean'][leader]:.2f} against {table['mean'][rival]:.2f}"
    lead = f"{results.title(leader)} leads on {place}; {_naming(results, rival, leader)}"
    if len(tests) * 0.5 ** (n - 1) >= ALPHA:  # the least that the test can find, were the leader best on every dataset
        few = f"{plural(n, 'dataset')} {'is' if n == 1 else 'are'} too few"
        return f"{lead} is behind it ({figures}), but {few} to say that this is not chance."
    figures = f"{figures}, p = {_p(adjusted)}{' after Holm' if len(tests) > 1 else ''}"
    if adjusted < ALPHA:
        return f"{lead} is behind it by more than noise ({figures})."
    return f"{lead} is within noise of it ({figures})."


def _without_doubtful(results: Results) -> str:
    """A sentence if others lead without the datasets that have serious audit findings."""
    count = sum(facts.is_doubtful for facts in results.datasets)
    best = _best(without_doubtful(results)) if count else []
    if not best or best == _best(results):
        return ""
    what = "the dataset that has" if count == 1 else f"the {count} datasets that have"
    lead = "leads" if len(best) == 1 else "share the lead"
    return f"Without {what} serious findings, {_list(map(results.title, best))} {lead}."


def _best(results: Results) -> list[str]:
    """The methods of the best mean rank among those with a rank on every dataset."""
    ranks = rank_results(results)
    means = ranks[full_methods(ranks)].mean(axis=0)
    return sorted(str(method) for method in means.index[means - means.min() < 1e-9])


def _rival(leader: str, order: list[str]) -> str:
    """Whom the leader is compared with: the question is Hopular or gradient boosting."""
    others = [method for method in order if method != leader]
    if leader != "hopular" and "hopular" in others:
        return "hopular"
    boosting = [method for method in others if leader == "hopular" and _is_boosting(method)]
    return boosting[0] if boosting else others[0]


def _is_boosting(method: str) -> bool:
    known = methods().get(method)
    return known is not None and known.group == "boosting"


def _naming(results: Results, rival: str, leader: str, score: str = "") -> str:
    name = f"{results.title(rival)} ({score})" if score else results.title(rival)
    return f"{name}, the best gradient boosting," if leader == "hopular" and _is_boosting(rival) else name


def _place(results: Results, n: int) -> str:
    suites = {facts.suite for facts in results.datasets}
    if len(suites) == 1 and None not in suites:
        return f"{plural(n, 'dataset')} of the paper's {suites.pop()} suite"
    if n > 1 and suites == {None}:
        return f"these {n} datasets"
    return plural(n, "dataset")


def _failures(results: Results) -> str:
    return _failed(results, failed_units(results), len(units_run(results)))


def _failed(results: Results, failed: list[UnitResult], total: int) -> str:
    if not failed:
        return ""
    names = _list(results.title(method) for method in sorted({unit.method for unit in failed}))
    return f"{plural(len(failed), 'unit')} of {total} failed and rank{'s' if len(failed) == 1 else ''} last: {names}."


def _p(p_value: float) -> str:
    return "below 0.001" if p_value < 0.001 else f"{p_value:.2g}"


def _list(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _join(sentences: Iterable[str]) -> str:
    return " ".join(sentence for sentence in sentences if sentence)
