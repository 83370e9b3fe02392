"""The toy methods of tests/methods_for_tests as methods like any other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import hopular.methods
import search_spaces

TOYS = Path(__file__).parent / "methods_for_tests"


@contextmanager
def toy_methods() -> Iterator[None]:
    """Here and in worker processes, within the block."""
    paths = {hopular.methods: str(TOYS / "methods"), search_spaces: str(TOYS / "search_spaces")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_PLUGINS", str(TOYS))
        patch.setenv("OMP_NUM_THREADS", "1")
        for package, path in paths.items():
            package.__path__.append(path)
        hopular.methods.methods.cache_clear()
        yield
    for package, path in paths.items():
        package.__path__.remove(path)
        for name in [name for name, module in sys.modules.items() if _is_of(module, path)]:
            del sys.modules[name]
    hopular.methods.methods.cache_clear()


def _is_of(module: Any, folder: str) -> bool:
    return str(getattr(module, "__file__", None)).startswith(folder)
