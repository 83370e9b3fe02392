"""NPT: the network against a plain formulation, what rows may see of one another, and its training."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model import prediction
from hopular.model.architecture import Architecture, attribute_groups
from hopular.model.dropout import Dropouts
from hopular.model.masking import LabelMasking, target_mask
from hopular.model.npt import NPT, Attention, RowAttention
from hopular.model.npt_estimator import NPTProcedure
from hopular.model.objective import cosine, cosine_cyclic
from hopular.model.optimizer import Lamb, LambSettings, Lookahead
from hopular.model.prediction import predict_target, read_weights
from hopular.model.recipe import make_recipe
from hopular.model.training import train, validate

WIDTHS = (1, 1, 2, 3)
TARGET = 3


def make(n_layers: int = 4, widths: tuple[int, ...] = WIDTHS, target: int = TARGET, **options) -> NPT:
    torch.manual_seed(0)
    options = {"n_networks": 2, "embedding_dim": 8, **options}
    return NPT(Architecture(widths, target, n_blocks=n_layers, **options))


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


def heads(layer: Attention, x: Tensor, read: Tensor) -> Tensor:
    """One query vector's attention over the vectors `read`, head by head."""
    h = layer.query.out_features // layer.n_heads
    query, key, value = layer.query(layer.norm(x)), layer.key(layer.norm(read)), layer.value(layer.norm(read))
    parts = []
    for m in range(layer.n_heads):
        own = slice(m * h, (m + 1) * h)
        weights = (key[:, own] @ query[own] / math.sqrt(h)).softmax(0)
        parts.append(weights @ value[:, own])
    return layer.output(torch.cat(parts))


def block(layer: Attention, x: Tensor, read: Tensor) -> Tensor:
    """x + attention, then x + feed-forward, each of the normalised vector."""
    x = x + heads(layer, x, read)
    part = layer.feed_forward
    return x + part.down(F.gelu(part.up(part.norm(x))))


def plainly(network: NPT, row: Tensor, masked: Tensor, stored: Tensor) -> list[Tensor]:
    """A row's prediction, vector by vector: all training rows go along, and nothing is kept between layers."""
    query = network.embedding(row[None], masked[None], None)[0]
    context = network.embedding(stored, None, None)
    for layer in network.blocks:
        if isinstance(layer, RowAttention):
            read = context.flatten(1)
            query = block(layer, query.flatten(), read).view_as(query)
            context = torch.stack([block(layer, x, read) for x in read]).view_as(context)
        else:
            query = torch.stack([block(layer, x, query) for x in query])
            context = torch.stack([torch.stack([block(layer, x, row) for x in row]) for row in context])
    return network.summary(query.flatten()[None], None)


def gradients(network: NPT, predictions: list[Tensor]) -> list[Tensor]:
    loss = sum((p * torch.linspace(-1, 1, p.numel(), dtype=p.dtype).view_as(p)).sum() for p in predictions)
    return [g for g in torch.autograd.grad(loss, list(network.parameters()), allow_unused=True) if g is not None]


READS = {  # which of five stored rows each row of a batch reads
    "others alone": [[2, 3, 4]] * 2,
    "halves": [[2, 3, 4]] * 2 + [[0, 1, 4]] * 2,
    "full batch": [[3, 4]] * 3 + [[0, 1, 2]] * 2,
}


@pytest.mark.parametrize("reads", READS.values(), ids=READS.keys())
@pytest.mark.parametrize("n_layers", [3, 4])
def test_predictions_and_gradients_of_a_step_equal_the_plain_ones(n_layers: int, reads: list[list[int]]) -> None:
    network = make(n_layers, embedding_dim=4).double()
    rows, size = table(5).double(), len(reads)
    masked = target_mask(rows, TARGET)[:size]
    masked[0, 1] = True
    each = [plainly(network, rows[i], masked[i], rows[others]) for i, others in enumerate(reads)]
    expected = [torch.cat(group) for group in zip(*each, strict=True)]
    actual = network(rows[:size], masked, network.store(rows, dropouts(0.0)), dropouts(0.0), leave_out_own=True)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e)
    for a, e in zip(gradients(network, actual), gradients(network, expected), strict=True):
        torch.testing.assert_close(a, e)


@pytest.mark.parametrize("n_layers", [1, 2, 5])
def test_stored_rows_serve_any_rows_as_in_the_plain_formulation(n_layers: int) -> None:
    network, stored, rows = make(n_layers).double(), table(6).double(), table(3, 1).double()
    memory = network.store(stored)
    masked = target_mask(rows, TARGET)
    actual = network(rows, masked, memory)
    expected = [plainly(network, row, mask, stored) for row, mask in zip(rows, masked, strict=True)]
    for a, e in zip(actual, zip(*expected, strict=True), strict=True):
        torch.testing.assert_close(a, torch.cat(e))
    for a, e in zip(network(rows, masked, network.store(stored, dropouts(0.0))), actual, strict=True):
        torch.testing.assert_close(a, e)  # the same where the memory was not computed ahead
    assert len(memory.pairs) == math.ceil(n_layers / 2)


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


@pytest.mark.parametrize(("size", "n"), [(3, 9), (8, 9), (9, 9)], ids=["others alone", "halves", "full batch"])
def test_a_row_cannot_read_itself_even_through_others(size: int, n: int) -> None:
    network, rows = make(6), table(n)
    masked = target_mask(rows, TARGET)[:size]

    def predictions(stored: Tensor) -> Tensor:
        memory = network.store(stored, dropouts(0.0))
        return network.target(network(rows[:size], masked, memory, dropouts(0.0), leave_out_own=True))

    before = predictions(rows)
    for i in range(n):
        changed = rows.clone()
        changed[i, TARGET] = (changed[i, TARGET] + 1) % 3
        after = predictions(changed)
        if i < size:
            assert torch.equal(after[i], before[i])
        nobody_reads_it = size == 3 and i < size  # a small batch reads the rows beside it alone
        assert torch.equal(after, before) == nobody_reads_it


def test_leaving_out_the_own_entry_alone_would_leak() -> None:
    """Why `leave_out_own` does more than that: other rows have read the label by the second row attention."""
    network, rows = make(4), table(6)
    changed = rows.clone()
    changed[0, TARGET] = (changed[0, TARGET] + 1) % 3
    entries = [network.store(stored).pairs[1][0][:, 1:] for stored in (rows, changed)]
    assert not torch.equal(*entries)


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
    direct = first.blocks[0].weights(
        first.embedding(rows, target_mask(rows, TARGET), None), first.store(stored).pairs[0]
    )
    torch.testing.assert_close(first.read_weights(rows, target_mask(rows, TARGET), first.store(stored)), direct)


# ------------------------------------------------------------------------------------------------------------ training


def test_label_masking() -> None:
    rows = table(20_000)
    masking = LabelMasking(WIDTHS, TARGET, 0.2, 0.1, 0, 0.3)
    seen, masked, truth = masking.step(rows)
    assert masked[:, TARGET].float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert torch.equal(seen[:, TARGET], rows[:, TARGET])
    counted = ~truth.isnan()
    known = ~rows.isnan()
    assert torch.equal(counted, known & (masked | (seen != rows)))
    assert torch.equal(truth[counted], rows[counted])
    assert counted[known[:, 0], 0].float().mean().item() == pytest.approx(0.3, abs=0.02)
    everything = LabelMasking(WIDTHS, TARGET, 0.0, 0.0, 0, 1.0).step(rows)[2]
    assert everything[:, :TARGET].isnan().all()
    assert torch.equal(everything[:, TARGET], rows[:, TARGET])


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


def test_the_cyclic_schedule_descends_four_times() -> None:
    for cycle in range(4):
        for part in (0.0, 0.3, 0.99):
            assert cosine_cyclic(2.0, (cycle + part) / 4) == pytest.approx(cosine(2.0, part))
    assert cosine_cyclic(2.0, 1.0) == 0


def test_an_easy_rule_is_learnt() -> None:
    def toy(n: int, seed: int) -> Tensor:
        x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
        return torch.cat([x, (x[:, :1] * x[:, 1:2] > 0).float()], dim=1)

    network = make(2, (1, 1, 1, 2), 3)
    rows, test = toy(200, 0), toy(200, 1)
    before = validate(network, rows, test)
    recipe = make_recipe("default", 200, max_epochs=100, gamma=0.5, mask_probability=0.1, replace_probability=0.0)
    result = train(network, rows, toy(100, 2), recipe, seed=0, procedure=NPTProcedure(1.0, "cosine"))
    score, loss = validate(result.network, rows, test)
    assert before[0] < 0.7
    assert score > 0.85
    assert loss < 0.45 < before[1]
