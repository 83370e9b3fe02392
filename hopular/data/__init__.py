"""Data: datasets from their sources, their splits, and an audit of both (`hopular.data.audit`)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopular.data.dataset import DataError, Dataset, Protocol
    from hopular.data.sources import expand, load, suites
    from hopular.data.splits import Split, make_splits

__all__ = ["DataError", "Dataset", "Protocol", "Split", "expand", "load", "make_splits", "suites"]

_HOMES = {
    "dataset": ("DataError", "Dataset", "Protocol"),
    "sources": ("expand", "load", "suites"),
    "splits": ("Split", "make_splits"),
}


def __getattr__(name: str) -> Any:
    """Import a name, and the libraries behind it, when it is first asked for."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"hopular.data.{module}"), name)
    raise AttributeError(f"module 'hopular.data' has no attribute {name!r}")
