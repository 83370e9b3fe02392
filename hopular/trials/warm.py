"""Warm workers: processes kept between searches of one method, so that its libraries are not imported every time.

Outside of `keep_warm` every search starts its processes and ends them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hopular.trials.problem import Problem
from hopular.trials.worker import Worker

Key = tuple[str, int]  # method and threads: a process has one method's libraries, so that memory is comparable


class _Shelf:
    """Idle workers, the longest idle first."""

    def __init__(self, limit: int) -> None:
        self._limit, self._lock = limit, threading.Lock()
        self._idle: list[tuple[Key, Worker]] = []

    def take(self, key: Key, problem: Problem) -> Worker | None:
        """One that has the method's libraries, at best one that has also worked on the problem."""
        with self._lock:
            fitting = [item for item in self._idle if item[0] == key]
            if not fitting:
                return None
            chosen = next((item for item in fitting if item[1].has(problem)), fitting[-1])
            self._idle.remove(chosen)
            return chosen[1]

    def put(self, key: Key, worker: Worker) -> None:
        with self._lock:
            self._idle.append((key, worker))
            surplus = self._idle[: -self._limit]
            del self._idle[: -self._limit]
        for _, old in surplus:
            old.close()

    def clear(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, worker in idle:
            worker.close()


_shelf: _Shelf | None = None


@contextmanager
def keep_warm(limit: int) -> Iterator[None]:
    """Let up to `limit` idle processes wait for more work within the block, and end them with it.

    A block within another one uses the processes of the outer one, and leaves them to it.
    """
    global _shelf
    if _shelf is not None:
        yield
        return
    _shelf = _Shelf(limit)
    try:
        yield
    finally:
        _shelf.clear()
        _shelf = None


@contextmanager
def worker_for(problem: Problem, method: str, threads: int) -> Iterator[Worker]:
    """A worker for a problem, started or taken from those kept warm. After an error its process is not used again."""
    shelf, key = _shelf, (method, threads)
    worker = (shelf.take(key, problem) if shelf is not None else None) or Worker(problem, threads)
    worker.use(problem)
    try:
        yield worker
    except BaseException:
        worker.close()
        raise
    if shelf is None or shelf is not _shelf:
        worker.close()
    else:
        shelf.put(key, worker)
