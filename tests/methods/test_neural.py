"""MLPs, self-normalising and plain networks: inputs, layers, training, and the estimators from outside."""

from __future__ import annotations

import json
import pickle
import time
from itertools import pairwise
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from hopular.data.registry import median_ranks
from hopular.methods import get_method
from hopular.methods.method import Run
from hopular.methods.neural.estimators import (
    MLPClassifier,
    MLPRegressor,
    PlainClassifier,
    PlainRegressor,
    SNNClassifier,
    SNNRegressor,
)
from hopular.methods.neural.networks import (
    KINDS,
    Highway,
    Inputs,
    ResidualBlock,
    WeightNorm,
    mlp,
    plain,
    relu_linear,
    snn,
)
from hopular.methods.plain import VARIANTS
from hopular.search.space import load_space

SMALL = {"n_layers": 2, "width": 16, "max_epochs": 8, "random_state": 0, "device": "cpu"}
LEARNS = {**SMALL, "width": 32, "max_epochs": 30, "learning_rate": 3e-3}
CLASSIFIERS = [MLPClassifier, SNNClassifier, PlainClassifier]
REGRESSORS = [MLPRegressor, SNNRegressor, PlainRegressor]


def messy(n: int = 150, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    level = rng.integers(0, 3, n)
    colour = np.array(["red", "green", "blue"])[np.where(rng.random(n) < 0.8, level, 0)].astype(object)
    frame = pd.DataFrame(
        {"size": rng.normal(level, 0.4), "colour": pd.Categorical(colour), "noise": rng.normal(size=n)}
    )
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    frame["complete"] = rng.normal(size=n)
    return frame, np.array(["low", "mid", "high"])[level]


def fitted(estimator: Any, **changes: Any) -> Any:
    return estimator(**{**SMALL, **changes}).fit(*messy())


class Watch:
    """Counts epochs and validations; raises at epoch `stop`."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop, self.epochs, self.validations = stop, [], []

    def on_epoch(self, progress: Any) -> None:
        torch.rand(3)  # a hook may draw random numbers without changing the fit
        self.epochs.append(progress)
        if progress.epoch == self.stop:
            raise StopIteration

    def on_validation(self, progress: Any) -> None:
        self.validations.append(progress)


# ------------------------------------------------------------------------------------------------------------ networks


def test_inputs_are_numbers_one_hot_codes_and_marks_of_missing_values() -> None:
    inputs = Inputs((1, 1, 2, 3, 3), 3)  # two numbers, two categories, the target, a category
    nan = torch.nan
    rows = torch.tensor([[0.5, -2.0, 1, 0, 2], [nan, 1.0, nan, 1, 0], [nan, nan, 0, 2, nan]])
    inputs.learn(rows[:2])
    assert inputs.size == 2 + 5 + 4
    assert inputs(rows).tolist() == [
        [0.5, -2.0, 0, 1, 0, 0, 1, 0, 0, 0, 0],
        [0.0, 1.0, 0, 0, 1, 0, 0, 1, 0, 1, 0],
        [0.0, 0.0, 1, 0, 0, 0, 0, 1, 0, 0, 0],  # no mark where training had nothing missing
    ]


@pytest.mark.parametrize("widths", [(1, 1), (2, 3), (1, 4)])
def test_inputs_of_one_kind(widths: tuple[int, ...]) -> None:
    inputs = Inputs(widths, 1)
    assert inputs(torch.zeros(3, 2)).shape == (3, inputs.size)


def linear_widths(layers: Any) -> list[int]:
    return [m.out_features for m in layers if isinstance(m, nn.Linear)]


def test_shapes_of_networks() -> None:
    assert linear_widths(mlp(5, 3, 4, 16, "layer", 0.1)) == [16, 16, 16, 16, 3]
    assert linear_widths(snn(5, 3, 3, 16, "rectangular", 0.1)) == [16, 16, 16, 3]
    assert linear_widths(snn(5, 2, 3, 128, "conic", 0.1)) == [128, 32, 8, 2]  # a quarter each
    assert linear_widths(snn(5, 4, 2, 1, "conic", 0.1))[-1] == 4


@pytest.mark.parametrize(("norm", "kind"), [("batch", nn.BatchNorm1d), ("layer", nn.LayerNorm), ("none", nn.Identity)])
def test_an_mlp_s_layers(norm: Any, kind: type[nn.Module]) -> None:
    layers = list(mlp(5, 3, 2, 16, norm, 0.3))
    assert [type(m) for m in layers] == [nn.Linear, kind, nn.ReLU, nn.Dropout] * 2 + [nn.Linear]


def test_a_self_normalising_network_keeps_mean_and_variance() -> None:
    torch.manual_seed(0)
    layers = list(snn(64, 2, 16, 256, "rectangular", 0.1))
    x = torch.randn(2000, 64)
    for before, after in pairwise(layers[:-1]):
        if isinstance(before, nn.Linear):
            assert before.bias.abs().max() == 0
            assert before.weight.std().item() == pytest.approx(before.in_features**-0.5, rel=0.05)
        x = before(x)
        if isinstance(after, nn.AlphaDropout):
            assert x.mean().item() == pytest.approx(0, abs=0.15)
            assert x.var().item() == pytest.approx(1, abs=0.2)


def test_a_method_for_each_kind_of_plain_network() -> None:
    assert list(VARIANTS) == list(KINDS)
    rows = median_ranks()
    for kind in KINDS:
        method = get_method(kind)
        assert (method.group, method.has_curve, method.paper_name in rows) == ("plain", True, True)
        assert method.make("classification", {}, Run()).kind == method.make("regression", {}, Run()).kind == kind


def test_plain_networks_differ_by_one_thing() -> None:
    kinds = {kind: list(plain(kind, 5, 2, 2, 16, "rectangular", 0.5)) for kind in KINDS}
    linear = [nn.Linear, nn.ReLU, nn.Dropout]
    assert [type(m) for m in kinds["msra"]] == linear * 2 + [nn.Linear]
    for kind, norm in (("batch_norm", nn.BatchNorm1d), ("layer_norm", nn.LayerNorm)):
        assert [type(m) for m in kinds[kind]] == [nn.Linear, norm, nn.ReLU, nn.Dropout] * 2 + [nn.Linear]
    assert [type(m) for m in kinds["weight_norm"]] == [WeightNorm, nn.ReLU, nn.Dropout] * 2 + [nn.Linear]
    for kind, layer in (("highway", Highway), ("resnet", ResidualBlock)):
        assert [type(m) for m in kinds[kind]] == [nn.Linear, nn.ReLU, *[layer, nn.Dropout] * 2, nn.Linear]
    assert linear_widths(plain("msra", 5, 2, 3, 128, "conic", 0.0)) == [128, 32, 8, 2]


def test_msra_initialisation_keeps_the_scale_of_activations() -> None:
    torch.manual_seed(0)
    x = torch.randn(1000, 64)
    for layer in list(plain("msra", 64, 2, 16, 512, "rectangular", 0.0))[:-1]:
        x = layer(x)
    assert 0.5 < x.square().mean().item() < 2  # torch's own initialisation would leave 1e-8 of it


def test_weight_normalisation_starts_as_the_same_map_and_learns_length_apart_from_direction() -> None:
    torch.manual_seed(0)
    linear = relu_linear(5, 3)
    layer, x = WeightNorm(linear), torch.randn(7, 5)
    assert torch.allclose(layer(x), linear(x), atol=1e-6)
    before = layer(x)
    with torch.no_grad():
        linear.weight *= 3
    assert torch.allclose(layer(x), before, atol=1e-6)
    with torch.no_grad():
        layer.length *= 2
    assert torch.allclose(layer(x), 2 * before, atol=1e-6)  # the bias is 0


def test_a_highway_layer_with_a_closed_gate_passes_its_input_on() -> None:
    layer, x = Highway(4), torch.randn(6, 4)
    assert (layer.gate.bias == -1).all()
    with torch.no_grad():
        layer.gate.bias.fill_(-100)
    assert torch.equal(layer(x), x)
    with torch.no_grad():
        layer.gate.bias.fill_(100)
    assert torch.equal(layer(x), layer.linear(x).relu())


def test_a_residual_block_adds_to_its_input() -> None:
    block, x = ResidualBlock(8, 0.5).eval(), torch.rand(6, 8)
    assert linear_widths(block.layers) == [4, 8]
    with torch.no_grad():
        block.layers[-1].weight.zero_()
    assert torch.equal(block(x), x)


# ------------------------------------------------------------------------------------------------------------ learning


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_classifiers_learn_from_a_messy_frame(estimator: Any) -> None:
    model = fitted(estimator, **LEARNS)
    frame, level = messy(seed=1)
    assert model.score(frame, level) > 0.75  # chance: 1/3
    proba = model.predict_proba(frame)
    assert proba.sum(1) == pytest.approx(1)
    assert np.array_equal(model.classes_[proba.argmax(1)], model.predict(frame))


@pytest.mark.parametrize("estimator", REGRESSORS)
def test_regressors_learn_on_the_scale_of_the_target(estimator: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = 1000 + 50 * X[:, 0] - 20 * X[:, 1]
    model = estimator(**{**LEARNS, "dropout": 0.0}).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.8
    assert model.predict(X).dtype == np.float64


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_unseen_categories_and_new_missing_values(estimator: Any) -> None:
    model = fitted(estimator)
    frame = messy(seed=1)[0].astype({"colour": object})
    frame.loc[:, "colour"] = "violet"
    frame.loc[:, "complete"] = np.nan
    assert np.isfinite(model.predict_proba(frame)).all()


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_a_class_of_one_row(estimator: Any) -> None:
    frame, level = messy(40)
    level = level.astype(object)
    level[3] = "rare"
    model = estimator(**SMALL).fit(frame, level)
    assert model.predict_proba(frame).shape == (40, 4)
    assert 3 in model.train_index_


@pytest.mark.parametrize("kind", KINDS)
def test_every_plain_network_learns_deep_too_and_comes_back_from_its_file(kind: str, tmp_path: Any) -> None:
    frame, level = messy()
    model = PlainClassifier(**LEARNS | {"n_layers": 8}, kind=kind).fit(frame, level)
    assert model.score(*messy(seed=1)) > 0.7  # chance: 1/3
    model.save(tmp_path / "model")
    for copy in (PlainClassifier.load(tmp_path / "model", "cpu"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(copy.predict_proba(frame), model.predict_proba(frame))


@pytest.mark.parametrize(("n", "batch_size"), [(2, None), (3, 2), (5, 2), (7, 100)])
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_few_rows(n: int, batch_size: int | None, norm: str) -> None:
    model = MLPRegressor(**SMALL, norm=norm, batch_size=batch_size, validation_fraction=0)
    assert np.isfinite(model.fit(np.arange(n)[:, None], np.arange(n)).predict([[0.5]])).all()


# -------------------------------------------------------------------------------------------------------- repeatability


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
def test_the_seed_decides_every_bit(estimator: Any) -> None:
    frame, level = messy()
    y = level if estimator in CLASSIFIERS else frame["complete"]
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first = estimator(**SMALL).fit(frame, y)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    again = estimator(**SMALL).fit(frame, y, hooks=[Watch()])
    other = estimator(**{**SMALL, "random_state": 1}).fit(frame, y)
    assert same_weights(first, again)
    assert not same_weights(first, other)


def same_weights(a: Any, b: Any) -> bool:
    states: tuple[dict[str, Tensor], ...] = (a.network_.state_dict(), b.network_.state_dict())
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


# ------------------------------------------------------------------------------------------------ stopping, hooks, time


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_the_state_with_the_lowest_validation_loss_is_kept(estimator: Any) -> None:
    (X, y), (valid, y_valid) = messy(60), messy(60, seed=1)
    y[::3] = y[::-3]  # wrong labels, which to learn by heart makes the validation loss worse
    model = estimator(**{**SMALL, "max_epochs": 40, "learning_rate": 0.03, "patience": 40, "width": 64})
    model.fit(X, y, eval_set=(valid, y_valid))
    best = min(model.history_, key=lambda p: p.loss)
    assert model.best_epoch_ == best.epoch < 40
    assert model.score(valid, y_valid) == pytest.approx(best.score)
    codes = np.searchsorted(model.classes_, y_valid)
    log_loss = -np.log(model.predict_proba(valid)[np.arange(60), codes]).mean()
    assert log_loss == pytest.approx(best.loss, rel=1e-4)
    assert len(model.train_index_) == 60


def test_patience() -> None:
    frame, level = messy()
    wrong = level[np.random.default_rng(0).permutation(len(level))]
    watch = Watch()
    model = MLPClassifier(**{**LEARNS, "max_epochs": 300, "patience": 3})
    model.fit(frame, level, eval_set=(frame, wrong), hooks=[watch])
    assert len(watch.epochs) == model.best_epoch_ + 3 < 300


def test_hooks_see_every_epoch_and_validation_and_may_end_the_fit() -> None:
    watch = Watch()
    model = SNNClassifier(**SMALL).fit(*messy(), hooks=[watch])
    assert [p.epoch for p in watch.epochs] == list(range(1, 9))
    assert [p.without_network() for p in watch.validations] == model.history_
    assert all(p.max_epochs == 8 and p.train_loss > 0 for p in watch.epochs)
    unfitted = SNNClassifier(**SMALL)
    with pytest.raises(StopIteration):
        unfitted.fit(*messy(), hooks=[Watch(stop=2)])
    with pytest.raises(NotFittedError):
        unfitted.predict(messy()[0])


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_max_seconds(estimator: Any) -> None:
    start = time.perf_counter()
    parameters = {**SMALL, "max_epochs": 1_000_000, "patience": 1_000_000}
    model = estimator(**parameters, max_seconds=0.3).fit(*messy())
    assert 0.2 < time.perf_counter() - start < 5
    assert len(model.history_) >= 1


def test_without_validation_the_last_state_is_kept() -> None:
    model = fitted(MLPClassifier, validation_fraction=0)
    assert (model.history_, model.best_epoch_, len(model.train_index_)) == ([], 8, 150)


# -------------------------------------------------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
def test_save_load_pickle_clone(estimator: Any, tmp_path: Any) -> None:
    frame, level = messy()
    model = estimator(**SMALL).fit(frame, level if estimator in CLASSIFIERS else frame["complete"])
    path = tmp_path / "model.safetensors"
    model.save(path)
    for copy in (estimator.load(path, "cpu"), pickle.loads(pickle.dumps(model))):
        assert copy.get_params() == model.get_params() == clone(model).get_params()
        assert np.array_equal(copy.predict(frame), model.predict(frame))
    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["hopular"])
        assert file.get_tensor("rows").numel() == 0  # no training data in the file
    assert header["class"] == estimator.__name__


def test_what_these_networks_cannot_do_is_not_there() -> None:
    model = fitted(MLPClassifier)
    assert not hasattr(model, "retrieve")
    assert not hasattr(model, "impute")


@pytest.mark.parametrize(
    ("estimator", "name", "value", "message"),
    [
        (MLPClassifier, "n_layers", 0, "n_layers must be an integer of at least 1, not 0"),
        (SNNClassifier, "width", 2.5, "width must be an integer of at least 1, not 2.5"),
        (SNNClassifier, "max_epochs", None, "max_epochs must be an integer of at least 1, not None"),
        (MLPClassifier, "dropout", 1.0, "dropout must be a number from 0 to below 1, not 1.0"),
        (MLPClassifier, "norm", "group", "norm must be one of"),
        (MLPClassifier, "batch_size", 1, "batch_size must be at least 2 with norm='batch', not 1"),
        (SNNClassifier, "shape", "round", "shape must be one of"),
        (SNNClassifier, "shape", "diavolo", "shape must be one of"),
        (PlainClassifier, "kind", "dense", "kind must be one of .*, not 'dense'"),
        (PlainClassifier, "shape", "diavolo", r"shape must be one of \['rectangular', 'conic'\] with kind='msra', not"),
        (SNNClassifier, "learning_rate", None, "learning_rate must be a positive number, not None"),
        (MLPClassifier, "weight_decay", -1, "weight_decay must be a number in"),
    ],
)
def test_parameters_out_of_range(estimator: Any, name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(estimator, **{name: value})


# --------------------------------------------------------------------------------------------------- methods and spaces


@pytest.mark.parametrize("name", ["snn", "mlp", *KINDS])
@pytest.mark.parametrize("size", ["small", "medium"])
def test_search_spaces_give_settings_that_are_accepted(name: str, size: str) -> None:
    space = load_space(name)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        setting = space.suggest(study.ask(), size)
        model = get_method(name).make("classification", setting, Run())
        model._check_parameters()
        assert {key: model.get_params()[key] for key in setting} == setting
