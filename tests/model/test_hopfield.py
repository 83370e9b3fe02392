"""Section 2 of the paper as tests: energy and update, retrieval, the bounds of Theorem 1, the capacity of Theorem 2."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy.special import lambertw
from torch import Tensor

from hopular.model.hopfield import (
    capacity,
    energy,
    fixed_point_distance_bound,
    is_well_separated,
    jacobian_bound,
    retrieval_error_bound,
    retrieve,
    separation,
    update,
    well_separated_threshold,
)

BETAS = [1e-3, 0.1, 1.0, 8.0, 100.0]


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def on_sphere(seed: int, n: int, d: int, radius: float) -> Tensor:
    points = normal(seed, n, d)
    return radius * points / points.norm(dim=1, keepdim=True)


def largest_norm(patterns: Tensor) -> float:
    return float(patterns.norm(dim=1).max())


# ---- energy and update ----


def test_energy_and_update_equal_their_formulas_written_out() -> None:
    patterns = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.double)
    state = torch.tensor([0.5, 0.25], dtype=torch.double)
    e1, e2 = math.exp(3 * 0.5), math.exp(3 * 0.5)  # both patterns have the product 0.5 with the state
    expected = -math.log(e1 + e2) / 3 + math.log(2) / 3 + (0.25 + 0.0625) / 2 + 4 / 2
    assert energy(patterns, state, 3.0).item() == pytest.approx(expected, abs=1e-14)
    torch.testing.assert_close(update(patterns, state, 3.0), torch.tensor([0.5, 1.0], dtype=torch.double))


def test_a_batch_of_states_equals_the_states_one_by_one() -> None:
    patterns, states = normal(0, 7, 4), normal(1, 5, 4)
    torch.testing.assert_close(energy(patterns, states, 0.7), torch.stack([energy(patterns, s, 0.7) for s in states]))
    torch.testing.assert_close(update(patterns, states, 0.7), torch.stack([update(patterns, s, 0.7) for s in states]))


@pytest.mark.parametrize("beta", BETAS)
def test_the_update_never_increases_the_energy(beta: float) -> None:
    decreased = 0
    for seed in range(100):
        n, d = 2 + seed % 11, 1 + seed % 7
        patterns, state = normal(seed, n, d), 3 * normal(1000 + seed, 20, d)
        before = energy(patterns, state, beta)
        after = energy(patterns, update(patterns, state, beta), beta)
        assert (after <= before + 1e-12 * (1 + 1 / beta)).all()
        decreased += int((after < before).sum())
    assert decreased > 1900  # of 2000: the update does descend


@pytest.mark.parametrize("beta", BETAS)
def test_the_energy_lies_between_zero_and_twice_the_squared_largest_norm(beta: float) -> None:
    for seed in range(50):
        patterns = normal(seed, 2 + seed % 9, 3)
        m = largest_norm(patterns)
        directions = on_sphere(500 + seed, 30, 3, m)
        inside = directions * torch.linspace(0, 1, 30, dtype=torch.double)[:, None]
        assert (energy(patterns, 5 * directions, beta) >= 0).all()
        assert (energy(patterns, inside, beta) >= -1e-12 / beta).all()
        assert (energy(patterns, inside, beta) <= 2 * m**2 + 1e-12 / beta).all()


def test_both_bounds_on_the_energy_are_attained() -> None:
    pattern = on_sphere(0, 1, 5, 3.0)
    assert energy(pattern, pattern[0], 2.0).item() == pytest.approx(0.0, abs=1e-12)
    assert energy(pattern, -pattern[0], 2.0).item() == pytest.approx(2 * 9.0, abs=1e-12)


@pytest.mark.parametrize("beta", [0.1, 1.0, 8.0])
def test_the_gradient_of_the_energy_is_the_state_minus_its_update(beta: float) -> None:
    patterns, state = normal(0, 6, 4), normal(1, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(energy(patterns, state, beta), state)
    torch.testing.assert_close(gradient, (state - update(patterns, state, beta)).detach())


def test_on_normalised_patterns_the_update_is_kernel_regression() -> None:
    """Appendix, first example: Nadaraya-Watson with an RBF kernel, the labels being the patterns."""
    patterns, state = on_sphere(0, 9, 4, 1.0), on_sphere(1, 1, 4, 1.0)[0]
    kernel = torch.exp(-2.5 / 2 * (patterns - state).square().sum(1))
    torch.testing.assert_close(update(patterns, state, 2.5), kernel @ patterns / kernel.sum())


def test_on_signed_samples_the_update_is_the_gradient_of_the_adaboost_objective() -> None:
    """Appendix, second example: patterns -y_i z_i, linear model g(z) = beta xi^T z."""
    z, y = normal(0, 8, 3), torch.tensor([1.0, -1.0] * 4, dtype=torch.double)
    weights = normal(1, 3).requires_grad_()
    objective = torch.log(torch.exp(-y * 1.7 * (z @ weights)).sum()) / 1.7
    (gradient,) = torch.autograd.grad(objective, weights)
    torch.testing.assert_close(update(-y[:, None] * z, weights.detach(), 1.7), gradient)


def test_small_beta_gives_the_mean_and_large_beta_the_pattern_with_the_largest_product() -> None:
    patterns, states = normal(0, 8, 5), normal(1, 10, 5)
    mean = patterns.mean(0).expand(10, 5)
    torch.testing.assert_close(update(patterns, states, 1e-9), mean, atol=1e-7, rtol=0)
    nearest = patterns[(states @ patterns.T).argmax(1)]
    assert len(nearest.unique(dim=0)) > 1
    torch.testing.assert_close(update(patterns, states, 1e5), nearest, atol=1e-9, rtol=0)


# ---- retrieval ----


@pytest.mark.parametrize("beta", [0.01, 0.3, 2.0, 30.0])
def test_retrieval_ends_at_a_stationary_point_of_the_energy(beta: float) -> None:
    for seed in range(20):
        patterns, start = normal(seed, 6, 4), normal(100 + seed, 4)
        found, steps = retrieve(patterns, start, beta, max_steps=100_000, tolerance=1e-10)
        found = found.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(energy(patterns, found, beta), found)
        assert gradient.norm() <= 1.1e-10 * largest_norm(patterns)
        assert steps >= 1
        assert energy(patterns, found, beta) < energy(patterns, start, beta)


def test_retrieval_applies_the_update_as_many_times_as_it_says() -> None:
    patterns, state = normal(0, 6, 4), normal(1, 3, 4)
    found, steps = retrieve(patterns, state, 0.5)
    for _ in range(steps):
        state = update(patterns, state, 0.5)
    assert steps > 1
    assert torch.equal(found, state)
    assert retrieve(patterns, found, 0.5, max_steps=0)[1] == 0


def test_retrieval_that_runs_out_of_steps_says_so() -> None:
    with pytest.raises(
        RuntimeError, match=r"no fixed point after max_steps=1 updates: .* raise max_steps or tolerance"
    ):
        retrieve(normal(0, 6, 4), normal(1, 4), 0.5, max_steps=1)


def test_similar_patterns_share_a_metastable_state_near_their_mean() -> None:
    patterns = torch.tensor([[3.0, 0.2, 0.0], [3.0, -0.2, 0.0], [0.0, 0.0, 3.0]], dtype=torch.double)
    assert is_well_separated(patterns, 2.0).tolist() == [False, False, True]
    mean = patterns[:2].mean(0)
    for start in patterns[:2]:
        found, _ = retrieve(patterns, start, 2.0, tolerance=1e-12)
        torch.testing.assert_close(found, mean, atol=1e-6, rtol=0)
    alone, _ = retrieve(patterns, patterns[2], 2.0)
    torch.testing.assert_close(alone, patterns[2], atol=1e-6, rtol=0)


# ---- Theorem 1 ----


def test_separation_equals_its_definition() -> None:
    patterns = normal(0, 5, 3)
    for i, delta in enumerate(separation(patterns).tolist()):
        others = [float(patterns[i] @ patterns[i] - patterns[i] @ patterns[j]) for j in range(5) if j != i]
        assert delta == pytest.approx(min(others))
    opposite = torch.tensor([[1.0, 0.0], [-2.0, 0.0]], dtype=torch.double)  # a negative product counts as it is
    assert separation(opposite).tolist() == [3.0, 6.0]


def test_well_separated_threshold_equals_its_definition() -> None:
    patterns = 2 * torch.eye(4, dtype=torch.double)  # N = 4, M = 2, every Delta_i = 4
    expected = 2 / (1.5 * 4) + math.log(2 * 3 * 4 * 1.5 * 4) / 1.5
    assert well_separated_threshold(patterns, 1.5).item() == pytest.approx(expected)
    assert is_well_separated(patterns, 1.5).tolist() == [expected <= 4.0] * 4 == [True] * 4
    assert is_well_separated(patterns, 0.5).tolist() == [False] * 4


def test_bounds_equal_their_formulas_written_out() -> None:
    patterns = 2 * torch.eye(4, dtype=torch.double)
    state = torch.tensor([2.0, 0.3, 0.0, 0.0], dtype=torch.double)
    fixed_point = torch.tensor([1.9, 0.0, 0.0, 0.0], dtype=torch.double)
    exponential = math.exp(-1.5 * (4 - 2 * 0.3 * 2))
    bounds = (patterns, 0, state, fixed_point, 1.5)
    assert retrieval_error_bound(*bounds).item() == pytest.approx(2 * 3 * exponential * 2)
    assert jacobian_bound(*bounds).item() == pytest.approx(2 * 1.5 * 4 * 4 * 3 * exponential)
    assert fixed_point_distance_bound(*bounds).item() == pytest.approx(144 * exponential * math.hypot(0.1, 0.3))
    swapped = (patterns, 0, fixed_point, state, 1.5)  # the larger of the two distances counts
    assert retrieval_error_bound(*swapped).item() == pytest.approx(2 * 3 * exponential * 2)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("beta", "n"), [(1.5, 4), (3.0, 10), (2.0, 25)])
def test_well_separated_patterns_are_retrieved_in_one_update_within_the_bounds(seed: int, beta: float, n: int) -> None:
    patterns = on_sphere(seed, n, 60, 3.0)
    assert is_well_separated(patterns, beta).all()
    for i in range(n):
        fixed_point, _ = retrieve(patterns, patterns[i], beta, tolerance=1e-14)
        queries = patterns[i] + on_sphere(100 + i, 8, 60, 1 / (beta * n * 3.0))  # on the sphere S_i of the theorem
        found = update(patterns, queries, beta)
        error = retrieval_error_bound(patterns, i, queries, fixed_point, beta)
        assert (error < 0.3).all()  # a tenth of M: the bound says something
        assert ((found - patterns[i]).norm(dim=1) <= error + 1e-13).all()
        left = fixed_point_distance_bound(patterns, i, queries, fixed_point, beta)
        assert ((found - fixed_point).norm(dim=1) <= left + 1e-13).all()
        assert ((found - patterns[i]).norm(dim=1) < (queries - patterns[i]).norm(dim=1)).all()
        assert retrieve(patterns, queries, beta, tolerance=1e-2)[1] <= 1


@pytest.mark.parametrize("seed", range(5))
def test_the_jacobian_between_query_and_fixed_point_keeps_its_bound(seed: int) -> None:
    patterns = on_sphere(seed, 6, 30, 3.0)
    fixed_point, _ = retrieve(patterns, patterns[0], 1.5, tolerance=1e-14)
    query = patterns[0] + on_sphere(50 + seed, 1, 30, 0.1)[0]
    bound = jacobian_bound(patterns, 0, query, fixed_point, 1.5)
    mean = torch.zeros(30, 30, dtype=torch.double)
    for share in torch.linspace(0, 1, 11, dtype=torch.double):
        point = share * query + (1 - share) * fixed_point
        jacobian = torch.autograd.functional.jacobian(lambda xi: update(patterns, xi, 1.5), point)
        assert torch.linalg.matrix_norm(jacobian, 2) <= bound
        mean += jacobian / 11
    assert 0 < torch.linalg.matrix_norm(mean, 2) <= bound


def test_the_retrieval_error_shrinks_exponentially_with_the_separation() -> None:
    errors = []
    for radius in (1.0, 2.0, 3.0):
        patterns = radius * torch.eye(5, dtype=torch.double)
        errors.append(float((update(patterns, patterns[0], 1.0) - patterns[0]).norm()) / radius)
    # Delta is 1, 4, 9: the error falls like 4 exp(-Delta) / (1 + 4 exp(-Delta)) times a constant.
    shares = [4 * math.exp(-delta) / (1 + 4 * math.exp(-delta)) for delta in (1, 4, 9)]
    assert errors[1] / errors[0] == pytest.approx(shares[1] / shares[0])
    assert errors[2] / errors[0] == pytest.approx(shares[2] / shares[0])


# ---- Theorem 2 ----


def test_capacity_examples_of_the_paper() -> None:
    first = capacity(beta=1.0, k=3.0, d=20, p=0.001)
    assert first.a + math.log(first.b) > 1.27
    assert math.floor(first.c * 1e4) == 31546
    assert first.n_patterns == pytest.approx(math.sqrt(0.001) * first.c ** (19 / 4))
    assert first.proven
    second = capacity(beta=1.0, k=1.0, d=75, p=0.001)
    assert second.a + math.log(second.b) < -0.94
    assert math.floor(second.c * 1e4) == 13718
    assert second.n_patterns == pytest.approx(math.sqrt(0.001) * second.c ** (74 / 4))
    assert second.proven


@pytest.mark.parametrize(("beta", "k", "d", "p"), [(1.0, 3.0, 20, 0.001), (0.1, 1.0, 2, 1.0), (4.0, 2.0, 500, 0.05)])
def test_capacity_solves_the_equation_of_lambert_w(beta: float, k: float, d: int, p: float) -> None:
    found = capacity(beta=beta, k=k, d=d, p=p)
    assert found.a == pytest.approx(2 / (d - 1) * (1 + math.log(2 * beta * k**2 * p * (d - 1))))
    assert found.b == pytest.approx(2 * k**2 * beta / 5)
    assert found.c == pytest.approx(found.b / lambertw(math.exp(found.a + math.log(found.b))).real)
    assert found.proven == (found.c >= (2 / math.sqrt(p)) ** (4 / (d - 1)))


def test_capacity_grows_exponentially_with_the_dimension() -> None:
    log_n = [math.log(capacity(beta=1.0, k=3.0, d=d, p=0.001).n_patterns) for d in (101, 201, 301)]
    assert log_n[1] - log_n[0] == pytest.approx(log_n[2] - log_n[1], rel=0.02)
    assert log_n[1] - log_n[0] > 25


def test_capacity_is_stable_where_the_argument_of_lambert_w_overflows_or_underflows() -> None:
    large = capacity(beta=1e200, k=1e50, d=2, p=1.0)  # a + ln b is about 2000
    z = large.a + math.log(large.b)
    assert z > 1000
    w = large.b / large.c
    assert w + math.log(w) == pytest.approx(z)
    small = capacity(beta=1e-300, k=1e-50, d=50, p=1.0)  # exp(a + ln b) is below the smallest float
    assert small.c == pytest.approx(math.exp(-small.a))
    assert capacity(beta=1.0, k=3.0, d=100_000, p=0.001).n_patterns == math.inf


def test_capacity_says_when_nothing_is_proven() -> None:
    found = capacity(beta=1.0, k=1.0, d=3, p=0.001)
    assert found.c < (2 / math.sqrt(0.001)) ** 2
    assert not found.proven


# ---- bad arguments ----

X, XI = torch.eye(3), torch.ones(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: energy(X, XI, 0.0), r"beta is 0\.0; .* finite number above 0"),
        (lambda: update(X, XI, -1.0), r"beta is -1\.0; .* finite number above 0"),
        (lambda: retrieve(X, XI, math.nan), r"beta is nan; .* finite number above 0"),
        (lambda: well_separated_threshold(X, math.inf), r"beta is inf; .* finite number above 0"),
        (lambda: jacobian_bound(X, 0, XI, XI, 0.0), r"beta is 0\.0; .* finite number above 0"),
        (lambda: capacity(d=20, k=3.0, beta=0.0, p=0.1), r"beta is 0\.0; .* finite number above 0"),
        (lambda: energy(X[0], XI, 1.0), r"patterns has shape \(3,\) .* pass a floating-point tensor of shape \(N, d\)"),
        (lambda: update(X.int(), XI, 1.0), r"patterns has .* dtype torch\.int32; pass a floating-point tensor"),
        (lambda: update(X[:0], XI, 1.0), r"patterns holds 0 rows; pass at least 1"),
        (lambda: separation(X[:1]), r"patterns holds 1 row; pass at least 2"),
        (lambda: well_separated_threshold(X[:1], 1.0), r"patterns holds 1 row; pass at least 2"),
        (lambda: retrieval_error_bound(X[:1], 0, XI, XI, 1.0), r"patterns holds 1 row; pass at least 2"),
        (lambda: energy(X, XI[:2], 1.0), r"state has shape \(2,\); pass \(3,\) or \(b, 3\)"),
        (lambda: update(X, XI[None, None], 1.0), r"state has shape \(1, 1, 3\); pass \(3,\) or \(b, 3\)"),
        (lambda: jacobian_bound(X, 0, XI, XI[:2], 1.0), r"fixed_point has shape \(2,\); pass \(3,\)"),
        (lambda: fixed_point_distance_bound(X, 0, XI[:2], XI, 1.0), r"state has shape \(2,\); pass \(3,\)"),
        (lambda: jacobian_bound(X, 3, XI, XI, 1.0), r"pattern index i is 3; pass one of 0 to 2"),
        (lambda: retrieve(X, XI, 1.0, max_steps=-1), r"max_steps is -1; pass 0 or more"),
        (lambda: retrieve(X, XI, 1.0, tolerance=-0.5), r"tolerance is -0\.5; pass 0 or more"),
        (lambda: capacity(d=1, k=3.0, beta=1.0, p=0.1), r"dimension d is 1; .* d of 2 or more"),
        (lambda: capacity(d=20, k=0.0, beta=1.0, p=0.1), r"radius factor k is 0\.0; pass a finite number above 0"),
        (lambda: capacity(d=20, k=3.0, beta=1.0, p=0.0), r"failure probability p is 0\.0; pass a number above 0 and"),
        (lambda: capacity(d=20, k=3.0, beta=1.0, p=1.1), r"failure probability p is 1\.1; pass a number .* at most 1"),
    ],
)
def test_bad_arguments_are_named_with_their_value_and_the_remedy(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
