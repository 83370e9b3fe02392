"""Unit: a method on a split of a dataset, with a budget and a seed, known by its content; and what its steps hand on.

Whatever passes between steps is a frozen dataclass of plain values, so that pydantic writes it as JSON and reads it
again: that is how Prefect keeps what a task returned.
"""

from __future__ import annotations

import base64
import hashlib
import io
import platform
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hopular import __version__
from hopular.benchmark.plan import Plan
from hopular.data import Dataset, Split, load, make_splits
from hopular.data.dataset import DataError
from hopular.evaluation.results import DatasetFacts, Maker, Score, UnitResult
from hopular.methods import get_method
from hopular.methods.fingerprint import scoring_code, take_fingerprint
from hopular.trials.budget import Budget
from hopular.trials.problem import Problem, make_problem
from hopular.trials.run import study_name
from hopular.trials.trial import Trial
from hopular.util import OperationError

_SOURCE = ("flows", "hopular", "search_spaces")  # folders where a file that git does not know is a change
_SHORT = 12  # characters of a fingerprint


class UnitError(OperationError):
    """A method failed on a split; the message says how. It would fail again."""


@dataclass(frozen=True)
class Unit:
    """Names and fingerprints only: whoever works on it loads the rows and checks that they are the ones meant."""

    reference: str  # what the dataset was asked for by
    target: str | None
    dataset: str
    dataset_fingerprint: str
    split: str
    split_fingerprint: str
    method: str
    study: str  # names everything that the search depends on
    budget: Budget
    seed: int
    threads: int
    device: str
    fingerprint: str  # of what computes it: whoever works on it checks that it is the same there
    scoring: str  # fingerprint of the code that scores its predictions

    @property
    def is_ensemble(self) -> bool:
        return get_method(self.method).is_ensemble

    @property
    def architecture(self) -> str:
        """Return the architecture of a method that has several; otherwise nothing."""
        method = get_method(self.method)
        return method.architecture_of(self.budget.settings_of(method, {}))

    @property
    def label(self) -> str:
        """Return the method as a line beside its score names it: which Hopular it is belongs to that."""
        return f"{self.method} ({self.architecture} architecture)" if self.architecture else self.method

    @property
    def title(self) -> str:
        return f"{self.label} on {self.dataset} {self.split}"

    @property
    def key(self) -> str:
        """Identify the unit by content: the same key means the same result."""
        return content_key(self.study, str(self.budget.replicates), self.scoring)

    def rows(self) -> tuple[Dataset, Split]:
        """Load the dataset and split; DataError if they are not those that the unit was made of."""
        dataset, splits = _load(self.reference, self.target, self.dataset_fingerprint)
        split = splits.get(self.split)
        if split is None or split.fingerprint != self.split_fingerprint:
            raise DataError(f"split {self.split!r} of {self.reference!r} is not the one that the benchmark began with")
        return dataset, split

    def problem(self) -> Problem:
        """Return the training and validation rows."""
        return _problem(self.reference, self.target, self.dataset_fingerprint, self.split)

    def check_code(self) -> None:
        """Refuse to compute the unit with other code or libraries than it is known by."""
        if take_fingerprint(self.method, self.device).digest != self.fingerprint:
            raise UnitError(
                f"the code of {self.method} or a version of its libraries is another one here than where the benchmark "
                "began: start it again, with the same on all machines"
            )


@dataclass(frozen=True)
class Searched:
    """The outcome of a search. An ensemble has no trials of its own: its `best` names the members chosen for it."""

    run_id: str  # of the tracking store
    chosen_by: str  # the metric on the validation rows
    best: Trial
    trials: tuple[Trial, ...]
    seconds: float
    maker: Maker

    @property
    def counts(self) -> dict[str, int]:
        """Count the trials by state; the choice of an ensemble's members counts as one."""
        return dict(Counter(trial.state for trial in self.trials or (self.best,)))

    @property
    def models(self) -> int:
        """Return how many models are trained for one replicate: the members of an ensemble, otherwise one."""
        return len(self.best.params.get("members") or [None])


@dataclass(frozen=True)
class Replicate:
    """The best setting trained with one seed."""

    seed: int
    predictions: str  # of the test rows, as `pack` writes an array
    classes: list[str]  # of the columns of probabilities
    valid_score: float | None
    valid_metrics: dict[str, float]
    seconds: float
    predict_seconds: float
    memory: int


@dataclass(frozen=True)
class Trained:
    """The replicates of a unit, and the first one's model."""

    replicates: tuple[Replicate, ...]
    valid_loss: float  # mean over the validation rows: log loss or squared error
    model_id: str = ""  # of the tracking store; empty if the model could not be kept
    members: tuple[tuple[int, float, int | None], ...] = ()  # of an ensemble: place, weight, rounds


@dataclass(frozen=True)
class Evaluated:
    """The scores on the test rows, by seed and metric; the first is the primary metric of the first seed."""

    scores: tuple[Score, ...] = field(default=())


def pack(values: np.ndarray[Any, Any]) -> str:
    """Write an array as text: its .npy file in base64."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()


def unpack(text: str) -> np.ndarray[Any, Any]:
    """Read what `pack` wrote."""
    return np.asarray(np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False))


def succeeded(
    unit: Unit, searched: Searched, trained: Trained, evaluated: Evaluated, is_reused: bool = False
) -> UnitResult:
    """Return the result of a unit that went through all three steps."""
    best, first = searched.best, trained.replicates[0]
    return UnitResult(
        *(unit.dataset, unit.split, unit.method, "complete"),
        params=best.params,
        chosen_by=searched.chosen_by,
        valid_score=first.valid_score,
        valid_metrics=first.valid_metrics,
        curve=tuple((int(step), float(score)) for step, score in best.curve),
        trials=searched.counts,
        search_seconds=searched.seconds,
        run_id=searched.run_id,
        is_reused=is_reused,
        maker=searched.maker,
        scores=evaluated.scores,
    )


def failed(unit: Unit, reason: str, searched: Searched | None = None) -> UnitResult:
    """Return the result of a unit that failed, perhaps after its search."""
    known: dict[str, Any] = {}
    if searched is not None:
        known = {"trials": searched.counts, "search_seconds": searched.seconds, "run_id": searched.run_id}
    maker = make_maker(unit.method, unit.device)
    return UnitResult(unit.dataset, unit.split, unit.method, "failed", reason, maker=maker, **known)


def make_units(plan: Plan, datasets: dict[str, tuple[DatasetFacts, list[tuple[str, str]]]]) -> list[Unit]:
    """Return one unit per dataset, split and method; ensembles come last, after all that they choose from.

    `datasets` has, by reference, the facts of each and the ids and fingerprints of its splits.
    """
    device, scoring = plan.device_found(), scoring_code()
    units: list[Unit] = []
    for reference, (facts, splits) in datasets.items():
        target = plan.target_of(reference)
        for split, split_fingerprint in splits:
            problem = _problem(reference, target, facts.fingerprint, split)
            studies: list[str] = []
            for method in plan.methods_for(facts.task):
                own_device = device if get_method(method).uses_gpu else "cpu"
                maker = take_fingerprint(method, own_device).digest
                if get_method(method).is_ensemble:
                    study = f"{problem.name} {method} {content_key(maker, *studies)[:16]}"
                else:
                    study = study_name(problem, method, plan.limited_budget, plan.seed, own_device)
                studies.append(study)
                units.append(
                    Unit(
                        *(reference, target, facts.name, facts.fingerprint, split, split_fingerprint, method, study),
                        *(plan.limited_budget, plan.seed, plan.threads, own_device, maker, scoring),
                    )
                )
    return sorted(units, key=lambda unit: unit.is_ensemble)


def members_of(unit: Unit, units: Sequence[Unit]) -> list[Unit]:
    """Return the units that an ensemble chooses its members from; none for any other unit."""
    if not unit.is_ensemble:
        return []
    place = (unit.reference, unit.split)
    return [one for one in units if (one.reference, one.split) == place and not one.is_ensemble]


def make_maker(method: str, device: str) -> Maker:
    """Note what a unit of a method is made with here and now."""
    found = take_fingerprint(method, device)
    versions = {"python": platform.python_version(), "hopular": __version__, **found.versions}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Maker(commit(), found.code[:_SHORT], versions, found.device, now)


@cache
def commit(folder: Path = Path(__file__).parents[2]) -> str:
    """Name the commit of this source tree, '(changed)' if files differ from it; empty where it is in no repository."""
    if not _git(folder, "ls-files", *_SOURCE):  # installed below a repository of somebody else's
        return ""
    found = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "-uno") or _git(folder, "status", "--porcelain", "--", *_SOURCE)
    return f"{found} (changed)" if found and changed else found


def _git(folder: Path, *command: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def content_key(*parts: str) -> str:
    """Hash what something is made of."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@lru_cache(maxsize=8)
def _load(reference: str, target: str | None, fingerprint: str) -> tuple[Dataset, dict[str, Split]]:
    dataset = load(reference, target=target)
    if dataset.fingerprint != fingerprint:
        raise DataError(f"{reference!r} has changed since the benchmark began: start it again")
    return dataset, {split.id: split for split in make_splits(dataset)}


@lru_cache(maxsize=8)
def _problem(reference: str, target: str | None, dataset_fingerprint: str, split: str) -> Problem:
    dataset, splits = _load(reference, target, dataset_fingerprint)
    return make_problem(dataset, splits[split])
