"""Where studies are kept: Optuna's tables in sqlite or PostgreSQL, and a table of leases beside them.

A trial is in the study from its start, as RUNNING, and its owner renews a lease of its slot. In the end it gets its
record, then its state, then the lease goes. A trial whose owner has died is ended by whoever finds it: as its record
says, or as failed if it has none, and then its slot is free again. Optuna ends a trial only once, so two processes
that both believe to own a slot cannot both store it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import optuna
import psutil
import sqlalchemy as sa
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from hopular import settings
from hopular.trials.trial import Trial
from hopular.util import OperationError, retry

STALE_SECONDS = 60.0  # a lease without a beat for this long is taken over, whoever has it
RETRY_SECONDS = 60.0  # a database that is locked or away is tried again for this long
LOCK_SECONDS = 5.0  # sqlite itself waits this long for a lock
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
CLOCKS = {  # the database's, so that those of several machines need not agree
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "cast(extract(epoch from clock_timestamp()) as double precision)",
}
PERMANENT = (  # words of errors that another try does not mend
    *("unable to open", "readonly", "no such table", "does not exist", "authentication failed", "no password"),
    *("disk is full", "No space left on device"),
)
SECONDS_OF = "seconds of "  # a study's attributes of this name say how long each of its processes has worked

LEASES = sa.Table(
    "hopular_leases",
    sa.MetaData(),
    sa.Column("study", sa.String(200), primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True),
    sa.Column("owner", sa.String(200), nullable=False),
    sa.Column("beat", sa.Double, nullable=False),
)
AWAY = (sa.exc.OperationalError, sa.exc.InterfaceError, optuna.exceptions.StorageInternalError)
T = TypeVar("T")


class StorageError(OperationError):
    """The database of studies cannot be used; the message says what to do."""


def _retried(action: Callable[[], T]) -> T:
    """Do something with the database; while it is locked or away, try again."""

    def is_away(error: BaseException) -> bool:
        return isinstance(error, AWAY) and not any(words in str(error.__cause__ or error) for words in PERMANENT)

    try:
        return retry(action, should_retry=is_away, seconds=RETRY_SECONDS, pauses=(0.05, 2.0))
    except AWAY as error:
        raise StorageError(f"the database of studies cannot be used: {error.__cause__ or error}") from error


def open_storage(url: str | None = None) -> RDBStorage:
    """Open the database at `url` (by default settings.storage_url()), made ready if it is new."""
    try:
        parts = sa.engine.make_url(url or settings.storage_url())
        if parts.drivername in ("postgres", "postgresql"):
            parts = parts.set(drivername="postgresql+psycopg")
        kind = parts.drivername.partition("+")[0]
        if kind not in CLOCKS:
            raise StorageError(f"the database of studies is {kind!r}: use a URL of sqlite or postgresql")
        if kind == "sqlite" and parts.database in (None, "", ":memory:"):
            raise StorageError("the database of studies is in memory: name a file, as in sqlite:///studies.db")
    except sa.exc.ArgumentError as error:
        raise StorageError(f"HOPULAR_STORAGE is not the URL of a database: {error}") from error

    def connect() -> RDBStorage:
        options: dict[str, Any] = {"connect_args": {"timeout": LOCK_SECONDS}} if kind == "sqlite" else {}
        storage = RDBStorage(
            parts.render_as_string(hide_password=False), {"pool_pre_ping": kind != "sqlite", **options}
        )
        if kind == "sqlite":
            with storage.engine.connect() as connection:  # readers do not wait for a writer, nor a commit for the disk
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            sa.event.listen(storage.engine, "connect", _relax)
            storage.engine.dispose()
        LEASES.metadata.create_all(storage.engine)
        return storage

    try:
        return _retried(partial(retry, connect, should_retry=_is_made_twice, seconds=5.0, pauses=(0.1, 0.5)))
    except (sa.exc.SQLAlchemyError, ImportError, StorageError) as error:
        raise StorageError(f"the database of studies {parts!r} cannot be opened: {error}") from error


def _relax(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA synchronous=NORMAL")


def _is_made_twice(error: BaseException) -> bool:
    """Tell whether several processes seem to create the tables at once; another try finds them there."""
    return isinstance(error, sa.exc.IntegrityError | sa.exc.ProgrammingError)


class Study:
    """One study: its trials, and the leases of those that run."""

    def __init__(self, storage: RDBStorage, name: str, facts: Mapping[str, str] | None = None) -> None:
        """Open the study, made if it is new; `facts` say what it is about to those who look at it with Optuna."""
        self.name = name
        self._storage, self._engine = storage, storage.engine
        self._now = sa.literal_column(CLOCKS[storage.engine.dialect.name], sa.Double)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = _retried(
            lambda: optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
        )
        self._id = storage.get_study_id_from_name(name)
        _retried(lambda: self._describe(facts or {}))
        self._running: dict[int, tuple[int, FrozenTrial]] = {}  # the id and the start of the trial of each slot
        self.finished: dict[int, FrozenTrial] = {}
        self.trials()
        self.owner = f"{_host()}:{os.getpid()}:{psutil.Process().create_time():.2f}:{uuid.uuid4().hex[:8]}"

    def _describe(self, facts: Mapping[str, str]) -> None:
        known = self._study.user_attrs if facts else {}
        for name, value in facts.items():
            if known.get(name) != value:
                self._study.set_user_attr(name, value)

    def close(self) -> None:
        """Hang up; a later use connects again."""
        self._engine.dispose()

    # ----------------------------------------------------------------------------------------------------- trials

    def trials(self) -> dict[int, FrozenTrial]:
        """Return the finished trial of each slot, the first one if there should be two; also kept as `finished`."""
        finished: dict[int, FrozenTrial] = {}
        for trial in _retried(lambda: self._study.get_trials(deepcopy=False)):
            record = trial.user_attrs.get("record")
            if record is not None and trial.state == STATES[record["state"]] and record["slot"] not in finished:
                known = self.finished.get(record["slot"])
                finished[record["slot"]] = known or _frozen(
                    Trial.from_json(record), trial.params, trial.distributions, trial.user_attrs
                )
        self.finished = dict(sorted(finished.items()))
        return self.finished

    def start(self, slot: int, params: dict[str, Any], distributions: dict[str, Any]) -> None:
        """Show the trial of a leased slot as RUNNING from now on."""
        attributes = {"slot": slot, "owner": self.owner}
        trial = create_trial(
            state=TrialState.RUNNING, params=params, distributions=distributions, user_attrs=attributes
        )
        self._running[slot] = (_retried(lambda: self._storage.create_new_trial(self._id, trial)), trial)

    def report(self, slot: int, percent: int, score: float) -> None:
        """Show a point of the learning curve. Leave it out when the database is busy: the record has it."""
        with contextlib.suppress(*AWAY, UpdateFinishedTrialError):
            self._storage.set_trial_intermediate_value(self._running[slot][0], percent, score)

    def add(self, record: Trial) -> bool:
        """Finish the trial of a slot and end its lease; False if the lease was lost to another process."""
        trial_id, trial = self._running.pop(record.slot)
        if not self.holds(record.slot):
            self._end(trial_id, None)
            return False
        if self._end(trial_id, record.to_json()):
            self.finished[record.slot] = _frozen(record, trial.params, trial.distributions, trial.user_attrs)
            self.release(record.slot)
            return True
        self.release(record.slot)
        found = self.trials().get(record.slot)  # an earlier try may have succeeded and its answer be lost
        return found is not None and found.user_attrs["owner"] == self.owner

    def give_up(self, slot: int) -> None:
        """End the trial of a slot without a result, if it was started, and give the slot back."""
        if slot in self._running:
            self._end(self._running.pop(slot)[0], None)
        self.release(slot)

    def bury(self) -> None:
        """End the trials that are still RUNNING though nobody has the lease of their slot, or only the dead have."""
        running = [
            trial
            for trial in _retried(lambda: self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)))
            if "owner" in trial.user_attrs
        ]
        if not running:
            return
        living = {(row.slot, row.owner) for row in self._leases() if _alive(row.owner, row.age)}
        for trial in running:
            if (trial.user_attrs["slot"], trial.user_attrs["owner"]) not in living:
                trial_id = self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number)
                self._end(trial_id, trial.user_attrs.get("record"))

    def _end(self, trial_id: int, record: dict[str, Any] | None) -> bool:
        """Give a running trial its record and the state it says, or FAIL without one; False if it had ended before."""
        state = TrialState.FAIL if record is None else STATES[record["state"]]
        values = [record["score"]] if record is not None and state == TrialState.COMPLETE else None

        def write() -> bool:
            try:
                if record is not None:
                    self._storage.set_trial_user_attr(trial_id, "record", record)
                return self._storage.set_trial_state_values(trial_id, state, values)
            except UpdateFinishedTrialError:
                return False

        return _retried(write)

    def spend(self, seconds: float) -> None:
        """Note how long this process has worked on the study; skip that when the database is busy."""
        with contextlib.suppress(*AWAY):
            self._study.set_user_attr(SECONDS_OF + self.owner, seconds)

    def spent(self) -> float:
        """Return for how long processes have worked on the study, all together."""
        attributes = _retried(lambda: self._study.user_attrs)
        return float(sum(value for name, value in attributes.items() if name.startswith(SECONDS_OF)))

    # ----------------------------------------------------------------------------------------------------- leases

    def lease(self, slots: Sequence[int]) -> int | None:
        """Lease the first of some slots that is neither finished nor leased by the living; None if there is none."""
        held = {row.slot: row for row in self._leases()}
        for slot in slots:
            if slot in self.finished:
                continue
            if slot not in held:
                if self._insert(slot):
                    break
            elif not _alive(held[slot].owner, held[slot].age) and self._take_over(slot, held[slot]):
                self.bury()
                break
        else:
            return None
        if slot in self.trials():  # it was finished after the last look
            self.release(slot)
            return self.lease(slots)
        return slot

    def beat(self, slot: int) -> None:
        """Say that the trial of a slot is alive. Skip it when the database is busy: the next beat will do."""
        with contextlib.suppress(*AWAY), self._engine.begin() as connection:
            connection.execute(self._renewal(slot))

    def holds(self, slot: int) -> bool:
        """Tell whether the slot is still leased to this process; if so, the lease is renewed."""
        return self._write(self._renewal(slot)) == 1

    def release(self, slot: int) -> None:
        """Give a slot back."""
        self._write(sa.delete(LEASES).where(*self._own(slot)))

    def sweep(self) -> None:
        """Remove the leases of a study whose slots are all finished, and end what still runs: nobody needs it."""
        self._write(sa.delete(LEASES).where(LEASES.c.study == self.name))
        self.bury()

    def _leases(self) -> list[Any]:
        query = sa.select(LEASES, (self._now - LEASES.c.beat).label("age")).where(LEASES.c.study == self.name)

        def read() -> list[Any]:
            with self._engine.connect() as connection:
                return list(connection.execute(query))

        return _retried(read)

    def _own(self, slot: int) -> tuple[Any, ...]:
        return LEASES.c.study == self.name, LEASES.c.slot == slot, LEASES.c.owner == self.owner

    def _renewal(self, slot: int) -> Any:
        return sa.update(LEASES).where(*self._own(slot)).values(beat=self._now)

    def _write(self, statement: Any) -> int:
        def write() -> int:
            with self._engine.begin() as connection:
                return int(connection.execute(statement).rowcount)

        return _retried(write)

    def _insert(self, slot: int) -> bool:
        try:
            self._write(sa.insert(LEASES).values(study=self.name, slot=slot, owner=self.owner, beat=self._now))
        except sa.exc.IntegrityError:
            return False
        return True

    def _take_over(self, slot: int, old: Any) -> bool:
        same = (LEASES.c.study == self.name, LEASES.c.slot == slot, LEASES.c.owner == old.owner)
        statement = sa.update(LEASES).where(*same, LEASES.c.beat == old.beat)
        return self._write(statement.values(owner=self.owner, beat=self._now)) == 1


class UnsharedStudy(Study):
    """A study that this process alone uses, as that of a fit in a locked folder.

    There is nothing to lease, and a trial is stored once, when it has ended; that takes half of the time.
    """

    def __init__(self, storage: RDBStorage, name: str) -> None:
        super().__init__(storage, name)
        self._settings: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._leased: set[int] = set()

    def lease(self, slots: Sequence[int]) -> int | None:
        """Take the first of some slots that is neither finished nor taken; None if there is none."""
        slot = next((slot for slot in slots if slot not in self.finished and slot not in self._leased), None)
        if slot is not None:
            self._leased.add(slot)
        return slot

    def start(self, slot: int, params: dict[str, Any], distributions: dict[str, Any]) -> None:
        """Remember the setting of a slot."""
        self._settings[slot] = (params, distributions)

    def report(self, slot: int, percent: int, score: float) -> None:
        """Do nothing: the record has the learning curve."""

    def add(self, trial: Trial) -> bool:
        """Store a finished trial."""
        frozen = _frozen(trial, *self._settings[trial.slot])
        _retried(lambda: self._storage.create_new_trial(self._id, frozen))
        self.finished[trial.slot] = frozen
        self.give_up(trial.slot)
        return True

    def give_up(self, slot: int) -> None:
        """Give a slot back."""
        self._settings.pop(slot, None)
        self._leased.discard(slot)

    def beat(self, slot: int) -> None:
        """Do nothing: nobody else waits for the slot."""

    def holds(self, slot: int) -> bool:
        """Tell whether the slot is taken."""
        return slot in self._leased


def _frozen(
    record: Trial, params: dict[str, Any], distributions: dict[str, Any], attributes: dict[str, Any] | None = None
) -> FrozenTrial:
    """Return a finished trial with its whole learning curve, of which the study shows only some points."""
    return create_trial(
        state=STATES[record.state],
        value=record.score if record.state == "complete" else None,
        params=params,
        distributions=distributions,
        intermediate_values=dict(record.curve),
        user_attrs={**(attributes or {}), "record": record.to_json()},
    )


def _host() -> str:
    """Name this machine since its start: its name alone may be that of several."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()[:100]} {boot.read_text()[:13] if boot.exists() else ''}".replace(":", " ").strip()


def _alive(owner: str, age: float) -> bool:
    """Tell whether the owner of a lease lives: it must have beaten lately, and on this machine we can look."""
    host, pid, started, _ = owner.rsplit(":", 3)
    if age >= STALE_SECONDS:
        return False
    if host != _host():
        return True
    try:
        process = psutil.Process(int(pid))  # a number is used again, but hardly within a second or two
        return bool(abs(process.create_time() - float(started)) < 2 and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
