"""The network of Section 3: its embedding, Hopfield modules and summary, and what may influence a prediction."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hopular.model import association
from hopular.model.architecture import Architecture
from hopular.model.block import FeatureModule, HopfieldModule, SampleModule, StoredRows
from hopular.model.dropout import Dropouts
from hopular.model.masking import target_mask
from hopular.model.members import Draw, Linear, normalise
from hopular.model.network import Hopular, Waves
from hopular.model.objective import objective

MIXED = (1, 1, 2, 3, 3, 5)
OPTIONS = list(product(("sum", "projected", "periodic"), ("tied", "separate"), ("attribute", "joint")))
SEEDS = (3, 4)
K = len(SEEDS)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def table(n: int, widths: tuple[int, ...] = MIXED, seed: int = 0) -> Tensor:
    """Random rows (K, d, n), others for each member; the category of row i is i modulo the width, so that all occur."""
    values = [
        normal(seed + j, K, n) if w == 1 else ((torch.arange(n) + seed + torch.arange(K)[:, None]) % w).double()
        for j, w in enumerate(widths)
    ]
    return torch.stack(values, dim=1)


def make(widths: tuple[int, ...] = MIXED, target: int = 3, betas: list[float] | None = None, **options) -> Hopular:
    options = {"n_blocks": 2, "n_networks": 2, "embedding_dim": 8, **options}
    return Hopular(Architecture(widths, target, **options), SEEDS, betas).double()


def predict(network: Hopular, rows: Tensor, stored: Tensor, **kwargs) -> Tensor:
    """Predictions of the target (K, width, b)."""
    masked = target_mask(rows, network.target)
    return network.attribute(network(rows, masked, network.store(stored), **kwargs), network.target)


def at(linear: Linear, k: int, x: Tensor) -> Tensor:
    """A linear map of member k, of (inputs, rows)."""
    return linear.weight[k] @ x + linear.bias[k]


def norm_at(module: HopfieldModule, k: int, x: Tensor) -> Tensor:
    return F.layer_norm(x.T, [len(x)], module.norm.gain[k, :, 0], module.norm.shift[k, :, 0]).T


def store(module: SampleModule, patterns: Tensor, absent: Tensor | None = None) -> StoredRows:
    return module.store(iter([one(patterns) for one in module.stored_maps]), absent)


def read(module: SampleModule, state: Tensor, patterns: Tensor) -> Tensor:
    return module(state, store(module, patterns), False, None)


# ---- the two constructions of Section A.6: what H_s can compute ----


def sample_module(width: int, betas: list[float]) -> SampleModule:
    """One Hopfield network of full width whose biases are zero; beta is given as the softmax is to see it."""
    arch = Architecture((1,), 0, n_networks=1, embedding_dim=width, values="tied")
    module = SampleModule(arch, Draw(range(len(betas)))).double().requires_grad_(False)
    module.set_beta(torch.tensor(betas, dtype=torch.double) * math.sqrt(width))
    for linear in (module.query, module.key, module.output):
        linear.weight.zero_()
        linear.bias.zero_()
    return module


def test_hs_can_be_kernel_regression() -> None:
    """Nadaraya-Watson with the RBF kernel on normalised inputs z. A stored pattern holds z_i and, at 6 and 7, y_i."""
    n, betas = 30, [4.0, 1.5]
    inputs, new = (normalise(normal(s, 2, 6, rows)) for s, rows in ((0, n), (1, 5)))
    z_stored, z_new = (z / z.norm(dim=1, keepdim=True) for z in (inputs, new))
    labels = normal(2, 2, 2, n)

    module = sample_module(8, betas)
    to_unit = torch.tensor([1 / math.sqrt(8)] * 6 + [0, 0], dtype=torch.double)  # LayerNorm gives the norm sqrt(8)
    module.query.weight.copy_(to_unit.diag())  # z = W_xi xi: the labels of the new rows are not known
    module.key.weight.copy_(torch.eye(8))  # Z and the labels = W_X X
    module.output.weight[:, 6, 6] = module.output.weight[:, 7, 7] = 1  # Y = W_S W_X X
    state = torch.cat([1e3 * new, torch.zeros(2, 2, 5)], dim=1)  # so large that the epsilon of LayerNorm is nothing

    result = read(module, state, torch.cat([z_stored, labels], dim=1))[:, 6:]

    for k, beta in enumerate(betas):
        kernel = (-beta / 2 * (z_new[k][:, None] - z_stored[k][:, :, None]).square().sum(0)).exp()  # (n, 5)
        torch.testing.assert_close(result[k], labels[k] @ kernel / kernel.sum(0))
    assert result.std() > 0.1


def test_hs_can_be_a_gradient_step_of_the_adaboost_objective() -> None:
    """The paper's Y Z^T = X^T W_X^T holds up to sign: the gradient -Z Y softmax(-beta Y Z^T xi) needs W_X X = -Z Y."""
    n, width, betas, rate = 40, 6, torch.tensor([1.5, 0.7], dtype=torch.double), 0.1
    z, y = normal(0, 2, width, n), normal(1, 2, 1, n).sign()
    module = sample_module(width, betas.tolist())
    module.query.weight.copy_(torch.eye(width))
    module.key.weight.copy_(-torch.eye(width))
    module.output.weight.copy_(torch.eye(width))
    stored = store(module, y * z)
    state = normal(2, 2, width, 3)

    def loss(xi: Tensor) -> Tensor:
        margins = (z.mT @ xi) * y.mT  # (2, n, 3)
        return torch.logsumexp(-betas[:, None, None] * margins, dim=1) / betas[:, None]

    xi = module.norm(state).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(xi).sum(), xi)
    xi = xi.detach()
    torch.testing.assert_close(module(state, stored, False, None) - xi, gradient)

    module.output.weight.mul_(-rate)  # now the residual connection descends
    assert (loss(module(state, stored, False, None)) < loss(xi)).all()


# ---- Hopfield modules ----


@pytest.mark.parametrize(("n_networks", "h_samples", "h_features"), [(1, 48, 8), (4, 12, 2), (16, 3, 1)])
def test_hopfield_dimension_and_beta(n_networks: int, h_samples: int, h_features: int) -> None:
    """h = d e / M for H_s and e / M for H_f, at least 1; beta is the scaling factor over sqrt(h)."""
    for betas, expected in ((None, [100.0, 100.0]), ([1.0, 30.0], [1.0, 30.0])):
        block = make(n_networks=n_networks, beta=100.0, betas=betas).blocks[0]
        assert isinstance(block.samples, SampleModule)
        assert isinstance(block.features, FeatureModule)
        for module, h in ((block.samples, h_samples), (block.features, h_features)):
            assert module.query.weight.shape[1] == module.key.weight.shape[1] == n_networks * h
            assert module.output.weight.shape[2] == n_networks * h
            assert module.beta.flatten().tolist() == pytest.approx([beta / math.sqrt(h) for beta in expected])


@pytest.mark.parametrize("values", ["tied", "separate"])
def test_hs_is_its_equation(values: str) -> None:
    """Eq. 7 and 8: xi + W_G (W_S W_X X softmax(beta X^T W_X^T W_xi xi)) for each of M networks, one after another."""
    betas = [1.0, 3.0]
    module = make(values=values, betas=betas).blocks[0].samples
    state, patterns = normal(0, K, 48, 4), normal(1, K, 48, 9)
    result = read(module, state, patterns)
    for k in range(K):
        xi = norm_at(module, k, state[k])
        expected = xi + module.output.bias[k]
        for m in range(2):
            h = slice(24 * m, 24 * (m + 1))
            query, key = at(module.query, k, xi)[h], at(module.key, k, patterns[k])[h]
            value = key if module.value is None else at(module.value, k, patterns[k])[h]
            retrieved = value @ (betas[k] * 24**-0.5 * key.T @ query).softmax(0)
            expected = expected + module.output.weight[k][:, h] @ retrieved
        torch.testing.assert_close(result[k], expected)


@pytest.mark.parametrize("values", ["tied", "separate"])
@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_hf_is_its_equation(d: int, values: str) -> None:
    """Eq. 9, row by row and network by network."""
    betas = [1.0, 3.0]
    module = make((1,) * d, 0, values=values, betas=betas).blocks[1].features
    state, original = normal(0, K, 8, d, 3), normal(1, K, 8, d, 3)
    result = module(state.flatten(2), original.flatten(2), None).view_as(state)
    for k, row in product(range(K), range(3)):
        xi, own = norm_at(module, k, state[k, ..., row]), original[k, ..., row]
        expected = xi + module.output.bias[k]
        for m in range(2):
            h = slice(4 * m, 4 * (m + 1))
            query, key = at(module.query, k, xi)[h], at(module.key, k, own)[h]
            value = key if module.value is None else at(module.value, k, own)[h]
            retrieved = value @ (betas[k] * 0.5 * key.T @ query).softmax(0)
            expected = expected + module.output.weight[k][:, h] @ retrieved
        torch.testing.assert_close(result[k, ..., row], expected)


def test_absent_rows_are_not_stored() -> None:
    module = make().blocks[0].samples
    state, patterns = normal(0, K, 48, 4), normal(1, K, 48, 9)
    absent = torch.arange(9) >= torch.tensor([[9], [6]])
    result = module(state, store(module, patterns, absent), False, None)
    torch.testing.assert_close(result[0], read(module, state, patterns)[0])
    torch.testing.assert_close(result[1], read(module, state, patterns[..., :6])[1])


# ---- embedding ----


@pytest.mark.parametrize("kind", ["sum", "projected", "periodic"])
def test_present_masked_and_missing_values_differ(kind: str) -> None:
    embedding = make(embedding=kind).embedding
    row = table(4)[..., 3:]  # not the zeros
    nothing, everything = (torch.full_like(row, fill, dtype=torch.bool) for fill in (False, True))
    present = embedding(row, nothing, None)
    assert present.shape == (K, 8, 6, 1)
    masked = embedding(row, everything, None)
    missing = embedding(row * torch.nan, nothing, None)
    for a, b in ((present, masked), (present, missing), (masked, missing)):
        assert ((a - b).abs().amax(1) > 1e-3).all()  # at every attribute
    torch.testing.assert_close(embedding(table(9)[..., 7:8], everything, None), masked)  # a masked value is not seen
    torch.testing.assert_close(embedding(row, None, None), present)


@pytest.mark.parametrize("kind", ["sum", "periodic"])
def test_a_missing_value_leaves_position_and_type(kind: str) -> None:
    embedding = make(embedding=kind).embedding
    missing = embedding(torch.full((K, 6, 1), torch.nan, dtype=torch.double), None, None)[..., 0]
    torch.testing.assert_close(missing[..., :2], embedding.position[..., :2] + embedding.kind[..., :1])
    torch.testing.assert_close(missing[..., 2:], embedding.position[..., 2:] + embedding.kind[..., 1:])


def test_a_number_enters_linearly_and_each_category_by_its_own_vector() -> None:
    embedding = make(embedding="sum").embedding
    rows, numbers = table(5), torch.tensor([0.0, 1, 2, -3, torch.nan], dtype=torch.double)
    rows[:, 0] = numbers
    y = embedding(rows, None, None)
    base = y[:, :, 0, 4:]  # missing
    torch.testing.assert_close(y[:, :, 0, :4] - base, numbers[:4] * (y[:, :, 0, 1:2] - base))
    for k in range(K):
        assert torch.pdist(y[k, :, 5].T).min() > 1e-2  # five categories
    torch.testing.assert_close(y[:, :, 3, 0], y[:, :, 3, 3])  # the same one of three


@pytest.mark.parametrize("widths", [(1, 1, 1), (2, 3), (4,), (1,)])
def test_an_embedding_is_the_sum_of_its_parts(widths: tuple[int, ...]) -> None:
    """Also where there are only numbers or only categories; members are embedded by their own tables."""
    embedding = make(widths, 0, embedding="sum").embedding
    rows = table(6, widths)
    rows[:, 0, 2] = torch.nan
    masked = torch.zeros_like(rows, dtype=torch.bool)
    masked[:, -1, 4] = True
    result = embedding(rows, masked, None)
    first = [sum(w for w in widths[:j] if w > 1) for j in range(len(widths))]
    for k, j, i in product(range(K), range(len(widths)), range(6)):
        expected = embedding.position[k, :, j] + embedding.kind[k, :, int(widths[j] > 1)]
        if masked[k, j, i]:
            expected = expected + embedding.mask[k, :, j]
        elif not rows[k, j, i].isnan():
            if widths[j] == 1:
                expected = expected + rows[k, j, i] * embedding.number[k, :, j]
            else:
                expected = expected + embedding.category[k, first[j] + int(rows[k, j, i])]
        torch.testing.assert_close(result[k, :, j, i], expected)


def test_waves_are_their_formula() -> None:
    waves, x = Waves(Draw(SEEDS), 3, 5).double(), normal(0, K, 3, 4)
    result = waves(x)
    assert result.shape == (K, 5, 3, 4)
    for k, j, i in product(range(K), range(3), range(4)):
        bent = torch.cos(2 * math.pi * (waves.frequency[k, j, :, 0] * x[k, j, i] + waves.phase[k, j, :, 0]))
        torch.testing.assert_close(result[k, :, j, i], waves.weight[k, j] @ bent)


def test_equal_values_at_different_positions_differ() -> None:
    y = make(widths=(3, 3, 3), target=2).embedding(torch.ones(K, 3, 1).double(), None, None)
    for k in range(K):
        assert torch.pdist(y[k, ..., 0].T).min() > 1e-2


# ---- summary ----


@pytest.mark.parametrize("summary", ["attribute", "joint"])
def test_an_attribute_is_summarised_by_itself_or_with_the_others(summary: str) -> None:
    network = make(summary=summary)
    xi = normal(0, K, 48, 1).requires_grad_()
    predictions = network.summary(xi, None)
    for j, width in enumerate(MIXED):
        prediction = network.attribute(predictions, j)
        assert prediction.shape == (K, width, 1)
        gradient = torch.autograd.grad((prediction * normal(1, K, width, 1)).sum(), xi, retain_graph=True)[0]
        reads = (gradient.view(K, 8, 6) != 0).any(1).tolist()
        assert reads == [[summary == "joint" or i == j for i in range(6)]] * K


def test_there_is_no_attribute_beyond_the_last() -> None:
    network = make()
    with pytest.raises(IndexError, match="attribute 6 of 6"):
        network.attribute(network.summary(normal(0, K, 48, 1), None), 6)


# ---- the whole network ----


@pytest.mark.parametrize("widths", [MIXED, (1,) * 9 + MIXED[2:] + (5,) * 7, (1, 1, 1), (2, 3)], ids=len)
@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
def test_every_variant_trains_every_parameter(
    widths: tuple[int, ...], embedding: str, values: str, summary: str
) -> None:
    network = make(widths, 1, embedding=embedding, values=values, summary=summary)
    rows = table(20, widths)
    rows[:, 0, 0] = torch.nan
    masked = target_mask(rows, 1)
    masked[:, torch.arange(len(widths)), torch.arange(len(widths)) % 10 + 5] = True  # each attribute somewhere
    dropouts = Dropouts(0.1, 0.1, 0.1, SEEDS, torch.device("cpu"))
    predictions = network(rows, masked, network.store(rows, None, dropouts), dropouts, leave_out_own=True)
    assert [p.shape[2] for p in predictions] == sorted(set(widths))
    assert sum(p.shape[1] for p in predictions) == len(widths)
    objective(predictions, rows, network.summary.groups, 1, 0.5).sum().backward()
    for name, parameter in network.named_parameters():
        assert len(parameter) == K, name
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if values == "separate" and name.endswith("key.bias"):
            continue  # the same for all stored patterns, which no softmax sees
        gradient = parameter.grad != 0
        if name in ("embedding.number", "embedding.mask", "embedding.position", "embedding.kind"):
            gradient = gradient.mT  # by attribute
        trained = gradient.flatten(2).any(2)  # of each member, row by row
        if name == "embedding.kind":
            trained = trained[:, [1 in widths, max(widths) > 1]]
        assert trained.all(), name


@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
@pytest.mark.parametrize("cut", [False, True])
def test_gradients_of_a_whole_step_are_those_of_finite_differences(
    embedding: str, values: str, summary: str, cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all parameters along a random direction, in one piece or cut into chunks of members and rows."""
    if cut:
        monkeypatch.setattr(association, "CHUNK", 20)
        monkeypatch.setattr(association, "ROWS", 2)
        monkeypatch.setattr(association, "KEEP", 0)
    network = make(n_blocks=1, embedding_dim=4, embedding=embedding, values=values, summary=summary)
    rows, parameters = table(7), list(network.parameters())
    rows[0, 0, 1] = torch.nan
    directions = [normal(i, *p.shape) for i, p in enumerate(parameters)]

    def losses() -> Tensor:
        dropouts = Dropouts(0.2, 0.2, 0.2, SEEDS, torch.device("cpu"))  # the same masks each time
        predictions = network(
            rows[..., :5], target_mask(rows[..., :5], 3), network.store(rows, None, dropouts), dropouts, True
        )
        return objective(predictions, rows[..., :5], network.summary.groups, 3, 0.5)

    step, values_at = 1e-6, []
    for k in range(K):
        gradients = torch.autograd.grad(losses()[k], parameters, allow_unused=True)
        along = sum((g * v).sum() for g, v in zip(gradients, directions, strict=True) if g is not None)
        values_at.append(float(along))
    with torch.no_grad():
        shifted = []
        for sign in (1, -1):
            for p, v in zip(parameters, directions, strict=True):
                p += sign * step * v
            shifted.append(losses())
            for p, v in zip(parameters, directions, strict=True):
                p -= sign * step * v
    assert ((shifted[0] - shifted[1]) / (2 * step)).tolist() == pytest.approx(values_at, rel=1e-5)


@pytest.mark.parametrize("memory_rows", [7, 20])
def test_rows_do_not_depend_on_their_batch(memory_rows: int) -> None:
    network, rows, stored = make(), table(7, seed=1), table(memory_rows)
    together = predict(network, rows, stored)
    alone = torch.cat([predict(network, rows[..., i : i + 1], stored) for i in range(7)], dim=2)
    torch.testing.assert_close(together, alone)


def test_the_order_of_the_memory_does_not_matter() -> None:
    network, rows, stored = make(beta=10.0), table(7, seed=1), table(20)
    shuffled = stored[..., torch.randperm(20, generator=torch.Generator().manual_seed(0))]
    torch.testing.assert_close(predict(network, rows, shuffled), predict(network, rows, stored))
    assert not torch.allclose(predict(network, rows, stored[..., :10]), predict(network, rows, stored))


def test_a_single_stored_row_is_enough() -> None:
    network, rows = make(), table(7, seed=1)
    assert predict(network, rows, table(1)).isfinite().all()
    torch.testing.assert_close(predict(network, rows, table(1)), predict(network, rows, table(1).repeat(1, 1, 5)))


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
    changed[:, 3, 4] = (changed[:, 3, 4] + 1) % 3
    before = predict(network, rows[..., :8], rows, leave_out_own=leave_out_own)
    after = predict(network, rows[..., :8], changed, leave_out_own=leave_out_own)
    differs = ((before - after).abs().amax(1) > 1e-9).tolist()
    assert differs == [[True] * 4 + [not leave_out_own] + [True] * 3] * K


def test_read_weights_are_a_share_of_each_stored_row() -> None:
    network, rows, stored = make(beta=100.0), table(5, seed=1), table(20)
    weights = network.read_weights(rows, network.store(stored))
    assert weights.shape == (K, 20, 5)
    torch.testing.assert_close(weights.sum(1), torch.ones(K, 5).double())
    assert weights.min() >= 0
    assert weights.std() > 0.01


def test_products_in_bfloat16_are_close_to_those_in_float32() -> None:
    """In rounded products of wide maps, as in training, and in torch's autocast."""
    network, rows, stored = make(embedding_dim=32).float(), table(8, seed=1).float(), table(20).float()
    weight = network.blocks[0].samples.query.weight
    single = predict(network, rows, stored)
    (expected,) = torch.autograd.grad(single.square().sum(), weight)
    with torch.autocast("cpu", torch.bfloat16):
        cast = predict(network, rows, stored)
    network.round_products()
    for half in (cast, predict(network, rows, stored)):
        assert not torch.equal(half.float(), single)
        torch.testing.assert_close(half.float(), single, rtol=0, atol=0.05 * single.abs().max().item())
        (gradient,) = torch.autograd.grad(half.float().square().sum(), weight)
        assert gradient.dtype == torch.float32
        assert F.cosine_similarity(gradient.flatten(1), expected.flatten(1)).min() > 0.98


# ---- golden numbers ----

GOLDEN = {  # of each member, class and row
    ("sum", "tied", "attribute"): [
        [[-0.01939, -0.2119], [0.5603, 0.53192], [-0.19362, -0.31108]],
        [[-0.63239, 0.29672], [-1.8396, -1.13592], [-0.41748, 0.58054]],
    ],
    ("sum", "tied", "joint"): [
        [[-1.65522, -1.55493], [2.97383, 1.1925], [1.6967, 1.12465]],
        [[-1.46372, -3.51265], [0.95249, -0.01749], [-3.46681, -1.88615]],
    ],
    ("sum", "separate", "attribute"): [
        [[0.00544, 1.90755], [-1.09181, -1.00679], [-1.39078, -0.44199]],
        [[-1.06694, -1.1823], [-0.72498, -0.71732], [-0.23309, -0.24564]],
    ],
    ("sum", "separate", "joint"): [
        [[0.16141, -1.68604], [4.88823, 0.71628], [-5.09309, -1.9676]],
        [[-1.8936, -1.27963], [4.01182, 4.04337], [0.40284, 0.4608]],
    ],
    ("projected", "tied", "attribute"): [
        [[-0.09975, 0.92709], [1.30554, 1.43902], [0.94218, 0.61368]],
        [[-0.18796, -0.14064], [1.00663, 1.14305], [1.73475, 1.47481]],
    ],
    ("projected", "tied", "joint"): [
        [[-2.62096, -2.55399], [4.15062, 2.40278], [-0.83839, 0.63939]],
        [[-0.09961, -0.14603], [5.54852, 5.14492], [-1.26194, -1.41893]],
    ],
    ("projected", "separate", "attribute"): [
        [[1.15041, 1.09731], [0.72456, 0.35656], [-0.25179, -0.293]],
        [[-0.26786, -0.51953], [0.57726, 1.35181], [-0.92791, -1.37674]],
    ],
    ("projected", "separate", "joint"): [
        [[0.83151, 0.65338], [2.42706, -0.47801], [-3.05716, -2.10903]],
        [[-0.43456, 4.66146], [-0.21231, -0.55701], [-3.31802, -6.95722]],
    ],
    ("periodic", "tied", "attribute"): [
        [[0.14233, -0.10515], [-0.71014, -0.47487], [1.19947, 1.23096]],
        [[-3.87607, -2.05866], [-0.25505, -0.19269], [-0.57683, -1.36197]],
    ],
    ("periodic", "tied", "joint"): [
        [[-2.65308, -2.2335], [1.0894, 1.36976], [-5.06002, -3.09699]],
        [[-0.28603, -0.41112], [5.31521, 6.98], [-2.63597, -1.29436]],
    ],
    ("periodic", "separate", "attribute"): [
        [[-0.86964, -0.20083], [0.9166, 1.00905], [-0.33782, -0.69692]],
        [[0.63488, 0.94632], [0.01937, -0.15568], [-2.25327, -1.60099]],
    ],
    ("periodic", "separate", "joint"): [
        [[0.9181, 0.16178], [-2.16785, -3.15439], [-2.5337, -0.1816]],
        [[-4.28116, -4.84543], [5.96207, 6.13228], [-3.15733, -3.49731]],
    ],
}


@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
def test_golden_predictions(embedding: str, values: str, summary: str) -> None:
    """The forward pass of weights drawn in the order of their names: it must never change by accident."""
    network = make(embedding=embedding, values=values, summary=summary, beta=10.0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, parameter in sorted(network.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.double) / 2)
    rows = table(20)
    rows[:, 0, 17] = rows[:, 2, 3] = torch.nan
    result = predict(network, rows[..., 16:18], rows[..., :16])
    expected = torch.tensor(GOLDEN[embedding, values, summary]).double()
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-4)
