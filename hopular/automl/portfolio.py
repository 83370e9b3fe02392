"""The portfolio: which methods take part in a fit, why the others do not, and which settings are tried first.

Those are data: the settings that were, together, the best to begin with on the development tables
(benchmarks/portfolio.py made the list).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from hopular.data.dataset import Task
from hopular.methods import Method, MethodError, methods_named
from hopular.methods.method import Group

PORTFOLIO_FILE = Path(__file__).with_name("portfolio.json")
DEFAULT_GROUPS = [group for group in get_args(Group) if group != "plain"]  # those are here for the paper's table
Portfolio = Sequence[tuple[str, Mapping[str, Any]]]  # methods and their parameters, in the order to try them


def read_portfolio(task: Task, file: Path = PORTFOLIO_FILE) -> Portfolio:
    """Read the settings to try first."""
    entries = json.loads(file.read_text(encoding="utf-8"))[task]
    return [(str(entry["method"]), dict(entry["params"])) for entry in entries]


def choose_methods(task: Task, seconds: float, names: Sequence[str] | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the methods to try, the cheapest first, and why others are left out that could be used for the task.

    `names` are methods or groups, by default DEFAULT_GROUPS. A method asked for by its own name must be usable.
    """
    chosen: dict[str, Method] = {}
    left_out: dict[str, str] = {}
    for name in names or DEFAULT_GROUPS:
        for method in methods_named(name):
            is_named = name == method.name
            if method.is_ensemble or (task not in method.tasks and not is_named):
                continue  # an ensemble is made of the others, always
            reason = _unusable(method, task) or ("" if is_named else _too_slow(method, seconds))
            if reason and is_named:
                raise MethodError(f"method {method.name!r} {reason}")
            if reason:
                left_out[method.name] = reason
            else:
                chosen[method.name] = method
    if not chosen:
        raise MethodError(f"none of the methods {', '.join(names or ['all'])} can be used for {task}")
    return sorted(chosen, key=lambda name: chosen[name].cost), left_out


def _unusable(method: Method, task: Task) -> str:
    if task not in method.tasks:
        return f"is not for {task}"
    if not method.is_savable:
        return "cannot be saved without pickle, so that it cannot be part of a model"
    if method.missing_packages:
        return f"needs {', '.join(method.missing_packages)} ({method.install_command})"
    return ""


def _too_slow(method: Method, seconds: float) -> str:
    if seconds >= method.least_seconds:
        return ""
    return f"is slow, it is tried from {method.least_seconds / 60:g} minutes on"
