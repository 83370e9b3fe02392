"""Compare two benchmarks, telling changes from noise; merge several benchmarks into one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from hopular.evaluation.results import Results, architecture_of, title
from hopular.evaluation.scores import noise_of_difference, units_run
from hopular.evaluation.verdict import Standings
from hopular.util import InputError

# Settings that must be the same for scores on a dataset to be compared, and those a merged benchmark keeps of each.
_EFFORT = ("budget", "limits", "replicates")
_LABELLED = (*_EFFORT, "architecture", "splits", "seed")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two benchmarks side by side.

    `leaders` has a row per dataset of both: the best methods `before` and `after`, `is_changed`, and whether the new
    leader's lead over the old one `is_noise` (None if that cannot be told, for example because the old one failed).
    `scores` has a row per dataset and method of both in the primary `metric`: `before`, `after`, `difference`, `noise`
    (what a difference must exceed; NaN if it is unknown), `is_moved` and `is_better`. What failed in only one of them
    is listed in `newly_failed` and `recovered` instead, as pairs of dataset and method. `renamed` has the titles,
    before and after, of methods that are not quite the same in both, such as another architecture of Hopular.
    """

    before: str  # ids of the benchmarks
    after: str
    leaders: pd.DataFrame
    scores: pd.DataFrame
    new_datasets: tuple[str, ...]
    gone_datasets: tuple[str, ...]
    changed_datasets: tuple[str, ...]  # same name, other contents: their scores are not compared
    new_methods: tuple[str, ...]
    gone_methods: tuple[str, ...]
    newly_failed: tuple[tuple[str, str], ...] = ()
    recovered: tuple[tuple[str, str], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    @property
    def moved(self) -> pd.DataFrame:
        """Return the scores that differ by more than noise."""
        return self.scores[self.scores["is_moved"]]


def compare(before: Results, after: Results) -> Comparison:
    """Compare `after` with `before` in the primary metric of each dataset; see `noise_of_difference`."""
    old, new = ({facts.name: facts.fingerprint for facts in results.datasets} for results in (before, after))
    changed = {name for name in old.keys() & new.keys() if old[name] != new[name]}
    same = sorted((old.keys() & new.keys()) - changed)
    both = Standings(before), Standings(after)
    methods = [set(standings.scores.columns) for standings in both]
    failed = [{(unit.dataset, unit.method) for unit in standings.failed if unit.dataset in same} for standings in both]
    return Comparison(
        before=before.id,
        after=after.id,
        leaders=_leaders(*both, same),
        scores=_scores(*both, same),
        new_datasets=tuple(sorted(new.keys() - old.keys())),
        gone_datasets=tuple(sorted(old.keys() - new.keys())),
        changed_datasets=tuple(sorted(changed)),
        new_methods=tuple(sorted(methods[1] - methods[0])),
        gone_methods=tuple(sorted(methods[0] - methods[1])),
        newly_failed=tuple(sorted(failed[1] - failed[0])),
        recovered=tuple(sorted(failed[0] & set(both[1].summary.index))),
        renamed=tuple(_renamed(before, after, sorted(methods[0] & methods[1]))),
    )


def _renamed(before: Results, after: Results, methods: list[str]) -> Iterator[tuple[str, str]]:
    """Yield titles that differ; a plain one means nothing, since earlier results do not name the architecture."""
    for name in methods:
        pair = before.title(name), after.title(name)
        if pair[0] != pair[1] and title(name) not in pair:
            yield pair


def _scores(before: Standings, after: Standings, datasets: list[str]) -> pd.DataFrame:
    first, second = before.summary, after.summary
    pairs = first.index.intersection(second.index).sort_values()
    pairs = pairs[pairs.get_level_values("dataset").isin(datasets)]
    first, second = first.loc[pairs], second.loc[pairs]
    table = pd.DataFrame({"metric": second["metric"], "before": first["mean"], "after": second["mean"]})
    table["difference"] = table["after"] - table["before"]
    table["noise"] = noise_of_difference(first["uncertainty"], second["uncertainty"])
    rounding = 1e-12 * table[["before", "after"]].abs().max(axis=1)
    table["is_moved"] = (table["difference"].abs() > table["noise"]) & (table["difference"].abs() > rounding)
    higher = after.directions.reindex(pairs.get_level_values("dataset")).to_numpy(dtype=bool)
    table["is_better"] = (table["difference"] > 0) == higher
    return table.reset_index()


def _leaders(before: Standings, after: Standings, datasets: list[str]) -> pd.DataFrame:
    old, new, table = before.leaders, after.leaders, after.summary
    rows = []
    for dataset in datasets:
        is_changed = set(old[dataset]) != set(new[dataset])
        pair = [(dataset, names[0]) for names in (old[dataset], new[dataset]) if names]
        is_noise = None
        if is_changed and len(pair) == 2 and pair[0] in table.index:
            one, two = table.loc[[pair[0]]].iloc[0], table.loc[[pair[1]]].iloc[0]
            noise = float(noise_of_difference(one["uncertainty"], two["uncertainty"]))
            is_noise = None if np.isnan(noise) else bool(abs(one["mean"] - two["mean"]) <= noise)
        rows.append((dataset, ", ".join(old[dataset]), ", ".join(new[dataset]), is_changed, is_noise))
    table = pd.DataFrame(rows, columns=["dataset", "before", "after", "is_changed", "is_noise"])
    return table.astype({"is_noise": object})


def merge(results: Sequence[Results]) -> Results:
    """Merge several benchmarks; of a unit that is in several, the one of the latest benchmark counts.

    ValueError if methods would be ranked on a dataset by other splits or with another budget than their rivals.
    """
    if not results:
        raise InputError("there are no benchmarks to merge: name at least one")
    ordered = sorted(results, key=lambda item: item.created)
    latest = ordered[-1]
    facts = {item.name: item for one in ordered for item in one.datasets}
    for one in ordered:
        for item in one.datasets:
            if item.fingerprint != facts[item.name].fingerprint:
                raise InputError(
                    f"dataset {item.name!r} of benchmark {one.id!r} has other contents than in a later benchmark: "
                    "compare the benchmarks instead, or give the new data a name of its own"
                )
    owner: dict[tuple[str, str, str], int] = {}
    for place, one in enumerate(ordered):
        owner |= {(unit.dataset, unit.split, unit.method): place for unit in one.units}
        owner |= dict.fromkeys(_keys(one.scores), place)
    parts = [one.scores[[owner[key] == place for key in _keys(one.scores)]] for place, one in enumerate(ordered)]
    units = [
        unit
        for place, one in enumerate(ordered)
        for unit in one.units
        if owner[unit.dataset, unit.split, unit.method] == place
    ]
    filled = [part for part in parts if len(part)]
    merged = replace(
        latest,
        id="+".join(dict.fromkeys(one.id for one in ordered)),
        scores=pd.concat(filled, ignore_index=True) if filled else latest.scores,
        datasets=tuple(facts.values()),
        units=tuple(units),
        settings={**latest.settings, **_labelled(ordered)},
        command="\n".join(dict.fromkeys(one.command for one in ordered if one.command)),
        methods={name: method for one in ordered for name, method in one.methods.items()},
    )
    _check_fair(ordered, owner, merged)
    return merged


def _check_fair(ordered: Sequence[Results], owner: dict[tuple[str, str, str], int], merged: Results) -> None:
    """Refuse a mixture of splits, budgets or architectures within a dataset."""
    efforts: dict[str, dict[str, str]] = {}  # dataset, effort: the benchmark that has it
    for (dataset, _, _), place in sorted(owner.items(), key=lambda item: item[1]):
        one = ordered[place]
        effort = ", ".join(f"{name} {one.settings[name]}" for name in _EFFORT if one.settings.get(name))
        efforts.setdefault(dataset, {})[effort] = one.id
    for facts in merged.datasets:
        names = sorted({architecture_of(unit) for unit in merged.units if unit.dataset == facts.name} - {""})
        if len(names) > 1:
            raise InputError(
                f"{facts.name!r} was run with the architectures {' and '.join(names)}: a mean over both would be of "
                "neither; compare the benchmarks instead"
            )
    splits: dict[str, dict[str, set[str]]] = {}
    for dataset, method, split in units_run(merged):
        splits.setdefault(dataset, {}).setdefault(method, set()).add(split)
    for dataset, found in splits.items():
        if len(efforts[dataset]) > 1:
            known = " and ".join(f"{effort or 'an unknown budget'} ({id})" for effort, id in efforts[dataset].items())
            raise InputError(f"{dataset!r} was run with {known}: ranking them together is unfair; compare them instead")
        alone = {frozenset(split for name, _, split in units_run(one) if name == dataset) for one in ordered}
        if len({frozenset(some) for some in found.values()}) > 1 and len(alone - {frozenset()}) > 1:
            known = "; ".join(f"{method} {', '.join(sorted(some))}" for method, some in sorted(found.items()))
            raise InputError(
                f"the benchmarks have different splits of {dataset!r} ({known}): run all methods on the same splits, "
                "or compare the benchmarks instead"
            )


def _labelled(ordered: Sequence[Results]) -> dict[str, Any]:
    """Return the settings that differ, each by the id of its benchmark."""
    values = {name: {one.id: one.settings.get(name) for one in ordered} for name in _LABELLED}
    return {name: found for name, found in values.items() if len(set(map(repr, found.values()))) > 1}


def _keys(scores: pd.DataFrame) -> list[tuple[str, str, str]]:
    return list(scores[["dataset", "split", "method"]].itertuples(index=False, name=None))
