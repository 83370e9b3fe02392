"""Collect: the results of a benchmark from what its tasks returned, and how it came about."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import psutil

from flows.schedule import Course, reason_of
from flows.tracking.champion import Candidate
from flows.tracking.lineage import make_maker
from hopular.benchmark.plan import Plan
from hopular.evaluation.results import SCORE_COLUMNS, DatasetFacts, Maker, Results, UnitResult
from hopular.formatting import plural
from hopular.redaction import without_secrets

TEXT = ("dataset", "method", "split", "metric")


def collect(plan: Plan, benchmark: str, datasets: Sequence[DatasetFacts], courses: Sequence[Course]) -> Results:
    """All scores, all units and where they came from; failed units are among them."""
    rows = [row for course in courses if not course.error for row in course.results[2]["scores"]]
    scores = pd.DataFrame(rows, columns=list(SCORE_COLUMNS))
    numbers = [name for name in SCORE_COLUMNS if name not in TEXT]
    return Results(
        id=benchmark,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        scores=scores.astype({**dict.fromkeys(numbers, float), "seed": int}),
        datasets=tuple(datasets),
        units=tuple(_unit(course) for course in courses),
        settings=plan.public(),
        provenance=provenance(plan),
        command=plan.command(),
    )


def dataset_facts(found: dict[str, Any], audited: Any) -> DatasetFacts:
    """What is known of a dataset; an audit that failed is a finding too."""
    audited.wait()
    if audited.state.is_completed():
        findings = tuple((str(a), str(b), str(c)) for a, b, c in audited.result())
    else:
        findings = (("warning", "audit", f"The audit failed: {reason_of(audited.state)}"),)
    values = {**found, "source": without_secrets(found["source"]), "notes": tuple(found["notes"])}
    return DatasetFacts(**values, findings=findings)


def candidates(facts: DatasetFacts, courses: Sequence[Course]) -> list[Candidate]:
    """The units of a dataset whose models can be kept, among which its champion is chosen."""
    return [
        Candidate(
            run_id=course.results[0]["run_id"],
            method=course.unit.method,
            split=course.unit.split,
            split_fingerprint=course.unit.split_fingerprint,
            dataset_fingerprint=course.unit.dataset_fingerprint,
            loss=course.results[1]["valid_loss"],
            tried=sum(course.results[0]["trials"].values()),
        )
        for course in courses
        if course.unit.dataset == facts.name and not course.error and course.results[1]["model_id"]
    ]


def _unit(course: Course) -> UnitResult:
    unit, found = course.unit, course.results[0] if course.results else {}
    known: dict[str, Any] = {
        "dataset": unit.dataset,
        "split": unit.split,
        "method": unit.method,
        "trials": found.get("trials", {}),
        "search_seconds": found.get("seconds", 0.0),
        "run_id": found.get("run_id", ""),
    }
    if course.error:
        return UnitResult(**known, state="failed", reason=course.error, maker=make_maker(unit.method, unit.device))
    best, replicate = found["best"], course.results[1]["replicates"][0]
    return UnitResult(
        **known,
        state="complete",
        params=best["params"],
        chosen_by=found["chosen_by"],
        valid_score=replicate["valid_score"],
        valid_metrics=replicate["valid_metrics"],
        curve=tuple((int(step), float(score)) for step, score in best["curve"]),
        is_reused=course.is_reused,
        maker=Maker(**found["maker"]),
    )


def provenance(plan: Plan) -> dict[str, str]:
    """Hardware, seed and runner; commit, versions and device are those of each unit."""
    return {
        "machine": f"{platform.system()} {platform.machine()}, {plural(psutil.cpu_count() or 1, 'core')}, "
        f"{psutil.virtual_memory().total / 2**30:.0f} GB",
        "seed": str(plan.seed),
        "runner": plan.runner,
    }
