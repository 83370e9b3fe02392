"""Networks of hopular.model as methods: what they have in common. No method by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Group, Method, Run


def network_method(
    name: str, title: str, estimators: Callable[[], tuple[Any, Any]], *, group: Group = "deep", **facts: Any
) -> Method:
    """Describe a network; `estimators` imports its classifier and regressor, and with them torch."""

    def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
        classifier, regressor = estimators()
        estimator = classifier if task == "classification" else regressor
        made = estimator(**params, random_state=run.seed, device=run.device, max_seconds=run.max_seconds)
        made._check_parameters()
        return made

    return Method(
        name=name,
        title=title,
        group=group,
        make=make,
        packages=("torch",),
        model_packages=("safetensors",),
        has_curve=True,
        takes_folds=True,
        takes_weights=True,
        needs_validation=True,
        uses_gpu=True,
        **facts,
    )
