"""LAMB against the same update written for one member and one tensor at a time, in float64."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hopular.model.architecture import Architecture
from hopular.model.lamb import Lamb, Lookahead
from hopular.model.members import Draw, Linear
from hopular.model.network import Hopular

MEMBERS = 3
SHAPES = [(100, 100), (3,), (1,), (40, 7), (90, 100), (1, 5), (2, 8192), (17,), (7, 40), (5,)]  # some of equal size
RATES = [0.01, 0.02, 0.01, 0.005, 0.001]


def draws(scale: float, seed: int, members: int = MEMBERS) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [scale * torch.randn(members, *shape, generator=generator) for shape in SHAPES]


def history_of(scale: float, steps: int) -> list[list[Tensor]]:
    """Gradients of each step; those of each member are larger than those of the one before."""
    grows = 4.0 ** torch.arange(MEMBERS)
    return [[g * grows.view(-1, *[1] * (g.dim() - 1)) for g in draws(scale * (1 + t), 1 + t)] for t in range(steps)]


def lamb(
    weights: list[Tensor], history: list[list[Tensor]], rates: Sequence[float], **options: Any
) -> list[list[Tensor]]:
    """The weights of one member after each step: clip, moments with bias correction, decay, trust ratio."""
    beta1, beta2 = options.get("betas", (0.9, 0.999))
    epsilon, weight_decay = options.get("epsilon", 1e-6), options.get("weight_decay", 0.1)
    norm_limit, limit = options.get("max_gradient_norm", 1.0), options.get("max_gradient")
    weights = [w.double() for w in weights]
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    states = []
    for t, (step_gradients, rate) in enumerate(zip(history, rates, strict=True), start=1):
        gradients = [g.double() for g in step_gradients]
        if limit is not None:
            gradients = [g.clamp(-limit, limit) for g in gradients]
        norm = torch.cat([g.flatten() for g in gradients]).norm().item()
        for i, gradient in enumerate(gradients):
            g = gradient if norm_limit is None else gradient / max(1.0, norm / norm_limit)
            first[i] = beta1 * first[i] + (1 - beta1) * g
            second[i] = beta2 * second[i] + (1 - beta2) * g**2
            m, v = first[i] / (1 - beta1**t), second[i] / (1 - beta2**t)
            update = m / (v.sqrt() + epsilon) + weight_decay * weights[i]
            weight_norm, update_norm = weights[i].norm().item(), update.norm().item()
            ratio = min(weight_norm, 10.0) / update_norm if weight_norm > 0 and update_norm > 0 else 1.0
            weights[i] = weights[i] - rate * ratio * update
        states.append(list(weights))
    return states


def of_member(tensors: Sequence[Tensor], k: int) -> list[Tensor]:
    return [t.detach()[k] for t in tensors]


class Run:
    """Fast and slow weights, and the optimiser that moves them by given gradients."""

    def __init__(self, weights: list[Tensor], kind: type[Lamb] = Lamb, **options: Any) -> None:
        self.fast, self.slow = ([nn.Parameter(w.clone()) for w in weights] for _ in range(2))
        self.optimizer = kind(self.fast, self.slow, **options)

    def step(self, gradients: list[Tensor], rate: float) -> Run:
        for parameter, gradient in zip(self.fast, gradients, strict=True):
            (parameter * gradient).sum().backward()
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        return self

    def steps(self, history: list[list[Tensor]], rates: Sequence[float]) -> Run:
        for gradients, rate in zip(history, rates, strict=True):
            self.step(gradients, rate)
        return self

    def select(self, members: list[int]) -> None:
        for parameter in (*self.fast, *self.slow):
            parameter.data = parameter.data[members]
            parameter.grad = None
        self.optimizer.select(members)


def assert_moved(actual: list[Tensor], expected: list[Tensor], start: list[Tensor]) -> None:
    """Equal where it matters: in the distance travelled, not in the digits of the start."""
    for a, e, s in zip(actual, expected, start, strict=True):
        moved = e - s.double()
        torch.testing.assert_close(
            a.detach().double() - s.double(), moved, rtol=0, atol=1e-3 * moved.abs().max().item()
        )


def assert_equal(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for a, e in zip(actual, expected, strict=True):
        assert torch.equal(a, e)


# ---- the update ----


@pytest.mark.parametrize("gradient_scale", [1e-5, 2e-3, 10.0], ids=["unclipped", "some members", "clipped"])
@pytest.mark.parametrize("weight_scale", [0.02, 0.2], ids=["norms below 10", "large tensors above"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_equal_the_update_of_each_member_tensor_by_tensor(
    gradient_scale: float, weight_scale: float, weight_decay: float
) -> None:
    weights, history = draws(weight_scale, 0), history_of(gradient_scale, 5)
    norms = torch.stack([torch.cat([g[k].flatten() for g in history[0]]).norm() for k in range(MEMBERS)])
    clipped = {1e-5: [False] * 3, 2e-3: [False, True, True], 10.0: [True] * 3}
    assert (norms > 1).tolist() == clipped[gradient_scale]
    run = Run(weights, slow_rate=0.3, weight_decay=weight_decay).steps(history, RATES)
    for k in range(MEMBERS):
        own = of_member(weights, k)
        states = lamb(own, [of_member(g, k) for g in history], RATES, weight_decay=weight_decay)
        assert_moved(of_member(run.fast, k), states[-1], own)

        average = [w.double() for w in own]
        for state in states:
            average = [(1 - 0.3) * a + 0.3 * w for a, w in zip(average, state, strict=True)]
        assert_moved(of_member(run.slow, k), average, own)


@pytest.mark.parametrize(
    "options",
    [
        {"betas": (0.5, 0.7), "epsilon": 0.1, "weight_decay": 0.3, "max_gradient_norm": 5.0},
        {"max_gradient_norm": None},
        {"max_gradient_norm": None, "max_gradient": 0.05},
        {"max_gradient_norm": 2.0, "max_gradient": 0.05},
    ],
)
def test_other_constants_are_used(options: dict[str, Any]) -> None:
    weights, history = draws(0.1, 0), history_of(0.05, 3)
    run = Run(weights, **options).steps(history, [0.01] * 3)
    for k in range(MEMBERS):
        own, gradients = of_member(weights, k), [of_member(g, k) for g in history]
        assert_moved(of_member(run.fast, k), lamb(own, gradients, [0.01] * 3, **options)[-1], own)
    plain = Run(weights).steps(history, [0.01] * 3)
    assert not torch.allclose(run.fast[0], plain.fast[0], rtol=0, atol=1e-6)


def test_zero_weights_move_at_the_plain_rate() -> None:
    """The trust ratio of a tensor without norm is 1: biases that start at zero learn too."""
    weights = [torch.zeros(MEMBERS, *shape) for shape in SHAPES]
    gradients = draws(1e-3, 0)  # the first step of Adam is the sign of the gradient
    run = Run(weights, epsilon=1e-15).step(gradients, 0.01)
    for parameter, gradient in zip(run.fast, gradients, strict=True):
        torch.testing.assert_close(parameter.detach(), -0.01 * gradient.sign(), rtol=1e-4, atol=0)


def test_a_zero_gradient_without_decay_moves_nothing() -> None:
    weights = draws(0.1, 0)
    run = Run(weights, weight_decay=0.0).step([torch.zeros_like(w) for w in weights], 0.01)
    assert_equal(run.fast, weights)
    assert_equal(run.slow, weights)


def test_the_scale_of_a_tensors_gradient_does_not_matter() -> None:
    """LAMB without decay is invariant to it, as long as epsilon and clipping play no part."""
    weights, gradients = draws(0.1, 0), draws(1e-6, 1)
    scaled = [g * 8.0 ** (i % 3) for i, g in enumerate(gradients)]
    one, other = (Run(weights, epsilon=1e-20, weight_decay=0.0).step(g, 0.01) for g in (gradients, scaled))
    for a, b in zip(one.fast, other.fast, strict=True):
        torch.testing.assert_close(a, b)


# ---- members ----


def test_a_member_moves_alone_as_in_any_stack() -> None:
    """Its norms are sums in another order, hence the tolerance; members of equal weights stay equal bit for bit."""
    weights, history = draws(0.1, 0), history_of(0.05, 4)
    together = Run(weights).steps(history, RATES[:4])
    for places in ([1], [2, 1], [2, 1, 0]):
        some = Run([w[places] for w in weights]).steps([[g[places] for g in step] for step in history], RATES[:4])
        for a, b in zip((*some.fast, *some.slow), (*together.fast, *together.slow), strict=True):
            torch.testing.assert_close(a, b[places], rtol=1e-5, atol=1e-7)
    twins = Run([w[[0, 1, 0]] for w in weights]).steps([[g[[0, 1, 0]] for g in step] for step in history], RATES[:4])
    assert_equal([p[0] for p in twins.fast], [p[2] for p in twins.fast])


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_a_member_that_breaks_leaves_the_others_alone(bad: float) -> None:
    weights, history = draws(0.1, 0), history_of(0.05, 3)
    expected = Run(weights).steps(history, RATES[:3])
    history[0][0][1, 0, 0] = bad
    broken = Run(weights).steps(history, RATES[:3])
    for a, b in zip((*broken.fast, *broken.slow), (*expected.fast, *expected.slow), strict=True):
        torch.testing.assert_close(a[[0, 2]], b[[0, 2]], rtol=1e-5, atol=1e-7)
        assert not torch.equal(a[1], b[1])


@pytest.mark.parametrize("kind", [Lamb, Lookahead])
def test_members_that_are_left_go_on_as_they_would_have(kind: type[Lamb]) -> None:
    weights, history, left = draws(0.1, 0), history_of(0.05, 8), [2, 0]
    whole, part = (Run(weights, kind).steps(history[:3], RATES[:3]) for _ in range(2))
    part.select(left)
    for gradients in history[3:]:
        whole.step(gradients, 0.01)
        part.step([g[left] for g in gradients], 0.01)
    for a, b in zip((*part.fast, *part.slow), (*whole.fast, *whole.slow), strict=True):
        torch.testing.assert_close(a, b[left], rtol=1e-5, atol=1e-7)
    if kind is Lamb:
        assert not torch.equal(part.fast[0], part.slow[0])
    assert torch.equal(
        torch.cat([p.flatten() for p in sorted(part.slow, key=lambda p: p.numel())]), part.optimizer.slow
    )


def test_members_of_a_network_are_left_with_its_optimiser() -> None:
    """As in training: network and slow network are cut first, the optimiser then."""
    architecture = Architecture((1, 1, 3), 2, n_blocks=1, n_networks=2, embedding_dim=4)

    def gradients(network: Hopular, members: list[int]) -> None:
        rows = torch.tensor([[[0.5, -1, 0.2], [1, 2, -1], [0, 1, 2]]] * 3)[members]
        losses = network.predict(rows, network.store(rows)).square().sum((1, 2))
        losses.sum().backward()

    runs = []
    for cut in (False, True):
        network = Hopular(architecture, [5, 6, 7])
        slow = copy.deepcopy(network).requires_grad_(False)
        optimizer = Lamb(network.parameters(), slow.parameters(), slow_rate=0.3, lr=0.01)
        members = [0, 1, 2]
        for t in range(6):
            if cut and t == 3:
                members = [2, 1]
                network.select(members)
                slow.select(members)
                optimizer.select(members)
            gradients(network, members)
            optimizer.step()
        runs.append((network, slow))
    for whole, part in zip(*runs, strict=True):
        for name, tensor in part.state_dict().items():
            torch.testing.assert_close(tensor, whole.state_dict()[name][[2, 1]], rtol=1e-5, atol=1e-6)


# ---- a torch optimiser ----


def test_parameters_stay_those_of_the_network_in_a_usual_training_loop() -> None:
    """The optimiser may move their storage, but a step must be seen by the network and its gradients by the step."""
    network, slow = (Linear(Draw([0, 1]), 4, 1) for _ in range(2))
    optimizer = Lamb(network.parameters(), slow.parameters(), slow_rate=0.1, weight_decay=0.0, lr=0.05)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=300)
    assert isinstance(optimizer, torch.optim.Optimizer)
    x = torch.randn(2, 4, 64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[1.0, -2, 0.5, 0], [0, 1, 1, -1]])[:, None] @ x
    losses = []
    for _ in range(300):
        optimizer.zero_grad()
        loss = (network(x) - y).square().mean((1, 2))
        losses.append(loss.detach())
        loss.sum().backward()
        optimizer.step()
        schedule.step()
    assert (losses[-1] < 0.01 * losses[0]).all()
    assert ((slow(x) - y).square().mean((1, 2)) < 0.02 * losses[0]).all()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.0)


@pytest.mark.parametrize("schedule", ["cosine", "one cycle"])
def test_schedulers_of_torch_drive_the_rate(schedule: str) -> None:
    weights, gradients = draws(0.1, 0), draws(1e-3, 1)
    run = Run(weights, lr=0.02, weight_decay=0.0)
    if schedule == "cosine":
        scheduler: Any = torch.optim.lr_scheduler.CosineAnnealingLR(run.optimizer, 10)
    else:
        scheduler = torch.optim.lr_scheduler.OneCycleLR(run.optimizer, 0.02, total_steps=10, cycle_momentum=False)
    for _ in range(9):
        rate, before = run.optimizer.param_groups[0]["lr"], run.fast[0].detach().clone()
        for parameter, gradient in zip(run.fast, gradients, strict=True):
            (parameter * gradient).sum().backward()
        run.optimizer.step()
        scheduler.step()
        moved = (run.fast[0].detach() - before).flatten(1).norm(dim=1) / before.flatten(1).norm(dim=1).clamp(max=10)
        assert moved.tolist() == pytest.approx([rate] * MEMBERS, rel=1e-2)
    assert run.optimizer.param_groups[0]["lr"] != pytest.approx(0.02)


def test_gradients_are_consumed_and_the_slow_weights_have_none() -> None:
    run = Run(draws(0.1, 0)).step(draws(0.1, 1), 0.01)
    assert all(p.grad is None for p in (*run.fast, *run.slow))


@pytest.mark.parametrize("who", ["optimizer", "optimizer, to zero", "network"])
def test_gradients_can_be_forgotten(who: str) -> None:
    weights, gradients = draws(0.1, 0), draws(0.1, 1)
    expected, run = Run(weights).step(gradients, 0.01), Run(weights)
    for _ in range(2):
        sum((p.sum() for p in run.fast), torch.zeros(())).backward()
        if who == "network":
            nn.ParameterList(run.fast).zero_grad()
        else:
            run.optimizer.zero_grad(set_to_none=who == "optimizer")
    assert_equal(run.step(gradients, 0.01).fast, expected.fast)


def test_a_closure_computes_the_loss_and_its_gradients() -> None:
    weights, gradients = draws(0.1, 0), draws(0.1, 1)
    expected, run = Run(weights).step(gradients, 1e-3), Run(weights)

    def closure() -> Tensor:
        run.optimizer.zero_grad()
        loss = sum(((p * g).sum() for p, g in zip(run.fast, gradients, strict=True)), torch.zeros(()))
        loss.backward()
        return loss

    loss = run.optimizer.step(closure)
    assert loss.item() == pytest.approx(
        sum(float((w * g).sum()) for w, g in zip(weights, gradients, strict=True)), rel=1e-4
    )
    assert_equal(run.fast, expected.fast)


def test_a_parameter_without_gradient_does_not_disturb_the_others() -> None:
    weights, gradients = draws(0.1, 0), draws(1e-3, 1)
    gradients[3] = torch.zeros_like(gradients[3])
    expected = Run(weights, weight_decay=0.0).step(gradients, 0.01)
    run = Run(weights, weight_decay=0.0, lr=0.01)
    for i, (parameter, gradient) in enumerate(zip(run.fast, gradients, strict=True)):
        if i != 3:
            (parameter * gradient).sum().backward()
    run.optimizer.step()
    assert_equal(run.fast, expected.fast)


@pytest.mark.parametrize("kind", [Lamb, Lookahead])
def test_a_stored_state_continues_bit_for_bit(kind: type[Lamb]) -> None:
    weights, history = draws(0.1, 0), history_of(0.05, 9)
    options: dict[str, Any] = {"slow_rate": 0.2} if kind is Lamb else {"k": 3, "alpha": 0.4}
    run = Run(weights, kind, weight_decay=0.2, **options).steps(history[:4], RATES[:4])
    state = copy.deepcopy(run.optimizer.state_dict())
    other = Run([p.detach() for p in run.fast], kind, **({} if kind is Lamb else {"k": 3}))
    for parameter, value in zip(other.slow, run.slow, strict=True):
        parameter.data.copy_(value)
    other.optimizer.load_state_dict(state)
    assert other.optimizer.param_groups[0]["lr"] == RATES[3]
    assert other.optimizer.param_groups[0]["weight_decay"] == 0.2
    run.steps(history[4:], RATES)
    assert not torch.equal(state["state"][0]["first"], run.optimizer.state_dict()["state"][0]["first"])
    for _ in range(2):  # a state may be loaded again: going on has not changed it
        other.optimizer.load_state_dict(state)
    other.steps(history[4:], RATES)
    assert_equal((*other.fast, *other.slow), (*run.fast, *run.slow))


def test_a_state_is_loaded_into_the_slow_weights_of_the_network() -> None:
    run, other = (Run(draws(0.1, seed)) for seed in (0, 5))
    run.step(draws(0.1, 1), 0.01)
    other.optimizer.load_state_dict(run.optimizer.state_dict())
    assert_equal(other.slow, run.slow)
    assert not torch.equal(other.fast[0], run.fast[0])  # the weights themselves are the network's to store


# ---- Lookahead ----


def test_lookahead_brings_slow_and_fast_weights_together_every_k_steps() -> None:
    weights, history = draws(0.1, 0), history_of(0.05, 7)
    run = Run(weights, Lookahead, alpha=0.4, k=3)
    fast_runs = {}
    for t, gradients in enumerate(history, start=1):
        before = [p.detach().clone() for p in run.slow]
        run.step(gradients, 0.01)
        fast_runs[t] = [p.detach().clone() for p in run.fast]
        if t % 3:
            assert_equal(run.slow, before)
            assert not torch.equal(run.fast[0], run.slow[0])
        else:
            assert_equal(run.fast, run.slow)
    inner = Run(weights).steps(history[:3], [0.01] * 3)  # LAMB without Lookahead
    for w, fast, slow in zip(weights, inner.fast, fast_runs[3], strict=True):
        torch.testing.assert_close(slow, w + 0.4 * (fast.detach() - w))
    assert torch.equal(fast_runs[2][0], Run(weights).steps(history[:2], [0.01] * 2).fast[0])


def test_lookahead_keeps_the_moments_when_it_goes_back() -> None:
    weights, history = draws(0.1, 0), history_of(0.05, 4)
    plain, gone_back = (
        run.steps(history[:3], [0.01] * 3).optimizer for run in (Run(weights), Run(weights, Lookahead, k=3))
    )
    assert not torch.equal(plain.flat, gone_back.flat)
    for moment in ("first", "second"):
        assert torch.equal(*(run.state_dict()["state"][0][moment] for run in (plain, gone_back)))


# ---- the length of steps, beside the released code ----


def released_lamb(weights: list[Tensor], history: list[list[Tensor]], rate: float) -> list[list[Tensor]]:
    """The weights after each step of the released code's LAMB, which corrects the bias behind the trust ratio."""
    weights = [w.double() for w in weights]
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    states = [list(weights)]
    for t, gradients in enumerate(history, start=1):
        for i, gradient in enumerate(g.double() for g in gradients):
            first[i] = 0.9 * first[i] + 0.1 * gradient
            second[i] = 0.999 * second[i] + 0.001 * gradient**2
            update = first[i] / (second[i].sqrt() + 1e-6) + 0.1 * weights[i]
            ratio = min(weights[i].norm().item(), 10.0) / update.norm().item()
            correction = math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            weights[i] = weights[i] - rate * correction * ratio * update
        states.append(list(weights))
    return states


PAGE = Path(__file__).parents[2] / "docs" / "architecture-options.md"
DOCUMENTED = [  # the table of the page: at step t, ours is so many times as long
    (int(t), float(factor))
    for t, factor in re.findall(r"^\| (\d+) \| ([\d.]+) \|$", PAGE.read_text(encoding="utf-8"), re.M)
]


def test_the_page_says_how_much_longer_the_first_steps_are() -> None:
    assert [t for t, _ in DOCUMENTED] == [1, 10, 100, 400]


@pytest.mark.parametrize(("t", "factor"), DOCUMENTED)
def test_steps_are_larger_than_those_of_the_released_code_by_its_bias_correction(t: int, factor: float) -> None:
    """A step of LAMB is as long as the rate times the (clamped) norm of the weights, whatever the gradients' size.

    So a bias correction inside the trust ratio (You et al. 2020, and here) does not change the length of a step. The
    released code applies it behind the trust ratio, where it shortens the first thousands of steps.
    """
    rate, shapes = 1e-3, [(30, 20), (200, 100), (7,)]  # the second has a norm above 10
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(2, *shape, generator=generator) for shape in shapes]
    history = [[1e-3 * torch.randn(2, *shape, generator=generator) for shape in shapes] for _ in range(t)]
    run = Run(weights).steps(history[:-1], [rate] * (t - 1))
    before = [p.detach().clone() for p in run.fast]
    run.step(history[-1], rate)
    correction = math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    assert 1 / correction == pytest.approx(factor, abs=0.05)
    for k in range(2):
        theirs = released_lamb(of_member(weights, k), [of_member(g, k) for g in history], rate)
        for i, after in enumerate(run.fast):
            ours = (after[k] - before[i][k]).norm().item() / min(before[i][k].norm().item(), 10.0)
            released = (theirs[t][i] - theirs[t - 1][i]).norm().item() / min(theirs[t - 1][i].norm().item(), 10.0)
            assert ours == pytest.approx(rate, rel=1e-3)
            assert released == pytest.approx(rate * correction)
            assert ours / released == pytest.approx(factor, abs=0.05)
