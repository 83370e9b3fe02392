"""Scheduled reruns: benchmark what is new in a folder, do nothing otherwise, and say what has changed.

A ledger has the files of the folder as they were seen, and what was benchmarked, so that a second look is quick.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.states import Completed

from flows.benchmark import Published, Session, rank, report, run_benchmark
from flows.tracking.runs import store_id
from flows.tracking.store import one_at_a_time, open_store
from flows.tracking.summary import list_benchmarks, load_results
from hopular import settings
from hopular.benchmark.plan import Plan
from hopular.benchmark.results import BenchmarkError, report_folder
from hopular.data import DataError, load
from hopular.data.download import UnreachableError
from hopular.data.read import is_data_file, stem
from hopular.data.sidecar import sidecar_of
from hopular.data.sources.file import files_in
from hopular.evaluation.compare import Comparison, compare, merge
from hopular.evaluation.results import Results
from hopular.formatting import plural
from hopular.redaction import without_secrets
from hopular.util import InputError, whole_file

FORMAT = 1
ATTEMPTS = 3  # to benchmark a dataset with failures; then it counts as done
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
    session = Session(client=open_store())
    store = session.ask(lambda: store_id(session.open()), seconds=60)  # what is finished in another one is new to this
    wanted = f"{plan.wanted()} {store}"
    new = [name for name in seen.usable if not seen.ledger.is_done(name, wanted)]
    if not new:
        return Completed(message=_nothing(seen), data={"new": [], "refused": seen.refused})
    for reference in new:
        _emit(NEW, reference, {"fingerprint": seen.ledger.entries[reference].fingerprint})
    try:
        published = run_benchmark(plan.model_copy(update={"datasets": new}), session)
    except BenchmarkError:  # nothing came of it, which counts as an attempt all the same
        update_ledger(lambda now: _counted(now, seen.ledger, new, wanted, new))
        raise
    update_ledger(lambda now: _counted(now, seen.ledger, new, wanted, _with_failures(new, published)))
    together = _report_all(plan, Results.load(report_folder(published.benchmark)), session)
    message = f"{len(new)} new datasets: {published.closing_sentence()}"
    data = {"new": new, "refused": seen.refused, **published.to_json(), "all": together.to_json()}
    return Completed(message=message, data=data)


@task(name="look", cache_policy=NO_CACHE, timeout_seconds=4 * 3600)
def look(folder: str | None, openml: list[int], target: str | None) -> Scan:
    """Look at the folder and remember what was seen."""
    before = read_ledger()
    seen = scan(None if folder is None else Path(folder), openml, before, target)
    update_ledger(lambda now: now.merged(before, seen.ledger))
    return seen


def _counted(now: Ledger, seen: Ledger, new: list[str], wanted: str, failed: list[str]) -> Ledger:
    """Return the ledger with one more attempt of each new dataset, as it was when it was looked at."""
    entries = {**now.entries, **{name: seen.entries[name] for name in new}}
    return replace(now, entries=entries).after(new, wanted, failed)


def _report_all(plan: Plan, latest: Results, session: Session) -> Published:
    """Write the report over all datasets so far, with what has changed since the last one of the same budget."""
    prefix = f"new-datasets-{plan.budget}-"
    name = f"{prefix}{plan.wanted()[:8]}"
    client = session.open()
    earlier = [found.id for found in list_benchmarks(client) if found.id.startswith(prefix)]
    before = load_results(client, earlier[0]) if earlier else None
    own = load_results(client, name) if name in earlier else None
    results = latest if own is None else merge([_others(own, latest), latest])
    results = replace(results, id=name, command=latest.command)
    changes = None if before is None else changes_since(before, results)
    return report(rank(results, {}, session), {}, changes, {}, session)


def changes_since(before: Results, after: Results) -> Comparison:
    """Return what has changed; of a file whose content has, the leaders are compared, though its scores cannot be."""
    now = {facts.name: facts.fingerprint for facts in after.datasets}
    by_name = tuple(replace(facts, fingerprint=now.get(facts.name, facts.fingerprint)) for facts in before.datasets)
    leaders = compare(replace(before, datasets=by_name), after).leaders
    return replace(compare(before, after), leaders=leaders)


def _others(before: Results, latest: Results) -> Results:
    """Return what is known of datasets that were not benchmarked again; a changed file replaces what it was."""
    again = {facts.name for facts in latest.datasets}
    return replace(
        before,
        datasets=tuple(facts for facts in before.datasets if facts.name not in again),
        units=tuple(unit for unit in before.units if unit.dataset not in again),
        scores=before.scores[~before.scores["dataset"].isin(again)],
    )


def _with_failures(new: list[str], published: Published) -> list[str]:
    """Return the datasets of which some unit failed, or which could not be loaded."""
    failed = list(published.failed)
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


# ---------------------------------------------------------------------------------------------------------- the ledger


@dataclass(frozen=True)
class Entry:
    """A file or OpenML id as it was last seen."""

    stamp: str  # size and time of the file and of its sidecar, and the target; it is read again only if they change
    fingerprint: str = ""  # of the dataset; of a file that cannot be used, of its bytes
    error: str = ""  # why it cannot be used


@dataclass(frozen=True)
class Ledger:
    """Everything seen, and the attempts made: how often each dataset was benchmarked as wanted."""

    entries: dict[str, Entry] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)  # by content and wish, ATTEMPTS if finished

    def is_done(self, reference: str, wanted: str) -> bool:
        return self.attempts.get(_wish(self.entries[reference], wanted), 0) >= ATTEMPTS

    def after(self, references: Iterable[str], wanted: str, failed: Iterable[str]) -> Ledger:
        """Return the ledger once these were benchmarked; those that failed get another chance, a few times."""
        failed, attempts = set(failed), dict(self.attempts)
        for reference in references:
            wish = _wish(self.entries[reference], wanted)
            attempts[wish] = attempts.get(wish, 0) + 1 if reference in failed else ATTEMPTS
        return replace(self, attempts=attempts)

    def merged(self, before: Ledger, after: Ledger) -> Ledger:
        """Return this ledger with what a look changed from `before` to `after`; others may have looked elsewhere."""
        gone = before.entries.keys() - after.entries.keys()
        kept = {name: entry for name, entry in self.entries.items() if name not in gone}
        seen = {name: entry for name, entry in after.entries.items() if before.entries.get(name) != entry}
        return replace(self, entries={**kept, **seen})


@dataclass(frozen=True)
class Scan:
    """The findings of a look at the folder."""

    ledger: Ledger
    usable: list[str]  # datasets that can be benchmarked, new or not
    refused: dict[str, str]  # bad files that were not known before in this state, and why
    known_bad: int  # bad files that were reported before
    unreachable: dict[str, str] = field(default_factory=dict)  # of which nothing is known this time, and why


def scan(folder: Path | None, openml: Iterable[int], ledger: Ledger, target: str | None = None) -> Scan:
    """Look at every file and id; only what has changed since the last look is read."""
    references = [str(path) for path in _files(folder)] + [f"openml:{number}" for number in openml]
    entries = {name: entry for name, entry in ledger.entries.items() if Path(name).parent != folder}
    usable, refused, known_bad, unreachable = [], {}, 0, {}
    for reference in references:
        stamp, old = _stamp(reference, target), ledger.entries.get(reference)
        is_known = old is not None and old.stamp == stamp
        try:
            entry = old if is_known and old is not None else _look(reference, stamp, target)
        except UnreachableError as error:
            unreachable[reference] = str(error)
            continue
        entries[reference] = entry
        if not entry.error:
            usable.append(reference)
        elif is_known or (old is not None and old.error and old.fingerprint == entry.fingerprint):
            known_bad += 1
        else:
            refused[reference] = entry.error
    return Scan(replace(ledger, entries=entries), usable, refused, known_bad, unreachable)


def _files(folder: Path | None) -> list[Path]:
    """Return the data files of a folder; none, which is no error here, if it is empty."""
    if folder is None:
        return []
    if not folder.is_dir():
        raise DataError(f"there is no folder {str(folder)!r} to look for new datasets in: make it, or name another one")
    return files_in(folder) if any(is_data_file(path) for path in folder.iterdir()) else []


def _stamp(reference: str, target: str | None) -> str:
    if reference.startswith("openml:"):
        return reference
    parts = []
    for path in (Path(reference), sidecar_of(Path(reference))):
        try:
            found = path.stat()
            parts.append(f"{found.st_size} {found.st_mtime_ns}")
        except FileNotFoundError:
            parts.append("none")
    return ", ".join([*parts, f"target {target}"])


def _look(reference: str, stamp: str, target: str | None) -> Entry:
    try:
        dataset = load(reference, target=None if reference.startswith("openml:") else target)
        return Entry(stamp, dataset.fingerprint)
    except UnreachableError:
        raise
    except (DataError, OSError) as error:
        return Entry(stamp, _content(reference), " ".join(str(error).split()))


def _content(reference: str) -> str:
    """Hash a file and its sidecar as they are; of an OpenML id, of the id."""
    digest = hashlib.sha256(Path(reference).name.encode())
    for path in (Path(reference), sidecar_of(Path(reference))):
        if path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _wish(entry: Entry, wanted: str) -> str:
    return f"{entry.fingerprint} {wanted}"


def ledger_file() -> Path:
    return settings.runs_folder() / "new-datasets.json"


def read_ledger() -> Ledger:
    """Return the ledger as it was last written; an empty one at first. InputError if the file is damaged."""
    try:
        values = json.loads(ledger_file().read_text(encoding="utf-8"))
        if values["format"] != FORMAT:
            raise InputError(f"it is of another version than {FORMAT}")
        entries = {name: Entry(**entry) for name, entry in values["entries"].items()}
        return Ledger(entries, {str(wish): int(count) for wish, count in values["attempts"].items()})
    except FileNotFoundError:
        return Ledger()
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{ledger_file()} cannot be read ({error}): delete it; finished results are not lost"
        ) from error


def write_ledger(ledger: Ledger) -> None:
    """Write it whole or not at all."""
    with whole_file(ledger_file()) as part:
        part.write_text(json.dumps({"format": FORMAT, **asdict(ledger)}, indent=1), encoding="utf-8")


def update_ledger(change: Callable[[Ledger], Ledger]) -> None:
    """Change the ledger as it is now, one process at a time."""
    with one_at_a_time("ledger"):
        write_ledger(change(read_ledger()))
