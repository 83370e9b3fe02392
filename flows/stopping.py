"""Stopping: one signal that ends all work of this process soon and cleanly."""

from __future__ import annotations

import threading

_stop = threading.Event()


def clear() -> None:
    """All work has ended; new work may start."""
    _stop.clear()


def stop() -> None:
    """No more work: running fits are given up, nothing new is started."""
    _stop.set()


def should_stop() -> bool:
    return _stop.is_set()


def wait(seconds: float) -> bool:
    """Let some time pass, or less if all is to end; whether it is."""
    return _stop.wait(seconds)
