"""Ctrl-C as a request to end training in good order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def noted_interrupt(is_wanted: bool) -> Iterator[Callable[[], bool]]:
    """Note the first Ctrl-C within the block instead of raising it, and tell whether there was one.

    A second one is raised as ever. Python passes signals to the main thread alone, so nothing is noted in others.
    """
    before = signal.getsignal(signal.SIGINT)
    if not is_wanted or before is None or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    noted = threading.Event()

    def note(number: int, frame: Any) -> None:
        noted.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted.is_set
    finally:
        signal.signal(signal.SIGINT, before)
