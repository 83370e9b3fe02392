"""Small things that every part of the project needs: errors with a remedy, suggestions, retries, whole files, cores."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class InputError(ValueError):
    """Something that was given cannot be used: a name, a value, a file. The message says which, and the remedy."""


class OperationError(RuntimeError):
    """Something failed that may well fail: a server, a store, a fit. The message says why, and what to do."""


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return ' Did you mean ...?' with the valid name most like `name`, or nothing if none is alike."""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def retry(
    action: Callable[[], T],
    *,
    should_retry: Callable[[BaseException], bool],
    seconds: float,
    pauses: tuple[float, float],
    sleep: Callable[[float], None] | None = None,
) -> T:
    """Return what `action` returns; while it fails in a way worth another try, repeat it for `seconds`.

    Pauses double from the first to the second of `pauses`, each made a little random. `sleep` waits for that long, and
    may raise to give up. The last error is raised as it is.
    """
    import tenacity  # most commands need no retry, and start sooner without it

    first, longest = pauses
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(should_retry),
        stop=tenacity.stop_before_delay(seconds),
        wait=tenacity.wait_exponential(first, longest) + tenacity.wait_random(0, first),
        sleep=sleep or tenacity.nap.sleep,
        reraise=True,
    )(action)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path to write to; it takes the place of `path` when the block ends, and goes if the block fails.

    Readers see the old file or the new one, never a part of it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def cores() -> int:
    """Return how many cores this process may use: those it is bound to, or fewer if OMP_NUM_THREADS says so."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(bound, max(1, int(said))) if said.isdecimal() else bound
