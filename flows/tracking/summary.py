"""Summaries: one run per benchmark with its leaderboard, files and pictures, and its results to be read again."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from flows.tracking.runs import EXPERIMENT, Lineage, find_or_make, log_scores
from flows.tracking.store import one_at_a_time
from hopular.evaluation.results import Results, architecture_of
from hopular.redaction import without_secrets
from hopular.util import InputError, did_you_mean

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

BENCHMARK, CREATED = "hopular.benchmark", "hopular.created"
_SHORT = 12  # characters of a fingerprint
_MAX_TAG = 5000  # characters that every kind of store takes
FOLDER = "results"  # of the artifacts, with what Results.save writes


@dataclass(frozen=True)
class Benchmark:
    """A benchmark as the list of them shows it."""

    id: str
    created: str  # ISO time
    run_id: str
    datasets: str
    methods: str


def save_summary(
    client: MlflowClient,
    results: Results,
    lineage: Lineage,
    metrics: Mapping[str, float] | None = None,
    files: Path | None = None,
) -> str:
    """Write the summary run of a benchmark and return its id; one that is there already is brought up to date.

    `metrics` are those of the leaderboard, such as rank_catboost; `files` is a folder with the report and pictures.
    """
    from mlflow.entities import RunTag

    experiment = find_or_make(client, EXPERIMENT)
    tags = {
        **replace(lineage, kind="benchmark").tags(),
        BENCHMARK: results.id,
        CREATED: results.created,
        "hopular.datasets": ", ".join(facts.name for facts in results.datasets),
        "hopular.fingerprints": ", ".join(f"{facts.name} {facts.fingerprint[:_SHORT]}" for facts in results.datasets),
        "hopular.methods": ", ".join(sorted({unit.method for unit in results.units})),
        "hopular.command": results.command,
    }
    with one_at_a_time("summaries"):
        run = _find(client, experiment, results.id)
        if run is None:
            run = client.create_run(experiment, tags={BENCHMARK: results.id}, run_name=results.id)
    run_id = str(run.info.run_id)
    failed = sum(unit.state == "failed" for unit in results.units)
    client.log_batch(run_id, tags=[RunTag(name, value[:_MAX_TAG]) for name, value in tags.items()])
    counts = {"units": len(results.units), "units_failed": failed, "datasets": len(results.datasets)}
    log_scores(client, run_id, {**counts, **(metrics or {})})
    with tempfile.TemporaryDirectory() as folder:
        results.save(Path(folder))
        client.log_artifacts(run_id, folder, FOLDER)
    if files is not None:
        client.log_artifacts(run_id, str(files))
    client.set_terminated(run_id, "FINISHED")
    return run_id


def benchmark_lineage(results: Results, flow_run: str) -> Lineage:
    """Return where a benchmark came from; commits, versions and devices are those of its units."""
    limits = ", ".join(f"{name} {value}" for name, value in results.settings.get("limits", {}).items())
    budget, made_with = str(results.settings.get("budget", "")), results.made_with
    return Lineage(
        results.id,
        flow_run=flow_run,
        seed=results.settings.get("seed"),
        budget=f"{budget} ({limits})" if limits else budget,
        architecture=", ".join(sorted({architecture_of(unit) for unit in results.units} - {""})),
        device=made_with.get("device", ""),
        commit=made_with.get("commit", ""),
        versions=made_with.get("versions", ""),
    )


def list_benchmarks(client: MlflowClient) -> list[Benchmark]:
    """Return all benchmarks whose results are kept, the latest first."""
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return []
    runs = client.search_runs([experiment.experiment_id], "attributes.status = 'FINISHED'", max_results=1000)
    found = [_benchmark(run) for run in runs if BENCHMARK in run.data.tags]
    return sorted(found, key=lambda benchmark: benchmark.created, reverse=True)


def load_results(client: MlflowClient, benchmark: str | None = None) -> Results:
    """Return the results of a benchmark, by default the latest, from the store alone."""
    known = {found.id: found for found in list_benchmarks(client)}
    if not known:
        raise InputError(f"there are no results in {without_secrets(client.tracking_uri)}: run a benchmark first")
    chosen = known.get(benchmark) if benchmark is not None else next(iter(known.values()))
    if chosen is None:
        shown = ", ".join(list(known)[:10])
        raise InputError(
            f"there is no benchmark {benchmark!r}.{did_you_mean(str(benchmark), known)} The latest are: {shown}"
        )
    _check_files(chosen, client.get_run(chosen.run_id).info.artifact_uri)
    with tempfile.TemporaryDirectory() as folder:
        return Results.load(Path(client.download_artifacts(chosen.run_id, FOLDER, folder)))


def _check_files(benchmark: Benchmark, address: str) -> None:
    """Refuse a store that was moved: one on this machine knows its files by their absolute paths."""
    parts = urlsplit(address)
    path = Path(unquote(parts.path))
    if parts.scheme in ("", "file") and not path.exists():
        raise InputError(
            f"the files of benchmark {benchmark.id!r} are not at {path} any more: move the folder back to where it was"
        )


def _find(client: MlflowClient, experiment: str, benchmark: str) -> Run | None:
    runs = client.search_runs([experiment], f"tags.`{BENCHMARK}` = '{benchmark}'", max_results=1)
    return runs[0] if runs else None


def _benchmark(run: Run) -> Benchmark:
    tags = run.data.tags
    return Benchmark(
        id=tags[BENCHMARK],
        created=tags.get(CREATED, ""),
        run_id=run.info.run_id,
        datasets=tags.get("hopular.datasets", ""),
        methods=tags.get("hopular.methods", ""),
    )
