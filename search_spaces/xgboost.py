"""XGBoost's space (the paper's appendix, list of hyperparameters for XGBoost; from Shwartz-Ziv and Armon, 2021).

Log-uniform bounds are exponents of e, as hyperopt has them. "Uniform choice {0, log-uniform}" is a switch, and a number
that is drawn only where it is on.
"""

from __future__ import annotations

import math
from typing import Any

from optuna import Trial

LEARNING_RATE = (-7, 0)  # log-uniform
MAX_DEPTH = (1, 10)
SUBSAMPLE = (0.2, 1)
COLSAMPLE_BYTREE = (0.2, 1)
COLSAMPLE_BYLEVEL = (0.2, 1)
MIN_CHILD_WEIGHT = (-16, 2)  # log-uniform
ALPHA = (-16, 2)  # 0 or log-uniform, as the next two
LAMBDA = (-16, 2)
GAMMA = (-16, 2)
ESTIMATORS = 1000


def _log_uniform(trial: Trial, name: str, exponents: tuple[float, float]) -> float:
    low, high = exponents
    return trial.suggest_float(name, math.exp(low), math.exp(high), log=True)


def _zero_or_log_uniform(trial: Trial, name: str, exponents: tuple[float, float]) -> float:
    is_on = trial.suggest_categorical(f"{name}_on", [False, True])
    return _log_uniform(trial, name, exponents) if is_on else 0.0


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw a setting; the space is the same for small and medium datasets."""
    return {
        "learning_rate": _log_uniform(trial, "learning_rate", LEARNING_RATE),
        "max_depth": trial.suggest_int("max_depth", *MAX_DEPTH),
        "subsample": trial.suggest_float("subsample", *SUBSAMPLE),
        "colsample_bytree": trial.suggest_float("colsample_bytree", *COLSAMPLE_BYTREE),
        "colsample_bylevel": trial.suggest_float("colsample_bylevel", *COLSAMPLE_BYLEVEL),
        "min_child_weight": _log_uniform(trial, "min_child_weight", MIN_CHILD_WEIGHT),
        "reg_alpha": _zero_or_log_uniform(trial, "reg_alpha", ALPHA),
        "reg_lambda": _zero_or_log_uniform(trial, "reg_lambda", LAMBDA),
        "gamma": _zero_or_log_uniform(trial, "gamma", GAMMA),
        "n_estimators": ESTIMATORS,
    }
