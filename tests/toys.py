"""Plug-in folders for tests: the toy methods of tests/methods_for_tests, and methods that a test writes itself."""

from __future__ import annotations

import os
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
    """Use the toy methods like any other, here and in worker processes, within the block."""
    with pytest.MonkeyPatch.context() as patch, plugin_methods(TOYS):
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@contextmanager
def plugin_methods(folder: Path) -> Iterator[None]:
    """Use the methods of a plug-in folder within the block."""
    paths = {hopular.methods: str(folder / "methods"), search_spaces: str(folder / "search_spaces")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_PLUGINS", str(folder))
        for package, path in paths.items():
            package.__path__.append(path)
        hopular.methods.methods.cache_clear()
        try:
            yield
        finally:
            for package, path in paths.items():
                package.__path__.remove(path)
                for name in [name for name, module in sys.modules.items() if _is_of(module, path)]:
                    del sys.modules[name]
            hopular.methods.methods.cache_clear()


def write_plugin(folder: Path, name: str, method: str, space: str = "def grid(size):\n    return [{}]\n") -> Path:
    """Write the two files of a method into a plug-in folder; returns that of the method."""
    for part, text in (("methods", method), ("search_spaces", space)):
        (folder / part).mkdir(exist_ok=True)
        (folder / part / f"{name}.py").write_text(text)
    return folder / "methods" / f"{name}.py"


def edit(file: Path, old: str, new: str) -> None:
    """Give a file another text, and another time, as an editor would leave them."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    later = file.stat().st_mtime_ns + 10_000_000
    os.utime(file, ns=(later, later))


def _is_of(module: Any, folder: str) -> bool:
    return str(getattr(module, "__file__", None)).startswith(folder)
