"""Multilayer perceptrons: a modern one, self-normalising networks (Klambauer et al. 2017), and the six kinds of plain
networks that those were compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hopular.methods.networks import network_method

PLAIN = {  # the kind, which is the name of the method: title, and row in the paper's table
    "msra": ("MSRA-initialised network", "MSRAinit"),
    "highway": ("Highway network", "Highway Networks"),
    "resnet": ("Residual network", "ResNet"),
    "batch_norm": ("Batch-normalised network", "BatchNorm"),
    "weight_norm": ("Weight-normalised network", "WeightNorm"),
    "layer_norm": ("Layer-normalised network", "LayerNorm"),
}
_BY_SGD = "Theirs is trained by SGD, ours by AdamW."


def _mlp() -> tuple[Any, Any]:
    from hopular.model.perceptron_estimators import MLPClassifier, MLPRegressor

    return MLPClassifier, MLPRegressor


def _snn() -> tuple[Any, Any]:
    from hopular.model.perceptron_estimators import SNNClassifier, SNNRegressor

    return SNNClassifier, SNNRegressor


def _plain(kind: Any) -> Callable[[], tuple[Any, Any]]:
    def estimators() -> tuple[Any, Any]:
        from hopular.model.perceptron_estimators import PlainClassifier, PlainRegressor

        return partial(PlainClassifier, kind=kind), partial(PlainRegressor, kind=kind)

    return estimators


METHODS = (
    network_method(
        "mlp",
        "Multilayer perceptron",
        _mlp,
        paper_name="Neural Networks",
        paper_note="Theirs is learning vector quantisation (lvq of R's caret), ours a multilayer perceptron.",
        cost=6.0,
    ),
    network_method(
        "snn",
        "Self-normalising network",
        _snn,
        paper_name="Self-Normalizing Networks",
        paper_note=_BY_SGD,
        cost=6.0,
    ),
    *(
        network_method(kind, title, _plain(kind), group="plain", paper_name=row, paper_note=_BY_SGD, cost=4.0)
        for kind, (title, row) in PLAIN.items()
    ),
)
