"""Race: the policy of `hopular fit`. Many methods share a given time, or a given number of trials.

The settings of a portfolio come first, in its order: they were the best to begin with on other tables. Then each method
goes on with its own search space, the promising ones with more of the time.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hopular.trials.budget import DEFAULT_CRITERION, Criterion
from hopular.trials.policy import Limits
from hopular.trials.trial import Trial

if TYPE_CHECKING:
    from hopular.trials.run import MethodSearch, Running

GIVE_UP_AFTER = 2  # a method is given up after this many failures without a success
LARGEST_SHARE = 0.5  # no trial may take more than this share of the time that is left
LEAST_SECONDS = 1.0  # any trial gets at least this time
USUAL_FACTOR = 3.0  # a trial of a method that was tried may take this many times its usual seconds
OVERTIME = 2.0  # a trial that takes this many times its limit is ended
LEAST_OVERTIME = (15.0, 20.0)  # no trial is ended earlier: half of the time left, within these seconds
SURE = 2.0  # a fit that cannot be cut short begins only if this many times its usual seconds are left
FADING = 0.75  # a method gets this share of the time of the method ranked before it
PRUNE_AFTER = 25  # no trial is pruned before this percent of its folds
FAR_BEHIND = (1.5, 1.25)  # a trial is pruned whose loss is so many times the best one's: at first, and from half-way on


class Race:
    """Many methods until `end`, or until so many `trials` are done.

    `first` names the methods of the portfolio's settings in their order; the k-th time that a method is named stands
    for the k-th slot of its search. `end` is a moment of time.monotonic(). A race without any model goes on beyond it.
    A race of trials knows no time at all: it is the same each time.
    """

    retries, raises, pauses = 0, False, (0.1, 0.1)

    def __init__(
        self,
        searches: Sequence[MethodSearch],
        first: Sequence[str] = (),
        *,
        end: float = float("inf"),
        trials: int | None = None,
        memory: float | None = None,
    ) -> None:
        self.searches, self.end, self.trials, self.memory = list(searches), end, trials, memory
        self.criterion: Criterion = DEFAULT_CRITERION
        self._by_name = {search.method.name: search for search in searches}
        self._order = [name for name in first if name in self._by_name]
        if trials is not None:
            self._order = self._longer(trials)

    def begin(self) -> None:
        """Do nothing: the end is known."""

    def next_search(self) -> MethodSearch | None:
        """Pick the portfolio's next setting, then methods that are not in it, then whoever has had too little time.

        A method tries one setting at a time. A fit that is not likely to end in time is not begun.
        """
        wanted: Counter[str] = Counter()
        for name in self._order:
            search = self._by_name[name]
            wanted[name] += 1
            if wanted[name] > len(search.trials) and self._is_free(search):
                return search
        if self.trials is not None:
            return None
        free = [search for search in self.searches if self._is_free(search)]
        untried = [search for search in free if not search.trials]
        if untried:
            return min(untried, key=lambda search: search.method.cost)
        shares = self._shares()
        return min(free, key=lambda search: search.seconds / shares[search.method.name], default=None)

    def is_done(self) -> bool:
        """Tell, where there was nothing to do, whether there will be nothing later on either."""
        return not any(search.running for search in self.searches)

    def limits(self, search: MethodSearch, trials: int) -> Limits:
        """Return the time of the next fit: a share of what is left, and a few times what was usual."""
        left = max(self.end - time.monotonic(), LEAST_SECONDS)
        if left == float("inf"):
            return Limits()
        soft = max(LEAST_SECONDS, LARGEST_SHARE * left)
        if search.trials:
            soft = max(LEAST_SECONDS, min(soft, max(USUAL_FACTOR * _usual_seconds(search), left / 4)))
        hard = max(OVERTIME * soft, min(max(left / 2, LEAST_OVERTIME[0]), LEAST_OVERTIME[1]))
        return Limits(soft, hard, time.time() + left)

    def should_prune(self, search: MethodSearch, running: Running, percent: int, score: float) -> bool:
        """Tell whether a trial is clearly behind the best one after the same folds.

        The first trial of a method goes on, and so do networks: they train all folds at once.
        """
        if self.trials is not None or search.method.has_curve or not search.has_model or percent < PRUNE_AFTER:
            return False
        scores = [dict(best.curve).get(percent) for best in self._bests() if not _has_own_curve(self._by_name, best)]
        known = [found for found in scores if found is not None]
        return bool(known) and -score > FAR_BEHIND[percent >= 50] * -max(known)

    def is_over(self, is_running: bool = False) -> bool:
        """Tell whether time is up; a race without any model goes on."""
        return time.monotonic() >= self.end and any(search.has_model for search in self.searches)

    def spend(self, is_due: bool = False) -> None:
        """Do nothing: an interrupted race that goes on has all its time again."""

    def _longer(self, trials: int) -> list[str]:
        """Return the portfolio's order, then all methods in turn, the cheap ones first; so many trials in all."""
        order, counts = list(self._order[:trials]), Counter(self._order[:trials])
        while len(order) < trials:
            open_ones = [s for s in self.searches if s.slots is None or counts[s.method.name] < s.slots]
            for search in sorted(open_ones, key=lambda search: search.method.cost)[: trials - len(order)]:
                order.append(search.method.name)
                counts[search.method.name] += 1
            if not open_ones:
                break
        return order

    def _is_free(self, search: MethodSearch) -> bool:
        """Tell whether a trial of a method could begin: there is one left to try, hope, and time for it."""
        tried = len(search.trials)
        if search.running or tried == search.slots or (tried >= GIVE_UP_AFTER and not search.has_model):
            return False
        return not tried or _likely_seconds(search) < self.end - time.monotonic()

    def _bests(self) -> list[Trial]:
        return [best for search in self.searches if (best := search.best) is not None]

    def _shares(self) -> dict[str, float]:
        """Return the share of the time that each method deserves by its best score so far."""
        order = sorted(self.searches, key=lambda search: search.best.rank[0] if search.best else float("inf"))
        return {search.method.name: FADING**place for place, search in enumerate(order)}


def _has_own_curve(by_name: dict[str, MethodSearch], trial: Trial) -> bool:
    return by_name[trial.method].method.has_curve


def _usual_seconds(search: MethodSearch) -> float:
    return statistics.median(trial.seconds for trial in search.trials)


def _likely_seconds(search: MethodSearch) -> float:
    """Return what a fit takes at most, if nothing odd happens; one that trains by epochs ends when it has to."""
    return _usual_seconds(search) if search.method.has_curve else SURE * _usual_seconds(search)
