"""LAMB against the same update written for one tensor at a time, in float64."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hopular.model.optimizer import Lamb, LambSettings

SHAPES = [(300, 300), (3,), (1,), (40, 7), (90, 100), (1, 5), (2, 65_536), (17,)]


def draws(scale: float, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [scale * torch.randn(shape, generator=generator) for shape in SHAPES]


def lamb(
    weights: list[Tensor], history: list[list[Tensor]], rates: list[float], settings: LambSettings
) -> list[list[Tensor]]:
    """The weights after each step: clip, moments with bias correction, decay, trust ratio."""
    weights = [w.double() for w in weights]
    first, second = ([torch.zeros_like(w) for w in weights] for _ in range(2))
    states = []
    for t, (gradients, rate) in enumerate(zip(history, rates, strict=True), start=1):
        norm = torch.cat([g.double().flatten() for g in gradients]).norm().item()
        for i, gradient in enumerate(gradients):
            g = gradient.double() / max(1.0, norm / settings.max_gradient_norm)
            first[i] = settings.beta1 * first[i] + (1 - settings.beta1) * g
            second[i] = settings.beta2 * second[i] + (1 - settings.beta2) * g**2
            m, v = first[i] / (1 - settings.beta1**t), second[i] / (1 - settings.beta2**t)
            update = m / (v.sqrt() + settings.epsilon) + settings.weight_decay * weights[i]
            weight_norm, update_norm = weights[i].norm().item(), update.norm().item()
            ratio = min(weight_norm, 10.0) / update_norm if weight_norm > 0 and update_norm > 0 else 1.0
            weights[i] = weights[i] - rate * ratio * update
        states.append(list(weights))
    return states


def run(
    weights: list[Tensor], history: list[list[Tensor]], rates: list[float], slow_rate: float, settings: LambSettings
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    fast, slow = ([nn.Parameter(w.clone()) for w in weights] for _ in range(2))
    optimizer = Lamb(fast, slow, slow_rate, settings)
    for gradients, rate in zip(history, rates, strict=True):
        for parameter, gradient in zip(fast, gradients, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step(rate)
    return fast, slow


def assert_moved(actual: list[nn.Parameter], expected: list[Tensor], start: list[Tensor]) -> None:
    """Equal where it matters: in the distance travelled, not in the digits of the start."""
    for a, e, s in zip(actual, expected, start, strict=True):
        moved = e - s.double()
        torch.testing.assert_close(
            a.detach().double() - s.double(), moved, rtol=0, atol=1e-3 * moved.abs().max().item()
        )


@pytest.mark.parametrize("gradient_scale", [1e-5, 1e-3, 10.0], ids=["unclipped", "about the limit", "clipped"])
@pytest.mark.parametrize("weight_scale", [0.02, 0.2], ids=["norms below 10", "large tensors above"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_equal_the_update_tensor_by_tensor(
    gradient_scale: float, weight_scale: float, weight_decay: float
) -> None:
    weights = draws(weight_scale, 0)
    history = [draws(gradient_scale * (1 + t), 1 + t) for t in range(5)]
    rates = [0.01, 0.02, 0.01, 0.005, 0.001]
    settings = LambSettings(weight_decay=weight_decay)
    fast, slow = run(weights, history, rates, 0.3, settings)
    states = lamb(weights, history, rates, settings)
    assert_moved(fast, states[-1], weights)

    average = [w.double() for w in weights]
    for state in states:
        average = [(1 - 0.3) * a + 0.3 * w for a, w in zip(average, state, strict=True)]
    assert_moved(slow, average, weights)


def test_other_constants_are_used() -> None:
    settings = LambSettings(beta1=0.5, beta2=0.7, epsilon=0.1, weight_decay=0.3, max_gradient_norm=5.0)
    weights, history = draws(0.1, 0), [draws(0.1, 1 + t) for t in range(3)]
    fast, _ = run(weights, history, [0.01] * 3, 0.5, settings)
    assert_moved(fast, lamb(weights, history, [0.01] * 3, settings)[-1], weights)


def test_zero_weights_move_at_the_plain_rate() -> None:
    """The trust ratio of a tensor without norm is 1: biases that start at zero learn too."""
    weights = [torch.zeros(shape) for shape in SHAPES]
    gradients = draws(1e-3, 0)  # the first step of Adam is the sign of the gradient
    fast, _ = run(weights, [gradients], [0.01], 0.5, LambSettings(epsilon=1e-12))
    for parameter, gradient in zip(fast, gradients, strict=True):
        torch.testing.assert_close(parameter.detach(), -0.01 * gradient.sign(), rtol=1e-4, atol=0)


def test_a_zero_gradient_without_decay_moves_nothing() -> None:
    weights = draws(0.1, 0)
    gradients = [torch.zeros_like(w) for w in weights]
    fast, slow = run(weights, [gradients], [0.01], 0.5, LambSettings(weight_decay=0.0))
    for parameters in (fast, slow):
        assert all(torch.equal(p, w) for p, w in zip(parameters, weights, strict=True))


def test_the_scale_of_a_tensors_gradient_does_not_matter() -> None:
    """LAMB without decay is invariant to it, as long as epsilon and clipping play no part."""
    weights, gradients = draws(0.1, 0), draws(1e-6, 1)
    settings = LambSettings(epsilon=1e-20, weight_decay=0.0)
    fast, _ = run(weights, [gradients], [0.01], 0.5, settings)
    scaled, _ = run(weights, [[g * 8.0 ** (i % 3) for i, g in enumerate(gradients)]], [0.01], 0.5, settings)
    for a, b in zip(fast, scaled, strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_are_consumed_and_the_slow_weights_have_none() -> None:
    fast, slow = run(draws(0.1, 0), [draws(0.1, 1)], [0.01], 0.1, LambSettings())
    assert all(p.grad is None for p in (*fast, *slow))


def test_a_parameter_without_gradient_does_not_disturb_the_others() -> None:
    weights, gradients = draws(0.1, 0), draws(1e-3, 1)
    gradients[3] = torch.zeros(SHAPES[3])
    expected, _ = run(weights, [gradients], [0.01], 0.5, LambSettings(weight_decay=0.0))
    fast = [nn.Parameter(w.clone()) for w in weights]
    optimizer = Lamb(fast, [nn.Parameter(w.clone()) for w in weights], 0.5, LambSettings(weight_decay=0.0))
    for i, parameter in enumerate(fast):
        parameter.grad = None if i == 3 else gradients[i].clone()
    optimizer.step(0.01)
    for a, e in zip(fast, expected, strict=True):
        torch.testing.assert_close(a, e)


def test_parameters_stay_those_of_the_network() -> None:
    """The optimiser may move their storage, but a step must be seen by the network and its gradients by the step."""
    torch.manual_seed(0)
    network, slow = nn.Linear(4, 1, bias=False), nn.Linear(4, 1, bias=False)
    slow.load_state_dict(network.state_dict())
    optimizer = Lamb(network.parameters(), slow.parameters(), 0.1, LambSettings(weight_decay=0.0))
    x = torch.randn(64, 4)
    y = x @ torch.tensor([1.0, -2, 0.5, 0])
    losses = []
    for t in range(300):
        loss = (network(x).squeeze(1) - y).square().mean()
        losses.append(loss.item())
        loss.backward()
        optimizer.step(0.05 * (1 - t / 300))
    assert losses[-1] < 0.01 * losses[0]
    assert (slow(x).squeeze(1) - y).square().mean().item() < 0.02 * losses[0]


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
    weights = [torch.randn(shape, generator=generator) for shape in shapes]
    history = [[1e-3 * torch.randn(shape, generator=generator) for shape in shapes] for _ in range(t)]
    theirs = released_lamb(weights, history, rate)
    before, after = (run(weights, history[:steps], [rate] * steps, 0.5, LambSettings())[0] for steps in (t - 1, t))
    correction = math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    assert 1 / correction == pytest.approx(factor, abs=0.05)
    for i in range(len(shapes)):
        ours = (after[i] - before[i]).norm().item() / min(before[i].norm().item(), 10.0)
        released = (theirs[t][i] - theirs[t - 1][i]).norm().item() / min(theirs[t - 1][i].norm().item(), 10.0)
        assert ours == pytest.approx(rate, rel=1e-3)
        assert released == pytest.approx(rate * correction)
        assert ours / released == pytest.approx(factor, abs=0.05)
