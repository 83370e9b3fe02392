"""Scheduled reruns: benchmark what is new in a folder, do nothing otherwise, and say what has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.states import Completed

from flows.benchmark import run_plan
from flows.ledger import Scan, read_ledger, scan, write_ledger
from flows.plan import Plan
from flows.publish import closing_words, rank, report, report_folder
from flows.tracking.lineage import without_secrets
from flows.tracking.store import open_store
from flows.tracking.summary import list_benchmarks, load_results
from hopular.evaluation.compare import compare, merge
from hopular.evaluation.results import Results

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
    new = [name for name in seen.usable if not seen.ledger.is_done(name, plan.wanted())]
    if not new:
        return Completed(message=_nothing(seen), data={"new": [], "refused": seen.refused})
    for reference in new:
        _emit(NEW, reference, {"fingerprint": seen.ledger.entries[reference].fingerprint})
    outcome = run_plan(plan.model_copy(update={"datasets": new}))
    write_ledger(seen.ledger.after(new, plan.wanted(), _with_failures(new, outcome)))
    together = _report_all(plan, Results.load(report_folder(outcome["benchmark"])))
    message = f"{len(new)} new datasets: {closing_words(outcome)}"
    return Completed(message=message, data={"new": new, "refused": seen.refused, **outcome, "all": together})


@task(name="look", cache_policy=NO_CACHE)
def look(folder: str | None, openml: list[int], target: str | None) -> Scan:
    """Look at the folder and remember what was seen."""
    seen = scan(None if folder is None else Path(folder), openml, read_ledger(), target)
    write_ledger(seen.ledger)
    return seen


def _report_all(plan: Plan, latest: Results) -> dict[str, Any]:
    """The report over all datasets so far, with what has changed since the last one."""
    name = f"new-datasets-{plan.budget}-{plan.wanted()[:8]}"
    client = open_store()
    is_first = all(found.id != name for found in list_benchmarks(client))
    before = None if is_first else load_results(client, name)
    results = latest if before is None else merge([_others(before, latest), latest])
    results = replace(results, id=name, command=latest.command)
    changes = None if before is None else compare(before, results)
    outcome: dict[str, Any] = report(results, rank(results, {}), {}, changes)
    return outcome


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
    return [name for name in new if any(name == key or f" on {Path(name).stem} " in key for key in failed)]


def _nothing(seen: Scan) -> str:
    bad = len(seen.refused) + seen.known_bad
    return f"nothing new among {len(seen.usable)} datasets" + (f" ({bad} files cannot be used)" if bad else "")


def _emit(event: str, reference: str, payload: dict[str, Any]) -> None:
    name = without_secrets(reference)
    emit_event(
        event,
        resource={"prefect.resource.id": f"hopular.dataset.{Path(name).name}"},
        payload={"dataset": name, **payload},
    )
