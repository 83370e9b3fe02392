"""Policies: which trial is next and how long it may take.

`FixedBudget` uses up the budget of one method, as benchmarks do. `Race` shares a given time among many methods, as
`hopular fit` does. The loop of `hopular.trials.run` asks them, from one thread at a time but for `is_over` and `spend`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hopular.trials.budget import DEFAULT_CRITERION, Budget, Criterion
from hopular.trials.fit import SOFT

if TYPE_CHECKING:
    from hopular.trials.run import MethodSearch

SPEND_SECONDS = 5.0  # a search notes the time it has used at least this often
GRACE_SHARE = 0.2  # a first trial may go on after the end of a search for this share of the search's time
MAX_GRACE = 10.0  # a first trial may go on for this many seconds at most
GIVE_UP_AFTER = 2  # a race gives a method up after this many failures without a success
FIRST_SHARE = 0.6  # the first trials of all methods may take this share of the time that a race has left
LEAST_SECONDS = 1.0  # a race gives any trial at least this time
OVERTIME = 2.0  # a race ends a trial that takes this many times its limit
LEAST_OVERTIME = (15.0, 20.0)  # it ends no trial earlier: half of the time left, within these seconds
SURE = 2.0  # a fit that cannot be cut short begins only if this many times its usual seconds are left
FADING = 0.75  # a method gets this share of the time of the method ranked before it


@dataclass(frozen=True)
class Limits:
    """The time of a fit."""

    soft: float | None = None  # seconds after which a fit that can end by itself is to do so
    hard: float | None = None  # seconds after which it is ended with its process
    deadline: float | None = None  # of the whole, in seconds since 1970


class FixedBudget:
    """One method, until the trials or the seconds of its budget are used up."""

    retries = 2  # of a trial whose process could not be started or was lost
    raises = True  # a process that cannot be started ends the search
    pauses = (0.2, 2.0)  # seconds between looks for something to do, at first and later on

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


class Race:
    """Many methods until `end`: each is tried once, the cheap ones first; then the promising ones get most of the time.

    `end` is a moment of time.monotonic(), and may be moved. A race without any model goes on beyond it.
    """

    retries, raises, pauses = 0, False, (0.1, 0.1)

    def __init__(self, searches: Sequence[MethodSearch], end: float, workers: int) -> None:
        self.searches, self.end, self._workers = list(searches), end, workers
        self.criterion: Criterion = DEFAULT_CRITERION
        self.memory: float | None = None

    def begin(self) -> None:
        """Do nothing: the end is known."""

    def next_search(self) -> MethodSearch | None:
        """Pick an untried method first; then the one with the least time spent relative to its share.

        A fit that is not likely to end in time is not begun.
        """
        free = [search for search in self.searches if not search.running and not self._is_spent(search)]
        untried = [search for search in free if not search.trials]
        if untried:
            return min(untried, key=lambda search: search.method.cost)
        left = self.end - time.monotonic()
        able = [search for search in free if _likely_seconds(search) < left]
        shares = self._shares()
        return min(able, key=lambda search: search.seconds / shares[search.method.name], default=None)

    def is_done(self) -> bool:
        return not any(search.running for search in self.searches)

    def limits(self, search: MethodSearch, trials: int) -> Limits:
        """Return the time of the next fit: of a first one by expected cost, later a few times what was usual."""
        left = self.end - time.monotonic()
        if search.trials:
            soft = max(LEAST_SECONDS, min(left, max(3 * _usual_seconds(search), left / 4)))
        else:
            waiting = [other for other in self.searches if not other.trials and (other is search or not other.running)]
            share = self._workers * search.method.cost / sum(other.method.cost for other in waiting)
            soft = max(LEAST_SECONDS, FIRST_SHARE * left * min(1.0, share))
        left = max(left, LEAST_SECONDS)
        hard = max(OVERTIME * soft, min(max(left / 2, LEAST_OVERTIME[0]), LEAST_OVERTIME[1]))
        return Limits(soft, hard, time.time() + left)

    def is_over(self, is_running: bool = False) -> bool:
        return time.monotonic() >= self.end and any(search.has_model for search in self.searches)

    def spend(self, is_due: bool = False) -> None:
        """Do nothing: an interrupted race that goes on has all its time again."""

    def _is_spent(self, search: MethodSearch) -> bool:
        """Tell whether there is nothing left to try, or no hope."""
        tried = len(search.trials)
        return (tried >= GIVE_UP_AFTER and not search.has_model) or tried == search.slots

    def _shares(self) -> dict[str, float]:
        """Return the share of the time that each method deserves by its best score so far."""
        order = sorted(self.searches, key=lambda search: search.best.rank[0] if search.best else float("inf"))
        return {search.method.name: FADING**place for place, search in enumerate(order)}


def _usual_seconds(search: MethodSearch) -> float:
    return statistics.median(trial.seconds for trial in search.trials)


def _likely_seconds(search: MethodSearch) -> float:
    """Return what a fit takes at most, if nothing odd happens; one that trains by epochs ends when it has to."""
    return _usual_seconds(search) if search.method.has_curve else SURE * _usual_seconds(search)


Policy = FixedBudget | Race
