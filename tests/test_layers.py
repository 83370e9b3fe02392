"""Imports point one way: model <- methods <- trials <- benchmark, automl <- command line and flows.

Evaluation and report know results only; what they say about a method, the results carry.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
USERS = ("flows", "hopular.cli", "hopular.automl", "hopular.benchmark")  # that nothing below them may know
MUST_NOT_IMPORT = {
    "hopular/data": (*USERS, "hopular.trials", "hopular.methods", "hopular.report", "hopular.model"),
    "hopular/model": (*USERS, "hopular.trials", "hopular.methods", "hopular.report"),
    "hopular/methods": (*USERS, "hopular.report"),
    "hopular/trials": (*USERS, "hopular.report"),
    "hopular/evaluation": (*USERS, "hopular.trials", "hopular.model", "hopular.report"),
    "hopular/report": (*USERS, "hopular.trials", "hopular.model", "hopular.methods"),
    "hopular/benchmark": ("flows", "hopular.cli"),
    "hopular/automl": ("flows", "hopular.cli"),
    "flows": ("hopular.cli",),
}


def imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", MUST_NOT_IMPORT)
def test_imports_point_one_way(folder: str) -> None:
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in (ROOT / folder).rglob("*.py")
        for name in imports(file)
        if any(f"{name}.".startswith(f"{other}.") for other in MUST_NOT_IMPORT[folder])
    }
    assert found == set()


def test_evaluation_asks_for_a_method_in_one_place() -> None:
    files = (ROOT / "hopular" / "evaluation").rglob("*.py")
    asking = {file.name for file in files if any(name.startswith("hopular.methods.") for name in imports(file))}
    assert asking == {"results.py"}
