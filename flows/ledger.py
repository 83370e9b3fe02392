"""Ledger: which files of a watched folder were seen, what is in them, what was benchmarked; a second look is quick."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from flows.tracking.store import one_at_a_time
from hopular import settings
from hopular.data import DataError, load
from hopular.data.download import UnreachableError
from hopular.data.read import is_data_file
from hopular.data.sidecar import sidecar_of
from hopular.data.sources.file import files_in
from hopular.util import InputError

FORMAT = 1
ATTEMPTS = 3  # to benchmark a dataset with failures; then it counts as done


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
        """The ledger once these were benchmarked; those that failed get another chance, a few times."""
        failed, attempts = set(failed), dict(self.attempts)
        for reference in references:
            wish = _wish(self.entries[reference], wanted)
            attempts[wish] = attempts.get(wish, 0) + 1 if reference in failed else ATTEMPTS
        return replace(self, attempts=attempts)

    def merged(self, before: Ledger, after: Ledger) -> Ledger:
        """This ledger with what a look changed from `before` to `after`; others may have looked elsewhere meanwhile."""
        gone = before.entries.keys() - after.entries.keys()
        kept = {name: entry for name, entry in self.entries.items() if name not in gone}
        seen = {name: entry for name, entry in after.entries.items() if before.entries.get(name) != entry}
        return replace(self, entries={**kept, **seen})


@dataclass(frozen=True)
class Scan:
    """What a look at the folder found."""

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
    """The data files of a folder; none, which is no error here, if it is empty."""
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
    """A hash of a file and its sidecar as they are; of an OpenML id, of the id."""
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
    """The ledger as it was last written; an empty one at first. ValueError if the file is damaged."""
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
    file = ledger_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}-{os.getpid()}")
    part.write_text(json.dumps({"format": FORMAT, **asdict(ledger)}, indent=1), encoding="utf-8")
    os.replace(part, file)


def update_ledger(change: Callable[[Ledger], Ledger]) -> None:
    """Change the ledger as it is now, one process at a time."""
    with one_at_a_time("ledger"):
        write_ledger(change(read_ledger()))
