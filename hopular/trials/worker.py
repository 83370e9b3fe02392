"""A process that fits trials one after another, so that nothing a native library does can harm the search.

`python -m hopular.trials.worker` is the process; `Worker` is its handle. A fit that crashes, takes too long or too much
memory costs the process, and the next trial gets a new one. A `WorkerPool` keeps processes between searches of one
method, so that its libraries are not imported every time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from hopular.trials.problem import Problem
from hopular.trials.trial import Failure, Job, Trial
from hopular.util import OperationError

START_SECONDS = 120.0  # a process may take this long to start, and its method as long to be imported
POLL = 0.02  # a running trial is looked at after each of so many seconds
POLL_MEMORY = 0.004  # where memory is limited, a trial is looked at this often: it can fill some 2 GB a second
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Stopped(Exception):  # noqa: N818
    """Time is up, or the caller wants no more: whoever waits for a worker raises this to give its fit up."""


class InfrastructureError(OperationError):
    """Something other than the model failed: worth another try."""


class LostError(InfrastructureError):
    """The process is gone, perhaps by no fault of the model; if it goes again and again, `trials` have failed."""

    def __init__(self, trials: list[Trial]) -> None:
        super().__init__(trials[0].message)
        self.trials = trials


class Worker:
    """The handle of a worker process, which is started when first needed and again after it was lost."""

    def __init__(self, problem: Problem, threads: int = 1) -> None:
        self._problem, self._threads = problem, threads
        self._has_problem = False  # whether the process has got it
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def use(self, problem: Problem) -> None:
        """Fit jobs on this problem from now on."""
        if problem is not self._problem:
            self._problem, self._has_problem = problem, False

    def has(self, problem: Problem) -> bool:
        """Return whether its process works on this problem already."""
        return self._has_problem and problem is self._problem

    def run(
        self,
        jobs: Sequence[Job],
        *,
        report: Callable[[int, int, float], bool],
        beat: Callable[[], None],
        max_seconds: float | None = None,
        max_memory: float | None = None,
    ) -> list[Trial]:
        """Fit `jobs`, several of them in one training, and return their trials as they ended.

        If that costs the process, all of them have failed. `report(place, percent, score)` says whether to stop one;
        `beat` is called all the while, and may raise. The seconds of a fit do not include those for the imports of its
        method.
        """

        def failed(failure: Failure, message: str) -> list[Trial]:
            seconds = time.monotonic() - start
            return [_failed(job.trial, failure, message, seconds, peak) for job in jobs]

        process, connection = self._ready(beat)
        watched, kills, peak = psutil.Process(process.pid), _kernel_kills(), 0
        start, limit, started = time.monotonic(), START_SECONDS, False
        poll = POLL if max_memory is None else POLL_MEMORY
        self._send(tuple(jobs))
        while True:
            try:
                if connection.poll(poll):
                    topic, payload = connection.recv()
                    if topic == "trials":
                        return [_within(trial, peak, max_memory) for trial in payload]
                    if topic == "started":
                        start, limit, started = time.monotonic(), max_seconds or float("inf"), True
                    else:
                        connection.send(report(*payload))
            except (EOFError, ConnectionError):
                failure, message = self._lost(_kernel_kills() > kills)
                if not started or failure is None:
                    raise LostError(failed(failure or "out-of-memory", message)) from None
                return failed(failure, message)
            with contextlib.suppress(psutil.Error):
                peak = max(peak, watched.memory_info().rss)
            beat()
            elapsed = time.monotonic() - start
            if elapsed > limit:
                self.close()
                if not started:
                    raise InfrastructureError(f"the imports of {jobs[0].trial.method} took more than {limit:g} s")
                return failed("time-out", f"stopped after {elapsed:.1f} s, the limit is {limit:g} s")
            if max_memory is not None and peak > max_memory:
                self.close()
                return failed("out-of-memory", _beyond(peak, max_memory))

    def close(self) -> None:
        """End the process, and those it has started, at once."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = self._connection = None
        self._has_problem = False

    def _lost(self, by_kernel: bool) -> tuple[Failure | None, str]:
        """Say how a process ended that nobody here has ended; the failure is None if nobody knows who killed it."""
        assert self._process is not None
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=5)
        self.close()
        if code == -signal.SIGKILL:
            message = "its process was killed from outside, most likely because the machine ran out of memory"
            return "out-of-memory" if by_kernel else None, message
        if code is None:
            return "crash", "its process hung up"
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return "crash", f"its process ended {how}"

    @property
    def is_alive(self) -> bool:
        """Return whether its process is there."""
        return self._connection is not None and self._process is not None and self._process.poll() is None

    def start(self, beat: Callable[[], None]) -> None:
        """Start the process unless it is there already; `beat` is called meanwhile, and may raise."""
        if not self.is_alive:
            self.close()
            self._start(beat)

    def _ready(self, beat: Callable[[], None]) -> tuple[subprocess.Popen[bytes], Connection]:
        self.start(beat)
        assert self._process is not None
        assert self._connection is not None
        if not self._has_problem:
            self._send(self._problem)
            self._has_problem = True
        return self._process, self._connection

    def _start(self, beat: Callable[[], None]) -> None:
        self._connection, theirs = Pipe()
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(self._threads))}
        command = [sys.executable, "-m", "hopular.trials.worker", str(theirs.fileno()), str(os.getpid())]
        with theirs:
            try:
                self._process = (
                    _starter(os.getpid())
                    .submit(
                        subprocess.Popen,
                        command,
                        env=environment,
                        stdin=subprocess.DEVNULL,
                        stdout=2,  # what a library prints is no output of the search
                        pass_fds=[theirs.fileno()],
                        start_new_session=True,  # an interruption from the keyboard is for the search alone
                    )
                    .result()
                )
            except OSError as error:
                raise InfrastructureError(f"a worker process cannot be started: {error}") from error
        deadline = time.monotonic() + START_SECONDS
        while not self._connection.poll(POLL):
            beat()
            if time.monotonic() > deadline:
                self.close()
                raise InfrastructureError(f"a worker process did not start within {START_SECONDS:g} s")
        try:
            self._connection.recv()
        except (EOFError, ConnectionError):
            code = self._process.wait()
            self.close()
            raise InfrastructureError(f"a worker process ended with {code} at its start") from None

    def _send(self, message: object) -> None:
        assert self._connection is not None
        try:
            self._connection.send(message)
        except ConnectionError as error:
            self.close()
            raise InfrastructureError(f"a worker process was lost: {error}") from error


class WorkerPool:
    """Lends workers, and keeps up to `limit` idle ones, the longest idle first, until the pool is closed.

    A process has the libraries of one method, so that memory is comparable. Sent to another process, a pool arrives
    empty and keeps none there.
    """

    def __init__(self, limit: int = 0) -> None:
        self._limit, self._lock, self._is_open = limit, threading.Lock(), True
        self._idle: list[tuple[tuple[str, int], Worker]] = []

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[WorkerPool], tuple[()]]:
        return WorkerPool, ()

    def close(self) -> None:
        """End the idle processes; those that are lent end when they are given back."""
        with self._lock:
            idle, self._idle, self._is_open = self._idle, [], False
        for _, worker in idle:
            worker.close()

    @contextlib.contextmanager
    def lend(self, problem: Problem, method: str, threads: int) -> Iterator[Worker]:
        """Give a worker for a problem, an idle one if there is one. After an error its process is not used again."""
        key = (method, threads)
        worker = self._take(key, problem) or Worker(problem, threads)
        worker.use(problem)
        try:
            yield worker
        except BaseException:
            worker.close()
            raise
        self._put(key, worker)

    def _take(self, key: tuple[str, int], problem: Problem) -> Worker | None:
        """Return an idle worker that has the method's libraries, at best one that has also worked on the problem."""
        with self._lock:
            able = [item for item in self._idle if item[0] == key]
            if not able:
                return None
            chosen = next((item for item in able if item[1].has(problem)), able[-1])
            self._idle.remove(chosen)
            return chosen[1]

    def _put(self, key: tuple[str, int], worker: Worker) -> None:
        with self._lock:
            self._idle.append((key, worker))
            keep = self._limit if self._is_open else 0
            surplus = self._idle[: max(0, len(self._idle) - keep)]
            del self._idle[: len(surplus)]
        for _, old in surplus:
            old.close()


@cache
def _starter(process: int) -> ThreadPoolExecutor:
    """Return a thread that lasts as long as this process: the kernel ends a worker with the thread that started it."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"hopular-starter-{process}")


def _failed(trial: Trial, failure: Failure, message: str, seconds: float, peak: int) -> Trial:
    trial = replace(trial, fit_seconds=seconds, peak_memory=peak)
    return replace(trial, state="failed", failure=failure, message=message)


def _beyond(peak: float, limit: float) -> str:
    return f"used {peak / 2**20:.0f} MB, the limit is {limit / 2**20:.0f} MB"


def _within(trial: Trial, peak: int, limit: float | None) -> Trial:
    """Return a finished trial, with the peak seen from here if its process knows none; failed if beyond the limit."""
    peak = trial.peak_memory or peak
    if limit is not None and peak > limit:
        running = Trial(trial.slot, trial.seed, trial.params, method=trial.method)
        return _failed(running, "out-of-memory", _beyond(peak, limit), trial.seconds, peak)
    return replace(trial, peak_memory=peak)


def _kernel_kills() -> int:
    """Count the processes that the kernel has killed for want of memory so far (Linux); 0 where it does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def main() -> None:
    """Serve jobs until the search hangs up; this is the worker process."""
    _die_with(int(sys.argv[2]))
    from hopular.trials.fit import Fitter

    fitter = Fitter()
    with Connection(int(sys.argv[1])) as connection, contextlib.suppress(EOFError, ConnectionError):
        connection.send(("ready", None))
        problem: Problem | None = None

        def started() -> None:
            connection.send(("started", None))

        def report(place: int, percent: int, score: float) -> bool:
            connection.send(("report", (place, percent, score)))
            stop: bool = connection.recv()
            return stop

        while True:
            message = connection.recv()
            if isinstance(message, Problem):
                problem = message
                continue
            assert problem is not None, "a problem comes before its jobs"
            connection.send(("trials", fitter.fit(problem, message, started, report)))
            _give_memory_back()


def _give_memory_back() -> None:
    """Free memory, so that a trial starts with as little as the first one; the search stores the last one meanwhile."""
    gc.collect()
    if not gc.get_freeze_count():
        gc.freeze()  # the libraries are here to stay: not to be looked through after every trial
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)


def _die_with(parent: int) -> None:
    """Let the kernel end this process when the search's process dies, however that happens (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    main()
