"""Where a race keeps its trials while it lasts: in a folder named by content, which an interrupted one goes on with."""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopular import __version__, settings
from hopular.trials.problem import Problem
from hopular.util import OperationError

VERSION = 2  # of the race; another one does not go on with earlier trials


class FitError(OperationError):
    """No model came out; the message says what to do."""


@contextmanager
def working_folder(problem: Problem, seed: int) -> Iterator[Path]:
    """The folder of a race on these rows with this seed. It stays only if the block is interrupted."""
    digest = hashlib.sha256(f"{VERSION} {__version__} {problem.fingerprint} {seed}".encode()).hexdigest()[:16]
    name = re.sub(r"[^\w-]+", "-", problem.name).strip("-")[:40]
    folder = settings.make_runs_folder() / "fits" / f"{name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperationError(
                f"the same fit of {problem.name!r} is running in another process: wait for it"
            ) from None
        try:
            yield folder
        except FitError:  # another try is to begin anew
            shutil.rmtree(folder)
            raise
    shutil.rmtree(folder)
