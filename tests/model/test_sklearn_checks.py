"""All of scikit-learn's own estimator checks, on small networks.

One thread: with more, float32 products of one row and of many may differ in the last bit, and the checks that compare
a row's prediction alone and in a batch allow 1e-7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from hopular import HopularClassifier, HopularRegressor

SMALL = {"n_blocks": 1, "n_networks": 2, "embedding_dim": 8, "max_epochs": 60, "random_state": 0}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@parametrize_with_checks([HopularClassifier(**SMALL), HopularRegressor(**SMALL)])
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)
