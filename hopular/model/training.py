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

from hopular.model.dropout import Dropouts
from hopular.model.masking import Masking, target_mask
from hopular.model.network import Hopular, Memory
from hopular.model.objective import cosine, objective
from hopular.model.optimizer import Lamb, LambSettings
from hopular.model.recipe import Recipe


@dataclass(frozen=True)
class Progress:
    """Where training stands; what every hook receives."""

    epoch: int
    max_epochs: int
    seconds: float
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


def predict_target(network: Hopular, rows: Tensor, memory: Memory, chunk: int = 1024) -> Tensor:
    """Target predictions (rows, width) with only the target masked, in chunks of bounded memory."""
    parts = []
    with torch.inference_mode():
        for start in range(0, len(rows), chunk):
            part = rows[start : start + chunk]
            parts.append(network.target(network(part, target_mask(part, network.arch.target), memory)).float())
    return torch.cat(parts)


def read_weights(network: Hopular, rows: Tensor, memory: Memory, k: int, chunk: int = 1024) -> tuple[Tensor, Tensor]:
    """The k largest weights with which each row reads the stored rows, and their places, both (rows, k)."""
    weights, places = [], []
    for start in range(0, len(rows), chunk):
        part = rows[start : start + chunk]
        top = network.read_weights(part, target_mask(part, network.arch.target), memory).topk(k, dim=1)
        weights.append(top.values)
        places.append(top.indices)
    return torch.cat(weights), torch.cat(places)


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
) -> Result:
    """Train `network` on `rows` and return its slow weights, in the state that did best on `validation` if given.

    gamma and the learning rate follow a cosine over `max_epochs` or `max_seconds`, whichever ends first.
    """
    if len(rows) < 2:
        raise ValueError(f"training needs at least 2 rows, not {len(rows)}: a row may not be read by itself")
    arch, device = network.arch, rows.device
    slow = copy.deepcopy(network).requires_grad_(False)
    optimizer = Lamb(
        network.parameters(), slow.parameters(), recipe.slow_rate, LambSettings(weight_decay=recipe.weight_decay)
    )
    masking = Masking(arch.widths, arch.target, recipe.mask_probability, recipe.replace_probability, seed)
    dropouts = Dropouts(arch.dropout_embedding, arch.dropout_block, arch.dropout_summary, seed, device)
    order = torch.Generator().manual_seed(seed)
    steps_per_epoch = math.ceil(len(rows) / recipe.batch_size)
    history: list[Progress] = []
    best, best_value, best_epoch = None, -math.inf, 0
    start, step, done = time.perf_counter(), 0, 0.0

    for epoch in range(1, recipe.max_epochs + 1):
        losses = []
        for stored, batch_size in _batches(len(rows), recipe, order):
            dropouts.renew()
            batch = rows[stored]
            seen, masked = masking(batch[:batch_size])
            with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
                memory = network.store(batch, dropouts)
                predictions = network(seen, masked, memory, dropouts, leave_out_own=True)
            gamma = cosine(recipe.gamma, done)
            loss = objective(predictions, batch[:batch_size], network.summary.groups, arch.target, gamma)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step(cosine(recipe.learning_rate, done))
            losses.append(loss.detach())
            step += 1
            done = max(done, step / (steps_per_epoch * recipe.max_epochs))
            if max_seconds is not None:
                done = max(done, (time.perf_counter() - start) / max_seconds)
            if done >= 1:
                break

        progress = Progress(
            epoch, recipe.max_epochs, time.perf_counter() - start, float(torch.stack(losses).mean()), slow
        )
        for hook in hooks:
            hook.on_epoch(progress)
        if validation is not None and (epoch % recipe.validate_every == 0 or done >= 1):
            score, loss_value = validate(slow, rows, validation)
            progress = Progress(
                epoch, recipe.max_epochs, progress.seconds, progress.train_loss, slow, score, loss_value
            )
            history.append(progress.without_network())
            value = score if recipe.selection == "score" else -loss_value
            if value > best_value:
                best, best_value, best_epoch = copy.deepcopy(slow.state_dict()), value, epoch
            for hook in hooks:
                hook.on_validation(progress)
            if len(history) - 1 - history_index(history, best_epoch) >= recipe.patience:
                break
        if done >= 1:
            break

    if best is None:
        best_epoch = epoch
    else:
        slow.load_state_dict(best)
    return Result(slow, history, best_epoch)


def history_index(history: list[Progress], epoch: int) -> int:
    """The place of the validation at `epoch`; the first if there is none."""
    return next((i for i, p in enumerate(history) if p.epoch == epoch), 0)
