"""The benchmark of the search measures what it says, on a small scale."""

from __future__ import annotations

from benchmarks.search import CLASSICAL, classical, overhead, sharing
from tests.trials.conftest import raw_trials


def test_overhead_is_that_of_the_trials_after_those_filled_in(sqlite):
    seconds = overhead(sqlite, trials=3, filled=12)
    assert 0 < seconds < 2
    assert [slot for slot, _ in raw_trials(sqlite)] == list(range(15))


def test_classical_methods_are_timed():
    assert all(0 < classical(name, times=2) < 1 for name in CLASSICAL)


def test_three_betas_in_one_training_take_less_than_three_trainings():
    alone, together = sharing("iris", max_epochs=40)
    assert together < 0.8 * alone
