"""The schedule: order, width, failures and dependencies, with futures that are finished by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from prefect.states import Completed, Failed, Running

from flows.schedule import Course, follow


class Future:
    """A future that is over as soon as someone listens, as those of Prefect are used here."""

    def __init__(self, state):
        self.state = state

    def add_done_callback(self, callback):
        callback(self)

    def wait(self):
        pass

    def result(self):
        return self.state.result()


def course(name, after=()):
    return Course(SimpleNamespace(title=name), after=list(after))


def run(courses, width=1, failing=()):
    log = []

    def submit(found, step):
        log.append((found.unit.title, step))
        is_bad = (found.unit.title, step) in failing
        return Future(Failed(data=ValueError("no luck")) if is_bad else Completed(data=f"{found.unit.title}{step}"))

    ended = [found.unit.title for found in follow(courses, 3, submit, width)]
    return log, ended


def test_a_unit_that_has_begun_is_finished_first():
    log, ended = run([course("a"), course("b")])
    assert log == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]
    assert ended == ["a", "b"]


@pytest.mark.parametrize("width", [1, 2, None])
def test_a_failure_ends_its_own_unit_only(width):
    courses = [course("a"), course("b"), course("c")]
    log, ended = run(courses, width, failing={("b", 1)})
    assert sorted(ended) == ["a", "b", "c"]
    assert ("b", 2) not in log
    assert [bool(found.error) for found in courses] == [False, True, False]
    assert courses[1].error == "ValueError: no luck"
    assert courses[0].results == ["a0", "a1", "a2"]


def test_an_ensemble_waits_for_the_searches_it_chooses_from():
    first, second = course("a"), course("b")
    last = course("e", after=[first, second])
    log, _ = run([last, first, second], width=2, failing={("a", 0)})
    assert log.index(("e", 0)) > max(log.index(("a", 0)), log.index(("b", 0)))


def test_no_more_than_the_width_runs_at_once():
    waiting, most = [], 0

    class Slow(Future):
        def add_done_callback(self, callback):
            waiting.append(lambda: callback(self))

    def submit(found, step):
        nonlocal most
        most = max(most, len(waiting) + 1)
        if len(waiting) == 1:  # the width: let the older one finish
            future = Slow(Completed(data=1))
            waiting.pop(0)()
            return future
        return Slow(Completed(data=1))

    generator = follow([course("a"), course("b"), course("c")], 1, submit, 2)
    assert next(generator).results == [1]
    assert most == 2


def test_nothing_to_do_ends_at_once():
    assert list(follow([], 3, lambda *_: None, 1)) == []


def test_a_unit_whose_kept_results_are_lost_starts_again():
    log, found = [], course("a")

    def submit(unit, step):
        log.append((step, unit.is_renewed))
        return Future(Completed(data=step))

    [ended] = follow([found], 3, submit, 1, lambda unit: not unit.is_renewed)
    assert log == [(0, False), (0, True), (1, True), (2, True)]
    assert ended.results == [0, 1, 2]


def test_a_task_that_never_said_how_it_ended_has_failed():
    first, second = course("a"), course("b")
    states = {"a": Running(), "b": Completed(data=1)}
    ended = list(follow([first, second], 1, lambda unit, _: Future(states[unit.unit.title]), 1))
    assert [unit.error for unit in ended] == ["the process of the task was lost while it was Running", ""]
