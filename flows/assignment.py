"""Assignment: one unit of work, a method on a split of a dataset, as the tasks of a benchmark pass it on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from hopular.data import Dataset, Split, load, make_splits
from hopular.data.dataset import DataError
from hopular.methods import get_method
from hopular.trials.budget import Budget
from hopular.trials.problem import Problem, make_problem


@dataclass(frozen=True)
class Assignment:
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
    benchmark: str
    flow_run: str
    store: str  # the tracking store that results are kept in: in another one they count as not there
    fingerprint: str  # of what computes it: whoever works on it checks that it is the same there
    scoring: str  # fingerprint of the code that scores its predictions

    @property
    def architecture(self) -> str:
        """The architecture of a method that has several; otherwise empty."""
        method = get_method(self.method)
        return method.architecture_of(self.budget.settings_of(method, {}))

    @property
    def label(self) -> str:
        """The method as a line beside its score names it: which Hopular it is belongs to that."""
        return f"{self.method} ({self.architecture} architecture)" if self.architecture else self.method

    @property
    def title(self) -> str:
        return f"{self.label} on {self.dataset} {self.split}"

    @property
    def key(self) -> str:
        """Identifies the unit by content: the same key means the same result."""
        return content_key(self.study, str(self.budget.replicates), self.scoring)


def content_key(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@lru_cache(maxsize=8)
def _load(reference: str, target: str | None, fingerprint: str) -> tuple[Dataset, dict[str, Split]]:
    dataset = load(reference, target=target)
    if dataset.fingerprint != fingerprint:
        raise DataError(f"{reference!r} has changed since the benchmark began: start it again")
    return dataset, {split.id: split for split in make_splits(dataset)}


def rows_of(unit: Assignment) -> tuple[Dataset, Split]:
    """The dataset and split of a unit."""
    dataset, splits = _load(unit.reference, unit.target, unit.dataset_fingerprint)
    split = splits.get(unit.split)
    if split is None or split.fingerprint != unit.split_fingerprint:
        raise DataError(f"split {unit.split!r} of {unit.reference!r} is not the one that the benchmark began with")
    return dataset, split


@lru_cache(maxsize=8)
def problem_of(reference: str, target: str | None, dataset_fingerprint: str, split: str) -> Problem:
    """Training and validation rows of a split."""
    dataset, splits = _load(reference, target, dataset_fingerprint)
    return make_problem(dataset, splits[split])
