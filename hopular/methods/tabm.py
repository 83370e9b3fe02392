"""TabM (Gorishniy et al., 2024), from pytabkit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run
from hopular.methods.tabkit import make_tabkit


def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """TabM_D with pytabkit's defaults; it stops early by `eval_set`."""
    return make_tabkit("TabM_D", task, params, run)


METHOD = Method(
    name="tabm",
    title="TabM",
    group="modern",
    make=make,
    packages=("pytabkit", "torch"),
    extra="modern",
    cost=8.0,
    needs_validation=True,
    uses_gpu=True,
    notes=("max_seconds is enforced from outside", "cannot be saved"),
)
