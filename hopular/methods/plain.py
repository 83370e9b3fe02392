"""Plain networks: the six kinds that Klambauer et al. 2017 compare self-normalising networks with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hopular.data.dataset import Task
from hopular.methods.method import Method, Run

VARIANTS = {  # kind, which is the method's name: title, and row in the paper's table
    "msra": ("MSRA-initialised network", "MSRAinit"),
    "highway": ("Highway network", "Highway Networks"),
    "resnet": ("Residual network", "ResNet"),
    "batch_norm": ("Batch-normalised network", "BatchNorm"),
    "weight_norm": ("Weight-normalised network", "WeightNorm"),
    "layer_norm": ("Layer-normalised network", "LayerNorm"),
}


def maker(kind: str) -> Callable[[Task, Mapping[str, Any], Run], Any]:
    """Return the `make` of a kind."""

    def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
        """PlainClassifier or PlainRegressor with the given settings."""
        from hopular.model.perceptron_estimators import PlainClassifier, PlainRegressor

        estimator = PlainClassifier if task == "classification" else PlainRegressor
        made = estimator(
            **{**params, "kind": kind}, random_state=run.seed, device=run.device, max_seconds=run.max_seconds
        )
        made._check_parameters()
        return made

    return make


METHODS = tuple(
    Method(
        name=kind,
        title=title,
        group="plain",
        make=maker(kind),
        paper_name=paper_name,
        paper_note="Theirs is trained by SGD, ours by AdamW.",
        packages=("torch",),
        model_packages=("safetensors",),
        cost=4.0,
        has_curve=True,
        needs_validation=True,
        uses_gpu=True,
    )
    for kind, (title, paper_name) in VARIANTS.items()
)
