"""Checks of the estimators' parameters, with errors that name the parameter, the value and what it may be."""

from __future__ import annotations

import math
import numbers
from typing import Any

from hopular.model.architecture import ARCHITECTURES
from hopular.model.weights import check_class_weight

_INTEGERS = (
    *("n_members", "n_blocks", "n_networks", "n_layers", "n_heads", "width", "embedding_dim"),
    *("max_epochs", "batch_size", "patience"),
)
_POSITIVE = ("beta", "learning_rate", "max_seconds")
_RANGES = {  # lowest, highest, whether the highest is allowed, whether the lowest is
    "dropout": (0, 1, False, True),
    "dropout_embedding": (0, 1, False, True),
    "dropout_block": (0, 1, False, True),
    "dropout_summary": (0, 1, False, True),
    "gamma": (0, 1, True, True),
    "mask_probability": (0, 1, True, True),
    "replace_probability": (0, 1, True, True),
    "feature_mask_probability": (0, 1, True, True),
    "label_mask_probability": (0, 1, True, False),  # NPT learns masked labels alone
    "memory_ratio": (0, 1, True, False),
    "slow_rate": (0, 1, True, False),
    "validation_fraction": (0, 1, False, True),
    "weight_decay": (0, math.inf, False, True),
}
_CHOICES: dict[str, tuple[str | int | None, ...]] = {
    "architecture": (*ARCHITECTURES, None),
    "embedding": ("sum", "projected", "periodic", None),
    "values": ("tied", "separate", None),
    "summary": ("attribute", "joint", None),
    "recipe": ("default", "paper"),
    "selection": ("score", "loss", None),
    "precision": ("auto", "float32", "bfloat16"),
    "verbose": (0, 1),
    "keep_on_interrupt": (False, True),
}
_OPTIONAL = (
    *("n_members", "n_blocks", "n_networks", "embedding_dim", "max_epochs", "batch_size", "patience"),
    *(
        "dropout_embedding",
        "dropout_block",
        "learning_rate",
        "max_seconds",
        "memory_ratio",
        "slow_rate",
        "mask_probability",
        "replace_probability",
    ),
)
_DEVICES = ("auto", "cpu", "cuda", "mps")


def check_parameters(parameters: dict[str, Any], required: tuple[str, ...] = ()) -> None:
    """Raise ValueError for the first parameter out of range; those of `required` may not be None."""
    for name, value in parameters.items():
        if value is None and name in _OPTIONAL and name not in required:
            continue
        if name in _INTEGERS and not (isinstance(value, numbers.Integral) and int(value) >= 1):
            raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
        if name in _POSITIVE and not (_is_number(value) and value > 0):
            raise ValueError(f"{name} must be a positive number, not {value!r}")
        if name in _CHOICES:
            check_choice(name, value, _CHOICES[name])
        if name in _RANGES:
            _check_range(name, value)
        if name == "class_weight":
            check_class_weight(value)
        if name == "device" and str(value).split(":")[0] not in _DEVICES:
            raise ValueError(
                f"device must be one of {list(_DEVICES)} or a numbered one such as 'cuda:1', not {value!r}"
            )
    shares = [parameters.get(name) or 0.0 for name in ("mask_probability", "replace_probability")]
    if sum(shares) > 1:
        raise ValueError(
            "mask_probability and replace_probability are shares of the same features and may not exceed 1 together, "
            f"not {' + '.join(map(repr, shares))}"
        )


def check_choice(name: str, value: Any, allowed: tuple[str | int | None, ...], given: str = "") -> None:
    """Raise ValueError for a parameter that is none of those allowed; `given` says what else this depends on."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {list(allowed)}{given}, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _check_range(name: str, value: Any) -> None:
    low, high, includes_high, includes_low = _RANGES[name]
    inside = _is_number(value) and low <= value <= high
    if not inside or (value == low and not includes_low) or (value == high and not includes_high):
        interval = f"{'[' if includes_low else '('}{low}, {high}{']' if includes_high else ')'}"
        raise ValueError(f"{name} must be a number in {interval}, not {value!r}")
