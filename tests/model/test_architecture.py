"""The named architectures: what each is made of, and which one an estimator has."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from sklearn.base import clone
from torch import nn

from hopular import HopularClassifier, HopularRegressor
from hopular.methods.neural.estimators import MLPClassifier, SNNClassifier
from hopular.model.architecture import ARCHITECTURES, Architecture, Parts, choose_parts, describe_parts
from hopular.model.network import Hopular
from hopular.model.npt_estimator import NPTClassifier

SMALL = {"n_blocks": 1, "n_networks": 2, "embedding_dim": 8, "max_epochs": 1, "device": "cpu", "random_state": 0}
PARTS = {
    "default": ("sum", "separate", "attribute"),
    "paper": ("sum", "tied", "attribute"),
    "released": ("projected", "separate", "joint"),
}
PAGE = (Path(__file__).parents[2] / "docs" / "architecture-options.md").read_text(encoding="utf-8")
X = np.random.default_rng(0).normal(size=(20, 3))
y = (X[:, 0] > 0).astype(int)


def trained_parts(estimator):
    """The parts of the network that an estimator really trains."""
    network = estimator.fit(X, y).network_
    return (
        "sum" if network.embedding.project is None else "projected",
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


def test_sizes_are_the_same_in_all():
    """Only embedding, values and summary depend on the name."""
    sizes = ("n_blocks", "n_networks", "embedding_dim", "beta")
    known = {tuple(getattr(HopularClassifier(architecture=name), size) for size in sizes) for name in PARTS}
    assert known == {(4, 8, 32, 1.0)}
    assert set(ARCHITECTURES) == set(PARTS)


def test_parts_are_described_by_the_name_that_has_them():
    assert [describe_parts(choose_parts(name)) for name in PARTS] == list(PARTS)
    assert describe_parts(choose_parts("default", values="tied")) == "paper"
    assert describe_parts(Parts("sum", "tied", "joint")) == "sum, tied, joint"


def test_the_page_names_the_parts_of_each():
    rows = re.findall(r'^\| `"(\w+)"` \| `"(\w+)"` \| `"(\w+)"` \| `"(\w+)"` \|', PAGE, re.M)
    assert {name: tuple(parts) for name, *parts in rows} == PARTS


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("n_networks", [1, 2, 16])
def test_hf_has_the_dimension_and_normalisation_that_the_page_tells_of(name, n_networks):
    """h = d e / M for H_s, e / M for H_f and at least 1; beta is the factor over its root; epsilon is 1e-5."""
    d, e, beta = 5, 8, 100.0
    network = Hopular(Architecture((1,) * d, 4, 1, n_networks, e, beta, **asdict(ARCHITECTURES[name])))
    block = network.blocks[0]
    for module, h in ((block.samples, max(1, d * e // n_networks)), (block.features, max(1, e // n_networks))):
        assert module.key.out_features == n_networks * h
        assert module.beta == pytest.approx(beta / h**0.5)
    assert {module.eps for module in network.modules() if isinstance(module, nn.LayerNorm)} == {1e-5}
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


def rewrite(path, change):
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["hopular"])
    change(header)
    save_file(load_file(path), path, metadata={"hopular": json.dumps(header)})


@pytest.mark.parametrize("name", PARTS)
def test_a_model_saved_before_architectures_had_names_is_loaded(tmp_path, name):
    """Its file names the three parts and nothing else."""
    model = HopularClassifier(architecture=name, recipe="paper", **SMALL).fit(X, y)
    model.save(path := tmp_path / "old")

    def as_before(header):
        del header["parts"], header["parameters"]["architecture"]
        header["parameters"] |= dict(zip(("embedding", "values", "summary"), PARTS[name], strict=True))

    rewrite(path, as_before)
    loaded = HopularClassifier.load(path)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert (loaded.embedding, loaded.values, loaded.summary) == PARTS[name]


def test_a_model_outlives_another_meaning_of_its_architecture(tmp_path, monkeypatch):
    model = HopularClassifier(**SMALL).fit(X, y)
    model.save(path := tmp_path / "model")
    monkeypatch.setitem(ARCHITECTURES, "default", ARCHITECTURES["released"])
    loaded = HopularClassifier.load(path)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert (loaded.embedding, loaded.values, loaded.summary) == PARTS["default"]
