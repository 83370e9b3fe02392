"""Feed-forward networks on the encoded rows of a table: MLPs and the networks of Klambauer et al. 2017.

Shapes are commented with K members and b rows, which come last, as everywhere in this package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model.dropout import DropoutPool
from hopular.model.members import EPSILON, Draw, Linear, Memory, Network, Norm
from hopular.model.recipe import Recipe
from hopular.model.trainer import Part, Step, member_losses

NormKind = Literal["batch", "layer", "none"]
Shape = Literal["rectangular", "conic", "diavolo"]
Kind = Literal["msra", "highway", "resnet", "batch_norm", "weight_norm", "layer_norm"]
KINDS: dict[Kind, tuple[Shape, ...]] = {  # of plain networks, with the shapes of each
    "msra": ("rectangular", "conic"),
    "highway": ("rectangular",),
    "resnet": ("rectangular", "diavolo"),
    "batch_norm": ("rectangular", "conic"),
    "weight_norm": ("rectangular", "conic"),
    "layer_norm": ("rectangular", "conic"),
}
FOR_RELU, FOR_SELU = 2.0, 1.0  # variance of weights, times inputs, that keeps the scale of such activations
GATE_BIAS = -1.0  # a highway layer passes most of its input on at first (Srivastava et al. 2015)
MOMENTUM = 0.1  # of the statistics that batch normalisation keeps for predictions


# -------------------------------------------------------------------------------------------------------------- layers


class Inputs(nn.Module):
    """Encoded rows (K, d, b), NaN where missing, to inputs (K, size, b): numbers, one-hot categories, what is missing.

    A missing value is 0 throughout and marked by an indicator of its own, unless its column was complete in a member's
    training rows: nothing was learnt of such a mark.
    """

    def __init__(self, widths: tuple[int, ...], target: int, members: int) -> None:
        super().__init__()
        features = torch.tensor([i for i in range(len(widths)) if i != target])
        feature_widths = torch.tensor(widths)[features]
        self.n_numbers = int((feature_widths == 1).sum())  # attributes are sorted by width
        categories = feature_widths[self.n_numbers :]
        self.n_categories = int(categories.sum())
        self.size = self.n_numbers + self.n_categories + len(features)
        self.features: Tensor
        self.first: Tensor
        self.was_missing: Tensor
        self.register_buffer("features", features, persistent=False)
        self.register_buffer("first", (categories.cumsum(0) - categories)[:, None], persistent=False)
        self.register_buffer("was_missing", torch.zeros(members, len(features), 1))

    def learn(self, rows: Tensor, parts: Sequence[Part]) -> None:
        """Note which columns of each member's training rows (n, d) have missing values."""
        for known, part in zip(self.was_missing, parts, strict=True):
            known.copy_(rows[part.train][:, self.features].isnan().any(0)[:, None])

    def forward(self, rows: Tensor) -> Tensor:
        x = rows[:, self.features]
        missing = x.isnan()
        x = x.masked_fill(missing, 0)
        one_hot = x.new_zeros(len(x), self.n_categories, x.shape[2])
        codes = x[:, self.n_numbers :].long() + self.first
        one_hot.scatter_(1, codes, (~missing[:, self.n_numbers :]).to(x.dtype))
        return torch.cat([x[:, : self.n_numbers], one_hot, missing * self.was_missing], dim=1)


class Dropout(nn.Module):
    """Drops units in training, by masks from the pool of the training step."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.pool: DropoutPool | None = None

    def forward(self, x: Tensor) -> Tensor:
        return x if self.pool is None or not self.training else self.drop(x, self.pool)

    def drop(self, x: Tensor, pool: DropoutPool) -> Tensor:
        return pool(x)


class AlphaDropout(Dropout):
    """SELU's own dropout, which keeps mean and variance (Klambauer et al. 2017)."""

    _SATURATED = -1.7580993408473766  # what SELU comes to far below 0

    def drop(self, x: Tensor, pool: DropoutPool) -> Tensor:
        low = self._SATURATED
        return (pool(x - low) + low) * math.sqrt((1 - self.p) / (1 + self.p * low**2))


class BatchNorm(nn.Module):
    """Gives every unit mean 0 and variance 1 over the rows of a step; predictions use running statistics."""

    def __init__(self, draw: Draw, units: int) -> None:
        super().__init__()
        self.gain, self.shift = draw.constant(units, value=1.0), draw.constant(units, value=0.0)
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(draw.count, units))
        self.register_buffer("variance", torch.ones(draw.count, units))

    def forward(self, x: Tensor) -> Tensor:
        mean, variance, gain, shift = (one.view(-1) for one in (self.mean, self.variance, self.gain, self.shift))
        units = x.reshape(1, -1, x.shape[2])  # of all members
        return F.batch_norm(units, mean, variance, gain, shift, self.training, MOMENTUM, EPSILON).view(x.shape)


class Unbiased(nn.Module):
    """A linear map without a bias, which batch normalisation would take away again.

    All that such a bias would get is the rounding error of its gradient, which AdamW makes as large as any other.
    """

    def __init__(self, draw: Draw, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = draw.uniform(outputs, inputs, bound=1 / math.sqrt(inputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.bmm(self.weight, x)


class WeightNorm(nn.Module):
    """A linear map that learns the length and the direction of its weights apart (Salimans and Kingma 2016)."""

    def __init__(self, linear: Linear) -> None:
        super().__init__()
        self.linear = linear
        self.length = nn.Parameter(linear.weight.detach().norm(dim=2, keepdim=True))

    def forward(self, x: Tensor) -> Tensor:
        weight = F.normalize(self.linear.weight, dim=2) * self.length
        return torch.baddbmm(self.linear.bias, weight, x)


class Highway(nn.Module):
    """A layer with a gate between its output and its input (Srivastava et al. 2015)."""

    def __init__(self, draw: Draw, width: int) -> None:
        super().__init__()
        self.linear, self.gate = relu_linear(draw, width, width), relu_linear(draw, width, width)
        nn.init.constant_(self.gate.bias, GATE_BIAS)

    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, F.relu(self.linear(x)), self.gate(x).sigmoid())


class ResidualBlock(nn.Module):
    """Two batch-normalised layers that are added to their input (He et al. 2016).

    The inner layer has `bottleneck` times as many units as the outer ones.
    """

    def __init__(self, draw: Draw, width: int, bottleneck: float) -> None:
        super().__init__()
        inner = max(1, round(width * bottleneck))
        self.layers = nn.Sequential(
            with_normal_weights(Unbiased(draw, width, inner), draw, FOR_RELU),
            BatchNorm(draw, inner),
            nn.ReLU(),
            with_normal_weights(Unbiased(draw, inner, width), draw, FOR_RELU),
            BatchNorm(draw, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.layers(x))


# ------------------------------------------------------------------------------------------------------------ networks

Map = TypeVar("Map", Linear, Unbiased)


def with_normal_weights(linear: Map, draw: Draw, variance: float) -> Map:
    """Give a linear map normal weights of variance `variance / inputs` and, if it has one, a bias of 0."""
    _, outputs, inputs = linear.weight.shape
    with torch.no_grad():
        linear.weight.copy_(draw.normal(outputs, inputs, scale=math.sqrt(variance / inputs)))
        if isinstance(linear, Linear):
            linear.bias.zero_()
    return linear


def relu_linear(draw: Draw, inputs: int, outputs: int) -> Linear:
    """Return a linear map that keeps the scale of ReLU activations (He et al. 2015)."""
    return with_normal_weights(Linear(draw, inputs, outputs), draw, FOR_RELU)


NORMS: dict[str, Callable[[Draw, int], nn.Module]] = {
    "batch": BatchNorm,
    "layer": Norm,
    "none": lambda draw, units: nn.Identity(),
}


def mlp(
    draw: Draw, inputs: int, outputs: int, n_layers: int, width: int, norm: NormKind, dropout: float
) -> Iterator[nn.Module]:
    """Build layers of linear map, normalisation, ReLU and dropout."""
    for before in (inputs, *[width] * (n_layers - 1)):
        yield Unbiased(draw, before, width) if norm == "batch" else Linear(draw, before, width)
        yield NORMS[norm](draw, width)
        yield nn.ReLU()
        yield Dropout(dropout)
    yield Linear(draw, width, outputs)


def snn(
    draw: Draw, inputs: int, outputs: int, n_layers: int, width: int, shape: Shape, dropout: float
) -> Iterator[nn.Module]:
    """Build SELU layers, which keep activations at mean 0 and variance 1, given weights of variance 1 / inputs."""
    widths = [inputs, *hidden_widths(outputs, n_layers, width, shape), outputs]
    for i, (before, after) in enumerate(pairwise(widths)):
        yield with_normal_weights(Linear(draw, before, after), draw, FOR_SELU)
        if i < n_layers:
            yield nn.SELU()
            yield AlphaDropout(dropout)


def hidden_widths(outputs: int, n_layers: int, width: int, shape: Shape) -> list[int]:
    """Return the units of the hidden layers; a conic network's shrink geometrically towards the number of outputs."""
    ratio = outputs / width if shape == "conic" else 1.0
    return [max(1, round(width * ratio ** (i / n_layers))) for i in range(n_layers)]


def plain(
    draw: Draw, kind: Kind, inputs: int, outputs: int, n_layers: int, width: int, shape: Shape, dropout: float
) -> Iterator[nn.Module]:
    """Build a ReLU network that Klambauer et al. 2017 compare self-normalising ones with.

    All start with the weights of He et al. 2015 (MSRA). A highway or residual network has `n_layers` layers or blocks
    of one width behind a layer that brings the inputs to it.
    """
    if kind in ("highway", "resnet"):
        bottleneck = 1.0 if shape == "rectangular" else 0.5
        yield relu_linear(draw, inputs, width)
        yield nn.ReLU()
        for _ in range(n_layers):
            yield Highway(draw, width) if kind == "highway" else ResidualBlock(draw, width, bottleneck)
            yield Dropout(dropout)
        yield relu_linear(draw, width, outputs)
        return
    widths = [inputs, *hidden_widths(outputs, n_layers, width, shape)]
    for before, after in pairwise(widths):
        if kind == "batch_norm":
            yield with_normal_weights(Unbiased(draw, before, after), draw, FOR_RELU)
        else:
            linear = relu_linear(draw, before, after)
            yield WeightNorm(linear) if kind == "weight_norm" else linear
        if kind in ("batch_norm", "layer_norm"):
            yield NORMS[kind.removesuffix("_norm")](draw, after)
        yield nn.ReLU()
        yield Dropout(dropout)
    yield relu_linear(draw, widths[-1], outputs)


class Perceptron(Network):
    """Inputs, hidden layers, and a linear map to the target: class logits or one number."""

    reads_rows = False

    def __init__(
        self,
        widths: tuple[int, ...],
        target: int,
        seeds: Sequence[int],
        build: Callable[[Draw, int, int], Iterator[nn.Module]],
    ) -> None:
        super().__init__()
        self.target = target
        self.inputs = Inputs(widths, target, len(seeds))
        self.layers = nn.Sequential(*build(Draw(seeds), self.inputs.size, widths[target]))

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows (K, d, b) to target predictions (K, width, b)."""
        return self.layers(self.inputs(rows))  # type: ignore[no-any-return]

    def predict(self, rows: Tensor, memory: Memory) -> Tensor:
        return self(rows)  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------------------------ training


class AdamW(torch.optim.AdamW):
    """AdamW on parameters (K, ...) of members; a step consumes the gradients."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step(closure)
        self.zero_grad()

    def select(self, members: Sequence[int]) -> None:
        """Go on with some of the members, which are all that the parameters now hold."""
        places = list(members)
        for moments in self.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                moments[name] = moments[name][places]


class PerceptronStep(Step):
    """Learns by AdamW at a constant rate, which decays the weights of linear maps alone; there are no slow weights."""

    network: Perceptron

    def __init__(
        self, network: Perceptron, recipe: Recipe, seeds: Sequence[int], rows: Tensor, parts: Sequence[Part]
    ) -> None:
        network.inputs.learn(rows, parts)
        dropouts = [layer for layer in network.layers if isinstance(layer, Dropout) and layer.p > 0]
        self._pools = [DropoutPool(layer.p, seeds, rows.device) for layer in dropouts[:1]]  # one for all layers
        for layer in dropouts:
            (layer.pool,) = self._pools
        decayed = [p for name, p in network.named_parameters() if name.endswith("weight")]
        others = [p for name, p in network.named_parameters() if not name.endswith("weight")]
        groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
        optimizer = AdamW(groups, lr=recipe.learning_rate, fused=True)
        super().__init__(network.eval(), network, optimizer, recipe, self._pools)

    def learning_rate(self, done: float) -> float:
        return self.recipe.learning_rate

    def losses(self, stored: Tensor, size: int, done: float, weights: Tensor | None) -> Tensor:
        for pool in self._pools:
            pool.renew()
        rows = stored[..., :size]
        predicted = self.network.train()(rows)
        self.network.eval()
        losses = member_losses(predicted, rows[:, self.network.target])[1]
        return (losses if weights is None else losses * weights).mean(1)
