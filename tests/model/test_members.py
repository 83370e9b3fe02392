"""Members of a stack: drawn from their seeds, selected and copied, and never computed across."""

from __future__ import annotations

import copy
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model import association
from hopular.model.architecture import Architecture
from hopular.model.dropout import Dropouts
from hopular.model.masking import Masking
from hopular.model.members import (
    NARROW,
    Draw,
    Linear,
    Memory,
    Network,
    Norm,
    generator_states,
    map_together,
    normalise,
    pick,
    restore_generators,
)
from hopular.model.network import Hopular
from hopular.model.objective import objective

CPU = torch.device("cpu")
WIDTHS = (1, 1, 2, 3, 3)
OPTIONS = list(product(("sum", "projected", "periodic"), ("tied", "separate"), ("attribute", "joint")))
SEEDS, BETAS = (5, 6, 7), (1.0, 10.0, 3.0)
K = len(SEEDS)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def table(n: int, widths: tuple[int, ...] = WIDTHS, seed: int = 0) -> Tensor:
    """Rows (K, d, n), others for each member, of which some values are missing."""
    g = torch.Generator().manual_seed(seed)
    values = [
        torch.randn(K, n, generator=g).double() if w == 1 else torch.randint(w, (K, n), generator=g).double()
        for w in widths
    ]
    rows = torch.stack(values, dim=1)
    rows[:, 0, ::5] = torch.nan
    return rows


def make(places: list[int] | None = None, widths: tuple[int, ...] = WIDTHS, **options) -> Hopular:
    """The members at some places of the stack."""
    chosen = range(K) if places is None else places
    architecture = Architecture(widths, 1, **{"n_blocks": 2, "n_networks": 2, "embedding_dim": 4, **options})
    return Hopular(architecture, [SEEDS[k] for k in chosen], [BETAS[k] for k in chosen]).double()


def losses(network: Hopular, rows: Tensor, absent: Tensor | None = None, places: list[int] | None = None) -> Tensor:
    """The losses (K,) of a training step with masks and dropout of each member's own."""
    seeds = [SEEDS[k] for k in (range(K) if places is None else places)]
    masking, dropouts = Masking(network.arch.widths, 1, 0.2, 0.2, seeds), Dropouts(0.2, 0.2, 0.2, seeds, CPU)
    batch = rows[..., :6]
    seen, masked = masking(batch)
    predictions = network(seen, masked, network.store(rows, absent, dropouts), dropouts, True)
    return objective(predictions, batch, network.summary.groups, 1, 0.5)


@pytest.fixture(params=["one chunk", "chunks of members", "chunks of rows"])
def chunking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "one chunk":
        monkeypatch.setattr(association, "CHUNK", 200 if request.param == "chunks of members" else 40)
        monkeypatch.setattr(association, "ROWS", 64 if request.param == "chunks of members" else 2)
        monkeypatch.setattr(association, "KEEP", 0)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


# ---- nothing is computed across members ----


@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
@pytest.mark.usefixtures("chunking")
def test_a_members_loss_has_no_gradient_in_the_parameters_of_others(embedding: str, values: str, summary: str) -> None:
    network, rows = make(embedding=embedding, values=values, summary=summary), table(9).requires_grad_()
    absent = torch.arange(9) >= torch.tensor([[9], [7], [8]])
    of_members = losses(network, rows, absent)
    for k in range(K):
        gradients = torch.autograd.grad(of_members[k], [*network.parameters(), rows], retain_graph=True)
        others = [i for i in range(K) if i != k]
        assert all(g[others].count_nonzero() == 0 for g in gradients)
        assert all(g[k].isfinite().all() for g in gradients)
        assert sum(g[k].count_nonzero() > 0 for g in gradients) >= len(gradients) - 3  # all but biases of keys


@pytest.mark.parametrize("widths", [WIDTHS, (1, 1), (2, 3, 3)], ids=["mixed", "numbers", "categories"])
@pytest.mark.usefixtures("chunking")
def test_a_member_learns_alone_what_it_learns_in_any_stack(widths: tuple[int, ...]) -> None:
    """In float64, where products of other shapes differ in the last bits alone."""
    rows = table(9, widths)
    together = make(widths=widths)
    expected = losses(together, rows)
    expected.sum().backward()
    for places in ([1], [0, 2], [2, 1, 0]):
        some = make(places, widths)
        of_members = losses(some, rows[places], places=places)
        torch.testing.assert_close(of_members, expected[places], rtol=1e-10, atol=1e-12)
        of_members.sum().backward()
        for one, other in zip(some.parameters(), together.parameters(), strict=True):
            assert one.grad is not None
            assert other.grad is not None
            torch.testing.assert_close(one.grad, other.grad[places], rtol=1e-8, atol=1e-11)


def test_a_member_that_breaks_leaves_the_others_alone() -> None:
    network, rows = make(), table(9)
    expected = losses(network, rows)
    with torch.no_grad():
        network.blocks[0].samples.key.weight[1, 0, 0] = torch.nan
    broken = losses(network, rows)
    assert broken[1].isnan()
    assert torch.equal(broken[[0, 2]], expected[[0, 2]])
    broken[[0, 2]].sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad[[0, 2]].isfinite().all(), name


def test_predictions_are_those_of_each_member_alone() -> None:
    network, rows, stored = make(), table(7), table(12, seed=1)
    whole = network.predict(rows, network.store(stored))
    for k in range(K):
        one = make([k])
        alone = one.predict(rows[k : k + 1], one.store(stored[k : k + 1]))
        torch.testing.assert_close(alone, whole[k : k + 1], rtol=1e-10, atol=1e-12)


# ---- initial parameters ----


def test_initial_parameters_depend_on_the_seed_alone() -> None:
    torch.manual_seed(0)
    together = make()
    torch.manual_seed(1)  # the global generator has no part in it
    for places in ([1], [2, 0], [1, 1, 0]):
        some = make(places)
        for name, tensor in some.state_dict().items():
            assert torch.equal(tensor, together.state_dict()[name][places]), name


def test_members_of_other_seeds_differ_in_all_that_is_drawn() -> None:
    network = make()
    for name, parameter in network.named_parameters():
        drawn = not name.endswith(("norm.gain", "norm.shift"))
        assert torch.equal(parameter[0], parameter[1]) is not drawn, name


def test_members_of_equal_seed_are_equal_and_stay_so() -> None:
    architecture = Architecture(WIDTHS, 1, n_blocks=2, n_networks=2, embedding_dim=4)
    network, rows = Hopular(architecture, [5, 6, 5]), table(9)[:1].float().expand(3, -1, -1)
    for parameter in network.parameters():
        assert torch.equal(parameter[0], parameter[2])
    predicted = network.predict(rows, network.store(rows))
    assert torch.equal(predicted[0], predicted[2])
    assert not torch.allclose(predicted[0], predicted[1])
    predicted.square().sum().backward()
    for name, parameter in network.named_parameters():
        if parameter.grad is not None:
            assert torch.equal(parameter.grad[0], parameter.grad[2]), name


def test_draws_have_the_bounds_and_spread_asked_for() -> None:
    draw = Draw([0, 1])
    assert draw.count == 2
    uniform = draw.uniform(5000, 2, bound=torch.tensor([0.1, 3.0]))
    assert isinstance(uniform, nn.Parameter)
    for column, bound in ((uniform[..., 0], 0.1), (uniform[..., 1], 3.0)):
        assert column.abs().amax(1).tolist() == pytest.approx([bound] * 2, rel=0.01)
        assert column.mean(1).tolist() == pytest.approx([0, 0], abs=0.05 * bound)
    spread = draw.normal(5000, scale=0.3)
    assert spread.std(1).tolist() == pytest.approx([0.3, 0.3], rel=0.05)
    assert not torch.equal(spread[0], spread[1])
    assert draw.constant(3, value=2.0).tolist() == [[2.0] * 3] * 2


# ---- selection ----


@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
def test_members_that_are_left_go_on_as_they_would_have(embedding: str, values: str, summary: str) -> None:
    """In any order; parameters and betas alike."""
    network, rows = make(embedding=embedding, values=values, summary=summary), table(9)
    of_all = losses(network, rows)
    of_all.sum().backward()
    expected = of_all.detach()
    del of_all  # and its graph
    gradients = {name: p.grad for name, p in network.named_parameters()}
    parameters = list(network.parameters())
    network.select([2, 0])
    assert all(p is q for p, q in zip(network.parameters(), parameters, strict=True))
    assert all(p.grad is None for p in network.parameters())
    of_members = losses(network, rows[[2, 0]], places=[2, 0])
    torch.testing.assert_close(of_members, expected[[2, 0]], rtol=1e-10, atol=1e-12)
    of_members.sum().backward()
    for name, p in network.named_parameters():
        gradient = gradients[name]
        assert gradient is not None
        assert p.grad is not None
        torch.testing.assert_close(p.grad, gradient[[2, 0]], rtol=1e-8, atol=1e-11)
    assert network.blocks[0].samples.beta.flatten().tolist() == pytest.approx([3 / 10**0.5, 1 / 10**0.5])


@pytest.mark.parametrize(("embedding", "values", "summary"), OPTIONS)
def test_every_tensor_of_a_state_belongs_to_members(embedding: str, values: str, summary: str) -> None:
    state = make(embedding=embedding, values=values, summary=summary).state_dict()
    assert all(len(tensor) == K for tensor in state.values())


def test_a_copy_of_some_members_leaves_the_stack_as_it_is() -> None:
    network, rows = make(), table(9)
    before = copy.deepcopy(network.state_dict())
    chosen = pick(network, [1])
    assert all(len(p) == 1 for p in chosen.parameters())
    torch.testing.assert_close(
        chosen.predict(rows[1:2], chosen.store(rows[1:2])), network.predict(rows, network.store(rows))[1:2]
    )
    with torch.no_grad():
        for parameter in chosen.parameters():
            parameter.zero_()
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_network_has_to_predict_and_by_itself_stores_nothing() -> None:
    with pytest.raises(TypeError, match=r"abstract method '?predict"):
        Network()

    class Zero(Network):
        def predict(self, rows: Tensor, memory: Memory) -> Tensor:
            return torch.zeros(len(rows), 1, rows.shape[-1])

    network = Zero()
    assert type(network.store(table(5))) is Memory
    assert network.predict(table(5), network.store(table(5))).shape[-1] == 5


def test_generators_go_on_from_their_states() -> None:
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    states = generator_states(generators)
    first = [torch.rand(3, generator=g) for g in generators]
    restore_generators(generators, states)
    assert all(torch.equal(torch.rand(3, generator=g), f) for g, f in zip(generators, first, strict=True))
    with pytest.raises(ValueError, match="zip"):
        restore_generators(generators[:1], states)


# ---- layers ----


def test_a_linear_map_is_that_of_each_member() -> None:
    linear, x = Linear(Draw(SEEDS), 5, 4).double(), normal(0, K, 5, 7)
    for k in range(K):
        torch.testing.assert_close(linear(x)[k], F.linear(x[k].T, linear.weight[k], linear.bias[k, :, 0]).T)
    bound = 5**-0.5
    assert linear.weight.abs().max() <= bound
    assert linear.bias.abs().max() <= bound


@pytest.mark.parametrize("units", [1, 2, 7])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_norm_is_layer_norm_over_the_units(units: int, scale: float) -> None:
    norm = Norm(Draw(SEEDS), units).double()
    with torch.no_grad():
        norm.gain.copy_(normal(1, K, units, 1))
        norm.shift.copy_(normal(2, K, units, 1))
    x = (scale * normal(0, K, units, 5) + 3).requires_grad_()
    direction = normal(3, K, units, 5)
    inputs = [x, norm.gain, norm.shift]
    expected = torch.stack([F.layer_norm(x[k].T, [units], norm.gain[k, :, 0], norm.shift[k, :, 0]).T for k in range(K)])
    torch.testing.assert_close(norm(x), expected)
    for one, other in zip(
        torch.autograd.grad((norm(x) * direction).sum(), inputs),
        torch.autograd.grad((expected * direction).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


def test_gradients_of_normalisation_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(normalise, [normal(0, 2, 3, 4).requires_grad_()])
    flat = torch.full((1, 4, 2), 3.0, requires_grad=True)  # no variance
    normalise(flat).sum().backward()
    assert flat.grad is not None
    assert flat.grad.isfinite().all()


@pytest.mark.parametrize("rounded", [False, True])
def test_maps_of_the_same_rows_are_taken_together(rounded: bool) -> None:
    """With rounded factors the results are close, gradients of all of them too, and everything stays float32."""
    draw, x = Draw(SEEDS), normal(0, K, 40, 6).float().requires_grad_()
    maps = [Linear(draw, 40, outputs) for outputs in (3, 5, 4)]
    inputs = [x, *(p for one in maps for p in (one.weight, one.bias))]
    directions = [normal(i, K, outputs, 6).float() for i, outputs in enumerate((3, 5, 4))]

    def results() -> list[Tensor]:
        together = map_together(x, maps)
        total = sum((y * v).sum() for y, v in zip(together, directions, strict=True))
        return [*together, *torch.autograd.grad(total, inputs)]

    expected = results()
    for one in maps:
        one.rounds = rounded
    for actual, exact in zip(results(), expected, strict=True):
        assert actual.dtype == torch.float32
        if rounded:
            torch.testing.assert_close(actual, exact, rtol=0, atol=0.02 * exact.abs().max().item())
        else:
            assert torch.equal(actual, exact)
    if rounded:
        assert not torch.equal(results()[0], expected[0])


def test_products_are_rounded_where_they_are_wide_enough_to_gain_by_it() -> None:
    network = make()
    network.round_products()
    linears = [module for module in network.modules() if isinstance(module, Linear)]
    assert [one.rounds for one in linears] == [one.weight.shape[2] >= NARROW for one in linears]
    assert not any(one.rounds for one in linears)  # 20 and 4 inputs
    wide = make(embedding_dim=NARROW)
    wide.round_products()
    assert all(one.rounds for one in wide.modules() if isinstance(one, Linear))
