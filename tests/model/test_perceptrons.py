"""MLPs, self-normalising and plain networks: inputs, layers, members, training, and the estimators from outside."""

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
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import Tensor, nn

from hopular.data.registry import median_ranks
from hopular.methods import get_method
from hopular.methods.method import Run
from hopular.methods.perceptrons import PLAIN
from hopular.model import checkpoint
from hopular.model.estimator import HopularEstimator
from hopular.model.members import Draw, Linear, Network, Norm, pick
from hopular.model.perceptron_estimators import (
    MLPClassifier,
    MLPRegressor,
    PlainClassifier,
    PlainRegressor,
    SNNClassifier,
    SNNRegressor,
)
from hopular.model.perceptrons import (
    KINDS,
    AdamW,
    AlphaDropout,
    BatchNorm,
    Dropout,
    Highway,
    Inputs,
    Perceptron,
    PerceptronStep,
    ResidualBlock,
    Unbiased,
    WeightNorm,
    mlp,
    plain,
    relu_linear,
    snn,
)
from hopular.model.recipe import Recipe
from hopular.model.table import TableEstimator, fit_together
from hopular.model.trainer import Part, train
from hopular.trials.space import load_space

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


ONE = Draw([0])


def test_inputs_are_numbers_one_hot_codes_and_marks_of_missing_values() -> None:
    inputs = Inputs((1, 1, 2, 3, 3), 3, 2)  # two numbers, a category, the target, a category
    nan = torch.nan
    rows = torch.tensor([[0.5, -2.0, 1, 0, 2], [nan, 1.0, nan, 1, 0], [nan, nan, 0, 2, nan]])
    inputs.learn(rows, [Part(torch.tensor(train), torch.arange(0)) for train in ([0, 1], [0])])
    assert inputs.size == 2 + 5 + 4
    first, second = inputs(rows.T.expand(2, -1, -1)).mT.tolist()
    assert first == [
        [0.5, -2.0, 0, 1, 0, 0, 1, 0, 0, 0, 0],
        [0.0, 1.0, 0, 0, 1, 0, 0, 1, 0, 1, 0],
        [0.0, 0.0, 1, 0, 0, 0, 0, 1, 0, 0, 0],  # no mark where training had nothing missing
    ]
    assert second == [row[:-4] + [0] * 4 for row in first]


@pytest.mark.parametrize("widths", [(1, 1), (2, 3), (1, 4)])
def test_inputs_of_one_kind(widths: tuple[int, ...]) -> None:
    inputs = Inputs(widths, 1, 2)
    assert inputs(torch.zeros(2, 2, 3)).shape == (2, inputs.size, 3)


def linear_widths(layers: Any) -> list[int]:
    return [m.weight.shape[1] for m in layers if isinstance(m, Linear | Unbiased)]


def test_shapes_of_networks() -> None:
    assert linear_widths(mlp(ONE, 5, 3, 4, 16, "layer", 0.1)) == [16, 16, 16, 16, 3]
    assert linear_widths(snn(ONE, 5, 3, 3, 16, "rectangular", 0.1)) == [16, 16, 16, 3]
    assert linear_widths(snn(ONE, 5, 2, 3, 128, "conic", 0.1)) == [128, 32, 8, 2]  # a quarter each
    assert linear_widths(snn(ONE, 5, 4, 2, 1, "conic", 0.1))[-1] == 4


@pytest.mark.parametrize(("norm", "kind"), [("batch", BatchNorm), ("layer", Norm), ("none", nn.Identity)])
def test_an_mlp_s_layers(norm: Any, kind: type[nn.Module]) -> None:
    layers = list(mlp(ONE, 5, 3, 2, 16, norm, 0.3))
    linear = Unbiased if norm == "batch" else Linear
    assert [type(m) for m in layers] == [linear, kind, nn.ReLU, Dropout] * 2 + [Linear]


def test_a_self_normalising_network_keeps_mean_and_variance() -> None:
    layers = list(snn(ONE, 64, 2, 16, 256, "rectangular", 0.1))
    x = torch.randn(1, 64, 2000, generator=torch.Generator().manual_seed(0))
    for before, after in pairwise(layers[:-1]):
        if isinstance(before, Linear):
            assert before.bias.abs().max() == 0
            assert before.weight.std().item() == pytest.approx(before.weight.shape[2] ** -0.5, rel=0.05)
        x = before(x)
        if isinstance(after, AlphaDropout):
            assert x.mean().item() == pytest.approx(0, abs=0.15)
            assert x.var().item() == pytest.approx(1, abs=0.2)


def test_a_method_for_each_kind_of_plain_network() -> None:
    assert list(PLAIN) == list(KINDS)
    rows = median_ranks()
    for kind in KINDS:
        method = get_method(kind)
        assert (method.group, method.has_curve, method.paper_name in rows) == ("plain", True, True)
        assert method.make("classification", {}, Run()).kind == method.make("regression", {}, Run()).kind == kind


def test_plain_networks_differ_by_one_thing() -> None:
    kinds = {kind: list(plain(ONE, kind, 5, 2, 2, 16, "rectangular", 0.5)) for kind in KINDS}
    linear = [Linear, nn.ReLU, Dropout]
    assert [type(m) for m in kinds["msra"]] == linear * 2 + [Linear]
    assert [type(m) for m in kinds["batch_norm"]] == [Unbiased, BatchNorm, nn.ReLU, Dropout] * 2 + [Linear]
    assert [type(m) for m in kinds["layer_norm"]] == [Linear, Norm, nn.ReLU, Dropout] * 2 + [Linear]
    assert [type(m) for m in kinds["weight_norm"]] == [WeightNorm, nn.ReLU, Dropout] * 2 + [Linear]
    for kind, layer in (("highway", Highway), ("resnet", ResidualBlock)):
        assert [type(m) for m in kinds[kind]] == [Linear, nn.ReLU, *[layer, Dropout] * 2, Linear]
    assert linear_widths(plain(ONE, "msra", 5, 2, 3, 128, "conic", 0.0)) == [128, 32, 8, 2]


def test_msra_initialisation_keeps_the_scale_of_activations() -> None:
    x = torch.randn(1, 64, 1000, generator=torch.Generator().manual_seed(0))
    for layer in list(plain(ONE, "msra", 64, 2, 16, 512, "rectangular", 0.0))[:-1]:
        x = layer(x)
    assert 0.5 < x.square().mean().item() < 2  # torch's own initialisation would leave 1e-8 of it


def test_weight_normalisation_starts_as_the_same_map_and_learns_length_apart_from_direction() -> None:
    linear = relu_linear(Draw([0, 1]), 5, 3)
    layer, x = WeightNorm(linear), torch.randn(2, 5, 7)
    assert torch.allclose(layer(x), linear(x), atol=1e-6)
    before = layer(x)
    with torch.no_grad():
        linear.weight *= 3
    assert torch.allclose(layer(x), before, atol=1e-6)
    with torch.no_grad():
        layer.length *= 2
    assert torch.allclose(layer(x), 2 * before, atol=1e-6)  # the bias is 0


def test_a_highway_layer_with_a_closed_gate_passes_its_input_on() -> None:
    layer, x = Highway(ONE, 4), torch.randn(1, 4, 6)
    assert (layer.gate.bias == -1).all()
    with torch.no_grad():
        layer.gate.bias.fill_(-100)
    assert torch.equal(layer(x), x)
    with torch.no_grad():
        layer.gate.bias.fill_(100)
    assert torch.equal(layer(x), layer.linear(x).relu())


def test_a_residual_block_adds_to_its_input() -> None:
    block, x = ResidualBlock(ONE, 8, 0.5).eval(), torch.rand(1, 8, 6)
    assert linear_widths(block.layers) == [4, 8]
    with torch.no_grad():
        block.layers[-1].gain.zero_()
    assert torch.equal(block(x), x)


def test_batch_normalisation_is_torch_s_for_each_member() -> None:
    ours, theirs = BatchNorm(Draw([0, 1]), 4), [nn.BatchNorm1d(4), nn.BatchNorm1d(4)]
    with torch.no_grad():
        for one in (ours.gain, ours.shift):
            one.uniform_(-1, 1)
        for k, norm in enumerate(theirs):
            norm.weight.copy_(ours.gain[k])
            norm.bias.copy_(ours.shift[k])
    for training in (True, True, False):
        x = torch.randn(2, 4, 9)
        expected = torch.stack([norm.train(training)(x[k].T).T for k, norm in enumerate(theirs)])
        assert torch.allclose(ours.train(training)(x), expected, atol=1e-6)
    assert torch.allclose(ours.variance, torch.stack([norm.running_var for norm in theirs]), atol=1e-6)


def test_alpha_dropout_is_torch_s() -> None:
    """Both drop a quarter of the units: mean and variance stay, and so do the two values that a unit can take."""
    x = torch.full((1, 100, 1000), 0.5)
    values = nn.AlphaDropout(0.25)(x).unique()
    network = Perceptron((1, 1), 1, [0], lambda draw, inputs, outputs: iter([AlphaDropout(0.25)]))
    PerceptronStep(network, recipe(), [0], torch.zeros(4, 2), parts(4))
    dropped = network.layers.train()(x)
    assert torch.allclose(dropped.unique(), values, atol=1e-6)
    assert (dropped < 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    assert torch.equal(network.layers.eval()(x), x)


# -------------------------------------------------------------------------------------------------------- the training


WIDTHS = (1, 1, 3, 2)  # two numbers, a category, and the class to predict


def table(n: int = 60) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 2, generator=generator)
    x[::7, 0] = torch.nan
    category = torch.randint(3, (n, 1), generator=generator).float()
    return torch.cat([x, category, (x[:, 1:] + category > 1).float()], dim=1)


def network(seeds: list[int], kind: str = "mlp") -> Perceptron:
    def build(draw: Draw, inputs: int, outputs: int) -> Any:
        if kind == "mlp":
            return mlp(draw, inputs, outputs, 2, 16, "batch", 0.2)
        if kind == "snn":
            return snn(draw, inputs, outputs, 2, 16, "conic", 0.2)
        return plain(draw, kind, inputs, outputs, 2, 16, "rectangular", 0.2)  # type: ignore[arg-type]

    return Perceptron(WIDTHS, 3, seeds, build)


def recipe(**changes: Any) -> Recipe:
    defaults = {"max_epochs": 6, "batch_size": 16, "memory_ratio": 0.0, "learning_rate": 0.01, "slow_rate": 1.0}
    return Recipe(**{**defaults, "validate_every": 1, "patience": 6, "selection": "loss", **changes})


def parts(n: int, members: int = 1, folds: int = 4) -> list[Part]:
    """A part of n rows for each member: fold k decides when member k stops."""
    places = torch.arange(n)
    return [Part(places[places % folds != k], places[places % folds == k]) for k in range(members)]


def learn(rows: Tensor, of: list[Part], seeds: list[int], kind: str = "mlp", **options: Any) -> Any:
    """Train one bag and return its result."""
    settings = options.pop("recipe", recipe())
    (result,) = train(network(seeds, kind), rows, of, settings, seeds=seeds, step=PerceptronStep, **options)
    return result


def close(a: Network, b: Network, atol: float = 1e-4) -> bool:
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(torch.allclose(ours[name], theirs[name], atol=atol) for name in ours)


@pytest.mark.parametrize("kind", ["mlp", "snn", *KINDS])
def test_a_member_alone_is_the_member_in_a_stack(kind: str) -> None:
    """Every number of its state, to 1e-4 after 18 steps: products of other shapes may differ in the last bit."""
    rows = table()
    of = [Part(part.train, torch.arange(0)) for part in parts(60, 3)]
    together = learn(rows, of, [5, 6, 7], kind)
    for k in range(3):
        alone = learn(rows, of[k : k + 1], [5 + k], kind)
        assert close(alone.network, pick(together.network, [k]))
    assert not close(pick(together.network, [0]), pick(together.network, [1]), atol=0.01)


def test_a_member_learns_the_same_when_those_beside_it_leave() -> None:
    """The moments of AdamW, the statistics of batch normalisation and the dropout masks stay with their member."""
    rows, of, seeds = table(), parts(60, 3), [5, 6, 7]
    stop: Any = Watch(stop=2)
    results = train(
        network(seeds), rows, of, recipe(), seeds=seeds, bags=[0, 1, 0], hooks=[[], [stop]], step=PerceptronStep
    )
    assert isinstance(results[1], StopIteration)
    alone = learn(rows, [of[0], of[2]], [5, 7])
    assert isinstance(results[0], type(alone))
    assert close(results[0].network, alone.network)


def test_a_member_that_leaves_without_a_loss_has_its_last_state() -> None:
    rows, of, seeds = torch.cat([table(), table()[:4]]), parts(60, 2), [5, 6]
    rows[60:, 1] = torch.inf  # what a bag never predicts well
    of[0] = Part(of[0].train, torch.arange(60, 64))
    results: Any = train(network(seeds), rows, of, recipe(patience=2), seeds=seeds, bags=[0, 1], step=PerceptronStep)
    assert np.isnan([p.loss for p in results[0].history]).all()
    assert results[0].best_epochs == (2,)
    assert results[0].network.layers[0].weight.abs().min() > 0


def test_the_training_step_exists_once() -> None:
    """Only losses and learning rate are its own."""
    own = vars(PerceptronStep)
    assert {"losses", "learning_rate"} <= set(own)
    assert not {"learn", "select", "state_dict", "load_state_dict"} & set(own)


def test_every_tensor_of_the_state_has_the_members_first() -> None:
    for kind in ("mlp", "snn", *KINDS):
        assert {len(tensor) for tensor in network([1, 2, 3, 4, 5], kind).state_dict().values()} == {5}


def test_a_copy_of_a_network_in_training_predicts_as_the_network_does() -> None:
    rows, of = table(), parts(60, 2)
    step = PerceptronStep(network([0, 1]), recipe(), [0, 1], rows, of)
    x = rows[of[0].train].T.expand(2, -1, -1).contiguous()
    step.learn(x, 16, 0.0)
    assert torch.allclose(pick(step.network, [1])(x[1:]), step.network(x)[1:], atol=1e-6)
    assert torch.equal(step.network(x), step.network(x))  # dropout is for training alone


def test_adamw_decays_the_weights_of_linear_maps_alone_and_takes_the_gradients() -> None:
    rows, of = table(), parts(60)
    for kind in ("mlp", *KINDS):
        step = PerceptronStep(network([0], kind), recipe(weight_decay=0.5), [0], rows, of)
        decayed, others = step.optimizer.param_groups
        assert (decayed["weight_decay"], others["weight_decay"]) == (0.5, 0.0)
        assert {p.ndim for p in decayed["params"]} == {3}
        maps = [m for m in step.network.modules() if isinstance(m, Linear | Unbiased)]
        assert {id(p) for p in decayed["params"]} == {id(m.weight) for m in maps}
        step.learn(rows[of[0].train].T[None].contiguous(), 16, 0.9)
        assert {group["lr"] for group in step.optimizer.param_groups} == {0.01}  # to the end
        assert all(p.grad is None for p in step.network.parameters())
    assert isinstance(step.optimizer, AdamW)


@pytest.mark.parametrize("kind", ["mlp", "snn", "resnet"])
def test_training_goes_on_from_a_checkpoint_bit_for_bit(
    kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    rows, of, path = table(), parts(60, 2), tmp_path / "training"
    whole = learn(rows, of, [5, 6], kind)
    interrupted = learn(rows, of, [5, 6], kind, checkpoint=checkpoint.Checkpoint(path), hooks=[[Watch(stop=4)]])
    assert isinstance(interrupted, StopIteration)
    watch = Watch()
    resumed = learn(rows, of, [5, 6], kind, checkpoint=checkpoint.Checkpoint(path), hooks=[[watch]])
    assert [p.epoch for p in watch.epochs] == [4, 5, 6]
    assert all(torch.equal(a, b) for a, b in pairs(whole.network, resumed.network))
    assert [p.losses for p in resumed.history] == [p.losses for p in whole.history]
    assert resumed.best_epochs == whole.best_epochs
    assert not path.exists()


def pairs(a: Network, b: Network) -> list[tuple[Tensor, Tensor]]:
    return list(zip(a.state_dict().values(), b.state_dict().values(), strict=True))


# ------------------------------------------------------------------------------------------------------------- members


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
def test_out_of_fold_predictions_and_the_mean_of_members(estimator: Any, tmp_path: Any) -> None:
    frame, level = messy()
    y = level if estimator in CLASSIFIERS else frame["complete"].to_numpy()
    model = estimator(**SMALL, n_members=3).fit(frame, y)
    assert len(model.best_epochs_) == len(model.members_) == 3
    assert np.array_equal(model.train_index_, np.arange(150))
    name = "oof_proba_" if estimator in CLASSIFIERS else "oof_prediction_"
    predict = model.predict_proba if estimator in CLASSIFIERS else model.predict
    alone = []
    for k, places in enumerate(model.members_):
        member = pickle.loads(pickle.dumps(model))
        member._set_members(pick(model.network_, [k]), model.rows_, [places])
        alone.append(member.predict_proba(frame) if estimator in CLASSIFIERS else member.predict(frame))
        held_out = np.setdiff1d(np.arange(150), places.numpy())
        assert len(held_out) == 50
        assert getattr(model, name)[held_out] == pytest.approx(alone[-1][held_out], abs=1e-5)
    assert predict(frame) == pytest.approx(np.mean(alone, axis=0), abs=1e-5)
    assert not np.allclose(alone[0], alone[1], atol=1e-3)
    model.save(tmp_path / "model")
    loaded = estimator.load(tmp_path / "model", "cpu")
    assert np.array_equal(getattr(loaded, name), getattr(model, name))
    assert np.array_equal(loaded.predict(frame), model.predict(frame))


def test_one_member_unless_more_are_asked_for() -> None:
    model = fitted(MLPClassifier)
    assert model.n_members is None
    assert len(model.members_) == 1
    held_out = np.setdiff1d(np.arange(150), model.train_index_)
    assert np.isfinite(model.oof_proba_[held_out]).all()
    assert np.isnan(model.oof_proba_[model.train_index_]).all()


def test_estimators_fitted_together_become_what_they_are_alone() -> None:
    """To 1e-4, as members do."""
    frame, level = messy()
    models = [MLPClassifier(**SMALL | {"random_state": seed}, validation_fraction=0) for seed in (3, 4)]
    assert fit_together(models, frame, level) == [None, None]
    for model in models:
        alone = clone(model).fit(frame, level)
        assert model.predict_proba(frame) == pytest.approx(alone.predict_proba(frame), abs=1e-4)


def test_siblings_of_hopular() -> None:
    assert issubclass(MLPClassifier, TableEstimator)
    for estimator in (*CLASSIFIERS, *REGRESSORS):
        assert not issubclass(estimator, HopularEstimator)
        assert not {"retrieve", "impute", "mask_probability", "precision"} & set(dir(estimator()))


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


@pytest.mark.parametrize(("n", "batch_size"), [(2, None), (3, 2), (5, 2), (7, 2), (7, 100)])
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
    assert model.best_epochs_ == (best.epoch,)
    assert best.epoch < 40
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
    assert len(watch.epochs) == model.best_epochs_[0] + 3 < 300


def test_hooks_see_every_epoch_and_validation_and_may_end_the_fit() -> None:
    watch = Watch()
    model = SNNClassifier(**SMALL).fit(*messy(), hooks=[watch])
    assert [p.epoch for p in watch.epochs] == list(range(1, 9))
    assert watch.validations == model.history_
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
    assert (model.history_, model.best_epochs_, len(model.train_index_)) == ([], (8,), 150)


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


@parametrize_with_checks(
    [estimator(**SMALL | {"max_epochs": 2}) for estimator in (*CLASSIFIERS, *REGRESSORS)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "batches are of rows, and numbers are standardised by rows"
    },
)
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    if check.func.__name__ in ("check_classifiers_train", "check_regressors_train", "check_classifiers_classes"):
        estimator.set_params(max_epochs=20, learning_rate=0.02)  # these ask for accuracy
    check(estimator)


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, *REGRESSORS])
@pytest.mark.parametrize("n_members", [1, 3])
def test_a_row_comes_out_alone_as_it_does_among_others(estimator: Any, n_members: int) -> None:
    """To 1e-7, a few times the rounding error of the numbers in between."""
    frame, level = messy()
    y = level if estimator in CLASSIFIERS else frame["complete"]
    model = estimator(**SMALL, n_members=n_members).fit(frame, y)
    predict = model.predict_proba if estimator in CLASSIFIERS else model.predict
    for size in (1, 2, 5, 17, 40, 130):
        assert predict(frame[:size]) == pytest.approx(predict(frame)[:size], abs=1e-7)


@pytest.mark.parametrize(
    ("estimator", "name", "value", "message"),
    [
        (MLPClassifier, "n_layers", 0, "n_layers must be an integer of at least 1, not 0"),
        (SNNClassifier, "width", 2.5, "width must be an integer of at least 1, not 2.5"),
        (SNNClassifier, "max_epochs", None, "max_epochs must be an integer of at least 1, not None"),
        (MLPClassifier, "dropout", 1.0, r"dropout must be a number in \[0, 1\), not 1.0"),
        (MLPClassifier, "norm", "group", "norm must be one of"),
        (MLPClassifier, "batch_size", 1, "batch_size must be at least 2 with norm='batch', not 1"),
        (SNNClassifier, "shape", "round", "shape must be one of"),
        (SNNClassifier, "shape", "diavolo", "shape must be one of"),
        (PlainClassifier, "kind", "dense", "kind must be one of .*, not 'dense'"),
        (PlainClassifier, "shape", "diavolo", r"shape must be one of \['rectangular', 'conic'\] with kind='msra', not"),
        (MLPClassifier, "patience", None, "patience must be an integer of at least 1, not None"),
        (PlainRegressor, "n_members", 0, "n_members must be an integer of at least 1, not 0"),
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
