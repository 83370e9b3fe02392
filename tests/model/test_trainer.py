"""Training on toy tables: it learns, repeats by seed, obeys its hooks and limits, and keeps the right state.

Members of a stack learn what they learn alone, up to the order in which sums are taken: a product of several members
may go another way through the library than that of one, and differ in the last bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from hopular.model import network as network_module
from hopular.model import trainer
from hopular.model.architecture import Architecture
from hopular.model.network import Hopular, HopularStep
from hopular.model.prediction import predict_target
from hopular.model.recipe import Recipe, make_recipe
from hopular.model.trainer import Clock, Part, Progress, Result, Validation, train, validate

WIDTHS = (1, 1, 1, 2)  # three numbers and the class that the signs of the first two decide together


def toy(n: int, seed: int) -> Tensor:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
    return torch.cat([x, (x[:, :1] * x[:, 1:2] > 0).float()], dim=1)


def make(seeds: Sequence[int] = (0,), betas: Sequence[float] | None = None, **options) -> Hopular:
    options = {"n_blocks": 1, "n_networks": 2, "embedding_dim": 8, **options}
    return Hopular(Architecture(WIDTHS, 3, **options), seeds, betas)


def short(n: int = 40, **changes) -> Recipe:
    return make_recipe("default", n, **{"max_epochs": 10, "validate_every": 1, "batch_size": n, **changes})


def places(start: int, stop: int) -> Tensor:
    return torch.arange(start, stop)


def train_one(network: Hopular, rows: Tensor, valid: Tensor | None, recipe: Recipe, *, hooks=(), **options) -> Result:
    """Train a single member as the paper does; raise what a hook of its has raised."""
    table = rows if valid is None else torch.cat([rows, valid])
    part = Part(places(0, len(rows)), places(len(rows), len(table)))
    (result,) = train(network, table, [part], recipe, hooks=[hooks], **{"seeds": [0], "step": HopularStep, **options})
    if isinstance(result, Exception):
        raise result
    return result


def figures(network: Hopular, rows: Tensor, valid: Tensor) -> tuple[float, float]:
    """Score and loss of a single member."""
    part = Part(places(0, len(rows)), places(len(rows), len(rows) + len(valid)))
    found = validate(network, torch.cat([rows, valid]), [part])
    return float(found.scores / found.counts), float(found.losses / found.counts)


class Watch:
    """A hook that remembers what it saw; `stop_at` makes it end training as a pruner would."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.epochs: list[Progress] = []
        self.validations: list[Progress] = []
        self.stop_at = stop_at

    def on_epoch(self, progress: Progress) -> None:
        self.epochs.append(progress)
        if progress.epoch == self.stop_at:
            raise StopIteration("pruned")

    def on_validation(self, progress: Progress) -> None:
        self.validations.append(progress)


class WatchedStep(HopularStep):
    """Remembers the slow weights after each step, and how many members took it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.states: list[dict[str, Tensor]] = []
        self.members: list[int] = []

    def learn(self, stored: Tensor, size: int, done: float, weights: Tensor | None = None) -> Tensor:
        losses = super().learn(stored, size, done, weights)
        assert len(losses) == len(stored)
        self.members.append(len(stored))
        self.states.append({name: x.clone() for name, x in self.slow.state_dict().items()})
        return losses


def watching(made: list[WatchedStep]) -> Callable[..., WatchedStep]:
    """Return how to make a watched step, which is then found in `made`."""

    def step(*given: Any) -> WatchedStep:
        made.append(WatchedStep(*given))
        return made[-1]

    return step


class Recording(Hopular):
    """Remembers which rows each step stored and which it predicted; column 0 holds the row's number."""

    def __init__(self, arch: Architecture, seeds: Sequence[int]) -> None:
        super().__init__(arch, seeds)
        self.stored: list[list[list[int]]] = []
        self.predicted: list[list[list[int]]] = []

    def store(self, rows: Tensor, absent=None, dropouts=None):
        self.stored.append(rows[:, 0].int().tolist())
        return super().store(rows, absent, dropouts)

    def forward(self, rows: Tensor, masked: Tensor, memory, dropouts=None, leave_out_own: bool = False):
        assert leave_out_own
        assert dropouts is not None
        self.predicted.append(rows[:, 0].int().tolist())
        return super().forward(rows, masked, memory, dropouts, leave_out_own)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def assert_same_members(found: Result, expected: Result) -> None:
    """Compare weights after dozens of steps in which sums were taken in another order.

    The bias of keys that are not values as well adds the same to all scores of a softmax. It changes nothing, and its
    gradient is rounding alone, which LAMB makes steps of.
    """
    ours, theirs = found.network.state_dict(), expected.network.state_dict()
    free = () if found.network.arch.values == "tied" else [name for name in ours if name.endswith("key.bias")]
    for name in ours.keys() - free:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0.0, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    assert found.best_epochs == expected.best_epochs
    for p, q in zip(found.history, expected.history, strict=True):
        assert p.epoch == q.epoch
        assert (p.loss, p.train_loss) == pytest.approx((q.loss, q.train_loss), abs=1e-5)


# ---- learning ----


def test_a_rule_of_two_features_is_learnt() -> None:
    rows, test = toy(200, 0), toy(200, 1)
    network = make()
    before = figures(network, rows, test)
    result = train_one(network, rows, toy(100, 2), make_recipe("default", 200, max_epochs=200))
    score, loss = figures(result.network, rows, test)
    assert before[0] < 0.7
    assert score > 0.85
    assert loss < 0.45 < before[1]
    assert result.history[-1].loss < 0.7 * result.history[0].loss


def test_a_number_is_learnt() -> None:
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    rows = torch.cat([x, (x[:, :1] - x[:, 1:]) / math.sqrt(2)], dim=1)
    network = Hopular(Architecture((1, 1, 1), 2, n_blocks=1, n_networks=2, embedding_dim=8), [0])
    result = train_one(network, rows[:200], None, make_recipe("default", 200, max_epochs=100))
    score, loss = figures(result.network, rows[:200], rows[200:])
    assert score == -loss
    assert loss < 0.25  # of a variance of one


@pytest.mark.parametrize("bfloat16", [False, True])
def test_missing_values_and_bfloat16(bfloat16: bool) -> None:
    rows = toy(40, 0)
    rows[::3, 0] = torch.nan
    result = train_one(make(), rows, toy(20, 1), short(), bfloat16=bfloat16)
    assert all(p.isfinite().all() and p.dtype == torch.float32 for p in result.network.parameters())
    assert len(result.history) == 10


@pytest.mark.parametrize("widths", [(1, 1, 1), (2, 3, 3)])
def test_tables_of_one_kind_train(widths: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.stack(
        [torch.randn(30, generator=generator) if w == 1 else torch.randint(w, (30,)).float() for w in widths], dim=1
    )
    network = Hopular(Architecture(widths, 0, n_blocks=1, n_networks=2, embedding_dim=8), [0])
    before = [p.detach().clone() for p in network.parameters()]
    result = train_one(network, rows, None, short(30))
    for p, q in zip(result.network.parameters(), before, strict=True):
        assert p.isfinite().all()
        assert not torch.equal(p, q)


# ---- repeatability ----


def test_the_seed_decides_every_bit() -> None:
    recipe = short(batch_size=16, memory_ratio=0.6)
    states = []
    for seed, elsewhere in ((0, 1), (0, 2), (5, 1)):
        network = make()
        torch.manual_seed(elsewhere)  # the global generator has no part in training
        states.append(train_one(network, toy(40, 0), toy(20, 1), recipe, seeds=[seed]).network.state_dict())
    assert same(states[0], states[1])
    assert not same(states[0], states[2])


def test_validation_does_not_change_training() -> None:
    made: list[WatchedStep] = []
    for validation in (None, toy(20, 1)):
        train_one(make(), toy(40, 0), validation, short(), step=watching(made))
    assert same(made[0].states[-1], made[1].states[-1])


# ---- members of a stack ----

FOLDS = [Part(places(15, 60), places(0, 15)), Part(torch.cat([places(0, 15), places(29, 60)]), places(15, 29))]
FOLDS += [Part(torch.cat([places(0, 29), places(45, 60)]), places(29, 45))]
N_ROWS = min(len(part.train) for part in FOLDS)
SEEDS, BETAS = (3, 14, 15), (1.0, 0.3, 8.0)


def train_members(
    members: Sequence[int], recipe: Recipe, rows: Tensor | None = None, values: str = "separate", **options
):
    """Train some of three members that differ in everything that members may differ in."""
    seeds, betas = [SEEDS[k] for k in members], [BETAS[k] for k in members]
    parts = [FOLDS[k] for k in members]
    options = {"n_rows": N_ROWS, "bags": range(len(members)), **options}
    network = make(seeds, betas, values=values)
    return train(
        network, toy(60, 0) if rows is None else rows, parts, recipe, seeds=seeds, **{"step": HopularStep, **options}
    )


@pytest.mark.parametrize("values", ["separate", "tied"])
@pytest.mark.parametrize("beside", [(0, 1, 2), (2, 1, 0, 0)], ids=str)
def test_a_member_learns_alone_what_it_learns_in_a_stack(beside: tuple[int, ...], values: str) -> None:
    """Batches, stored rows, masks, dropout, beta, clipping, trust ratios and selection are its own."""
    recipe = short(N_ROWS, max_epochs=15, batch_size=15, memory_ratio=0.6)  # 45 steps
    in_stack = train_members(beside, recipe, values=values)
    for place, member in enumerate(beside):
        (alone,) = train_members([member], recipe, values=values)
        assert_same_members(in_stack[place], alone)


def test_members_of_one_stack_are_not_alike() -> None:
    """Equal members of equal seeds are equal; another seed, beta or fold each makes another member."""
    rows, recipe = toy(60, 0), short(N_ROWS, max_epochs=3)
    seeds, betas = [3, 3, 4, 3, 3], [1.0, 1.0, 1.0, 2.0, 1.0]
    parts = [FOLDS[0]] * 4 + [FOLDS[1]]
    results = train(
        make(seeds, betas), rows, parts, recipe, step=HopularStep, seeds=seeds, bags=range(5), n_rows=N_ROWS
    )
    weights = [result.network.blocks[0].samples.query.weight for result in results]
    assert torch.equal(weights[0], weights[1])
    assert not any(torch.equal(weights[0], other) for other in weights[2:])


def test_a_stack_repeats_bit_for_bit() -> None:
    recipe = short(N_ROWS, batch_size=15)
    one, other = (train_members((0, 1, 2), recipe, bags=None)[0] for _ in range(2))
    assert same(one.network.state_dict(), other.network.state_dict())


def one_fold_of_wrong_labels() -> Tensor:
    """Rows on which the second member, for what it has learnt, does worse than others."""
    rows = toy(60, 0)
    rows[15:29, 3] = 1 - rows[15:29, 3]
    return rows


def test_members_that_have_stopped_leave_the_stack() -> None:
    rows, made = one_fold_of_wrong_labels(), []
    recipe = short(N_ROWS, max_epochs=30, patience=4, gamma=0.0, slow_rate=0.5)
    results = train_members((0, 1, 2), recipe, rows, step=watching(made))
    stopped = [result.history[-1].epoch for result in results]
    assert len(set(stopped)) > 1
    assert made[0].members == [sum(last >= epoch for last in stopped) for epoch in range(1, max(stopped) + 1)]
    for member, result in enumerate(results):
        (alone,) = train_members([member], recipe, rows)
        assert_same_members(result, alone)


def test_members_of_one_bag_stop_together() -> None:
    made: list[WatchedStep] = []
    recipe = short(N_ROWS, max_epochs=30, learning_rate=0.0, weight_decay=0.0, patience=4)
    results = train_members((0, 1, 2), recipe, bags=[0, 1, 0], step=watching(made))
    assert [len(result.best_epochs) for result in results] == [2, 1]
    assert made[0].members == [3] * 5  # nothing improves on the first


# ---- joint selection ----


def test_one_epoch_is_kept_for_all_members_of_a_bag() -> None:
    """It is that of the least loss over all rows that they hold out; members in bags of their own have their own."""
    rows = one_fold_of_wrong_labels()
    recipe = short(N_ROWS, max_epochs=30, gamma=0.0, slow_rate=0.5)
    (joint,) = train_members((0, 1, 2), recipe, rows, bags=[0, 0, 0])
    counts = torch.tensor([len(part.valid) for part in FOLDS])
    losses = torch.tensor([p.losses for p in joint.history])  # (epochs, members)
    over_rows = (losses * counts).sum(1) / counts.sum()
    assert [p.loss for p in joint.history] == pytest.approx(over_rows.tolist(), rel=1e-5)
    assert joint.best_epochs == (int(over_rows.argmin()) + 1,) * 3
    own = train_members((0, 1, 2), recipe, rows)
    assert [result.best_epochs for result in own] == [(int(epoch) + 1,) for epoch in losses.argmin(0)]
    assert len({result.best_epochs for result in own}) > 1


def test_the_states_kept_are_those_of_the_joint_epoch() -> None:
    made: list[WatchedStep] = []
    recipe = short(N_ROWS, max_epochs=30, gamma=0.0, slow_rate=0.5)
    (joint,) = train_members((0, 1, 2), recipe, one_fold_of_wrong_labels(), bags=[0, 0, 0], step=watching(made))
    assert joint.best_epochs[0] < 30
    assert same(joint.network.state_dict(), made[0].states[joint.best_epochs[0] - 1])


# ---- hooks ----


def test_hooks_are_called_after_each_epoch_and_validation() -> None:
    first, second = Watch(), Watch()
    recipe = short(validate_every=3)
    result = train_one(make(), toy(40, 0), toy(20, 1), recipe, hooks=[first, second])
    for watch in (first, second):
        assert [p.epoch for p in watch.epochs] == list(range(1, 11))
        assert [p.epoch for p in watch.validations] == [3, 6, 9, 10]  # and at the end
        assert watch.validations == result.history
        assert [p.done for p in watch.epochs] == [epoch / 10 for epoch in range(1, 11)]
    seconds = [p.seconds for p in first.epochs]
    assert seconds == sorted(seconds)
    assert all(p.max_epochs == 10 and math.isfinite(p.train_loss) and math.isnan(p.score) for p in first.epochs)
    assert all(0 <= p.score <= 1 and p.loss > 0 and p.losses == pytest.approx([p.loss]) for p in result.history)


def test_an_exception_of_a_hook_ends_training() -> None:
    watch = Watch(stop_at=3)
    with pytest.raises(StopIteration, match="pruned"):
        train_one(make(), toy(40, 0), None, short(), hooks=[watch])
    assert len(watch.epochs) == 3


def test_an_exception_of_a_hook_ends_its_own_bag_alone() -> None:
    made: list[WatchedStep] = []
    watches, recipe = [Watch(), Watch(stop_at=3), Watch()], short(N_ROWS)
    results = train_members((0, 1, 2), recipe, hooks=[[watch] for watch in watches], step=watching(made))
    assert isinstance(results[1], StopIteration)
    assert str(results[1]) == "pruned"
    assert made[0].members == [3] * 3 + [2] * 7
    assert [len(watch.epochs) for watch in watches] == [10, 3, 10]
    for member in (0, 2):
        (alone,) = train_members([member], recipe)
        assert_same_members(results[member], alone)
        assert watches[member].validations == results[member].history


def test_an_interrupt_ends_all() -> None:
    class Interrupt(Watch):
        def on_epoch(self, progress: Progress) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_members((0, 1, 2), short(N_ROWS), hooks=[[], [Interrupt()], []])


def test_hooks_of_another_number_of_bags_are_refused() -> None:
    with pytest.raises(ValueError, match="hooks must hold a sequence for each of the 3 bags, not 1"):
        train_members((0, 1, 2), short(N_ROWS), hooks=[[Watch()]])


# ---- schedule and limits ----


@pytest.mark.parametrize("limit", ["epochs", "seconds"])
def test_the_schedule_spans_the_limit_that_ends_first(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def cosine(start: float, progress: float) -> float:
        seen.append(progress)
        return start * (1 - progress)

    for module in (trainer, network_module):
        monkeypatch.setattr(module, "cosine", cosine)
    max_epochs, max_seconds = (20, 1000.0) if limit == "epochs" else (1_000_000, 1.0)
    watch, start = Watch(), time.perf_counter()
    recipe = short(max_epochs=max_epochs, validate_every=max_epochs, batch_size=20)
    result = train_one(make(), toy(40, 0), toy(20, 1), recipe, max_seconds=max_seconds, hooks=[watch])
    steps = sorted(set(seen))
    assert seen == sorted(seen)
    assert seen[0] == pytest.approx(0, abs=1e-3)
    assert 0.8 < seen[-1] <= 1
    assert len(result.history) == 1  # a validation at the end, however it comes
    if limit == "epochs":
        torch.testing.assert_close(torch.tensor(steps), torch.arange(40) / 40)
        assert len(watch.epochs) == 20
    else:
        assert 0.9 < time.perf_counter() - start < 5
        assert 3 < len(watch.epochs) < 1_000_000


def clock_at(monkeypatch: pytest.MonkeyPatch, steps: int, max_seconds: float | None, moments: list[float]) -> Clock:
    """A clock whose steps end at the given moments."""
    now = [0.0]
    monkeypatch.setattr(trainer.time, "perf_counter", lambda: now[0])
    clock = Clock(steps, max_seconds)
    for now[0] in moments:
        clock.tick()
    return clock


@pytest.mark.parametrize(
    ("max_seconds", "moments", "done"),
    [
        (None, [1.0, 2.0], 0.02),
        (150.0, [1.0, 2.0], 0.02),  # it will be enough
        (150.0, [40.0, 41.0], 0.02),  # the first step is no measure, and there is time for the others
        (150.0, [3.0, 6.0], 0.02),  # too early to tell
        (150.0, [5.0, 10.0], 10 / 150),  # not enough: time steers
        (150.0, [1.0, 2.0, 90.0, 91.0, 92.0], 92 / 150),  # a stall after which it is not enough any more
        (150.0, [151.0], 1.0),
        (150.0, [2.0, *[4.0 + i / 100 for i in range(89)]], 0.9),
    ],
)
def test_time_counts_once_it_will_not_do(
    max_seconds: float | None, moments: list[float], done: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clock_at(monkeypatch, 100, max_seconds, moments).done == pytest.approx(done)


def test_a_limit_that_is_no_matter_does_not_change_a_bit() -> None:
    states = [
        train_one(make(), toy(40, 0), toy(20, 1), short(), max_seconds=limit).network.state_dict()
        for limit in (None, 600.0)
    ]
    assert same(*states)


def test_gamma_and_the_learning_rate_are_annealed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[float] = []
    for module in (trainer, network_module):
        monkeypatch.setattr(module, "cosine", lambda start, progress: starts.append(start) or start * (1 - progress))
    train_one(make(), toy(40, 0), None, short(learning_rate=0.03, gamma=0.7))
    assert sorted(starts) == [0.03] * 10 + [0.7] * 10


def test_patience_ends_training() -> None:
    recipe = short(max_epochs=50, learning_rate=0.0, weight_decay=0.0, patience=4)  # nothing improves on the first
    result = train_one(make(), toy(40, 0), toy(20, 1), recipe)
    assert [p.epoch for p in result.history] == [1, 2, 3, 4, 5]
    assert result.best_epochs == (1,)


def test_a_clock_goes_on_from_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    before = clock_at(monkeypatch, 100, 150.0, [5.0, 10.0])  # not enough: time steers
    after = Clock(100, 150.0)
    after.load_state_dict(before.state_dict())
    assert after.seconds == 10.0
    assert after.done == before.done == pytest.approx(10 / 150)


# ---- batches and memory ----


@pytest.mark.parametrize(
    ("batch_size", "memory_ratio", "n_batches", "stored"),
    [(25, 1.0, 1, 25), (10, 1.0, 3, 25), (10, 0.5, 3, 13), (5, 0.01, 5, 5), (1, 0.01, 25, 2)],
)
def test_batches_cover_the_rows_and_are_stored_first(
    batch_size: int, memory_ratio: float, n_batches: int, stored: int
) -> None:
    rows = toy(25, 0)
    rows[:, 0] = torch.arange(25)
    network = Recording(Architecture(WIDTHS, 3, n_blocks=1, n_networks=2, embedding_dim=8), [0, 1])
    recipe = short(
        25,
        max_epochs=3,
        batch_size=batch_size,
        memory_ratio=memory_ratio,
        mask_probability=0.0,
        replace_probability=0.0,
    )
    train(network, rows, [Part(places(0, 25), places(0, 0))] * 2, recipe, step=HopularStep, seeds=[0, 1])
    assert len(network.predicted) == 3 * n_batches
    orders = []
    for member in (0, 1):
        predicted, memories = ([step[member] for step in steps] for steps in (network.predicted, network.stored))
        epochs = [predicted[i : i + n_batches] for i in range(0, len(predicted), n_batches)]
        for epoch in epochs:
            assert max(map(len, epoch)) <= batch_size
            assert sorted(row for batch in epoch for row in batch) == list(range(25))
        for batch, memory in zip(predicted, memories, strict=True):
            assert memory[: len(batch)] == batch  # so that a row's own entry is at its own place
            assert len(memory) == len(set(memory)) == max(stored, len(batch))
        if stored < 25:
            assert len({frozenset(memory) for memory in memories}) > 1  # the memory is drawn anew
        orders += epochs
    assert len({str(order) for order in orders}) == 6  # each epoch and each member has its own


def test_members_see_as_many_rows_a_step_as_any_other() -> None:
    """Those with more rows leave some out, others in each epoch."""
    rows = toy(25, 0)
    rows[:, 0] = torch.arange(25)
    network = Recording(Architecture(WIDTHS, 3, n_blocks=1, n_networks=2, embedding_dim=8), [0, 1])
    recipe = short(25, max_epochs=20, mask_probability=0.0, replace_probability=0.0)
    parts = [Part(places(0, 25), places(0, 0)), Part(places(0, 20), places(0, 0))]
    train(network, rows, parts, recipe, step=HopularStep, seeds=[0, 1])
    assert all([len(of_member) for of_member in batch] == [20, 20] for batch in network.predicted)
    assert {row for batch in network.predicted for row in batch[0]} == set(range(25))
    assert {row for batch in network.predicted for row in batch[1]} == set(range(20))


def test_a_single_row_is_refused() -> None:
    with pytest.raises(ValueError, match="training needs at least 2 rows, not 1: a row may not be read by itself"):
        train_one(make(), toy(1, 0), None, short())


# ---- the state that is kept ----


@pytest.mark.parametrize(("selection", "best"), [("score", 3), ("loss", 6)])
def test_the_first_of_the_best_states_is_kept(selection: str, best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[WatchedStep] = []
    found = iter(zip([0.1, 0.2, 0.9, 0.3, 0.9, 0.8, 0.9, 0.1], [9.0, 8, 7, 6, 5, 1, 1, 2], strict=True))
    monkeypatch.setattr(
        trainer, "validate", lambda *_: Validation(*(torch.tensor([x]) for x in next(found)), torch.tensor([1]))
    )
    recipe = short(max_epochs=8, selection=selection)
    result = train_one(make(), toy(40, 0), toy(20, 1), recipe, step=watching(made))
    assert result.best_epochs == (best,)
    assert same(result.network.state_dict(), made[0].states[best - 1])
    assert not same(made[0].states[best - 1], made[0].states[-1])


@pytest.mark.parametrize("selection", ["score", "loss"])
def test_the_figures_are_those_of_the_state_that_is_kept(selection: str) -> None:
    rows, validation = toy(40, 0), toy(30, 1)
    recipe = short(max_epochs=40, learning_rate=0.1, slow_rate=0.5, gamma=0.0, selection=selection)
    result = train_one(make(), rows, validation, recipe)
    best = next(p for p in result.history if (p.epoch,) == result.best_epochs)
    assert figures(result.network, rows, validation) == (best.score, best.loss)
    assert max(result.history, key=lambda p: p.score if selection == "score" else -p.loss) == best


def test_without_validation_the_last_state_is_kept() -> None:
    made: list[WatchedStep] = []
    result = train_one(make(), toy(40, 0), None, short(), step=watching(made))
    assert result.history == []
    assert result.best_epochs == (10,)
    assert same(result.network.state_dict(), made[0].states[-1])
    assert not same(result.network.state_dict(), made[0].states[-2])


def test_the_result_is_the_slow_weights() -> None:
    network = make()
    start = {name: x.clone() for name, x in network.state_dict().items()}
    result = train_one(network, toy(40, 0), None, short(max_epochs=1, slow_rate=0.25))
    for name, fast in network.state_dict().items():  # one step: a quarter of the way
        torch.testing.assert_close(result.network.state_dict()[name], start[name].lerp(fast, 0.25))
    assert not any(p.requires_grad for p in result.network.parameters())


# ---- validation ----


def test_validation_figures_are_those_of_the_definitions() -> None:
    network, rows, stored = make(), toy(50, 0), toy(30, 1)
    predicted = predict_target(network, rows.T[None], network.store(stored.T[None]))[0].softmax(0)
    truth = rows[:, 3].long()
    score, loss = figures(network, stored, rows)
    assert score == pytest.approx((predicted.argmax(0) == truth).float().mean().item())
    assert loss == pytest.approx(-predicted[truth, torch.arange(50)].log().mean().item(), rel=1e-5)


def test_members_are_validated_each_on_its_own_rows() -> None:
    """Folds differ in size, so that members are filled up; what fills them up does not count and is not read."""
    rows, network = toy(60, 0), make(SEEDS, BETAS)
    found = validate(network, rows, FOLDS)
    assert found.counts.tolist() == [15, 14, 16]
    for k, part in enumerate(FOLDS):
        alone = figures(make([SEEDS[k]], [BETAS[k]]), rows[part.train], rows[part.valid])
        assert float(found.scores[k]) / len(part.valid) == pytest.approx(alone[0])
        assert float(found.losses[k]) / len(part.valid) == pytest.approx(alone[1], rel=1e-5)
