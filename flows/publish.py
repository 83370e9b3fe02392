"""Publish: the last two tasks of a benchmark, ranks and report, and the places where people look for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from prefect import get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from flows.retries import RETRY
from flows.tracking.champion import Candidate, decide
from flows.tracking.lineage import Lineage
from flows.tracking.store import open_store
from flows.tracking.summary import save_summary
from hopular import settings
from hopular.evaluation.compare import Comparison
from hopular.evaluation.results import Results, architecture_of
from hopular.evaluation.verdict import Standings
from hopular.formatting import plural
from hopular.paper.footprint import kept_footprint
from hopular.report.leaderboard import to_csv, to_latex, to_markdown
from hopular.report.page import write_plots, write_report

LAST: dict[str, Any] = {"cache_policy": NO_CACHE, "timeout_seconds": 1800, **RETRY}


def report_folder(benchmark: str) -> Path:
    """Where the files of a benchmark's report are on this machine."""
    return settings.runs_folder() / "reports" / benchmark


@task(name="rank", **LAST)
def rank(results: Results, candidates: Mapping[str, list[Candidate]]) -> dict[str, Any]:
    """Rank the methods, and decide for each dataset whether its winner by validation is to be its champion."""
    client = open_store()
    decisions = {dataset: decide(client, dataset, units) for dataset, units in candidates.items()}
    standings = Standings(results)
    get_run_logger().info("%s", standings.headline)
    return {"standings": standings, "decisions": decisions}


@task(name="report", **LAST)
def report(
    ranked: Mapping[str, Any],
    failed: Mapping[str, str],
    changes: Comparison | None,
    champions: Mapping[str, str],
) -> dict[str, Any]:
    """Write the report and the leaderboard in every form; put them into the tracking store and the run's artifacts."""
    standings: Standings = ranked["standings"]
    results, table = standings.results, standings.table
    folder = report_folder(results.id)
    results.save(folder)
    page = write_report(standings, folder / "report.html", changes=changes, footprint=_footprint())
    for name, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table))):
        (folder / f"leaderboard.{name}").write_text(text, encoding="utf-8")
    write_plots(standings, folder / "plots")
    rows = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    ranks = {f"rank_{row['method']}": row["mean_rank"] for row in rows}
    run_id = save_summary(open_store(), results, lineage_of(results), ranks, folder)
    key = "".join(letter if letter.isalnum() else "-" for letter in results.id.lower())
    create_table_artifact(rows, key=f"leaderboard-{key}", description=standings.headline)
    lines = [f"# {results.id}", "", standings.headline, "", to_markdown(table), *_failures(standings, failed)]
    create_markdown_artifact("\n".join(lines), key=f"report-{key}", description="Leaderboard and failures")
    create_link_artifact(page.as_uri(), key=f"page-{key}", description="The whole report")
    return {
        "benchmark": results.id,
        "headline": standings.headline,
        "report": str(page),
        "run_id": run_id,
        "champions": dict(champions),
        "units": len(results.units),
        "reused": sum(unit.is_reused for unit in results.units),
        "failed": {
            **failed,
            **{f"{unit.method} on {unit.dataset} {unit.split}": unit.reason for unit in standings.failed},
        },
    }


def lineage_of(results: Results) -> Lineage:
    """Return where a benchmark came from; commits, versions and devices are those of its units."""
    limits = ", ".join(f"{name} {value}" for name, value in results.settings.get("limits", {}).items())
    budget, made_with = str(results.settings.get("budget", "")), results.made_with
    return Lineage(
        results.id,
        flow_run=str(flow_run.id or ""),
        seed=results.settings.get("seed"),
        budget=f"{budget} ({limits})" if limits else budget,
        architecture=", ".join(sorted({architecture_of(unit) for unit in results.units} - {""})),
        device=made_with.get("device", ""),
        commit=made_with.get("commit", ""),
        versions=made_with.get("versions", ""),
    )


def _footprint() -> pd.DataFrame | None:
    """What was measured on this machine; a damaged file of it is no reason to lose a benchmark's report."""
    try:
        return kept_footprint()
    except ValueError as error:
        get_run_logger().warning("%s", error)
        return None


def _failures(standings: Standings, failed: Mapping[str, str]) -> list[str]:
    units = [f"- {unit.method} on {unit.dataset} {unit.split}: {unit.reason}" for unit in standings.failed]
    lines = [*(f"- {name}: {why}" for name, why in failed.items()), *units]
    return ["", "## Failed", "", *lines] if lines else []


def counted(outcome: Mapping[str, Any]) -> str:
    """How much was done and what was there before."""
    units, reused = outcome["units"], outcome["reused"]
    if reused == units:
        return f"nothing was trained: {'the one unit was' if units == 1 else f'all {units} units were'} finished before"
    return f"{plural(units - reused, 'unit')} run" + (f", {reused} finished before" if reused else "")


def closing_words(outcome: Mapping[str, Any]) -> str:
    """The run in one sentence: how much was done, what failed and why."""
    failed = outcome["failed"]
    if not failed:
        return counted(outcome)
    first, why = next(iter(failed.items()))
    return f"{counted(outcome)}; {len(failed)} failed, first {first}: {why}"
