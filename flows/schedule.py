"""Schedule: which task of which unit is next. What is furthest goes first, so that results come early and evenly."""

from __future__ import annotations

import heapq
import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flows.assignment import Assignment
from hopular.redaction import without_secrets


@dataclass
class Course:
    """How far a unit has come: the futures of its tasks so far, and their results."""

    unit: Assignment
    after: list[Course] = field(default_factory=list)  # units whose first task must be over before this one starts
    futures: list[Any] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    error: str = ""
    is_renewed: bool = False  # what was kept of it cannot be used: everything is done again

    @property
    def is_reused(self) -> bool:
        """Whether every task was finished before this run."""
        return not self.error and all(future.state.name == "Cached" for future in self.futures)

    def renew(self) -> None:
        """Go back to the start."""
        self.futures, self.results, self.is_renewed = [], [], True


Submit = Callable[[Course, int], Any]


def follow(
    courses: Sequence[Course],
    steps: int,
    submit: Submit,
    width: int | None,
    is_lost: Callable[[Course], bool] = lambda _: False,
) -> Iterator[Course]:
    """Take every unit through its steps, at most `width` tasks at a time; yields each unit as it ends.

    `submit(course, step)` returns a Prefect future. A unit whose task fails goes no further; the others go on. One
    that `is_lost` after a step starts again.
    """
    over: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    ready: list[tuple[int, int]] = []  # minus the step, place of the unit: the furthest is the smallest
    started: set[int] = set()
    running, ended = 0, 0

    def make_ready() -> None:
        for place, course in enumerate(courses):
            if place not in started and all(other.results or other.error for other in course.after):
                started.add(place)
                heapq.heappush(ready, (0, place))

    make_ready()
    while ended < len(courses):
        while ready and (width is None or running < width):
            step, place = heapq.heappop(ready)
            future = submit(courses[place], -step)
            courses[place].futures.append(future)
            running += 1
            future.add_done_callback(lambda done, place=place: over.put((place, done)))
        place, future = over.get()
        running -= 1
        course = courses[place]
        future.wait()  # fetches the final state
        if future.state.is_completed():
            course.results.append(future.result())
            if is_lost(course):
                course.renew()
        else:
            course.error = reason_of(future.state)
        if course.error or len(course.results) == steps:
            ended += 1
            yield course
        else:
            heapq.heappush(ready, (-len(course.results), place))
        make_ready()


def reason_of(state: Any) -> str:
    """Why a task failed, in one line. One that is over without an end was lost with the process that it ran in."""
    if not state.is_final():
        return f"the process of the task was lost while it was {state.name}"
    error = state.result(raise_on_failure=False)
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(state.message)
    return without_secrets(" ".join(text.split())[:2000])
