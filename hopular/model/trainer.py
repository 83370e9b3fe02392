"""Training (Section 3, "Objective and Training Method"): mask, predict, descend, validate with the slow weights.

All members of a stack take a step at once. Every member has rows, order, masks and dropout of its own, all from its own
seed, and as many rows in a step as any other, so that it learns the same whoever is trained beside it.
"""

from __future__ import annotations

import copy
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from hopular.model.checkpoint import Checkpoint, digest
from hopular.model.members import Linear, Network, generator_states, pick, restore_generators
from hopular.model.objective import cosine
from hopular.model.prediction import gather, predict_target, store_rows
from hopular.model.recipe import Recipe


@dataclass(frozen=True)
class Part:
    """A member's share of the table, as places of rows: those to train on, and those that decide when to stop."""

    train: Tensor
    valid: Tensor


@dataclass(frozen=True)
class Progress:
    """Tell hooks where the training of a bag stands. Figures are means over its members' rows."""

    epoch: int
    max_epochs: int
    seconds: float
    done: float  # share of training, by epochs or by time
    train_loss: float
    score: float = math.nan  # accuracy, or minus the mean squared error of the standardised target
    loss: float = math.nan  # log loss, or the mean squared error
    losses: tuple[float, ...] = ()  # of each member on its own rows


class Hook(Protocol):
    """Called after each epoch and each validation; an error that it raises ends the training of its bag."""

    def on_epoch(self, progress: Progress) -> None: ...

    def on_validation(self, progress: Progress) -> None: ...


@dataclass(frozen=True)
class Result:
    """The members of a bag in the states to keep, and the validations that led to them."""

    network: Network
    history: list[Progress]
    best_epochs: tuple[int, ...]  # of each member


# ------------------------------------------------------------------------------------------------------------ the step


class Step(ABC):
    """Lets a network learn from a batch. Kinds of networks differ in their losses, optimiser and learning rate."""

    def __init__(self, network: Network, slow: Network, optimizer: Any, recipe: Recipe, random: Sequence[Any]) -> None:
        """Take the parts of a step: `slow` is what predicts; `random` are masking and dropouts, whatever draws."""
        self.network, self.slow, self.optimizer = network, slow, optimizer
        self.recipe, self.random = recipe, random

    @abstractmethod
    def losses(self, stored: Tensor, size: int, done: float, weights: Tensor | None) -> Tensor:
        """Return each member's loss (K,) on the first `size` of the stored rows (K, d, m), by weights (K, size)."""

    def learning_rate(self, done: float) -> float:
        """Return the rate when the share `done` of training is over."""
        return cosine(self.recipe.learning_rate, done)

    def learn(self, stored: Tensor, size: int, done: float, weights: Tensor | None = None) -> Tensor:
        """Take one optimiser step on the first `size` of the stored rows (K, d, m); return each member's loss (K,)."""
        losses = self.losses(stored, size, done, weights)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(done)
        self.optimizer.step()
        return losses.detach()

    def select(self, members: Sequence[int]) -> None:
        """Go on with some of the members."""
        for network in {id(one): one for one in (self.network, self.slow)}.values():
            network.select(members)
        for one in (self.optimizer, *self.random):
            one.select(members)

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that steps to come depend on."""
        states = {"network": self.network.state_dict(), "slow": self.slow.state_dict()}
        for i, of_parameter in self.optimizer.state_dict()["state"].items():
            states[f"optimizer {i}"] = of_parameter
        states |= {f"random {i}": one.state_dict() for i, one in enumerate(self.random)}
        return {f"{of} {name}": tensor for of, state in states.items() for name, tensor in state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from `state_dict()` of the same step."""

        def of(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}

        self.network.load_state_dict(of("network "))
        self.slow.load_state_dict(of("slow "))
        places = sorted({int(name.split()[0]) for name in of("optimizer ")})
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": {i: of(f"optimizer {i} ") for i in places}, "param_groups": groups})
        for i, one in enumerate(self.random):
            one.load_state_dict(of(f"random {i} "))


# ---------------------------------------------------------------------------------------------------------- validation


def member_losses(predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return score (higher is better) and loss of every row (K, b) from target predictions (K, width, b)."""
    if predicted.shape[1] == 1:
        error = (predicted.squeeze(1) - truth).square()
        return -error, error
    hits = (predicted.argmax(1) == truth).float()
    return hits, F.cross_entropy(predicted, truth.nan_to_num().long(), reduction="none")


@dataclass(frozen=True)
class Validation:
    """Sums of scores and losses of some members (K,) on the rows that each holds out, and of the rows' weights."""

    scores: Tensor
    losses: Tensor
    counts: Tensor  # how many rows there are, if none weighs more than others


def validate(network: Network, rows: Tensor, parts: Sequence[Part], weights: Tensor | None = None) -> Validation:
    """Let each member predict the rows that it holds out; `weights` (n,) are those of all rows."""
    memory = store_rows(network, rows, [part.train for part in parts])
    held_out, filled = gather(rows, [part.valid for part in parts])
    with torch.inference_mode():
        predicted = predict_target(network, held_out, memory)
        scores, losses = member_losses(predicted, held_out[:, network.target])
        counts = ~filled if filled is not None else torch.ones_like(scores, dtype=torch.bool)
        if weights is not None:
            counts = counts * gather(weights[:, None], [part.valid for part in parts])[0][:, 0]
        return Validation(*(x.sum(1).cpu() for x in (scores * counts, losses * counts, counts)))


class Best:
    """The states that did best in validation, and how many validations ago that was.

    One epoch is taken for all members of a bag, by the loss over all rows that they hold out.
    """

    def __init__(self, selection: str, bags: Tensor) -> None:
        self._selection, self._bags = selection, bags
        self.values = torch.full((len(bags),), -math.inf)
        self.epochs, self.ages = torch.zeros_like(bags), torch.zeros_like(bags)
        self.state: dict[str, Tensor] = {}

    def consider(self, epoch: int, members: Tensor, found: Validation, network: Network) -> None:
        """Take the states of those of `members`, which are what `network` holds, that have never been better."""
        value = found.scores if self._selection == "score" else -found.losses
        bags = self._bags[members]
        sums = torch.zeros(2, int(self._bags.max()) + 1)
        sums.index_add_(1, bags, torch.stack([value, found.counts.to(value.dtype)]).float())
        values = (sums[0] / sums[1])[bags]
        better = values > self.values[members]
        self.ages[members] += 1
        if better.any():
            self.values[members[better]] = values[better]
            self.keep(epoch, members, better, network)

    def keep(self, epoch: int, members: Tensor, which: Tensor, network: Network) -> None:
        """Take the states of those of `members` that `which` marks."""
        chosen = members[which]
        self.epochs[chosen], self.ages[chosen] = epoch, 0
        for name, tensor in network.state_dict().items():
            if name not in self.state:
                self.state[name] = tensor.new_zeros((len(self._bags), *tensor.shape[1:]))
            self.state[name] = self.state[name].to(tensor.device)  # a checkpoint is read into main memory
            self.state[name][chosen] = tensor[which]

    def state_dict(self) -> dict[str, Tensor]:
        figures = {"values": self.values, "epochs": self.epochs, "ages": self.ages}
        return figures | {f"state {name}": tensor for name, tensor in self.state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.values, self.epochs, self.ages = (state[name] for name in ("values", "epochs", "ages"))
        self.state = {name.removeprefix("state "): x for name, x in state.items() if name.startswith("state ")}


# ------------------------------------------------------------------------------------------------------------ training


class Clock:
    """Tells how much of training is done: the share of its steps, or of its seconds once these will not do for all.

    Until the time limit binds, time has no part in training, which then repeats bit for bit.
    """

    _EARLY = 0.05  # share of the seconds within which it is too early to tell whether they will do

    def __init__(self, steps: int, max_seconds: float | None) -> None:
        self._start, self._steps, self._step = time.perf_counter(), steps, 0
        self._max_seconds = math.inf if max_seconds is None else max_seconds
        self._before, self._first, self._is_short = 0, 0.0, False

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start

    def tick(self) -> None:
        """Count a step. The first one, which may take longer than the others, says nothing about those to come."""
        self._step += 1
        seconds = self.seconds
        if self._step == self._before + 1:
            self._first = seconds
        elif seconds > self._EARLY * self._max_seconds:
            pace = (seconds - self._first) / (self._step - self._before - 1)
            self._is_short |= seconds + pace * (self._steps - self._step) > self._max_seconds

    @property
    def done(self) -> float:
        of_steps, of_time = self._step / self._steps, self.seconds / self._max_seconds
        return min(1.0, max(of_steps, of_time) if self._is_short or of_time >= 1 else of_steps)

    def state_dict(self) -> dict[str, Tensor]:
        return {"clock": torch.tensor([self._step, self.seconds, self._is_short], dtype=torch.float64)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on with the steps and seconds of an earlier part of the same training."""
        step, seconds, is_short = state["clock"].tolist()
        self._start = time.perf_counter() - seconds
        self._step = self._before = int(step)
        self._first, self._is_short = seconds, bool(is_short)


class Batches:
    """The rows of every step, in an order of each member's own.

    A step stores its batch and the rows that follow it in the order of the epoch: a sample of all, since the order is
    random. A row's own entry is thereby stored at the row's place in the batch, where the network leaves it out.
    """

    def __init__(self, parts: Sequence[Part], n: int, recipe: Recipe, seeds: Sequence[int]) -> None:
        self._parts, self._n = list(parts), n
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.count = math.ceil(n / recipe.batch_size)
        self._stored = max(math.ceil(recipe.memory_ratio * n), min(2, n))

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        """Yield for each step of an epoch the places of the rows to store (K, m), batch first, and the batch's size."""
        orders = [
            part.train[torch.randperm(len(part.train), generator=generator)[: self._n]]
            for part, generator in zip(self._parts, self._generators, strict=True)
        ]
        order = torch.stack(orders)
        twice, start = torch.cat([order, order], dim=1), 0
        for batch in order.tensor_split(self.count, dim=1):  # sizes differ by one row at most
            size = batch.shape[1]
            yield twice[:, start : start + max(size, self._stored)], size
            start += size

    def select(self, members: Sequence[int]) -> None:
        """Go on with some of the members."""
        self._parts = [self._parts[k] for k in members]
        self._generators = [self._generators[k] for k in members]

    def state_dict(self) -> dict[str, Tensor]:
        return {"generators": generator_states(self._generators)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        restore_generators(self._generators, state["generators"])


def train(
    network: Network,
    rows: Tensor,
    parts: Sequence[Part],
    recipe: Recipe,
    *,
    step: Any,
    seeds: Sequence[int],
    bags: Sequence[int] | None = None,
    n_rows: int | None = None,
    weights: Tensor | None = None,
    max_seconds: float | None = None,
    hooks: Sequence[Sequence[Hook]] = (),
    bfloat16: bool = False,
    checkpoint: Checkpoint | None = None,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> list[Result | Exception]:
    """Train members on their parts of `rows` (n, d); return the slow weights of each bag, in the state that did best.

    `step` makes the network's `Step` from network, recipe, seeds, rows and parts. `bags` says for each member the bag
    that it belongs to, by default one bag for all; `hooks` are those of each bag. A bag stops after `patience`
    validations without improvement, or with the error of a hook, which is then its result; its members leave the stack.
    gamma and the learning rate follow a cosine over `max_epochs`, or over `max_seconds` if these end first. An epoch
    takes `n_rows` of each member's rows, by default as many as all have. `weights` (n,) are those of the rows, in what
    is minimised and in validation; they should be 1 on average.

    Training goes on from its `checkpoint`, bit for bit, if there is one, and writes it once in a while. The file stays
    if hooks have ended all bags. Once `is_interrupted`, which is asked after each step, training ends as it does when
    time is up, but the file stays.
    """
    n = n_rows or min(len(part.train) for part in parts)
    if n < 2:
        raise ValueError(f"training needs at least 2 rows, not {n}: a row may not be read by itself")
    bag_of = torch.zeros(len(parts), dtype=torch.long) if bags is None else torch.tensor(bags)
    n_bags = int(bag_of.max()) + 1
    hooks = hooks or [()] * n_bags
    if len(hooks) != n_bags:
        raise ValueError(f"hooks must hold a sequence for each of the {n_bags} bags, not {len(hooks)}")
    kept = copy.deepcopy(network)  # takes the best states in the end
    steps, batches = step(network, recipe, seeds, rows, parts), Batches(parts, n, recipe, seeds)
    if bfloat16:
        steps.network.round_products()  # and not the slow weights, which predict
    best, clock = Best(recipe.selection, bag_of), Clock(recipe.max_epochs * batches.count, max_seconds)
    epoch, members, interrupted = 0, torch.arange(len(parts)), False  # members still in the stack
    history: list[list[Progress]] = [[] for _ in range(n_bags)]
    errors: dict[int, Exception] = {}
    validates = all(len(part.valid) for part in parts)

    states = {"steps": steps, "batches": batches, "best": best, "clock": clock}
    before = None
    if checkpoint is not None:
        before = checkpoint.read(_identity(rows, parts, seeds, bag_of, n, recipe, steps, weights))
    if before is not None:
        epoch, members, history, errors = _from_facts(before.facts)
        for one in (steps, batches):
            one.select(members.tolist())
        for name, one in states.items():
            one.load_state_dict(before.under(name))

    while epoch < recipe.max_epochs:
        epoch += 1
        losses = []
        for places, size in batches:
            of_batch = None if weights is None else weights[places[:, :size]]
            losses.append(steps.learn(rows[places].mT.contiguous(), size, clock.done, of_batch))
            clock.tick()
            interrupted = is_interrupted()
            if interrupted or clock.done >= 1:
                break
        train_losses = torch.stack(losses).mean(0).cpu()
        ended = interrupted or clock.done >= 1 or epoch == recipe.max_epochs
        found = None
        if validates and (ended or epoch % recipe.validate_every == 0):
            found = validate(steps.slow, rows, [parts[k] for k in members], weights)
            best.consider(epoch, members, found, steps.slow)
        bags_now = bag_of[members]
        for bag in sorted(set(bags_now.tolist())):
            own = bags_now == bag
            train_loss = float(train_losses[own].mean())
            progress = Progress(epoch, recipe.max_epochs, clock.seconds, clock.done, train_loss)
            validated = None if found is None else _with_figures(progress, found, own)
            history[bag] += [] if validated is None else [validated]
            error = _call_hooks(hooks[bag], progress, validated)
            if error is not None:
                errors[bag] = error
        stays = best.ages[members] < recipe.patience
        stays &= torch.tensor([bag not in errors for bag in bags_now.tolist()])
        if ended or not stays.any():
            break
        if not stays.all():
            lossless = ~stays & (best.epochs[members] == 0)  # no loss of theirs was a number: their last state is kept
            best.keep(epoch, members, lossless, steps.slow)
            members = members[stays]
            for one in (steps, batches):
                one.select(stays.nonzero().squeeze(1).tolist())
        if checkpoint is not None and checkpoint.is_due():
            checkpoint.write(_to_facts(epoch, members, history, errors), states)

    best.keep(epoch, members, best.epochs[members] == 0, steps.slow)  # where there was nothing to validate on
    kept.load_state_dict(best.state)
    kept.requires_grad_(False)
    if checkpoint is not None and len(errors) < n_bags and not interrupted:
        checkpoint.remove()
    results: list[Result | Exception] = []
    for bag in range(n_bags):
        own_members = (bag_of == bag).nonzero().squeeze(1).tolist()
        chosen = kept if n_bags == 1 else pick(kept, own_members)
        results.append(errors.get(bag) or Result(chosen, history[bag], tuple(best.epochs[own_members].tolist())))
    return results


def _with_figures(progress: Progress, found: Validation, own: Tensor) -> Progress:
    """Return progress with what validation found for some members."""
    scores, losses, counts = found.scores[own], found.losses[own], found.counts[own]
    return replace(
        progress,
        score=float(scores.sum() / counts.sum()),
        loss=float(losses.sum() / counts.sum()),
        losses=tuple((losses / counts).tolist()),
    )


def _call_hooks(hooks: Sequence[Hook], progress: Progress, validated: Progress | None) -> Exception | None:
    """Tell the hooks of a bag where it stands; return the first error that one of them raises."""
    try:
        for hook in hooks:
            hook.on_epoch(progress)
        if validated is not None:
            for hook in hooks:
                hook.on_validation(validated)
    except Exception as error:
        return error
    return None


# ---------------------------------------------------------------------------------------------------------- checkpoints


def _identity(
    rows: Tensor,
    parts: Sequence[Part],
    seeds: Sequence[int],
    bags: Tensor,
    n: int,
    recipe: Recipe,
    steps: Step,
    weights: Tensor | None,
) -> str:
    """Identify a training run by all that it starts from. Its time limit may change."""
    groups = [
        {name: value for name, value in group.items() if name != "params"} for group in steps.optimizer.param_groups
    ]
    rounded = any(module.rounds for module in steps.network.modules() if isinstance(module, Linear))
    settings = (rows.device.type, rounded, list(seeds), bags.tolist(), n, recipe, type(steps).__name__, groups)
    tensors = {"rows": rows, **{f"train {k}": part.train for k, part in enumerate(parts)}}
    tensors |= {f"valid {k}": part.valid for k, part in enumerate(parts)}
    tensors |= {} if weights is None else {"weights": weights}
    return digest(settings, {**tensors, **steps.state_dict()})


def _to_facts(
    epoch: int, members: Tensor, history: Sequence[Sequence[Progress]], errors: dict[int, Exception]
) -> dict[str, Any]:
    """Return where training stands as plain values."""
    return {
        "epoch": epoch,
        "members": members.tolist(),
        "history": [[asdict(progress) for progress in of_bag] for of_bag in history],
        "errors": [[bag, repr(error)] for bag, error in errors.items()],
    }


def _from_facts(facts: dict[str, Any]) -> tuple[int, Tensor, list[list[Progress]], dict[int, Exception]]:
    """Return where training stood. Of an error its text is left."""
    history = [[Progress(**{**one, "losses": tuple(one["losses"])}) for one in of_bag] for of_bag in facts["history"]]
    errors: dict[int, Exception] = {
        bag: RuntimeError(f"a hook ended this training before it was interrupted: {text}")
        for bag, text in facts["errors"]
    }
    return facts["epoch"], torch.tensor(facts["members"]), history, errors
