"""A process that fits trials one after another, so that nothing a native library does can harm the search.

`python -m hopular.trials.worker` is the process; `Worker` is its handle. A fit that crashes, takes too long or too much
memory costs the process, and the next trial gets a new one.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from hopular.trials.job import Job, Outcome
from hopular.trials.problem import Problem
from hopular.trials.record import Kind

START_SECONDS = 120.0  # for the interpreter, and for the imports of a method, on a machine that may be busy
POLL = 0.02  # seconds between looks at a running trial
POLL_MEMORY = 0.004  # the same where memory is limited: a process can fill some 2 GB a second
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class InfrastructureError(RuntimeError):
    """Something other than the model failed: worth another try."""


class LostError(InfrastructureError):
    """The process is gone, perhaps by no fault of the model; if it goes again and again, `outcome` is the reason."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class Worker:
    """Handle of a worker process; it is started when first needed and again after it was lost."""

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
        """Jobs from now on are on this problem."""
        if problem is not self._problem:
            self._problem, self._has_problem = problem, False

    def has(self, problem: Problem) -> bool:
        """Whether its process works on this problem already."""
        return self._has_problem and problem is self._problem

    def run(
        self,
        jobs: Sequence[Job],
        *,
        report: Callable[[int, int, float], bool],
        beat: Callable[[], None],
        max_seconds: float | None = None,
        max_memory: float | None = None,
    ) -> list[Outcome]:
        """Fit `jobs`, several of them in one training; if that costs the process, all of them have failed.

        `report(place, percent, score)` says whether to stop one; `beat` is called all the while, and may raise. The
        seconds of a fit do not include those for the imports of its method.
        """
        process, connection = self._ready(beat)
        watched, kills, peak = psutil.Process(process.pid), _kernel_kills(), 0
        start, limit, started = time.monotonic(), START_SECONDS, False
        poll = POLL if max_memory is None else POLL_MEMORY
        self._send(tuple(jobs))
        while True:
            try:
                if connection.poll(poll):
                    kind, payload = connection.recv()
                    if kind == "outcomes":
                        return [_within(outcome, peak, max_memory) for outcome in payload]
                    if kind == "started":
                        start, limit, started = time.monotonic(), max_seconds or float("inf"), True
                    else:
                        connection.send(report(*payload))
            except (EOFError, ConnectionError):
                outcome = self._lost(time.monotonic() - start, peak, _kernel_kills() > kills)
                if not started or outcome.kind is None:
                    raise LostError(replace(outcome, kind=outcome.kind or "out-of-memory")) from None
                return [outcome] * len(jobs)
            with contextlib.suppress(psutil.Error):
                peak = max(peak, watched.memory_info().rss)
            beat()
            elapsed = time.monotonic() - start
            if elapsed > limit:
                self.close()
                if not started:
                    raise InfrastructureError(f"the imports of {jobs[0].method} took more than {limit:g} s")
                message = f"stopped after {elapsed:.1f} s, the limit is {limit:g} s"
                return [_failed("time-out", message, elapsed, peak)] * len(jobs)
            if max_memory is not None and peak > max_memory:
                self.close()
                return [_failed("out-of-memory", _beyond(peak, max_memory), elapsed, peak)] * len(jobs)

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

    def _lost(self, elapsed: float, peak: int, by_kernel: bool) -> Outcome:
        """The process ended by itself: say by which signal. The kind is None if nobody knows who killed it."""
        assert self._process is not None
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=5)
        self.close()
        if code == -signal.SIGKILL:
            message = "its process was killed from outside, most likely because the machine ran out of memory"
            return _failed("out-of-memory" if by_kernel else None, message, elapsed, peak)
        if code is None:
            return _failed("crash", "its process hung up", elapsed, peak)
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return _failed("crash", f"its process ended {how}", elapsed, peak)

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


@cache
def _starter(process: int) -> ThreadPoolExecutor:
    """A thread that lasts as long as this process: the kernel ends a worker when the thread that started it ends."""
    return ThreadPoolExecutor(1, thread_name_prefix=f"hopular-starter-{process}")


def _failed(kind: Kind | None, message: str, elapsed: float, peak: int) -> Outcome:
    return Outcome("failed", fit_seconds=elapsed, peak_memory=peak, kind=kind, message=message)


def _beyond(peak: float, limit: float) -> str:
    return f"used {peak / 2**20:.0f} MB, the limit is {limit / 2**20:.0f} MB"


def _within(outcome: Outcome, peak: int, limit: float | None) -> Outcome:
    """A finished trial, with the peak seen from here if its process knows none; a failure if it passed the limit."""
    peak = outcome.peak_memory or peak
    if limit is not None and peak > limit:
        return _failed("out-of-memory", _beyond(peak, limit), outcome.fit_seconds + outcome.predict_seconds, peak)
    return replace(outcome, peak_memory=peak)


def _kernel_kills() -> int:
    """How many processes the kernel has killed for want of memory so far (Linux), 0 where it does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def main() -> None:
    """The worker process: serve jobs until the search hangs up."""
    _die_with(int(sys.argv[2]))
    from hopular.trials.fit import fit_jobs

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
            connection.send(("outcomes", fit_jobs(problem, message, started, report)))
            _give_memory_back()


def _give_memory_back() -> None:
    """A trial starts with as little memory as the first one; done while the search stores the last one."""
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
