"""Training (Section 3, "Objective and Training Method"): mask, predict, descend, validate with the slow weights."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from hopular.model.architecture import Architecture, Group
from hopular.model.dropout import Dropouts
from hopular.model.masking import Masking
from hopular.model.network import Hopular
from hopular.model.objective import cosine, objective
from hopular.model.optimizer import Lamb, LambSettings
from hopular.model.prediction import predict_target
from hopular.model.recipe import Recipe


@dataclass(frozen=True)
class Progress:
    """Where training stands; what every hook receives."""

    epoch: int
    max_epochs: int
    seconds: float
    done: float  # share of training, by epochs or by time
    train_loss: float
    network: Hopular | None  # the slow weights
    score: float = math.nan  # accuracy, or minus the mean squared error of the standardised target
    loss: float = math.nan  # log loss, or the mean squared error

    def without_network(self) -> Progress:
        """The figures alone, to keep."""
        return replace(self, network=None)


class Hook(Protocol):
    """Called after each epoch and each validation; may raise to end training, as a pruner does."""

    def on_epoch(self, progress: Progress) -> None: ...

    def on_validation(self, progress: Progress) -> None: ...


@dataclass(frozen=True)
class Result:
    """The network to keep and the validations that led to it."""

    network: Hopular
    history: list[Progress]
    best_epoch: int


def validate(network: Hopular, stored: Tensor, rows: Tensor) -> tuple[float, float]:
    """Score (higher is better) and loss on `rows`, read against the `stored` training rows."""
    with torch.inference_mode():
        predicted = predict_target(network, rows, network.store(stored))
        truth = rows[:, network.arch.target]
        if predicted.shape[1] == 1:
            error = F.mse_loss(predicted.squeeze(1), truth).item()
            return -error, error
        accuracy = (predicted.argmax(1) == truth).float().mean().item()
        return accuracy, F.cross_entropy(predicted, truth.long()).item()


def _batches(n: int, recipe: Recipe, generator: torch.Generator) -> Iterator[tuple[Tensor, int]]:
    """For each step of an epoch the rows to store, the batch itself first, and the size of the batch.

    A row's own entry is thereby always stored at the row's place in the batch, where the network leaves it out.
    """
    n_batches = math.ceil(n / recipe.batch_size)
    for batch in torch.randperm(n, generator=generator).chunk(n_batches):
        others = max(math.ceil(recipe.memory_ratio * n), min(2, n)) - len(batch)
        if others <= 0:
            yield batch, len(batch)
            continue
        outside = torch.ones(n, dtype=torch.bool)
        outside[batch] = False
        rest = outside.nonzero().squeeze(1)
        if others < len(rest):
            rest = rest[torch.randperm(len(rest), generator=generator)[:others]]
        yield torch.cat([batch, rest]), len(batch)


class Clock:
    """How much of training is done: the share of its steps; of its seconds too, once they will not do for all steps.

    As long as the limit is no matter, time has no part in training, which then repeats bit for bit.
    """

    _EARLY = 0.05  # share of the seconds within which it is too early to tell whether they will do

    def __init__(self, steps: int, max_seconds: float | None) -> None:
        self._start, self._steps, self._step = time.perf_counter(), steps, 0
        self._max_seconds = math.inf if max_seconds is None else max_seconds
        self._first, self._is_short = 0.0, False

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start

    def tick(self) -> None:
        """A step is done. The first one, which may take longer than the others, says nothing about those to come."""
        self._step += 1
        seconds = self.seconds
        if self._step == 1:
            self._first = seconds
        elif seconds > self._EARLY * self._max_seconds:
            pace = (seconds - self._first) / (self._step - 1)
            self._is_short |= seconds + pace * (self._steps - self._step) > self._max_seconds

    @property
    def done(self) -> float:
        of_steps, of_time = self._step / self._steps, self.seconds / self._max_seconds
        return min(1.0, max(of_steps, of_time) if self._is_short or of_time >= 1 else of_steps)


class Best:
    """The state that did best in validation, and how many validations ago that was."""

    def __init__(self, selection: str) -> None:
        self._selection, self._value = selection, -math.inf
        self.state: dict[str, Tensor] | None = None
        self.epoch, self.age = 0, 0

    def consider(self, progress: Progress, network: Hopular) -> None:
        value = progress.score if self._selection == "score" else -progress.loss
        self.age += 1
        if value > self._value:
            self._value, self.epoch, self.age = value, progress.epoch, 0
            self.state = copy.deepcopy(network.state_dict())


class Procedure:
    """What a kind of network may do in its own way while it is trained; as it stands, what Hopular does."""

    def masking(self, arch: Architecture, recipe: Recipe, seed: int) -> Masking:
        return Masking(arch.widths, arch.target, recipe.mask_probability, recipe.replace_probability, seed)

    def loss(self, predictions: list[Tensor], rows: Tensor, groups: list[Group], target: int, gamma: float) -> Tensor:
        return objective(predictions, rows, groups, target, gamma)

    def optimizer(self, network: Hopular, slow: Hopular, recipe: Recipe) -> Lamb:
        settings = LambSettings(weight_decay=recipe.weight_decay)
        return Lamb(network.parameters(), slow.parameters(), recipe.slow_rate, settings)

    def learning_rate(self, recipe: Recipe, done: float) -> float:
        return cosine(recipe.learning_rate, done)


HOPULAR = Procedure()


def train(
    network: Hopular,
    rows: Tensor,
    validation: Tensor | None,
    recipe: Recipe,
    *,
    seed: int,
    max_seconds: float | None = None,
    hooks: Sequence[Hook] = (),
    bfloat16: bool = False,
    procedure: Procedure = HOPULAR,
) -> Result:
    """Train `network` on `rows` and return its slow weights, in the state that did best on `validation` if given.

    gamma and the learning rate follow a cosine over `max_epochs`, or over `max_seconds` if these end first.
    """
    if len(rows) < 2:
        raise ValueError(f"training needs at least 2 rows, not {len(rows)}: a row may not be read by itself")
    arch, device = network.arch, rows.device
    slow = copy.deepcopy(network).requires_grad_(False)
    optimizer = procedure.optimizer(network, slow, recipe)
    masking = procedure.masking(arch, recipe, seed)
    dropouts = Dropouts(arch.dropout_embedding, arch.dropout_block, arch.dropout_summary, seed, device)
    order = torch.Generator().manual_seed(seed)
    clock = Clock(recipe.max_epochs * math.ceil(len(rows) / recipe.batch_size), max_seconds)
    best, history = Best(recipe.selection), []

    def learn(batch: Tensor, size: int) -> Tensor:
        """One optimiser step on the first `size` rows of `batch`, all of which are stored."""
        done = clock.done
        dropouts.renew()
        seen, masked, truth = masking.step(batch[:size])
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            predictions = network(seen, masked, network.store(batch, dropouts), dropouts, leave_out_own=True)
        gamma = cosine(recipe.gamma, done)
        loss = procedure.loss(predictions, truth, network.summary.groups, arch.target, gamma)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step(procedure.learning_rate(recipe, done))
        clock.tick()
        return loss.detach()

    for epoch in range(1, recipe.max_epochs + 1):
        losses = []
        for stored, size in _batches(len(rows), recipe, order):
            losses.append(learn(rows[stored], size))
            if clock.done >= 1:
                break
        done, train_loss = clock.done, float(torch.stack(losses).mean())
        ended = done >= 1
        progress = Progress(epoch, recipe.max_epochs, clock.seconds, done, train_loss, slow)
        for hook in hooks:
            hook.on_epoch(progress)
        if validation is not None and (ended or epoch % recipe.validate_every == 0):
            score, loss = validate(slow, rows, validation)
            progress = replace(progress, score=score, loss=loss)
            history.append(progress.without_network())
            best.consider(progress, slow)
            for hook in hooks:
                hook.on_validation(progress)
        if ended or best.age >= recipe.patience:
            break

    if best.state is not None:
        slow.load_state_dict(best.state)
    return Result(slow, history, best.epoch or epoch)
