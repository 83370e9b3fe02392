"""CatBoost's space (the paper's appendix, list of hyperparameters for CatBoost; from Shwartz-Ziv and Armon, 2021).

The list's "Max size" is CatBoost's one_hot_max_size: categories up to this many are one-hot encoded. Tree depth is not
searched and stays at CatBoost's default.
"""

from __future__ import annotations

import math
from typing import Any

from optuna import Trial

LEARNING_RATE = (-5, 0)  # log-uniform, exponents of e
RANDOM_STRENGTH = (1, 20)  # whole numbers
MAX_SIZE = (0, 25)
L2_LEAF_REGULARIZATION = (1, 10)  # log-uniform
BAGGING_TEMPERATURE = (0, 1)
LEAF_ESTIMATION_ITERATIONS = (1, 20)
ESTIMATORS = 1000


def suggest(trial: Trial, size: str) -> dict[str, Any]:
    """Draw a setting; the space is the same for small and medium datasets."""
    return {
        "learning_rate": trial.suggest_float("learning_rate", *map(math.exp, LEARNING_RATE), log=True),
        "random_strength": trial.suggest_int("random_strength", *RANDOM_STRENGTH),
        "one_hot_max_size": trial.suggest_int("one_hot_max_size", *MAX_SIZE),
        "l2_leaf_reg": trial.suggest_float("l2_leaf_reg", *L2_LEAF_REGULARIZATION, log=True),
        "bagging_temperature": trial.suggest_float("bagging_temperature", *BAGGING_TEMPERATURE),
        "leaf_estimation_iterations": trial.suggest_int("leaf_estimation_iterations", *LEAF_ESTIMATION_ITERATIONS),
        "n_estimators": ESTIMATORS,
    }
