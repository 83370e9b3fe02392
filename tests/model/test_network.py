"""The network of Section 3: its embedding, Hopfield modules and summary, and what may influence a prediction."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hopular.model.architecture import Architecture
from hopular.model.block import FeatureModule, SampleModule, attribute_maps
from hopular.model.dropout import Dropouts
from hopular.model.masking import target_mask
from hopular.model.network import Hopular
from hopular.model.objective import objective

MIXED = (1, 1, 2, 3, 3, 5)
OPTIONS = list(product(("sum", "projected"), ("tied", "separate"), ("attribute", "joint")))


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def table(n: int, widths: tuple[int, ...] = MIXED, seed: int = 0) -> Tensor:
    """Random rows; the category of row i is i modulo the width, so that all occur."""
    columns = [normal(seed + j, n) if w == 1 else (torch.arange(n) + seed) % w for j, w in enumerate(widths)]
    return torch.stack([c.double() for c in columns], dim=1)


def make(widths: tuple[int, ...] = MIXED, target: int = 3, seed: int = 0, **options) -> Hopular:
    options = {"n_blocks": 2, "n_networks": 2, "embedding_dim": 8, **options}
    torch.manual_seed(seed)
    return Hopular(Architecture(widths, target, **options)).double()


def predict(network: Hopular, rows: Tensor, stored: Tensor, **kwargs) -> Tensor:
    return network.target(network(rows, target_mask(rows, network.arch.target), network.store(stored), **kwargs))


# ---- the two constructions of Section A.6: what H_s can compute ----


def sample_module(width: int, beta: float) -> SampleModule:
    """One Hopfield network of full width whose biases are zero; beta is given as the softmax is to see it."""
    arch = Architecture((1,), 0, n_networks=1, beta=beta * math.sqrt(width), values="tied")
    module = SampleModule(width, arch).double().requires_grad_(False)
    for linear in (module.query, module.key, module.output):
        linear.weight.zero_()
        linear.bias.zero_()
    return module


def test_hs_can_be_kernel_regression() -> None:
    """Nadaraya-Watson with the RBF kernel on normalised inputs z. A stored pattern holds z_i and, at 6 and 7, y_i."""
    n, beta = 30, 4.0
    inputs, new = (F.layer_norm(normal(s, rows, 6), [6]) for s, rows in ((0, n), (1, 5)))
    z_stored, z_new = inputs / inputs.norm(dim=1, keepdim=True), new / new.norm(dim=1, keepdim=True)
    labels = normal(2, n, 2)

    module = sample_module(8, beta)
    to_unit = torch.tensor([1 / math.sqrt(8)] * 6 + [0, 0], dtype=torch.double)  # LayerNorm gives the norm sqrt(8)
    module.query.weight.copy_(to_unit.diag())  # z = W_xi xi: the labels of the new rows are not known
    module.key.weight.copy_(torch.eye(8))  # Z and the labels = W_X X
    module.output.weight[6, 6] = module.output.weight[7, 7] = 1  # Y = W_S W_X X
    state = torch.cat([1e3 * new, torch.zeros(5, 2)], dim=1)  # so large that the epsilon of LayerNorm is nothing

    result = module.store(torch.cat([z_stored, labels], dim=1)).read(state)[:, 6:]

    kernel = (-beta / 2 * (z_new[:, None] - z_stored).square().sum(2)).exp()
    torch.testing.assert_close(result, kernel @ labels / kernel.sum(1, keepdim=True))
    assert result.std() > 0.1


def test_hs_can_be_a_gradient_step_of_the_adaboost_objective() -> None:
    """The paper's Y Z^T = X^T W_X^T holds up to sign: the gradient -Z Y softmax(-beta Y Z^T xi) needs W_X X = -Z Y."""
    n, width, beta, rate = 40, 6, 1.5, 0.1
    z, y = normal(0, n, width), normal(1, n).sign()
    module = sample_module(width, beta)
    module.query.weight.copy_(torch.eye(width))
    module.key.weight.copy_(-torch.eye(width))
    module.output.weight.copy_(torch.eye(width))
    stored = module.store(y[:, None] * z)
    state = normal(2, 3, width)

    def loss(xi: Tensor) -> Tensor:
        return torch.logsumexp(-beta * (xi @ z.T) * y, dim=1) / beta

    xi = module.norm(state).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(xi).sum(), xi)
    xi = xi.detach()
    torch.testing.assert_close(stored.read(state) - xi, gradient)

    module.output.weight.mul_(-rate)  # now the residual connection descends
    assert (loss(stored.read(state)) < loss(xi)).all()


# ---- Hopfield modules ----


@pytest.mark.parametrize(("n_networks", "h_samples", "h_features"), [(1, 48, 8), (4, 12, 2), (16, 3, 1)])
def test_hopfield_dimension_and_beta(n_networks: int, h_samples: int, h_features: int) -> None:
    """h = d e / M for H_s and e / M for H_f, at least 1; beta is the scaling factor over sqrt(h)."""
    block = make(n_networks=n_networks, beta=100.0).blocks[0]
    assert isinstance(block.samples, SampleModule)
    assert isinstance(block.features, FeatureModule)
    for module, h in ((block.samples, h_samples), (block.features, h_features)):
        assert module.query.out_features == module.key.out_features == module.output.in_features == n_networks * h
        assert module.beta == pytest.approx(100 / math.sqrt(h))


@pytest.mark.parametrize("values", ["tied", "separate"])
def test_hs_is_its_equation(values: str) -> None:
    """Eq. 7 and 8: xi + W_G (W_S W_X X softmax(beta X^T W_X^T W_xi xi)) for each of M networks, one after another."""
    module = make(values=values).blocks[0].samples
    state, patterns = normal(0, 4, 48), normal(1, 9, 48)
    xi = module.norm(state)
    expected = xi + module.output.bias
    for m in range(2):
        h = slice(24 * m, 24 * (m + 1))
        query, key = module.query(xi)[:, h], module.key(patterns)[:, h]
        value = key if values == "tied" else module.value(patterns)[:, h]
        retrieved = (24**-0.5 * query @ key.T).softmax(1) @ value
        expected = expected + retrieved @ module.output.weight[:, h].T
    torch.testing.assert_close(module.store(patterns).read(state), expected)


@pytest.mark.parametrize("values", ["tied", "separate"])
@pytest.mark.parametrize("d", [5, 40, 70])
def test_hf_is_its_equation(d: int, values: str) -> None:
    """Eq. 9, row by row and network by network; network m has every M-th unit from the m-th on."""
    blocks = list(make(values=values).blocks)
    module = blocks[1].features
    state, original = normal(0, 3, d, 8), normal(1, 3, d, 8)
    stored = attribute_maps(blocks).project(original)[1]
    original = F.layer_norm(original, [8])
    result = module.reader().read(state.flatten(0, 1), *stored).view_as(state)
    for row in range(3):
        xi = module.norm(state[row])
        expected = xi + module.output.bias
        for m in range(2):
            h = slice(m, None, 2)
            query, key = module.query(xi)[:, h], module.key(original[row])[:, h]
            value = key if values == "tied" else module.value(original[row])[:, h]
            expected = expected + (0.5 * query @ key.T).softmax(1) @ value @ module.output.weight[:, h].T
        torch.testing.assert_close(result[row], expected)


@pytest.mark.parametrize("values", ["tied", "separate"])
def test_gradients_through_the_maps_of_all_hf_are_those_of_each_map_alone(values: str) -> None:
    blocks = list(make(values=values).blocks)
    x = normal(0, 3, 5, 8).requires_grad_()
    features = [block.features for block in blocks]
    maps = [m for f in features for m in ((f.key, f.key) if f.value is None else (f.key, f.value))]
    wanted = [x, *(parameter for m in dict.fromkeys(maps) for parameter in m.parameters())]
    projected = [one for pair in attribute_maps(blocks).project(x) for one in pair]
    plain = [m(F.layer_norm(x, [8])).view(3, 5, 4, 2).permute(3, 0, 1, 2).reshape(6, 5, 4) for m in maps]
    weights = [normal(i + 1, 6, 5, 4) for i in range(len(maps))]
    totals = [sum((w * p).sum() for w, p in zip(weights, outputs, strict=True)) for outputs in (projected, plain)]
    for one, other in zip(*(torch.autograd.grad(total, wanted) for total in totals), strict=True):
        torch.testing.assert_close(one, other)
        assert one.abs().max() > 0.1


# ---- embedding ----


@pytest.mark.parametrize("kind", ["sum", "projected"])
def test_present_masked_and_missing_values_differ(kind: str) -> None:
    embedding = make(embedding=kind).embedding
    row = table(4)[3:]  # not the zeros
    nothing, everything = (torch.full_like(row, fill, dtype=torch.bool) for fill in (False, True))
    present = embedding(row, nothing, None)
    masked = embedding(row, everything, None)
    missing = embedding(row * torch.nan, nothing, None)
    for a, b in ((present, masked), (present, missing), (masked, missing)):
        assert ((a - b).abs().amax(-1) > 1e-3).all()  # at every attribute
    torch.testing.assert_close(embedding(table(9)[7:8], everything, None), masked)  # a masked value is not seen
    torch.testing.assert_close(embedding(row, None, None), present)


def test_a_missing_value_leaves_position_and_type() -> None:
    embedding = make().embedding
    missing = embedding(torch.full((1, 6), torch.nan, dtype=torch.double), None, None)[0]
    torch.testing.assert_close(missing[:2], embedding.position[:2] + embedding.kind[0])
    torch.testing.assert_close(missing[2:], embedding.position[2:] + embedding.kind[1])


def test_a_number_enters_linearly_and_each_category_by_its_own_vector() -> None:
    embedding = make().embedding
    rows = table(5)
    rows[:, 0] = torch.tensor([0.0, 1, 2, -3, torch.nan])
    y = embedding(rows, None, None)
    base = y[4, 0]  # missing
    torch.testing.assert_close(y[:4, 0] - base, torch.tensor([0.0, 1, 2, -3])[:, None] * (y[1, 0] - base))
    assert torch.pdist(y[:, 5]).min() > 1e-2  # five categories
    torch.testing.assert_close(y[0, 3], y[3, 3])  # the same one of three


def test_equal_values_at_different_positions_differ() -> None:
    y = make(widths=(3, 3, 3), target=2).embedding(torch.ones(1, 3).double(), None, None)[0]
    assert torch.pdist(y).min() > 1e-2


# ---- summary ----


@pytest.mark.parametrize("summary", ["attribute", "joint"])
def test_an_attribute_is_summarised_by_itself_or_with_the_others(summary: str) -> None:
    network = make(summary=summary)
    xi = normal(0, 1, 48).requires_grad_()
    predictions = network.summary(xi, None)
    for j, width in enumerate(MIXED):
        prediction = network.attribute(predictions, j)
        assert prediction.shape == (1, width)
        gradient = torch.autograd.grad((prediction * normal(1, 1, width)).sum(), xi, retain_graph=True)[0].view(6, 8)
        read = (gradient != 0).any(1).tolist()
        assert read == [summary == "joint" or i == j for i in range(6)]


def test_there_is_no_attribute_beyond_the_last() -> None:
    network = make()
    with pytest.raises(IndexError, match="attribute 6 of 6"):
        network.attribute(network.summary(normal(0, 1, 48), None), 6)


# ---- the whole network ----


@pytest.mark.parametrize("widths", [MIXED, (1,) * 9 + MIXED[2:] + (5,) * 7, (1, 1, 1), (2, 3)], ids=len)
@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
def test_every_variant_trains_every_parameter(
    widths: tuple[int, ...], embedding: str, values: str, summary: str
) -> None:
    network = make(widths, 1, embedding=embedding, values=values, summary=summary)
    rows = table(20, widths)
    rows[0, 0] = torch.nan
    masked = target_mask(rows, 1)
    masked[torch.arange(len(widths)) % 10 + 5, torch.arange(len(widths))] = True  # each attribute somewhere
    dropouts = Dropouts(0.1, 0.1, 0.1, 0, torch.device("cpu"))
    predictions = network(rows, masked, network.store(rows, dropouts), dropouts, leave_out_own=True)
    assert [p.shape[2] for p in predictions] == sorted(set(widths))
    assert sum(p.shape[1] for p in predictions) == len(widths)
    objective(predictions, rows, network.summary.groups, 1, 0.5).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if values == "separate" and name.endswith("key.bias"):
            continue  # the same for all stored patterns, which no softmax sees
        trained = (parameter.grad != 0).flatten(1).any(1) if parameter.dim() > 1 else (parameter.grad != 0).any()
        if name == "embedding.category":
            assert not trained[-1], "the row that stands for no value"
            trained = trained[:-1]
        if name == "embedding.kind":
            trained = trained[[1 in widths, max(widths) > 1]]
        assert trained.all(), name


@pytest.mark.parametrize("memory_rows", [7, 20])
def test_rows_do_not_depend_on_their_batch(memory_rows: int) -> None:
    network, rows, stored = make(), table(7, seed=1), table(memory_rows)
    together = predict(network, rows, stored)
    alone = torch.cat([predict(network, row[None], stored) for row in rows])
    torch.testing.assert_close(together, alone)


def test_the_order_of_the_memory_does_not_matter() -> None:
    network, rows, stored = make(beta=10.0), table(7, seed=1), table(20)
    shuffled = stored[torch.randperm(20, generator=torch.Generator().manual_seed(0))]
    torch.testing.assert_close(predict(network, rows, shuffled), predict(network, rows, stored))
    assert not torch.allclose(predict(network, rows, stored[:10]), predict(network, rows, stored))


@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
def test_the_target_of_the_row_itself_is_never_seen(embedding: str, values: str, summary: str) -> None:
    network = make(embedding=embedding, values=values, summary=summary)
    rows, stored = table(6, seed=1), table(20)
    expected = predict(network, rows, stored)
    rows[:, 3] = (rows[:, 3] + 1) % 3
    assert torch.equal(predict(network, rows, stored), expected)
    rows[:, 3] = torch.nan
    torch.testing.assert_close(predict(network, rows, stored), expected)
    rows[:, 2] = 1 - rows[:, 2]
    assert not torch.allclose(predict(network, rows, stored), expected)


@pytest.mark.parametrize("leave_out_own", [True, False])
def test_a_stored_target_is_read_by_the_other_rows_and_by_its_own_only_at_inference(leave_out_own: bool) -> None:
    network, rows = make(), table(12)
    changed = rows.clone()
    changed[4, 3] = (changed[4, 3] + 1) % 3
    before = predict(network, rows[:8], rows, leave_out_own=leave_out_own)
    after = predict(network, rows[:8], changed, leave_out_own=leave_out_own)
    differs = ((before - after).abs().amax(1) > 1e-9).tolist()
    assert differs == [True] * 4 + [not leave_out_own] + [True] * 3


def test_read_weights_are_a_share_of_each_stored_row() -> None:
    network, rows, stored = make(beta=100.0), table(5, seed=1), table(20)
    weights = network.read_weights(rows, target_mask(rows, 3), network.store(stored))
    torch.testing.assert_close(weights.sum(1), torch.ones(5).double())
    assert weights.min() >= 0
    assert weights.std() > 0.01


def test_bfloat16_is_close_to_float32() -> None:
    network, rows, stored = make().float(), table(8, seed=1).float(), table(20).float()
    single = predict(network, rows, stored)
    with torch.autocast("cpu", torch.bfloat16):
        half = predict(network, rows, stored)
    half.float().square().sum().backward()
    torch.testing.assert_close(half.float(), single, rtol=0, atol=0.05 * single.abs().max().item())
    gradient = network.blocks[0].samples.query.weight.grad
    assert gradient is not None
    assert gradient.isfinite().all()


# ---- golden numbers ----

GOLDEN = {
    ("sum", "tied", "attribute"): [[-0.53532, 1.03465, 1.32609], [-0.39923, 0.77133, 1.2877]],
    ("sum", "tied", "joint"): [[-3.88506, 0.66254, 3.33695], [-3.80771, 0.88774, 2.74205]],
    ("sum", "separate", "attribute"): [[-1.45664, 0.06214, 0.15226], [-1.41847, 0.19066, -0.46711]],
    ("sum", "separate", "joint"): [[0.96435, 1.16769, 4.6277], [-0.79724, 0.66658, 2.24244]],
    ("projected", "tied", "attribute"): [[0.1115, -0.26697, -0.82754], [-0.12373, -0.41926, -0.89529]],
    ("projected", "tied", "joint"): [[1.18056, -2.00984, -2.43635], [-1.01527, -0.79586, -2.09733]],
    ("projected", "separate", "attribute"): [[1.44797, -2.33336, 0.46502], [1.44263, -2.1469, 0.59258]],
    ("projected", "separate", "joint"): [[-1.00223, -4.80157, 2.54304], [-0.50681, -4.6542, 3.18806]],
}


@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
def test_golden_predictions(embedding: str, values: str, summary: str) -> None:
    """The forward pass of weights drawn in the order of their names: it must never change by accident."""
    network = make(embedding=embedding, values=values, summary=summary, beta=10.0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, parameter in sorted(network.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.double) / 2)
        network.embedding.category[-1] = 0
    rows = table(20)
    rows[17, 0] = rows[3, 2] = torch.nan
    result = predict(network, rows[16:18], rows[:16])
    expected = torch.tensor(GOLDEN[embedding, values, summary]).double()
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-4)
