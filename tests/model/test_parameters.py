"""Parameters out of range: the error names the parameter, its value and what it may be."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from hopular import HopularClassifier, HopularRegressor
from hopular.model.parameters import check_parameters

AT_LEAST_1 = "an integer of at least 1"
POSITIVE = "a positive number"
SHARE, BELOW_1, ABOVE_0 = "a number in [0, 1]", "a number in [0, 1)", "a number in (0, 1]"
WRONG = [
    *[(name, value, AT_LEAST_1) for name in ("n_blocks", "n_networks", "embedding_dim") for value in (0, 1.5, "4")],
    *[(name, value, AT_LEAST_1) for name in ("max_epochs", "batch_size", "patience") for value in (-1, 2.5, "10")],
    *[("n_members", value, AT_LEAST_1) for value in (0, 2.5, "all")],
    *[(name, value, POSITIVE) for name in ("beta", "learning_rate", "max_seconds") for value in (0, -1.0, math.inf)],
    ("beta", math.nan, POSITIVE),
    ("beta", None, POSITIVE),
    ("learning_rate", "fast", POSITIVE),
    *[(f"dropout_{part}", value, BELOW_1) for part in ("embedding", "block", "summary") for value in (-0.1, 1)],
    *[(name, value, SHARE) for name in ("gamma", "mask_probability", "replace_probability") for value in (-0.1, 1.1)],
    *[(name, value, ABOVE_0) for name in ("memory_ratio", "slow_rate") for value in (0, 1.5)],
    ("validation_fraction", -0.2, BELOW_1),
    ("validation_fraction", 1.0, BELOW_1),
    ("validation_fraction", math.nan, BELOW_1),
    ("weight_decay", -0.1, "a number in [0, inf)"),
    ("weight_decay", math.inf, "a number in [0, inf)"),
    ("architecture", "published", "one of ['default', 'paper', 'released', None]"),
    ("embedding", "concat", "one of ['sum', 'projected', 'periodic', None]"),
    ("values", "free", "one of ['tied', 'separate', None]"),
    ("summary", "mean", "one of ['attribute', 'joint', None]"),
    ("recipe", "fast", "one of ['default', 'paper']"),
    ("selection", "auc", "one of ['score', 'loss', None]"),
    ("precision", "float16", "one of ['auto', 'float32', 'bfloat16']"),
    ("device", "tpu", "one of ['auto', 'cpu', 'cuda', 'mps']"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG, ids=[f"{n}={v!r}" for n, v, _ in WRONG])
def test_out_of_range(name, value, allowed):
    parameters = HopularClassifier(**{name: value}).get_params(deep=False)
    with pytest.raises(ValueError, match=f"^{name} must be {re.escape(allowed)}.*, not {re.escape(repr(value))}$"):
        check_parameters(parameters)


def test_every_parameter_with_a_range_is_in_the_table():
    free = {"categorical_features", "class_weight", "random_state"}  # checked against the data and by scikit-learn
    free |= {"verbose", "keep_on_interrupt"}  # true or not
    assert {name for name, _, _ in WRONG} == set(HopularClassifier().get_params()) - free


def test_masking_and_replacing_share_the_features():
    parameters = HopularClassifier(mask_probability=0.6, replace_probability=0.5).get_params()
    with pytest.raises(
        ValueError, match=r"mask_probability and replace_probability .* exceed 1 together, not 0.6 \+ 0.5"
    ):
        check_parameters(parameters)


@pytest.mark.parametrize("estimator", [HopularClassifier, HopularRegressor])
def test_fit_checks_before_it_looks_at_the_data(estimator):
    with pytest.raises(ValueError, match="n_blocks must be an integer of at least 1, not 0"):
        estimator(n_blocks=0).fit(None, None)


@pytest.mark.parametrize(
    "valid",
    [
        {},
        {"n_members": None, "n_blocks": None, "n_networks": None, "embedding_dim": None},
        {
            "gamma": 0,
            "dropout_block": 0,
            "validation_fraction": 0,
            "weight_decay": 0,
            "memory_ratio": 1,
            "slow_rate": 1,
        },
        {"mask_probability": 1.0, "replace_probability": 0.0},
        {"n_blocks": np.int64(2), "beta": np.float32(0.5), "learning_rate": 1, "max_seconds": 1},
        {"device": "cuda:1"},
    ],
    ids=["defaults", "chosen by the table", "limits", "mask everything", "numpy numbers", "numbered device"],
)
def test_valid_parameters_pass(valid):
    assert check_parameters(HopularClassifier(**valid).get_params()) is None
    assert check_parameters(HopularRegressor(**valid).get_params()) is None
