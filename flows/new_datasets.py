"""Scheduled reruns: benchmark what is new in a folder, do nothing otherwise, and say what has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.states import Completed

from flows.benchmark import BenchmarkError, run_plan
from flows.ledger import Ledger, Scan, read_ledger, scan, update_ledger
from flows.publish import closing_words, rank, report, report_folder
from flows.tracking.membership import store_id
from flows.tracking.store import open_store, patiently
from flows.tracking.summary import list_benchmarks, load_results
from hopular.benchmark.plan import Plan
from hopular.data.read import stem
from hopular.evaluation.compare import Comparison, compare, merge
from hopular.evaluation.results import Results
from hopular.formatting import plural
from hopular.redaction import without_secrets

NEW, BAD = "hopular.dataset.new", "hopular.dataset.refused"  # events that automations can wait for


@flow(name="hopular-new-datasets")
def hopular_new_datasets(
    folder: str | None = "datasets",
    openml: list[int] = [],  # noqa: B006 - Prefect wants the default of a parameter as it is
    plan: Plan = Plan(),  # noqa: B008 - a frozen model
) -> Any:
    """Benchmark each dataset in `folder`, or of these OpenML ids, that has no finished result for the plan yet.

    The datasets of `plan` are not looked at, all else in it is. A changed file counts as new; a bad file is reported
    once per content and skipped. The report covers everything benchmarked so far and says what has changed.
    """
    logger = get_run_logger()
    seen: Scan = look(None if folder is None else str(Path(folder).expanduser().resolve()), openml, plan.target)
    for reference, why in seen.refused.items():
        logger.error("%s is skipped: %s", reference, why)
        _emit(BAD, reference, {"reason": why})
    for reference, why in seen.unreachable.items():
        logger.warning("%s is left for the next time: %s", reference, why)
    wanted = f"{plan.wanted()} {_store()}"
    new = [name for name in seen.usable if not seen.ledger.is_done(name, wanted)]
    if not new:
        return Completed(message=_nothing(seen), data={"new": [], "refused": seen.refused})
    for reference in new:
        _emit(NEW, reference, {"fingerprint": seen.ledger.entries[reference].fingerprint})
    try:
        outcome = run_plan(plan.model_copy(update={"datasets": new}))
    except BenchmarkError:  # nothing came of it, which counts as an attempt all the same
        update_ledger(lambda now: _counted(now, seen.ledger, new, wanted, new))
        raise
    update_ledger(lambda now: _counted(now, seen.ledger, new, wanted, _with_failures(new, outcome)))
    together = _report_all(plan, Results.load(report_folder(outcome["benchmark"])))
    message = f"{len(new)} new datasets: {closing_words(outcome)}"
    return Completed(message=message, data={"new": new, "refused": seen.refused, **outcome, "all": together})


@task(name="look", cache_policy=NO_CACHE, timeout_seconds=4 * 3600)
def look(folder: str | None, openml: list[int], target: str | None) -> Scan:
    """Look at the folder and remember what was seen."""
    before = read_ledger()
    seen = scan(None if folder is None else Path(folder), openml, before, target)
    update_ledger(lambda now: now.merged(before, seen.ledger))
    return seen


def _store() -> str:
    """The store that results count in: what is finished in another one is new to this."""
    client = open_store()
    return patiently(lambda: store_id(client), seconds=60)


def _counted(now: Ledger, seen: Ledger, new: list[str], wanted: str, failed: list[str]) -> Ledger:
    """The ledger with one more attempt of each new dataset, as it was when it was looked at."""
    entries = {**now.entries, **{name: seen.entries[name] for name in new}}
    return replace(now, entries=entries).after(new, wanted, failed)


def _report_all(plan: Plan, latest: Results) -> dict[str, Any]:
    """The report over all datasets so far, with what has changed since the last one of the same budget."""
    prefix = f"new-datasets-{plan.budget}-"
    name = f"{prefix}{plan.wanted()[:8]}"
    client = open_store()
    earlier = [found.id for found in list_benchmarks(client) if found.id.startswith(prefix)]
    before = load_results(client, earlier[0]) if earlier else None
    own = load_results(client, name) if name in earlier else None
    results = latest if own is None else merge([_others(own, latest), latest])
    results = replace(results, id=name, command=latest.command)
    changes = None if before is None else changes_since(before, results)
    outcome: dict[str, Any] = report(rank(results, {}), {}, changes, {})
    return outcome


def changes_since(before: Results, after: Results) -> Comparison:
    """What has changed; the leaders of a file whose content has are compared too, though its scores cannot be."""
    now = {facts.name: facts.fingerprint for facts in after.datasets}
    by_name = tuple(replace(facts, fingerprint=now.get(facts.name, facts.fingerprint)) for facts in before.datasets)
    leaders = compare(replace(before, datasets=by_name), after).leaders
    return replace(compare(before, after), leaders=leaders)


def _others(before: Results, latest: Results) -> Results:
    """What is known of datasets that were not benchmarked again; a changed file replaces what it was."""
    again = {facts.name for facts in latest.datasets}
    return replace(
        before,
        datasets=tuple(facts for facts in before.datasets if facts.name not in again),
        units=tuple(unit for unit in before.units if unit.dataset not in again),
        scores=before.scores[~before.scores["dataset"].isin(again)],
    )


def _with_failures(new: list[str], outcome: dict[str, Any]) -> list[str]:
    """The datasets of which some unit failed, or which could not be loaded."""
    failed = list(outcome["failed"])
    return [name for name in new if any(name == key or f" on {stem(Path(name))} " in key for key in failed)]


def _nothing(seen: Scan) -> str:
    bad = len(seen.refused) + seen.known_bad
    notes = [f"{bad} cannot be used"] if bad else []
    notes += [f"{len(seen.unreachable)} cannot be reached now"] if seen.unreachable else []
    return f"nothing new among {plural(len(seen.usable), 'dataset')}" + (f" ({', '.join(notes)})" if notes else "")


def _emit(event: str, reference: str, payload: dict[str, Any]) -> None:
    name = without_secrets(reference)
    emit_event(
        event,
        resource={"prefect.resource.id": f"hopular.dataset.{Path(name).name}"},
        payload={"dataset": name, **payload},
    )
