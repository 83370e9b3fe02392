"""Stopping: one signal that ends all work of this process soon and cleanly."""

from __future__ import annotations

import threading

_stop = threading.Event()


def begin() -> None:
    """A new run starts."""
    _stop.clear()


def stop() -> None:
    """No more work: running fits are given up, nothing new is started."""
    _stop.set()


def should_stop() -> bool:
    return _stop.is_set()
