"""Hopular: modern Hopfield networks for tabular data, as scikit-learn estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopular.model.estimator import HopularClassifier, HopularRegressor

__version__ = "0.1.0"
__all__ = ["HopularClassifier", "HopularRegressor", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the estimators, and torch with them, when they are first asked for."""
    if name in ("HopularClassifier", "HopularRegressor"):
        from hopular.model import estimator

        return getattr(estimator, name)
    raise AttributeError(f"module 'hopular' has no attribute {name!r}")
