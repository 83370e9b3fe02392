"""LightGBM's space (the paper's appendix, list of hyperparameters for LightGBM; after hyperopt-sklearn, Komer et al.).

"Gamma" is LightGBM's min_split_gain. "Colsample bylevel" has no counterpart, as LightGBM grows leaf by leaf: it becomes
the share of features drawn for each node. Where the paper's list and hyperopt-sklearn's file differ (which shifts alpha
too, has 0.0001 as the lower bound of gamma, and passes neither gamma, depth nor colsample bylevel on), the list counts.
"""

from __future__ import annotations

from typing import Any

from optuna import Trial

LEARNING_RATE = (0.0001, 0.5)  # log-uniform, minus SHIFT
MAX_DEPTH = (1, 11)
LEAVES = (2, 121)
GAMMA = (0.001, 5)  # log-uniform, minus SHIFT
MIN_CHILD_WEIGHT = (1, 100)  # log-uniform
SUBSAMPLE = (0.5, 1)
COLSAMPLE_BYTREE = (0.5, 1)
COLSAMPLE_BYLEVEL = (0.5, 1)
ALPHA = (0.0001, 1)  # log-uniform
LAMBDA = (1, 4)  # log-uniform
BOOSTING_TYPE = ("gbdt", "dart", "goss")
ESTIMATORS = 1000
SHIFT = 0.0001
SMALLEST_RATE = 1e-9  # LightGBM refuses the learning rate 0, where the shift leads from the lower bound


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw a setting, shifted values before the shift; the space is the same for small and medium datasets."""
    learning_rate = trial.suggest_float("learning_rate_plus_shift", *LEARNING_RATE, log=True) - SHIFT
    return {
        "learning_rate": max(learning_rate, SMALLEST_RATE),
        "max_depth": trial.suggest_int("max_depth", *MAX_DEPTH),
        "num_leaves": trial.suggest_int("num_leaves", *LEAVES),
        "min_split_gain": trial.suggest_float("min_split_gain_plus_shift", *GAMMA, log=True) - SHIFT,
        "min_child_weight": trial.suggest_float("min_child_weight", *MIN_CHILD_WEIGHT, log=True),
        "subsample": trial.suggest_float("subsample", *SUBSAMPLE),
        "colsample_bytree": trial.suggest_float("colsample_bytree", *COLSAMPLE_BYTREE),
        "colsample_bynode": trial.suggest_float("colsample_bynode", *COLSAMPLE_BYLEVEL),
        "reg_alpha": trial.suggest_float("reg_alpha", *ALPHA, log=True),
        "reg_lambda": trial.suggest_float("reg_lambda", *LAMBDA, log=True),
        "boosting_type": trial.suggest_categorical("boosting_type", BOOSTING_TYPE),
        "n_estimators": ESTIMATORS,
    }
