"""Continuous modern Hopfield networks on their own (Section 2): energy, update, retrieval, error bounds, capacity.

The paper stacks the stored patterns x_1 ... x_N as columns; here they are the rows of `patterns`, shape (N, d). A state
xi has shape (d,), or (b, d) for b states at once. M is the largest norm of a stored pattern. The network itself uses
the chunked updates of `association`; these functions are the theory that explains why it can store a training set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.special import wrightomega
from torch import Tensor

from hopular.formatting import plural


def _check_beta(beta: float) -> None:
    if not (beta > 0 and math.isfinite(beta)):
        raise ValueError(f"beta is {beta}; the inverse temperature must be a finite number above 0")


def _check_patterns(patterns: Tensor, at_least: int = 1) -> None:
    if patterns.ndim != 2 or not patterns.is_floating_point():
        raise ValueError(
            f"patterns has shape {tuple(patterns.shape)} and dtype {patterns.dtype}; "
            "pass a floating-point tensor of shape (N, d), one pattern per row"
        )
    if len(patterns) < at_least:
        raise ValueError(f"patterns holds {plural(len(patterns), 'row')}; pass at least {at_least}")


def _check_state(name: str, state: Tensor, patterns: Tensor) -> None:
    d = patterns.shape[1]
    if state.ndim not in (1, 2) or state.shape[-1] != d:
        raise ValueError(f"{name} has shape {tuple(state.shape)}; pass ({d},) or (b, {d}) to match the patterns")


def _norm(vectors: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(vectors, dim=-1)
    return norm


def _largest_norm(patterns: Tensor) -> Tensor:
    """Return M, the largest norm of a stored pattern."""
    return _norm(patterns).max()


def energy(patterns: Tensor, state: Tensor, beta: float) -> Tensor:
    """Return the energy E of each state (Eq. 1), shape () or (b,): not negative, and at most 2 M^2 if |xi| <= M."""
    _check_beta(beta)
    _check_patterns(patterns)
    _check_state("state", state, patterns)
    log_mean = torch.logsumexp(beta * (state @ patterns.T), dim=-1) - math.log(len(patterns))
    return state.square().sum(-1) / 2 + _largest_norm(patterns).square() / 2 - log_mean / beta


def update(patterns: Tensor, state: Tensor, beta: float) -> Tensor:
    """Take a step f(xi) = X softmax(beta X^T xi) of the update rule (Eq. 2), in the shape of `state`."""
    _check_beta(beta)
    _check_patterns(patterns)
    _check_state("state", state, patterns)
    return torch.softmax(beta * (state @ patterns.T), dim=-1) @ patterns


def retrieve(
    patterns: Tensor, state: Tensor, beta: float, max_steps: int = 1000, tolerance: float = 1e-6
) -> tuple[Tensor, int]:
    """Iterate Eq. 2 until no state would move by more than `tolerance` M; return the states and the updates applied.

    The energy's gradient is xi - f(xi), so its norm at every returned state is at most `tolerance` M.
    """
    if max_steps < 0:
        raise ValueError(f"max_steps is {max_steps}; pass 0 or more")
    if not tolerance >= 0:
        raise ValueError(f"tolerance is {tolerance}; pass 0 or more")
    _check_patterns(patterns)
    largest, moved = float(_largest_norm(patterns)), math.inf
    for steps in range(max_steps + 1):
        new = update(patterns, state, beta)
        moved = float(_norm(new - state).max())
        if moved <= tolerance * largest:
            return state, steps
        state = new
    raise RuntimeError(
        f"no fixed point after max_steps={max_steps} updates: a state still moves by {moved:.3g}, above "
        f"tolerance={tolerance} times M={largest:.3g}; raise max_steps or tolerance, or use double precision"
    )


def separation(patterns: Tensor) -> Tensor:
    """Return Delta_i of every pattern, shape (N,): the least difference of x_i^T x_i to x_i^T x_j over the others."""
    _check_patterns(patterns, at_least=2)
    products = patterns @ patterns.T
    own = torch.eye(len(patterns), dtype=torch.bool, device=patterns.device)
    return products.diagonal() - products.masked_fill(own, -torch.inf).amax(dim=1)


def well_separated_threshold(patterns: Tensor, beta: float) -> Tensor:
    """Return the separation from which on a pattern is well separated: 2/(beta N) + log(2 (N-1) N beta M^2) / beta."""
    _check_beta(beta)
    _check_patterns(patterns, at_least=2)
    n = len(patterns)
    return 2 / (beta * n) + torch.log(2 * (n - 1) * n * beta * _largest_norm(patterns).square()) / beta


def is_well_separated(patterns: Tensor, beta: float) -> Tensor:
    """Tell which patterns are well separated, as booleans (N,): those have a fixed point of Eq. 2 close by."""
    return separation(patterns) >= well_separated_threshold(patterns, beta)


def _confusion(patterns: Tensor, i: int, state: Tensor, fixed_point: Tensor, beta: float) -> Tensor:
    """Return (N-1) exp(-beta (Delta_i - 2 max{|xi - x_i|, |x_i* - x_i|} M)), common to the bounds of Theorem 1.

    It bounds the softmax weight that the update gives to all patterns but x_i.
    """
    _check_beta(beta)
    _check_patterns(patterns, at_least=2)
    _check_state("state", state, patterns)
    _check_state("fixed_point", fixed_point, patterns)
    if not 0 <= i < len(patterns):
        raise ValueError(f"pattern index i is {i}; pass one of 0 to {len(patterns) - 1}")
    distance = torch.maximum(_norm(state - patterns[i]), _norm(fixed_point - patterns[i]))
    exponent = separation(patterns)[i] - 2 * distance * _largest_norm(patterns)
    return (len(patterns) - 1) * torch.exp(-beta * exponent)


def jacobian_bound(patterns: Tensor, i: int, state: Tensor, fixed_point: Tensor, beta: float) -> Tensor:
    """Bound the spectral norm of the update's Jacobian J^m between xi and x_i* (Theorem 1)."""
    confusion = _confusion(patterns, i, state, fixed_point, beta)
    return 2 * beta * len(patterns) * _largest_norm(patterns).square() * confusion


def fixed_point_distance_bound(patterns: Tensor, i: int, state: Tensor, fixed_point: Tensor, beta: float) -> Tensor:
    """Bound |f(xi) - x_i*|, the distance to the fixed point that one update leaves (Theorem 1)."""
    return jacobian_bound(patterns, i, state, fixed_point, beta) * _norm(state - fixed_point)


def retrieval_error_bound(patterns: Tensor, i: int, state: Tensor, fixed_point: Tensor, beta: float) -> Tensor:
    """Bound |f(xi) - x_i|, the error of retrieving pattern i with one update (Theorem 1)."""
    return 2 * _largest_norm(patterns) * _confusion(patterns, i, state, fixed_point, beta)


@dataclass(frozen=True)
class Capacity:
    """The result of Theorem 2: `n_patterns` random patterns are stored with probability 1 - p."""

    a: float
    b: float
    c: float
    n_patterns: float  # sqrt(p) c^((d-1)/4); infinite where a float cannot hold it
    proven: bool  # the theorem's condition c >= (2 / sqrt(p))^(4/(d-1)); without it `n_patterns` is no guarantee


def capacity(*, d: int, k: float, beta: float, p: float) -> Capacity:
    """Return the capacity of Theorem 2 for random patterns on a sphere of radius K sqrt(d-1) in d dimensions."""
    _check_beta(beta)
    if d < 2:
        raise ValueError(f"dimension d is {d}; the capacity needs d of 2 or more")
    if not (k > 0 and math.isfinite(k)):
        raise ValueError(f"radius factor k is {k}; pass a finite number above 0")
    if not 0 < p <= 1:
        raise ValueError(f"failure probability p is {p}; pass a number above 0 and at most 1")
    log_beta_k2 = math.log(beta) + 2 * math.log(k)
    a = 2 / (d - 1) * (1 + math.log(2 * (d - 1)) + log_beta_k2 + math.log(p))
    log_b = math.log(2 / 5) + log_beta_k2
    # The Wright omega function is W_0(exp(z)) without forming exp(z), which overflows. From W exp(W) = b exp(a) follows
    # c = b / W = exp(W - a), which stays exact where W underflows.
    log_c = float(wrightomega(a + log_b)) - a
    log_n = math.log(p) / 2 + (d - 1) / 4 * log_c
    proven = log_c >= 4 / (d - 1) * (math.log(2) - math.log(p) / 2)
    return Capacity(a=a, b=_exp(log_b), c=_exp(log_c), n_patterns=_exp(log_n), proven=proven)


def _exp(x: float) -> float:
    """Return exp(x), infinite instead of an OverflowError where a float cannot hold it."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
