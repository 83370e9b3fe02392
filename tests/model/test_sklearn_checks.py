"""All of scikit-learn's own estimator checks, on small networks."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from hopular import HopularClassifier, HopularRegressor

SMALL = {"n_blocks": 1, "n_networks": 2, "embedding_dim": 8, "max_epochs": 60, "random_state": 0}


@parametrize_with_checks([HopularClassifier(**SMALL), HopularRegressor(**SMALL)])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)
