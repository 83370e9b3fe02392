"""Weights of rows: how much each row counts in what a method minimises, and in the figures that it stops by."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import _check_sample_weight

Array = np.ndarray[Any, Any]
ClassWeight = Mapping[Any, float] | Literal["balanced"] | None


def check_class_weight(class_weight: Any) -> None:
    """Raise ValueError for what is neither None, "balanced" nor non-negative weights by class."""
    if class_weight is None or class_weight == "balanced":
        return
    weights = class_weight.values() if isinstance(class_weight, Mapping) else [None]
    if not all(isinstance(weight, Real) and 0 <= float(weight) < np.inf for weight in weights):
        raise ValueError(
            "class_weight must be 'balanced', a dict with a number of at least 0 for each class, or None, "
            f"not {class_weight!r}"
        )


def weigh_classes(class_weight: ClassWeight, y: Array, sample_weight: Any = None) -> dict[Any, float]:
    """Return the weight of each class of y; empty if there is none.

    "balanced" gives every class the same total weight, `sample_weight` included. A class that a dict leaves out
    weighs 1; an error names a key that is no class of y, unless all of its classes are there.
    """
    check_class_weight(class_weight)
    if not class_weight:
        return {}
    classes, codes = np.unique(y, return_inverse=True)
    known = classes.tolist()
    if class_weight == "balanced":
        totals = np.bincount(codes, weights=_check(sample_weight, y))
        weights = totals.mean() / np.where(totals > 0, totals, np.inf)
        return dict(zip(known, weights.tolist(), strict=True))
    assert isinstance(class_weight, Mapping)
    unknown, left_out = [key for key in class_weight if key not in known], [c for c in known if c not in class_weight]
    if unknown and left_out:
        raise ValueError(f"class_weight names {unknown}, and the classes of y are {known}. Name classes of y.")
    return {name: float(class_weight.get(name, 1.0)) for name in known}


def weigh_rows(y: Array, sample_weight: Any = None, of_classes: Mapping[Any, float] | None = None) -> Array | None:
    """Return the weight of each row, 1 on average; None if all are the same, so that weights change nothing then."""
    if sample_weight is None and not of_classes:
        return None
    weights = _check(sample_weight, y)
    if of_classes:
        weights = weights * np.array([of_classes.get(name, 1.0) for name in y.tolist()])
    if not weights.any():
        raise ValueError("sample_weight and class_weight leave no row with a weight above 0. Give some rows a weight.")
    weights = weights / weights.max()  # so that their sum is finite
    return None if np.ptp(weights) == 0 else np.asarray(weights / weights.mean())


def _check(sample_weight: Any, y: Array) -> Array:
    return np.asarray(_check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True))
