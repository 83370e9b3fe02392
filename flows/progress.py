"""Progress: what the tasks of this process tell whoever watches, such as the display of the command line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hopular.trials.events import Event

_listeners: list[Callable[[Event], None]] = []
_lock = threading.Lock()


def tell(event: Event) -> None:
    """Let everyone who watches know; one event at a time."""
    with _lock:
        for listener in _listeners:
            listener(event)


@contextmanager
def watch(listener: Callable[[Event], None]) -> Iterator[None]:
    """Listen to all events within the block."""
    with _lock:
        _listeners.append(listener)
    try:
        yield
    finally:
        with _lock:
            _listeners.remove(listener)
