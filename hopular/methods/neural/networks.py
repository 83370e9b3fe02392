"""Plain feed-forward networks on the encoded rows of a table: inputs, MLP, self-normalising network, training."""

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
Shape = Literal["rectangular", "conic"]
NORMS: dict[str, Any] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm, "none": nn.Identity}
SHAPES = ("rectangular", "conic")


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
    """Klambauer et al. 2017: SELU keeps activations at mean 0 and variance 1, given weights of variance 1 / inputs.

    The layers of a conic network shrink geometrically from `width` to the number of outputs.
    """
    ratio = outputs / width if shape == "conic" else 1.0
    widths = [inputs, *(max(1, round(width * ratio ** (i / n_layers))) for i in range(n_layers)), outputs]
    for i, (before, after) in enumerate(pairwise(widths)):
        linear = nn.Linear(before, after)
        nn.init.normal_(linear.weight, std=1 / math.sqrt(before))
        nn.init.zeros_(linear.bias)
        yield linear
        if i < n_layers:
            yield nn.SELU()
            yield nn.AlphaDropout(dropout)


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
