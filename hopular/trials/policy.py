"""Policy: which trial is next and how long it may take; and the one of benchmarks, `FixedBudget`.

`hopular fit` has another, hopular.trials.race.Race. The loop of `hopular.trials.run` asks them, from one thread at a
time but for `is_over` and `spend`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hopular.trials.budget import Budget, Criterion
from hopular.trials.fit import SOFT

if TYPE_CHECKING:
    from hopular.trials.run import MethodSearch, Running

SPEND_SECONDS = 5.0  # a search notes the time it has used at least this often
GRACE_SHARE = 0.2  # a first trial may go on after the end of a search for this share of the search's time
MAX_GRACE = 10.0  # a first trial may go on for this many seconds at most


@dataclass(frozen=True)
class Limits:
    """The time of a fit."""

    soft: float | None = None  # seconds after which a fit that can end by itself is to do so
    hard: float | None = None  # seconds after which it is ended with its process
    deadline: float | None = None  # of the whole, in seconds since 1970


class Policy(Protocol):
    """The questions that the loop puts to a policy."""

    searches: list[MethodSearch]
    criterion: Criterion
    memory: float | None  # bytes that the process of a trial may use
    retries: int  # of a trial whose process could not be started or was lost
    raises: bool  # whether a process that cannot be started ends the search
    pauses: tuple[float, float]  # seconds between looks for something to do, at first and later on

    def begin(self) -> None:
        """Start the clock."""

    def next_search(self) -> MethodSearch | None:
        """Return the method whose turn it is; None if there is nothing to do at present."""

    def is_done(self) -> bool:
        """Tell, where there was nothing to do, whether there will be nothing later on either."""

    def limits(self, search: MethodSearch, trials: int) -> Limits:
        """Return how long the next fit of a method may take, in which so many trials share one training."""

    def should_prune(self, search: MethodSearch, running: Running, percent: int, score: float) -> bool:
        """Tell whether a trial with this score after so many percent of its training is not worth going on with."""

    def is_over(self, is_running: bool = False) -> bool:
        """Tell whether to start no more trials; or, if one is running, whether to give it up."""

    def spend(self, is_due: bool = False) -> None:
        """Note the time used, for those who go on with this search: now, or only if that is due."""


class FixedBudget:
    """One method, until the trials or the seconds of its budget are used up."""

    retries, raises, pauses = 2, True, (0.2, 2.0)

    def __init__(self, search: MethodSearch, budget: Budget, should_stop: Callable[[], bool] | None = None) -> None:
        self.searches, self._search, self._budget = [search], search, budget
        self.criterion, self.memory = budget.criterion, budget.memory
        self._should_stop = should_stop or (lambda: False)
        self._start = self._spent_at = 0.0
        self._deadline, self._grace = float("inf"), 0.0

    def begin(self) -> None:
        """Start the clock."""
        self._start = self._spent_at = time.monotonic()
        self._search.study.bury()
        seconds = self._budget.seconds
        if seconds is not None:
            spent = self._search.study.spent()
            if self._search.best is None and spent >= seconds:
                spent = 0.0  # all time is used and nothing came of it: worth another try
            self._deadline = self._start + seconds - spent
            self._grace = min(GRACE_SHARE * seconds, MAX_GRACE)

    def next_search(self) -> MethodSearch | None:
        """Return the method whose turn it is; None if there is nothing to do at present."""
        return self._search

    def is_done(self) -> bool:
        """Tell, where there was nothing to do, whether there will be nothing later on either."""
        study = self._search.study
        if self._search.slots is None or len(study.trials()) < self._search.slots:
            return False  # others are at work; a lease of theirs may still fall to us
        study.sweep()
        return True

    def limits(self, search: MethodSearch, trials: int) -> Limits:
        """Return how long the next fit of a method may take, in which so many trials share one training."""
        each, left = self._budget.seconds_per_trial, self._deadline - time.monotonic()
        seconds = None if each is None else each * trials
        deadline = None if left == float("inf") else time.time() + left
        return Limits(None if seconds is None else SOFT * seconds, seconds, deadline)

    def should_prune(self, search: MethodSearch, running: Running, percent: int, score: float) -> bool:
        """Ask the pruner of the search."""
        return search.should_prune(running, percent, score)

    def is_over(self, is_running: bool = False) -> bool:
        """Tell whether to start no more trials; or, if one is running, whether to give it up."""
        grace = self._grace if is_running and self._grace and not self._search.has_model else 0.0
        return self._should_stop() or time.monotonic() >= self._deadline + grace

    def spend(self, is_due: bool = False) -> None:
        """Note the time used, for those who go on with this search: now, or only if that is due."""
        now = time.monotonic()
        if self._budget.seconds is not None and (not is_due or now - self._spent_at > SPEND_SECONDS):
            self._spent_at = now
            self._search.study.spend(now - self._start)
