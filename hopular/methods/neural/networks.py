"""Feed-forward networks on the encoded rows of a table: inputs, MLP, those of Klambauer et al. 2017, training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hopular.model.training import Best, Clock, Hook, Progress, Result

Norm = Literal["batch", "layer", "none"]
Shape = Literal["rectangular", "conic", "diavolo"]
Kind = Literal["msra", "highway", "resnet", "batch_norm", "weight_norm", "layer_norm"]
NORMS: dict[str, Any] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": nn.Identity}
SHAPES = ("rectangular", "conic")
KINDS: dict[Kind, tuple[Shape, ...]] = {  # of plain networks, with the shapes of each
    "msra": ("rectangular", "conic"),
    "highway": ("rectangular",),
    "resnet": ("rectangular", "diavolo"),
    "batch_norm": ("rectangular", "conic"),
    "weight_norm": ("rectangular", "conic"),
    "layer_norm": ("rectangular", "conic"),
}
GATE_BIAS = -1.0  # a highway layer passes most of its input on at first (Srivastava et al. 2015)


class Inputs(nn.Module):
    """Encoded rows (b, d), NaN where missing, to inputs (b, size): numbers, one-hot categories, what is missing.

    A missing value is 0 throughout and marked by an indicator of its own, unless its column was complete in training:
    nothing was learnt of such a mark.
    """

    def __init__(self, widths: tuple[int, ...], target: int) -> None:
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
        self.register_buffer("first", categories.cumsum(0) - categories, persistent=False)
        self.register_buffer("was_missing", torch.zeros(len(features)))

    def learn(self, rows: Tensor) -> None:
        """Note which columns of the training rows have missing values."""
        self.was_missing.copy_(rows[:, self.features].isnan().any(0))

    def forward(self, rows: Tensor) -> Tensor:
        x = rows[:, self.features]
        missing = x.isnan()
        x = x.masked_fill(missing, 0)
        one_hot = x.new_zeros(len(x), self.n_categories)
        codes = x[:, self.n_numbers :].long() + self.first
        one_hot.scatter_(1, codes, (~missing[:, self.n_numbers :]).to(x.dtype))
        return torch.cat([x[:, : self.n_numbers], one_hot, missing * self.was_missing], dim=1)


class Network(nn.Module):
    """Inputs, hidden layers, and a linear map to the target: class logits or one number."""

    def __init__(self, inputs: Inputs, layers: Iterator[nn.Module]) -> None:
        super().__init__()
        self.inputs, self.layers = inputs, nn.Sequential(*layers)

    def forward(self, rows: Tensor) -> Tensor:
        return self.layers(self.inputs(rows))  # type: ignore[no-any-return]


def mlp(inputs: int, outputs: int, n_layers: int, width: int, norm: Norm, dropout: float) -> Iterator[nn.Module]:
    """Layers of linear map, normalisation, ReLU and dropout."""
    for before in (inputs, *[width] * (n_layers - 1)):
        yield nn.Linear(before, width)
        yield NORMS[norm](width)
        yield nn.ReLU()
        yield nn.Dropout(dropout)
    yield nn.Linear(width, outputs)


def snn(inputs: int, outputs: int, n_layers: int, width: int, shape: Shape, dropout: float) -> Iterator[nn.Module]:
    """Klambauer et al. 2017: SELU keeps activations at mean 0 and variance 1, given weights of variance 1 / inputs."""
    widths = [inputs, *hidden_widths(outputs, n_layers, width, shape), outputs]
    for i, (before, after) in enumerate(pairwise(widths)):
        linear = nn.Linear(before, after)
        nn.init.normal_(linear.weight, std=1 / math.sqrt(before))
        nn.init.zeros_(linear.bias)
        yield linear
        if i < n_layers:
            yield nn.SELU()
            yield nn.AlphaDropout(dropout)


def hidden_widths(outputs: int, n_layers: int, width: int, shape: Shape) -> list[int]:
    """Return the units of the hidden layers; a conic network's shrink geometrically towards the number of outputs."""
    ratio = outputs / width if shape == "conic" else 1.0
    return [max(1, round(width * ratio ** (i / n_layers))) for i in range(n_layers)]


# ------------------------------------------------------------------------------------------------------ plain networks


def plain(
    kind: Kind, inputs: int, outputs: int, n_layers: int, width: int, shape: Shape, dropout: float
) -> Iterator[nn.Module]:
    """Build a ReLU network that Klambauer et al. 2017 compare self-normalising ones with.

    All start with the weights of He et al. 2015 (MSRA). A highway or residual network has `n_layers` layers or blocks
    of one width behind a layer that brings the inputs to it.
    """
    if kind in ("highway", "resnet"):
        yield relu_linear(inputs, width)
        yield nn.ReLU()
        for _ in range(n_layers):
            yield Highway(width) if kind == "highway" else ResidualBlock(width, 1.0 if shape == "rectangular" else 0.5)
            yield nn.Dropout(dropout)
        yield relu_linear(width, outputs)
        return
    widths = [inputs, *hidden_widths(outputs, n_layers, width, shape)]
    for before, after in pairwise(widths):
        linear = relu_linear(before, after)
        yield WeightNorm(linear) if kind == "weight_norm" else linear
        if kind in ("batch_norm", "layer_norm"):
            yield NORMS[kind.removesuffix("_norm")](after)
        yield nn.ReLU()
        yield nn.Dropout(dropout)
    yield relu_linear(widths[-1], outputs)


def relu_linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear map that keeps the scale of ReLU activations (He et al. 2015)."""
    linear = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
    nn.init.zeros_(linear.bias)
    return linear


class WeightNorm(nn.Module):
    """A linear map that learns the length and the direction of its weights apart (Salimans and Kingma 2016).

    Torch's own parametrisation does the same, but a module with it cannot be pickled.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.length = nn.Parameter(linear.weight.detach().norm(dim=1))

    def forward(self, x: Tensor) -> Tensor:
        direction = F.normalize(self.linear.weight, dim=1)
        return F.linear(x, direction * self.length[:, None], self.linear.bias)


class Highway(nn.Module):
    """A layer with a gate between its output and its input (Srivastava et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.gate = relu_linear(width, width), relu_linear(width, width)
        nn.init.constant_(self.gate.bias, GATE_BIAS)

    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, F.relu(self.linear(x)), self.gate(x).sigmoid())


class ResidualBlock(nn.Module):
    """Two batch-normalised layers that are added to their input (He et al. 2016).

    The inner layer has `bottleneck` times as many units as the outer ones.
    """

    def __init__(self, width: int, bottleneck: float) -> None:
        super().__init__()
        inner = max(1, round(width * bottleneck))
        self.layers = nn.Sequential(
            relu_linear(width, inner),
            nn.BatchNorm1d(inner),
            nn.ReLU(),
            relu_linear(inner, width),
            nn.BatchNorm1d(width),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.layers(x))


# ------------------------------------------------------------------------------------------------------------ training


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a network learns."""

    max_epochs: int
    batch_size: int  # rows per step, at least
    learning_rate: float
    weight_decay: float
    patience: int  # epochs without a better validation loss before training stops


def loss(predicted: Tensor, truth: Tensor) -> Tensor:
    """Mean squared error of a number, cross-entropy of a class."""
    if predicted.shape[1] == 1:
        return F.mse_loss(predicted.squeeze(1), truth)
    return F.cross_entropy(predicted, truth.long())


def predict(network: nn.Module, rows: Tensor, chunk: int = 4096) -> Tensor:
    """Target predictions (rows, width), in chunks of bounded memory."""
    network.eval()
    with torch.inference_mode():
        return torch.cat([network(rows[i : i + chunk]) for i in range(0, len(rows), chunk)])


def validate(network: nn.Module, rows: Tensor, target: int) -> tuple[float, float]:
    """Score (accuracy or minus the squared error: higher is better) and loss."""
    predicted, truth = predict(network, rows), rows[:, target]
    value = loss(predicted, truth).item()
    if predicted.shape[1] == 1:
        return -value, value
    return (predicted.argmax(1) == truth).float().mean().item(), value


def adamw(network: nn.Module, schedule: Schedule) -> torch.optim.Optimizer:
    """AdamW that decays the weights of linear maps alone."""
    decayed = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": schedule.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=schedule.learning_rate, fused=True)


def train(
    network: Network,
    rows: Tensor,
    validation: Tensor | None,
    target: int,
    schedule: Schedule,
    *,
    seed: int,
    max_seconds: float | None = None,
    hooks: Sequence[Hook] = (),
) -> Result:
    """Train `network` on `rows`; it ends in the state with the lowest loss on `validation`, if that is given."""
    if len(rows) < 2:
        raise ValueError(f"training needs at least 2 rows, not {len(rows)}. Give more rows.")
    network.inputs.learn(rows)
    optimizer = adamw(network, schedule)
    n_batches = max(1, len(rows) // schedule.batch_size)
    clock = Clock(schedule.max_epochs * n_batches, max_seconds)
    best, history = Best("loss"), []
    kept: Any = network

    def pass_over(epoch: int) -> float:
        """An epoch of steps; its order and dropout come from a seed of its own, so nothing else can disturb them."""
        network.train()
        losses = []
        with torch.random.fork_rng(devices=[rows.device] if rows.device.type == "cuda" else []):
            torch.manual_seed(seed + epoch)
            for batch in torch.randperm(len(rows)).tensor_split(n_batches):
                part = rows[batch]
                value = loss(network(part), part[:, target])
                optimizer.zero_grad()
                value.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses.append(value.detach())
                clock.tick()
                if clock.done >= 1:
                    break
        return float(torch.stack(losses).mean())

    for epoch in range(1, schedule.max_epochs + 1):
        train_loss = pass_over(epoch)
        progress = Progress(epoch, schedule.max_epochs, clock.seconds, clock.done, train_loss, kept)
        for hook in hooks:
            hook.on_epoch(progress)
        if validation is not None:
            score, value = validate(network, validation, target)
            progress = replace(progress, score=score, loss=value)
            history.append(progress.without_network())
            best.consider(progress, kept)
            for hook in hooks:
                hook.on_validation(progress)
        if clock.done >= 1 or best.age >= schedule.patience:
            break
    if best.state is not None:
        network.load_state_dict(best.state)
    return Result(kept, history, best.epoch or epoch)
