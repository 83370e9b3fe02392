"""The named architectures: what each is made of, and which one an estimator has."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from hopular import HopularClassifier, HopularRegressor
from hopular.model.architecture import (
    ARCHITECTURES,
    SPACE,
    SPACE_ATTRIBUTES,
    WIDE,
    Architecture,
    Parts,
    Sizes,
    choose_parts,
    choose_sizes,
    describe_parts,
)
from hopular.model.encoding import Attribute, learn_encoding
from hopular.model.members import EPSILON, Norm
from hopular.model.network import Hopular
from hopular.model.npt_estimator import NPTClassifier
from hopular.model.perceptron_estimators import MLPClassifier, SNNClassifier

SMALL = {"n_members": 1, "n_blocks": 1, "n_networks": 2, "embedding_dim": 8, "max_epochs": 1, "random_state": 0}
TARGET = Attribute("target", "categorical", -1, categories=("0", "1"))
PARTS = {
    "default": ("periodic", "separate", "attribute"),
    "paper": ("sum", "tied", "attribute"),
    "released": ("projected", "separate", "joint"),
}
PAGE = (Path(__file__).parents[2] / "docs" / "architecture-options.md").read_text(encoding="utf-8")
X = np.random.default_rng(0).normal(size=(20, 3))
y = (X[:, 0] > 0).astype(int)


def trained_parts(estimator):
    """The parts of the network that an estimator really trains."""
    network = estimator.fit(X, y).network_
    embedding = network.embedding
    return (
        "projected" if embedding.project is not None else "sum" if embedding.waves is None else "periodic",
        "tied" if network.blocks[0].samples.value is None else "separate",
        "joint" if network.summary.joint else "attribute",
    )


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("estimator", [HopularClassifier, HopularRegressor])
def test_a_name_selects_the_whole_architecture(estimator, name):
    made = estimator(architecture=name, **SMALL)
    assert trained_parts(made) == PARTS[name]
    assert trained_parts(clone(made)) == PARTS[name]


def test_the_recipe_of_the_paper_brings_its_architecture():
    assert trained_parts(HopularClassifier(**SMALL)) == PARTS["default"]
    assert trained_parts(HopularClassifier(recipe="paper", **SMALL)) == PARTS["paper"]
    for name, parts in PARTS.items():
        assert trained_parts(HopularClassifier(recipe="paper", architecture=name, **SMALL)) == parts


def test_single_parts_override_the_architecture():
    one = HopularClassifier(architecture="released", values="tied", **SMALL)
    assert trained_parts(one) == ("projected", "tied", "joint")
    other = HopularClassifier(recipe="paper", summary="joint", **SMALL)
    assert trained_parts(other) == ("sum", "tied", "joint")


def built(columns, **parameters):
    """The network that an estimator builds for a table of so many columns and the target."""
    made = HopularClassifier(**parameters)
    made.encoding_ = learn_encoding(pd.DataFrame(np.eye(columns + 1, columns)), set(), TARGET)
    return made._build([0], [made])


def trained_sizes(columns, **parameters):
    """L, M and e of that network."""
    arch = built(columns, **parameters).arch
    return arch.n_blocks, arch.n_networks, arch.embedding_dim


@pytest.mark.parametrize("columns", [3, 60])
def test_the_published_architectures_have_the_published_sizes(columns):
    assert trained_sizes(columns, architecture="paper") == (4, 8, 32)
    assert trained_sizes(columns, architecture="released") == (4, 8, 32)
    assert trained_sizes(columns, recipe="paper") == (4, 8, 32)
    assert HopularClassifier().beta == 1.0
    assert set(ARCHITECTURES) == set(PARTS)


def test_the_default_architecture_is_narrow_and_narrower_in_wide_tables():
    (narrow, wide) = (trained_sizes(columns) for columns in (WIDE - 1, WIDE))  # and the target
    assert narrow == tuple(asdict(choose_sizes("default", WIDE)).values())
    assert wide == tuple(asdict(choose_sizes("default", WIDE + 1)).values())
    assert narrow[2] > wide[2]
    assert max(narrow[1:]) < 32


def sample_space(columns, **parameters):
    """The state's width in that network, and the dimensions that its H_s and H_f project to."""
    block = built(columns, **parameters).blocks[0]
    assert block.features.query.weight.shape[1] == block.features.query.weight.shape[2]
    _, units, width = block.samples.query.weight.shape
    assert block.samples.output.weight.shape[1:] == (width, units)
    return width, units


def test_rows_are_compared_in_few_dimensions_unless_a_table_is_wide():
    assert sample_space(3) == (4 * 8, 4 * 8)  # and the target
    assert sample_space(SPACE_ATTRIBUTES - 1) == (SPACE_ATTRIBUTES * 8, SPACE)
    assert sample_space(SPACE_ATTRIBUTES) == ((SPACE_ATTRIBUTES + 1) * 8,) * 2
    assert sample_space(9, embedding_dim=32, n_networks=8) == (320, SPACE)
    for name in ("paper", "released"):
        assert sample_space(9, architecture=name) == (320, 320)


@pytest.mark.parametrize("name", PARTS)
def test_sizes_that_are_given_are_kept(name):
    assert trained_sizes(60, architecture=name, n_blocks=1, n_networks=3, embedding_dim=6) == (1, 3, 6)
    assert trained_sizes(3, architecture=name, n_networks=3)[1] == 3


def test_parts_are_described_by_the_name_that_has_them():
    assert [describe_parts(choose_parts(name)) for name in PARTS] == list(PARTS)
    assert describe_parts(choose_parts("default", embedding="sum", values="tied")) == "paper"
    assert describe_parts(Parts("sum", "tied", "joint")) == "sum, tied, joint"


def test_the_page_names_the_parts_of_each():
    rows = re.findall(r'^\| `"(\w+)"` \| `"(\w+)"` \| `"(\w+)"` \| `"(\w+)"` \|', PAGE, re.M)
    assert {name: tuple(parts) for name, *parts in rows} == PARTS


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("n_networks", [1, 2, 16])
def test_hf_has_the_dimension_and_normalisation_that_the_page_tells_of(name, n_networks):
    """h = d e / M for H_s, e / M for H_f and at least 1; beta is the factor over its root; epsilon is 1e-5."""
    d, e, beta = 5, 8, 100.0
    network = Hopular(Architecture((1,) * d, 4, 1, n_networks, e, beta, **asdict(ARCHITECTURES[name])), [0, 1])
    block = network.blocks[0]
    for module, h in ((block.samples, max(1, d * e // n_networks)), (block.features, max(1, e // n_networks))):
        assert module.key.weight.shape[1] == n_networks * h
        assert module.beta.flatten().tolist() == pytest.approx([beta / h**0.5] * 2)
    assert {module.epsilon for module in network.modules() if isinstance(module, Norm)} == {EPSILON} == {1e-5}
    for row in (
        "| Hopfield dimension h of H_f | d e / M, the same as for H_s | e / M | e / M, at least 1 |",
        "| epsilon of layer normalisation | not described | 1e-12 | 1e-5, PyTorch's default |",
    ):
        assert row in PAGE


@pytest.mark.parametrize("estimator", [NPTClassifier, MLPClassifier, SNNClassifier])
def test_other_networks_have_no_architecture_to_choose(estimator):
    assert "architecture" not in estimator().get_params()
    with pytest.raises(TypeError, match="architecture"):
        estimator(architecture="paper")


# -------------------------------------------------------------------------------------------------------- saved models


def test_a_model_outlives_another_meaning_of_its_architecture(tmp_path, monkeypatch):
    model = HopularClassifier(**SMALL).fit(X, y)
    model.save(path := tmp_path / "model")
    monkeypatch.setitem(ARCHITECTURES, "default", ARCHITECTURES["released"])
    loaded = HopularClassifier.load(path)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert (loaded.embedding, loaded.values, loaded.summary) == PARTS["default"]


def test_a_model_outlives_other_default_sizes(tmp_path, monkeypatch):
    model = HopularClassifier(n_members=1, max_epochs=1, random_state=0).fit(X, y)
    model.save(path := tmp_path / "model")
    monkeypatch.setattr("hopular.model.estimator.choose_sizes", lambda _, __, L, M, e: Sizes(L or 1, M or 1, e or 2))
    loaded = HopularClassifier.load(path)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert (loaded.n_blocks, loaded.n_networks, loaded.embedding_dim) == tuple(
        asdict(choose_sizes("default", 4)).values()
    )
