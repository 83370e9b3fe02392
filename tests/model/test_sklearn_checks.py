"""All of scikit-learn's own estimator checks, on small networks, of which there are as many as each table gets.

The checks that compare a row's prediction alone and in a batch allow 1e-7, hardly more than the last bit of float32, in
which products of one row and of many may differ. Hence one thread, and short training unless a check asks for accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from hopular import HopularClassifier, HopularRegressor

ENOUGH = 60  # epochs in which the checks that ask for accuracy are met
SMALL = {"max_epochs": 3, "n_blocks": 1, "n_networks": 1, "embedding_dim": 8, "random_state": 0}

UNWEIGHTED = {  # a row of weight 2 is not learned from as two rows are
    "check_sample_weight_equivalence_on_dense_data": "batches and folds are of rows, whatever they weigh"
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@parametrize_with_checks(
    [HopularClassifier(**SMALL), HopularRegressor(**SMALL)], expected_failed_checks=lambda estimator: UNWEIGHTED
)
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    if check.func.__name__ in ("check_classifiers_train", "check_regressors_train", "check_classifiers_classes"):
        estimator.set_params(max_epochs=ENOUGH, n_members=2)
    check(estimator)
