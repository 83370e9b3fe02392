"""NPT: the network against a plain formulation, what rows may see of one another, and its training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model import npt, prediction
from hopular.model.architecture import Architecture, attribute_groups
from hopular.model.dropout import Dropouts
from hopular.model.lamb import Lamb, Lookahead
from hopular.model.masking import target_mask
from hopular.model.members import Linear, Norm, pick
from hopular.model.npt import (
    NPT,
    Attention,
    NPTMasking,
    NPTStep,
    RowAttention,
    cosine_cyclic,
    flat_and_anneal,
    npt_objective,
    npt_optimizer,
)
from hopular.model.prediction import predict_target
from hopular.model.recipe import Recipe, make_recipe
from hopular.model.trainer import Part, Result, train, validate

WIDTHS = (1, 1, 2, 3)
TARGET = 3
MEMBERS = 2


def make(
    n_layers: int = 4,
    widths: tuple[int, ...] = WIDTHS,
    target: int = TARGET,
    shows_labels: bool = False,
    seeds: tuple[int, ...] = (0, 1),
    **options,
) -> NPT:
    options = {"n_networks": 2, "embedding_dim": 8, **options}
    return NPT(Architecture(widths, target, n_blocks=n_layers, **options), seeds, shows_labels=shows_labels)


def table(n: int, seed: int = 0, widths: tuple[int, ...] = WIDTHS) -> Tensor:
    """Rows (K, d, n), other ones for each member; missing values among them."""
    generator = torch.Generator().manual_seed(seed)
    columns = [
        torch.randn(MEMBERS, n, generator=generator)
        if w == 1
        else torch.randint(w, (MEMBERS, n), generator=generator).float()
        for w in widths
    ]
    rows = torch.stack(columns, dim=1)
    rows[:, 0, ::4] = torch.nan
    return rows


def dropouts(p: float) -> Dropouts:
    return Dropouts(p, p, p, range(MEMBERS), torch.device("cpu"))


# ------------------------------------------------------------------------------------------------------------- network


def norm(part: Norm, k: int, vector: Tensor) -> Tensor:
    return F.layer_norm(vector, (len(vector),), part.gain[k, :, 0], part.shift[k, :, 0], eps=1e-12)


def linear(part: Linear, k: int, vectors: Tensor) -> Tensor:
    return vectors @ part.weight[k].T + part.bias[k, :, 0]


def block(layer: Attention, k: int, x: Tensor, read: Tensor) -> Tensor:
    """One vector through the released block: W^R x + attention(LN(x) over `read`), then h + feed-forward(LN(h))."""
    width, size = len(x), layer.query.weight.shape[1] // layer.n_heads
    query, key, value = (
        linear(part, k, y)
        for part, y in ((layer.query, norm(layer.norm, k, x)), (layer.key, read), (layer.value, read))
    )
    parts = []
    for m in range(layer.n_heads):
        own = slice(m * size, (m + 1) * size)
        weights = (key[:, own] @ query[own] / math.sqrt(width)).softmax(0)
        parts.append(weights @ value[:, own])
    h = linear(layer.residual, k, x) + linear(layer.mix, k, torch.cat(parts))
    part = layer.feed_forward
    return h + linear(part.down, k, F.gelu(linear(part.up, k, norm(part.norm, k, h))))


def embed(network: NPT, k: int, rows: Tensor, masked: Tensor) -> Tensor:
    """The rows of a member as (b, e, d)."""
    return network.embedding(rows, masked | rows.isnan(), None)[k].permute(2, 0, 1)


def output(network: NPT, k: int, x: Tensor) -> list[Tensor]:
    """Each attribute's final state through its own linear map: one (b, width) per attribute."""
    maps = [(m.weight[k, j], m.bias[k, j, :, 0]) for m in network.summary.maps for j in range(m.weight.shape[1])]
    return [x[..., j] @ weight.T + bias for j, (weight, bias) in enumerate(maps)]


def plain_attributes(layer: Attention, k: int, row: Tensor) -> Tensor:
    """The attributes of a row (e, d) read one another."""
    return torch.stack([block(layer, k, v, row.T) for v in row.T], dim=1)


def plain_table(network: NPT, k: int, rows: Tensor, masked: Tensor) -> list[Tensor]:
    """The rows of a member's table, vector by vector: every row reads all of them."""
    x = embed(network, k, rows, masked)
    for layer in network.blocks:
        if isinstance(layer, RowAttention):
            read = x.flatten(1)
            x = torch.stack([block(layer, k, row, read) for row in read]).view_as(x)
        else:
            x = torch.stack([plain_attributes(layer, k, row) for row in x])
    return output(network, k, x)


def plain_row(network: NPT, k: int, row: Tensor, context: Tensor) -> list[Tensor]:
    """A row to predict (e, d): it reads the stored rows (n, e, d) and itself, and these read one another alone."""
    x = row[None]
    for layer in network.blocks:
        if isinstance(layer, RowAttention):
            read = context.flatten(1)
            x = block(layer, k, x.flatten(), torch.cat([read, x.flatten(1)])).view_as(x)
            context = torch.stack([block(layer, k, other, read) for other in read]).view_as(context)
        else:
            x = plain_attributes(layer, k, x[0])[None]
            context = torch.stack([plain_attributes(layer, k, other) for other in context])
    return output(network, k, x)


def by_attribute(predictions: list[Tensor], k: int) -> list[Tensor]:
    """A member's predictions, one (b, width) per attribute."""
    return [p[k, j].T for p in predictions for j in range(p.shape[1])]


def step(network: NPT, rows: Tensor, masked: Tensor) -> list[Tensor]:
    """Predictions of a training step without dropout."""
    return network.learn(rows, masked, dropouts(0.0))


def gradients(network: NPT, predictions: list[Tensor]) -> list[Tensor]:
    loss = sum((p * torch.linspace(-1, 1, p.numel(), dtype=p.dtype).view(p.shape)).sum() for p in predictions)
    return list(torch.autograd.grad(loss, list(network.parameters()), retain_graph=True))


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
def test_predictions_and_gradients_of_a_step_equal_the_plain_ones(n_layers: int) -> None:
    network = make(n_layers, embedding_dim=4).double()
    rows = table(5).double()
    masked = target_mask(rows, TARGET)
    masked[:, 1, 0], masked[:, TARGET, 2] = True, False
    predictions = step(network, rows, masked)
    for k in range(MEMBERS):
        actual, expected = by_attribute(predictions, k), plain_table(network, k, rows, masked)
        for a, e in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, e)
        for a, e in zip(gradients(network, actual), gradients(network, expected), strict=True):
            torch.testing.assert_close(a, e)
            assert not a[1 - k].any()  # a member's predictions depend on its own parameters alone


@pytest.mark.parametrize("shows_labels", [False, True])
@pytest.mark.parametrize("n_layers", [1, 2, 5])
def test_stored_rows_serve_any_rows_as_in_the_plain_formulation(n_layers: int, shows_labels: bool) -> None:
    network = make(n_layers, shows_labels=shows_labels).double()
    stored, rows = table(6).double(), table(3, 1).double()
    memory, masked = network.store(stored), target_mask(rows, TARGET)
    hidden = target_mask(stored, TARGET) & (not shows_labels)
    predictions = network(rows, masked, memory)
    for k in range(MEMBERS):
        context = embed(network, k, stored, hidden)
        expected = [plain_row(network, k, row, context) for row in embed(network, k, rows, masked)]
        for a, e in zip(by_attribute(predictions, k), zip(*expected, strict=True), strict=True):
            torch.testing.assert_close(a, torch.cat(e))
    assert len(memory.pairs) == math.ceil(n_layers / 2)


@pytest.mark.parametrize("n_layers", [1, 5])
def test_rows_that_only_fill_a_member_up_are_read_by_nobody(n_layers: int) -> None:
    network, rows, stored = make(n_layers), table(5, 1), table(9)
    absent = torch.zeros(MEMBERS, 9, dtype=torch.bool)
    absent[1, 6:] = True
    filled = network.store(stored, absent)
    fewer = pick(network, [1])
    memory = fewer.store(stored[1:, :, :6])
    torch.testing.assert_close(predict_target(network, rows, filled)[1:], predict_target(fewer, rows[1:], memory))
    weights = network.read_weights(rows, filled)
    assert not weights[1, 6:].any()
    torch.testing.assert_close(weights[1:, :6], fewer.read_weights(rows[1:], memory))
    everyone = network.store(stored)
    torch.testing.assert_close(predict_target(network, rows, filled)[0], predict_target(network, rows, everyone)[0])


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
    rows, memory = table(5, 0, widths), network.store(table(7, 1, widths))
    predictions = network(rows, target_mask(rows, 1), memory)
    assert [tuple(p.shape) for p in predictions] == [(MEMBERS, g.count, g.width, 5) for g in attribute_groups(widths)]
    assert network.predict(rows, memory).shape == (MEMBERS, widths[1], 5)
    assert network.attribute(predictions, 2).shape == (MEMBERS, widths[2], 5)


def test_the_training_rows_pass_through_the_network_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make()
    calls = []
    network.embedding.register_forward_hook(lambda module, args, out: calls.append(args[0].shape[-1]))
    memory = network.store(table(9))
    monkeypatch.setattr(prediction, "CHUNK_ROWS", 5)
    monkeypatch.setattr(prediction, "FEW", 5)
    assert predict_target(network, table(12, 1), memory).shape[-1] == 12
    assert calls == [9, 5, 5, 5]  # the two rows that are left are filled up


# ---------------------------------------------------------------------------------------- what rows see of one another


def test_rows_to_predict_do_not_see_one_another() -> None:
    network, rows = make(), table(6, 1)
    memory = network.store(table(9))
    together = predict_target(network, rows, memory)
    for i in range(6):
        torch.testing.assert_close(predict_target(network, rows[..., i : i + 1], memory)[..., 0], together[..., i])
    other = rows.clone()
    other[..., 1:] = table(5, 2)
    assert torch.equal(predict_target(network, other, memory)[..., 0], together[..., 0])


def other_labels(rows: Tensor, where: slice = slice(None)) -> Tensor:
    changed = rows.clone()
    changed[:, TARGET, where] = (changed[:, TARGET, where] + 1) % 3
    return changed


def test_stored_labels_move_nothing_if_all_labels_are_masked_in_training() -> None:
    network, rows, stored = make(6), table(6, 1), table(9)
    memory, other = network.store(stored), network.store(other_labels(stored))
    assert torch.equal(predict_target(network, rows, other), predict_target(network, rows, memory))
    assert torch.equal(network.read_weights(rows, other), network.read_weights(rows, memory))


def test_stored_labels_are_read_if_some_labels_are_shown_in_training() -> None:
    network, rows, stored = make(6, shows_labels=True), table(6, 1), table(9)
    before = predict_target(network, rows, network.store(stored))
    after = predict_target(network, rows, network.store(other_labels(stored)))
    assert (before != after).any(1).all()


def test_a_hidden_label_is_seen_nowhere_in_a_training_step() -> None:
    network, rows = make(6), table(9)
    masked = target_mask(rows, TARGET)
    masked[:, TARGET, 6:] = False

    def predicted(rows: Tensor) -> Tensor:
        return network.attribute(step(network, rows, masked), TARGET)

    before = predicted(rows)
    assert torch.equal(predicted(other_labels(rows, slice(0, 6))), before)
    assert (predicted(other_labels(rows, slice(6, 9))) != before).any(1).all()  # a label that is shown is read by all


def test_a_missing_value_looks_like_a_masked_one() -> None:
    network, rows = make(), table(5)
    rows[:, 1] = torch.nan
    masked, shown = target_mask(rows, TARGET), target_mask(rows, TARGET)
    masked[:, 1] = True
    for a, b in zip(step(network, rows, masked), step(network, rows, shown), strict=True):
        assert torch.equal(a, b)


def test_the_order_of_stored_rows_does_not_matter() -> None:
    network, rows, stored = make(), table(6, 1), table(20)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    expected = predict_target(network, rows, network.store(stored))
    torch.testing.assert_close(predict_target(network, rows, network.store(stored[..., order])), expected)


def test_read_weights_are_those_of_the_row_attentions() -> None:
    network, rows, stored = make(4), table(6, 1), table(20)
    weights = network.read_weights(rows, network.store(stored))
    assert weights.shape == (MEMBERS, 20, 6)
    torch.testing.assert_close(weights.sum(1), torch.ones(MEMBERS, 6))
    first = make(1)
    x, memory = first._embed(rows, target_mask(rows, TARGET), None), first.store(stored)
    direct = first.blocks[0].weights(x, memory.pairs[0], None)
    torch.testing.assert_close(first.read_weights(rows, memory), direct)


# ------------------------------------------------------------------------------------------------------------ training


def masking(label_mask_probability: float, mask: float = 0.18, replacement: float = 0.02) -> NPTMasking:
    recipe = make_recipe("paper", 10, mask_probability=mask, replace_probability=replacement)
    return NPTMasking(Architecture(WIDTHS, TARGET), recipe, label_mask_probability, range(MEMBERS))


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_labels_are_hidden_by_chance_a_tenth_of_them_behind_a_random_one(probability: float) -> None:
    rows = table(30_000)
    seen, masked, truth = (x[:, TARGET] for x in masking(probability).step(rows))
    labels = rows[:, TARGET]
    chosen, replaced = ~truth.isnan(), seen != labels
    for k in range(MEMBERS):
        assert chosen[k].float().mean().item() == pytest.approx(probability, abs=0.01)
        assert masked[k].float().mean().item() == pytest.approx(0.9 * probability, abs=0.01)
        assert replaced[k].float().mean().item() == pytest.approx(0.1 * probability * 2 / 3, abs=0.005)
    assert chosen[masked | replaced].all()
    assert torch.equal(truth[chosen], labels[chosen])


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
    for k in range(MEMBERS):
        for j in range(TARGET):
            of = known[k, j]
            assert counted[k, j, of].float().mean().item() == pytest.approx(0.2, abs=0.01)  # equal by chance or not
            assert masked[k, j, of].float().mean().item() == pytest.approx(0.18, abs=0.01)
    nothing = masking(1.0, 0.0, 0.0).step(rows)[2]
    assert nothing[:, :TARGET].isnan().all()


def test_every_member_draws_what_it_would_draw_alone() -> None:
    rows, recipe = table(200), make_recipe("paper", 10, mask_probability=0.3, replace_probability=0.2)
    together = masking(0.5, 0.3, 0.2).step(rows)
    for k in range(MEMBERS):
        alone = NPTMasking(Architecture(WIDTHS, TARGET), recipe, 0.5, [k]).step(rows[k : k + 1])
        for a, b in zip(alone, together, strict=True):
            torch.testing.assert_close(a[0], b[k], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_the_feature_loss_is_a_mean_over_values(gamma: float) -> None:
    """As released: squared errors and log losses of all chosen values together, not attribute by attribute."""
    truth = masking(0.5, 0.3, 0.1).step(table(12))[2]
    generator = torch.Generator().manual_seed(1)
    groups = attribute_groups(WIDTHS)
    predictions = [torch.randn(MEMBERS, g.count, g.width, 12, generator=generator) for g in groups]
    actual = npt_objective(predictions, truth, groups, TARGET, gamma)
    assert actual.shape == (MEMBERS,)
    for k in range(MEMBERS):
        losses: dict[bool, list[float]] = {True: [], False: []}
        for j, (width, of_attribute) in enumerate(zip(WIDTHS, by_attribute(predictions, k), strict=True)):
            for value, predicted in zip(truth[k, j].tolist(), of_attribute, strict=True):
                if not math.isnan(value):
                    loss = (predicted[0] - value) ** 2 if width == 1 else -predicted.log_softmax(0)[int(value)]
                    losses[j == TARGET].append(loss.item())
        feature_loss, label_loss = (sum(losses[key]) / len(losses[key]) for key in (False, True))
        expected = gamma * feature_loss + (1 - gamma) * label_loss
        assert actual[k].item() == pytest.approx(expected, rel=1e-5)


def test_lookahead_brings_slow_and_fast_weights_together_every_k_steps() -> None:
    shapes = [(MEMBERS, 100, 100), (MEMBERS, 3), (MEMBERS, 40, 7)]
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in shapes]
    fast, slow, plain, unused = ([nn.Parameter(w.clone()) for w in start] for _ in range(4))
    lookahead = Lookahead(fast, slow, alpha=0.3, k=3, lr=0.01, weight_decay=0.1)
    reference, expected_slow = Lamb(plain, unused, lr=0.01, weight_decay=0.1), [w.clone() for w in start]
    for t in range(1, 9):
        gradients = [torch.randn(shape, generator=generator) for shape in shapes]
        for parameters, optimizer in ((fast, lookahead), (plain, reference)):
            for p, g in zip(parameters, gradients, strict=True):
                p.grad = g.clone()
            optimizer.step()
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
    start = torch.linspace(-1, 1, 30).view(1, 5, 6)
    gradients = [torch.linspace(-4, 4, 30).view(1, 5, 6), torch.linspace(0.3, -2, 30).view(1, 5, 6)]
    clamped, slow, plain, unused = (nn.Parameter(start.clone()) for _ in range(4))
    optimizer = npt_optimizer([clamped], [slow], 0.0)
    reference = Lookahead([plain], [unused], weight_decay=0.0, max_gradient_norm=None)
    for gradient in gradients:
        clamped.grad = gradient.clone()
        plain.grad = gradient.clamp(-1, 1)
        optimizer.step()
        reference.step()
    assert not torch.equal(clamped, start)
    assert torch.equal(clamped, plain)


def test_a_step_is_that_of_lamb_as_the_authors_of_npts_use_it() -> None:
    """Their LAMB has no bias correction: one factor of a whole direction, which the trust ratio takes out again."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(40, 30, generator=generator)
    fast, slow = nn.Parameter(weight.clone()[None]), nn.Parameter(weight.clone()[None])
    optimizer = npt_optimizer([fast], [slow], 0.0)
    optimizer.param_groups[0]["lr"] = 0.01
    first, second = torch.zeros_like(weight), torch.zeros_like(weight)
    for _ in range(5):  # the sixth brings slow and fast weights together
        gradient = torch.randn(weight.shape, generator=generator).clamp(-1, 1)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        direction = first / (second.sqrt() + 1e-6)
        weight = weight - 0.01 * weight.norm().clamp(0, 10) / direction.norm() * direction
        fast.grad = gradient[None].clone()
        optimizer.step()
        torch.testing.assert_close(fast.detach()[0], weight, rtol=1e-3, atol=1e-4)


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


def toy(n: int, seed: int) -> Tensor:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
    return torch.cat([x, (x[:, :1] * x[:, 1:2] > 0).float()], dim=1)


def fit(
    network: NPT, rows: Tensor, parts: list[Part], recipe: Recipe, seeds: Sequence[int], **settings
) -> list[Result]:
    """Train members in one stack, each of which is a bag of its own."""
    step = partial(NPTStep, **{"label_mask_probability": 1.0, "schedule": "flat-and-anneal", **settings})
    results = train(network, rows, parts, recipe, seeds=seeds, bags=range(len(seeds)), step=step)
    assert all(isinstance(result, Result) for result in results)
    return results


def test_an_easy_rule_is_learnt() -> None:
    rows = torch.cat([toy(200, 0), toy(100, 2), toy(200, 1)])
    train_places, valid, test = torch.arange(200), torch.arange(200, 300), torch.arange(300, 500)

    def tested(network: NPT) -> tuple[float, float]:
        found = validate(network, rows, [Part(train_places, test)])
        return found.scores.item() / 200, found.losses.item() / 200

    network = make(2, (1, 1, 1, 2), 3)
    before = [tested(pick(network, [k])) for k in range(MEMBERS)]
    overrides = {"max_epochs": 200, "batch_size": 100, "learning_rate": 0.01}
    recipe = make_recipe("default", 200, **overrides, mask_probability=0.1, replace_probability=0.0)
    results = fit(network, rows, [Part(train_places, valid)] * MEMBERS, recipe, range(MEMBERS))
    for (first_score, first_loss), result in zip(before, results, strict=True):
        score, loss = tested(result.network)
        assert first_score < 0.7
        assert score > 0.9
        assert loss < 0.25 < first_loss


@pytest.mark.parametrize("settings", [{}, {"label_mask_probability": 0.5, "schedule": "cosine-cyclic"}])
def test_a_member_learns_the_same_alone_and_in_a_stack(settings: dict) -> None:
    """In float64, since products of other sizes may sum up in another order; who stops leaves the stack."""
    seeds, rows, places = [3, 14, 15], toy(60, 0).double(), torch.arange(60)
    parts = [Part(places[places % 3 != k], places[places % 3 == k]) for k in range(3)]
    overrides = {"max_epochs": 10, "batch_size": 16, "learning_rate": 0.01, "validate_every": 1, "patience": 3}
    recipe = make_recipe("default", 40, **overrides, mask_probability=0.1, replace_probability=0.1)
    dropout = {"dropout_embedding": 0.1, "dropout_block": 0.1, "dropout_summary": 0.1}
    options = {"n_layers": 4, "widths": (1, 1, 1, 2), "shows_labels": "schedule" in settings, **dropout}
    together = fit(make(**options, seeds=seeds).double(), rows, parts, recipe, seeds, **settings)
    assert len({len(result.history) for result in together}) > 1  # some have stopped before others
    moved = []
    for k, seed in enumerate(seeds):
        network = make(**options, seeds=[seed]).double()
        start = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        (alone,) = fit(network, rows, [parts[k]], recipe, [seed], **settings)
        assert alone.best_epochs == together[k].best_epochs
        assert len(alone.history) == len(together[k].history)
        state = alone.network.state_dict()
        for name, tensor in together[k].network.state_dict().items():
            torch.testing.assert_close(tensor, state[name], rtol=0, atol=1e-9)
        moved.append(max((tensor - start[name]).abs().max().item() for name, tensor in state.items()))
    assert max(moved) > 0.05
