"""NPT: the network against a plain formulation, what rows may see of one another, and its training."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model import npt, prediction
from hopular.model.architecture import Architecture, attribute_groups
from hopular.model.dropout import Dropouts
from hopular.model.masking import target_mask
from hopular.model.npt import NPT, Attention, RowAttention
from hopular.model.npt_training import (
    NPTMasking,
    NPTOptimizer,
    NPTProcedure,
    cosine_cyclic,
    flat_and_anneal,
    npt_objective,
)
from hopular.model.optimizer import Lamb, LambSettings, Lookahead
from hopular.model.prediction import predict_target, read_weights
from hopular.model.recipe import make_recipe
from hopular.model.training import train, validate

WIDTHS = (1, 1, 2, 3)
TARGET = 3


def make(
    n_layers: int = 4,
    widths: tuple[int, ...] = WIDTHS,
    target: int = TARGET,
    shows_labels: bool = False,
    **options,
) -> NPT:
    torch.manual_seed(0)
    options = {"n_networks": 2, "embedding_dim": 8, **options}
    return NPT(Architecture(widths, target, n_blocks=n_layers, **options), shows_labels=shows_labels)


def table(n: int, seed: int = 0, widths: tuple[int, ...] = WIDTHS) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    columns = [
        torch.randn(n, generator=generator) if w == 1 else torch.randint(w, (n,), generator=generator).float()
        for w in widths
    ]
    rows = torch.stack(columns, dim=1)
    rows[::4, 0] = torch.nan
    return rows


def dropouts(p: float) -> Dropouts:
    return Dropouts(p, p, p, 0, torch.device("cpu"))


# ------------------------------------------------------------------------------------------------------------- network


def block(layer: Attention, x: Tensor, read: Tensor) -> Tensor:
    """One vector through the released block: W^R x + attention(LN(x) over `read`), then h + feed-forward(LN(h))."""
    width, size = len(x), layer.query.out_features // layer.n_heads

    def norm(part: nn.LayerNorm, vector: Tensor) -> Tensor:
        return F.layer_norm(vector, (width,), part.weight, part.bias, eps=1e-12)

    query, key, value = layer.query(norm(layer.norm, x)), layer.key(read), layer.value(read)
    parts = []
    for m in range(layer.n_heads):
        own = slice(m * size, (m + 1) * size)
        weights = (key[:, own] @ query[own] / math.sqrt(width)).softmax(0)
        parts.append(weights @ value[:, own])
    h = layer.residual(x) + layer.mix(torch.cat(parts))
    part = layer.feed_forward
    return h + part.down(F.gelu(part.up(norm(part.norm, h))))


def embed(network: NPT, rows: Tensor, masked: Tensor) -> Tensor:
    return network.embedding(rows, masked | rows.isnan(), None)


def output(network: NPT, x: Tensor) -> list[Tensor]:
    """Each attribute's final state through its own linear map: one (b, width) per attribute."""
    maps = [(m.weight[j], m.bias[j, 0]) for m in network.summary.maps for j in range(len(m.weight))]
    return [x[:, j] @ weight + bias for j, (weight, bias) in enumerate(maps)]


def plain_table(network: NPT, rows: Tensor, masked: Tensor) -> list[Tensor]:
    """The rows of a table, vector by vector: every row reads all of them."""
    x = embed(network, rows, masked)
    for layer in network.blocks:
        if isinstance(layer, RowAttention):
            read = x.flatten(1)
            x = torch.stack([block(layer, row, read) for row in read]).view_as(x)
        else:
            x = torch.stack([torch.stack([block(layer, v, row) for v in row]) for row in x])
    return output(network, x)


def plain_row(network: NPT, row: Tensor, masked: Tensor, stored: Tensor, hidden: Tensor) -> list[Tensor]:
    """A row to predict: it reads the stored rows and itself, and these read one another alone."""
    x, context = embed(network, row[None], masked[None]), embed(network, stored, hidden)
    for layer in network.blocks:
        if isinstance(layer, RowAttention):
            read = context.flatten(1)
            x = block(layer, x.flatten(), torch.cat([read, x.flatten(1)])).view_as(x)
            context = torch.stack([block(layer, other, read) for other in read]).view_as(context)
        else:
            x = torch.stack([block(layer, v, x[0]) for v in x[0]])[None]
            context = torch.stack([torch.stack([block(layer, v, other) for v in other]) for other in context])
    return output(network, x)


def by_attribute(predictions: list[Tensor]) -> list[Tensor]:
    return [p[:, j] for p in predictions for j in range(p.shape[1])]


def step(network: NPT, rows: Tensor, masked: Tensor) -> list[Tensor]:
    """Predictions of a training step without dropout."""
    return network(rows, masked, network.store(rows, dropouts(0.0)), dropouts(0.0), leave_out_own=True)


def gradients(network: NPT, predictions: list[Tensor]) -> list[Tensor]:
    loss = sum((p * torch.linspace(-1, 1, p.numel(), dtype=p.dtype).view_as(p)).sum() for p in predictions)
    return list(torch.autograd.grad(loss, list(network.parameters())))


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
def test_predictions_and_gradients_of_a_step_equal_the_plain_ones(n_layers: int) -> None:
    network = make(n_layers, embedding_dim=4).double()
    rows = table(5).double()
    masked = target_mask(rows, TARGET)
    masked[0, 1], masked[2, TARGET] = True, False
    actual, expected = by_attribute(step(network, rows, masked)), plain_table(network, rows, masked)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e)
    for a, e in zip(gradients(network, actual), gradients(network, expected), strict=True):
        torch.testing.assert_close(a, e)


@pytest.mark.parametrize("shows_labels", [False, True])
@pytest.mark.parametrize("n_layers", [1, 2, 5])
def test_stored_rows_serve_any_rows_as_in_the_plain_formulation(n_layers: int, shows_labels: bool) -> None:
    network = make(n_layers, shows_labels=shows_labels).double()
    stored, rows = table(6).double(), table(3, 1).double()
    memory, masked = network.store(stored), target_mask(rows, TARGET)
    hidden = target_mask(stored, TARGET) & (not shows_labels)
    actual = by_attribute(network(rows, masked, memory))
    expected = [plain_row(network, row, mask, stored, hidden) for row, mask in zip(rows, masked, strict=True)]
    for a, e in zip(actual, zip(*expected, strict=True), strict=True):
        torch.testing.assert_close(a, torch.cat(e))
    assert len(memory.pairs) == math.ceil(n_layers / 2)


def test_a_prediction_is_the_same_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = make(), table(11, 1)
    memory = network.store(table(9))
    at_once = predict_target(network, rows, memory)
    monkeypatch.setattr(npt, "SCORES", 1)
    torch.testing.assert_close(predict_target(network, rows, memory), at_once)


@pytest.mark.parametrize("widths", [(1, 1, 1), (2, 3, 3), (1, 2, 2, 5)])
@pytest.mark.parametrize("n_heads", [1, 3, 16])
def test_shapes(widths: tuple[int, ...], n_heads: int) -> None:
    network = make(3, widths, 1, n_networks=n_heads)
    rows = table(5, 0, widths)
    predictions = network(rows, target_mask(rows, 1), network.store(table(7, 1, widths)))
    assert [tuple(p.shape) for p in predictions] == [(5, g.count, g.width) for g in attribute_groups(widths)]
    assert network.target(predictions).shape == (5, widths[1])
    assert network.attribute(predictions, 2).shape == (5, widths[2])


def test_the_training_rows_pass_through_the_network_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make()
    calls = []
    network.embedding.register_forward_hook(lambda module, args, out: calls.append(len(args[0])))
    memory = network.store(table(9))
    monkeypatch.setattr(prediction, "CHUNK_ROWS", 5)
    assert len(predict_target(network, table(12, 1), memory)) == 12
    assert calls == [9, 5, 5, prediction.FEW]  # the two rows that are left are filled up


# ---------------------------------------------------------------------------------------- what rows see of one another


def test_rows_to_predict_do_not_see_one_another() -> None:
    network, rows = make(), table(6, 1)
    memory = network.store(table(9))
    together = predict_target(network, rows, memory)
    for i in range(6):
        torch.testing.assert_close(predict_target(network, rows[i : i + 1], memory)[0], together[i])
    other = rows.clone()
    other[1:] = table(5, 2)
    assert torch.equal(predict_target(network, other, memory)[0], together[0])


def other_labels(rows: Tensor, where: slice | Tensor = slice(None)) -> Tensor:
    changed = rows.clone()
    changed[where, TARGET] = (changed[where, TARGET] + 1) % 3
    return changed


def test_stored_labels_move_nothing_if_all_labels_are_masked_in_training() -> None:
    network, rows, stored = make(6), table(6, 1), table(9)
    memory, other = network.store(stored), network.store(other_labels(stored))
    assert torch.equal(predict_target(network, rows, other), predict_target(network, rows, memory))
    assert torch.equal(read_weights(network, rows, other, 9)[0], read_weights(network, rows, memory, 9)[0])


def test_stored_labels_are_read_if_some_labels_are_shown_in_training() -> None:
    network, rows, stored = make(6, shows_labels=True), table(6, 1), table(9)
    before = predict_target(network, rows, network.store(stored))
    after = predict_target(network, rows, network.store(other_labels(stored)))
    assert (before != after).any(1).all()


def test_a_hidden_label_is_seen_nowhere_in_a_training_step() -> None:
    network, rows = make(6), table(9)
    masked = target_mask(rows, TARGET)
    masked[6:, TARGET] = False
    before = network.target(step(network, rows, masked))
    assert torch.equal(network.target(step(network, other_labels(rows, slice(0, 6)), masked)), before)
    after = network.target(step(network, other_labels(rows, slice(6, 9)), masked))
    assert (after != before).any(1).all()  # a label that is shown is read by all


def test_a_missing_value_looks_like_a_masked_one() -> None:
    network, rows = make(), table(5)
    rows[:, 1] = torch.nan
    masked = target_mask(rows, TARGET)
    masked[:, 1] = True
    shown = torch.zeros(5, 4).bool()
    shown[:, TARGET] = True
    for a, b in zip(step(network, rows, masked), step(network, rows, shown), strict=True):
        assert torch.equal(a, b)


def test_the_order_of_stored_rows_does_not_matter() -> None:
    network, rows, stored = make(), table(6, 1), table(20)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    expected = predict_target(network, rows, network.store(stored))
    torch.testing.assert_close(predict_target(network, rows, network.store(stored[order])), expected)


def test_read_weights_are_those_of_the_row_attentions() -> None:
    network, rows, stored = make(4), table(6, 1), table(20)
    memory = network.store(stored)
    weights, places = read_weights(network, rows, memory, 20)
    torch.testing.assert_close(weights.sum(1), torch.ones(6))
    assert sorted(places[0].tolist()) == list(range(20))
    first = make(1)
    direct = first.blocks[0].weights(embed(first, rows, target_mask(rows, TARGET)), first.store(stored).pairs[0])
    torch.testing.assert_close(first.read_weights(rows, target_mask(rows, TARGET), first.store(stored)), direct)


# ------------------------------------------------------------------------------------------------------------ training


def masking(label_mask_probability: float, mask: float = 0.18, replacement: float = 0.02) -> NPTMasking:
    recipe = make_recipe("paper", 10, mask_probability=mask, replace_probability=replacement)
    return NPTMasking(Architecture(WIDTHS, TARGET), recipe, label_mask_probability, 0)


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_labels_are_hidden_by_chance_a_tenth_of_them_behind_a_random_one(probability: float) -> None:
    rows = table(30_000)
    seen, masked, truth = masking(probability).step(rows)
    chosen, replaced = ~truth[:, TARGET].isnan(), seen[:, TARGET] != rows[:, TARGET]
    assert chosen.float().mean().item() == pytest.approx(probability, abs=0.01)
    assert masked[:, TARGET].float().mean().item() == pytest.approx(0.9 * probability, abs=0.01)
    assert replaced.float().mean().item() == pytest.approx(0.1 * probability * 2 / 3, abs=0.005)
    assert chosen[masked[:, TARGET] | replaced].all()
    assert torch.equal(truth[chosen, TARGET], rows[chosen, TARGET])


def test_at_probability_one_every_label_is_masked_and_none_replaced() -> None:
    rows = table(2_000)
    seen, masked, truth = masking(1.0).step(rows)
    assert masked[:, TARGET].all()
    assert torch.equal(seen[:, TARGET], rows[:, TARGET])
    assert torch.equal(truth[:, TARGET], rows[:, TARGET])


def test_only_features_that_were_chosen_count() -> None:
    rows = table(30_000)
    seen, masked, truth = masking(1.0).step(rows)
    known, counted = ~rows.isnan(), ~truth.isnan()
    assert not (masked & ~known)[:, :TARGET].any()
    assert counted[masked | (known & (seen != rows))].all()
    for j in range(TARGET):
        assert counted[known[:, j], j].float().mean().item() == pytest.approx(0.2, abs=0.01)  # equal by chance or not
        assert masked[known[:, j], j].float().mean().item() == pytest.approx(0.18, abs=0.01)
    nothing = masking(1.0, 0.0, 0.0).step(rows)[2]
    assert nothing[:, :TARGET].isnan().all()


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_the_feature_loss_is_a_mean_over_values(gamma: float) -> None:
    """As released: squared errors and log losses of all chosen values together, not attribute by attribute."""
    truth = masking(0.5, 0.3, 0.1).step(table(12))[2]
    generator = torch.Generator().manual_seed(1)
    groups = attribute_groups(WIDTHS)
    predictions = [torch.randn(12, g.count, g.width, generator=generator) for g in groups]
    losses: dict[bool, list[float]] = {True: [], False: []}
    for j, (width, output) in enumerate(zip(WIDTHS, by_attribute(predictions), strict=True)):
        for value, predicted in zip(truth[:, j].tolist(), output, strict=True):
            if not math.isnan(value):
                loss = (predicted[0] - value) ** 2 if width == 1 else -predicted.log_softmax(0)[int(value)]
                losses[j == TARGET].append(loss.item())
    feature_loss, label_loss = (sum(losses[key]) / len(losses[key]) for key in (False, True))
    actual = npt_objective(predictions, truth, groups, TARGET, gamma).item()
    assert actual == pytest.approx(gamma * feature_loss + (1 - gamma) * label_loss, rel=1e-5)


def test_lookahead_brings_slow_and_fast_weights_together_every_k_steps() -> None:
    shapes = [(100, 100), (3,), (40, 7)]
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in shapes]
    fast, slow, plain, unused = ([nn.Parameter(w.clone()) for w in start] for _ in range(4))
    settings = LambSettings(weight_decay=0.1)
    lookahead = Lookahead(fast, slow, settings, alpha=0.3, k=3)
    reference, expected_slow = Lamb(plain, unused, 0.5, settings), [w.clone() for w in start]
    for t in range(1, 9):
        gradients = [torch.randn(shape, generator=generator) for shape in shapes]
        for parameters, optimizer in ((fast, lookahead), (plain, reference)):
            for p, g in zip(parameters, gradients, strict=True):
                p.grad = g.clone()
            optimizer.step(0.01)
        if t % 3 == 0:
            with torch.no_grad():
                for p, s in zip(plain, expected_slow, strict=True):
                    s += 0.3 * (p - s)
                    p.copy_(s)
        for f, p, s, e in zip(fast, plain, slow, expected_slow, strict=True):
            torch.testing.assert_close(f, p)
            torch.testing.assert_close(s.detach(), e)
    assert not any(torch.equal(s, w) for s, w in zip(slow, start, strict=True))


def test_gradients_are_clamped_number_by_number() -> None:
    start = torch.linspace(-1, 1, 30).view(5, 6)
    gradients = [torch.linspace(-4, 4, 30).view(5, 6), torch.linspace(0.3, -2, 30).view(5, 6)]
    clamped, slow, plain, unused = (nn.Parameter(start.clone()) for _ in range(4))
    optimizer = NPTOptimizer([clamped], [slow], 0.0)
    reference = Lookahead([plain], [unused], LambSettings(weight_decay=0.0, max_gradient_norm=math.inf))
    for gradient in gradients:
        clamped.grad, plain.grad = gradient.clone(), gradient.clamp(-1, 1)
        optimizer.step(0.1)
        reference.step(0.1)
    assert torch.equal(clamped, plain)


def test_a_step_is_that_of_lamb_as_the_authors_of_npts_use_it() -> None:
    """Their LAMB has no bias correction: one factor of a whole direction, which the trust ratio takes out again."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(40, 30, generator=generator)
    fast, slow = nn.Parameter(weight.clone()), nn.Parameter(weight.clone())
    optimizer = NPTOptimizer([fast], [slow], 0.0)
    first, second = torch.zeros_like(weight), torch.zeros_like(weight)
    for _ in range(5):  # the sixth brings slow and fast weights together
        gradient = torch.randn(weight.shape, generator=generator).clamp(-1, 1)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        direction = first / (second.sqrt() + 1e-6)
        weight = weight - 0.01 * weight.norm().clamp(0, 10) / direction.norm() * direction
        fast.grad = gradient
        optimizer.step(0.01)
        torch.testing.assert_close(fast.detach(), weight, rtol=1e-3, atol=1e-4)


def test_the_schedule_is_flat_for_a_half_and_annealed_in_the_other() -> None:
    assert [flat_and_anneal(2.0, done) for done in (0.0, 0.3, 0.5)] == [2.0, 2.0, 2.0]
    assert flat_and_anneal(2.0, 0.75) == pytest.approx(1.0)
    assert flat_and_anneal(2.0, 1.0) == 0


def test_the_cyclic_schedule_has_a_warm_up_doubling_periods_and_shrinking_peaks() -> None:
    """The cosine schedule of fairseq, step by step, with the arguments of the NPT authors' optim.py."""
    total, peak = 1000, 1e-3
    warm_up, period = 0.2 * total, 0.4 * total
    for t in (step + 0.5 for step in range(total)):  # between steps: where a cosine begins, rounding decides
        if t < warm_up:
            expected = peak * t / warm_up
        else:
            i = math.floor(math.log2(1 + (t - warm_up) / period))
            since = t - warm_up - (2**i - 1) * period
            expected = 0.5**i * peak * 0.5 * (1 + math.cos(math.pi * since / (2**i * period)))
        assert cosine_cyclic(peak, t / total) == pytest.approx(expected, abs=1e-9)
    assert cosine_cyclic(peak, 0.6001) == pytest.approx(peak / 2, rel=1e-3)
    assert cosine_cyclic(peak, 0.2) == peak
    assert cosine_cyclic(peak, 1.0) == pytest.approx(peak / 4)


def test_an_easy_rule_is_learnt() -> None:
    def toy(n: int, seed: int) -> Tensor:
        x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
        return torch.cat([x, (x[:, :1] * x[:, 1:2] > 0).float()], dim=1)

    network = make(2, (1, 1, 1, 2), 3)
    rows, test = toy(200, 0), toy(200, 1)
    before = validate(network, rows, test)
    recipe = make_recipe("default", 200, max_epochs=100, mask_probability=0.1, replace_probability=0.0)
    result = train(network, rows, toy(100, 2), recipe, seed=0, procedure=NPTProcedure(1.0, "flat-and-anneal"))
    score, loss = validate(result.network, rows, test)
    assert before[0] < 0.7
    assert score > 0.85
    assert loss < 0.45 < before[1]
