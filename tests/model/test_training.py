"""Training on toy tables: it learns, repeats by seed, obeys its hooks and limits, and keeps the right state."""

from __future__ import annotations

import math
import time

import pytest
import torch
from torch import Tensor

from hopular.model import training
from hopular.model.architecture import Architecture
from hopular.model.network import Hopular
from hopular.model.prediction import predict_target
from hopular.model.recipe import Recipe, make_recipe
from hopular.model.training import Clock, Progress, train, validate

WIDTHS = (1, 1, 1, 2)  # three numbers and the class that the signs of the first two decide together


def toy(n: int, seed: int) -> Tensor:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
    return torch.cat([x, (x[:, :1] * x[:, 1:2] > 0).float()], dim=1)


def make(seed: int = 0, **options) -> Hopular:
    torch.manual_seed(seed)
    options = {"n_blocks": 1, "n_networks": 2, "embedding_dim": 8, **options}
    return Hopular(Architecture(WIDTHS, 3, **options))


def short(n: int = 40, **changes) -> Recipe:
    return make_recipe("default", n, **{"max_epochs": 10, "validate_every": 1, "batch_size": n, **changes})


class Watch:
    """A hook that remembers what it saw; `stop_at` makes it end training as a pruner would."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.epochs: list[Progress] = []
        self.validations: list[Progress] = []
        self.states: list[dict[str, Tensor]] = []
        self.stop_at = stop_at

    def on_epoch(self, progress: Progress) -> None:
        assert progress.network is not None
        self.epochs.append(progress.without_network())
        self.states.append({name: x.clone() for name, x in progress.network.state_dict().items()})
        if progress.epoch == self.stop_at:
            raise StopIteration("pruned")

    def on_validation(self, progress: Progress) -> None:
        self.validations.append(progress.without_network())


class Recording(Hopular):
    """Remembers which rows each step stored and which it predicted; column 0 holds the row's number."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__(arch)
        self.stored: list[list[int]] = []
        self.predicted: list[list[int]] = []

    def store(self, rows: Tensor, dropouts=None):
        self.stored.append([int(x) for x in rows[:, 0]])
        return super().store(rows, dropouts)

    def forward(self, rows: Tensor, masked: Tensor, memory, dropouts=None, leave_out_own: bool = False):
        assert leave_out_own
        assert dropouts is not None
        self.predicted.append([int(x) for x in rows[:, 0]])
        return super().forward(rows, masked, memory, dropouts, leave_out_own)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# ---- learning ----


def test_a_rule_of_two_features_is_learnt() -> None:
    rows, test = toy(200, 0), toy(200, 1)
    network = make()
    before = validate(network, rows, test)
    result = train(network, rows, toy(100, 2), make_recipe("default", 200, max_epochs=200), seed=0)
    score, loss = validate(result.network, rows, test)
    assert before[0] < 0.7
    assert score > 0.85
    assert loss < 0.45 < before[1]
    assert result.history[-1].loss < 0.7 * result.history[0].loss


def test_a_number_is_learnt() -> None:
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    rows = torch.cat([x, (x[:, :1] - x[:, 1:]) / math.sqrt(2)], dim=1)
    torch.manual_seed(0)
    network = Hopular(Architecture((1, 1, 1), 2, n_blocks=1, n_networks=2, embedding_dim=8))
    result = train(network, rows[:200], None, make_recipe("default", 200, max_epochs=100), seed=0)
    score, loss = validate(result.network, rows[:200], rows[200:])
    assert score == -loss
    assert loss < 0.25  # of a variance of one


@pytest.mark.parametrize("bfloat16", [False, True])
def test_missing_values_and_bfloat16(bfloat16: bool) -> None:
    rows = toy(40, 0)
    rows[::3, 0] = torch.nan
    result = train(make(), rows, toy(20, 1), short(), seed=0, bfloat16=bfloat16)
    assert all(p.isfinite().all() and p.dtype == torch.float32 for p in result.network.parameters())
    assert len(result.history) == 10


@pytest.mark.parametrize("widths", [(1, 1, 1), (2, 3, 3)])
def test_tables_of_one_kind_train(widths: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.stack(
        [torch.randn(30, generator=generator) if w == 1 else torch.randint(w, (30,)).float() for w in widths], dim=1
    )
    torch.manual_seed(0)
    network = Hopular(Architecture(widths, 0, n_blocks=1, n_networks=2, embedding_dim=8))
    before = [p.detach().clone() for p in network.parameters()]
    result = train(network, rows, None, short(30), seed=0)
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
        states.append(train(network, toy(40, 0), toy(20, 1), recipe, seed=seed).network.state_dict())
    assert same(states[0], states[1])
    assert not same(states[0], states[2])


def test_validation_does_not_change_training() -> None:
    watches = [Watch(), Watch()]
    for watch, validation in zip(watches, (None, toy(20, 1)), strict=True):
        train(make(), toy(40, 0), validation, short(), seed=0, hooks=[watch])
    assert same(watches[0].states[-1], watches[1].states[-1])


# ---- hooks ----


def test_hooks_are_called_after_each_epoch_and_validation() -> None:
    first, second = Watch(), Watch()
    recipe = short(validate_every=3)
    result = train(make(), toy(40, 0), toy(20, 1), recipe, seed=0, hooks=[first, second])
    for watch in (first, second):
        assert [p.epoch for p in watch.epochs] == list(range(1, 11))
        assert [p.epoch for p in watch.validations] == [3, 6, 9, 10]  # and at the end
        assert watch.validations == result.history
        assert [p.done for p in watch.epochs] == [epoch / 10 for epoch in range(1, 11)]
    seconds = [p.seconds for p in first.epochs]
    assert seconds == sorted(seconds)
    assert all(p.max_epochs == 10 and math.isfinite(p.train_loss) and math.isnan(p.score) for p in first.epochs)
    assert all(p.network is None and 0 <= p.score <= 1 and p.loss > 0 for p in result.history)


def test_an_exception_of_a_hook_ends_training() -> None:
    watch = Watch(stop_at=3)
    with pytest.raises(StopIteration, match="pruned"):
        train(make(), toy(40, 0), None, short(), seed=0, hooks=[watch])
    assert len(watch.epochs) == 3


# ---- schedule and limits ----


@pytest.mark.parametrize("limit", ["epochs", "seconds"])
def test_the_schedule_spans_the_limit_that_ends_first(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def cosine(start: float, progress: float) -> float:
        seen.append(progress)
        return start * (1 - progress)

    monkeypatch.setattr(training, "cosine", cosine)
    max_epochs, max_seconds = (20, 1000.0) if limit == "epochs" else (1_000_000, 1.0)
    watch, start = Watch(), time.perf_counter()
    recipe = short(max_epochs=max_epochs, validate_every=max_epochs, batch_size=20)
    result = train(make(), toy(40, 0), toy(20, 1), recipe, seed=0, max_seconds=max_seconds, hooks=[watch])
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
    monkeypatch.setattr(training.time, "perf_counter", lambda: now[0])
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
        train(make(), toy(40, 0), toy(20, 1), short(), seed=0, max_seconds=limit).network.state_dict()
        for limit in (None, 600.0)
    ]
    assert same(*states)


def test_gamma_and_the_learning_rate_are_annealed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[float] = []
    monkeypatch.setattr(training, "cosine", lambda start, progress: starts.append(start) or start * (1 - progress))
    train(make(), toy(40, 0), None, short(learning_rate=0.03, gamma=0.7), seed=0)
    assert sorted(starts) == [0.03] * 10 + [0.7] * 10


def test_patience_ends_training() -> None:
    recipe = short(max_epochs=50, learning_rate=0.0, weight_decay=0.0, patience=4)  # nothing improves on the first
    result = train(make(), toy(40, 0), toy(20, 1), recipe, seed=0)
    assert [p.epoch for p in result.history] == [1, 2, 3, 4, 5]
    assert result.best_epoch == 1


# ---- batches and memory ----


@pytest.mark.parametrize(
    ("batch_size", "memory_ratio", "batches", "stored"),
    [
        (25, 1.0, [25], 25),
        (10, 1.0, [9, 9, 7], 25),
        (10, 0.5, [9, 9, 7], 13),
        (5, 0.01, [5] * 5, 5),
        (1, 0.01, [1] * 25, 2),
    ],
)
def test_batches_cover_the_rows_and_are_stored_first(
    batch_size: int, memory_ratio: float, batches: list[int], stored: int
) -> None:
    rows = toy(25, 0)
    rows[:, 0] = torch.arange(25)
    torch.manual_seed(0)
    network = Recording(Architecture(WIDTHS, 3, n_blocks=1, n_networks=2, embedding_dim=8))
    recipe = short(
        25,
        max_epochs=3,
        batch_size=batch_size,
        memory_ratio=memory_ratio,
        mask_probability=0.0,
        replace_probability=0.0,
    )
    train(network, rows, None, recipe, seed=0)
    epochs = [network.predicted[i : i + len(batches)] for i in range(0, 3 * len(batches), len(batches))]
    assert len(network.predicted) == 3 * len(batches)
    for epoch in epochs:
        assert [len(batch) for batch in epoch] == batches
        assert sorted(row for batch in epoch for row in batch) == list(range(25))
    assert epochs[0] != epochs[1]
    for batch, memory in zip(network.predicted, network.stored, strict=True):
        assert memory[: len(batch)] == batch  # so that a row's own entry is at its own place
        assert len(memory) == len(set(memory)) == max(stored, len(batch))
    if stored < 25:
        assert len({frozenset(memory) for memory in network.stored}) > 1  # the memory is drawn anew


# ---- the state that is kept ----


@pytest.mark.parametrize(("selection", "best"), [("score", 3), ("loss", 6)])
def test_the_first_of_the_best_states_is_kept(selection: str, best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = iter(zip([0.1, 0.2, 0.9, 0.3, 0.9, 0.8, 0.9, 0.1], [9.0, 8, 7, 6, 5, 1, 1, 2], strict=True))
    monkeypatch.setattr(training, "validate", lambda *_: next(figures))
    watch = Watch()
    result = train(make(), toy(40, 0), toy(20, 1), short(max_epochs=8, selection=selection), seed=0, hooks=[watch])
    assert result.best_epoch == best
    assert same(result.network.state_dict(), watch.states[best - 1])
    assert not same(watch.states[best - 1], watch.states[-1])


@pytest.mark.parametrize("selection", ["score", "loss"])
def test_the_figures_are_those_of_the_state_that_is_kept(selection: str) -> None:
    rows, validation = toy(40, 0), toy(30, 1)
    recipe = short(max_epochs=40, learning_rate=0.1, slow_rate=0.5, gamma=0.0, selection=selection)
    result = train(make(), rows, validation, recipe, seed=0)
    best = next(p for p in result.history if p.epoch == result.best_epoch)
    assert validate(result.network, rows, validation) == (best.score, best.loss)
    assert max(result.history, key=lambda p: p.score if selection == "score" else -p.loss) == best


def test_without_validation_the_last_state_is_kept() -> None:
    watch = Watch()
    result = train(make(), toy(40, 0), None, short(), seed=0, hooks=[watch])
    assert result.history == []
    assert result.best_epoch == 10
    assert same(result.network.state_dict(), watch.states[-1])
    assert not same(result.network.state_dict(), watch.states[-2])


def test_the_result_is_the_slow_weights() -> None:
    network = make()
    start = {name: x.clone() for name, x in network.state_dict().items()}
    result = train(network, toy(40, 0), None, short(max_epochs=1, slow_rate=0.25), seed=0)
    for name, fast in network.state_dict().items():  # one step: a quarter of the way
        torch.testing.assert_close(result.network.state_dict()[name], start[name].lerp(fast, 0.25))
    assert not any(p.requires_grad for p in result.network.parameters())


# ---- validation ----


def test_validation_figures_are_those_of_the_definitions() -> None:
    network, rows, stored = make(), toy(50, 0), toy(30, 1)
    predicted = predict_target(network, rows, network.store(stored)).softmax(1)
    truth = rows[:, 3].long()
    score, loss = validate(network, stored, rows)
    assert score == pytest.approx((predicted.argmax(1) == truth).float().mean().item())
    assert loss == pytest.approx(-predicted[torch.arange(50), truth].log().mean().item(), rel=1e-5)


# ---- recipes ----


def test_steps_of_wide_tables_see_fewer_stored_rows() -> None:
    stored = {d: round(1000 * make_recipe("default", 1000, d).memory_ratio) for d in (3, 10, 15, 21, 100)}
    assert stored == {3: 512, 10: 512, 15: 341, 21: 256, 100: 256}
    assert make_recipe("default", 200, 100).memory_ratio == 1


def test_the_paper_recipe_is_the_published_one() -> None:
    recipe = make_recipe("paper", 123)
    assert (recipe.max_epochs, recipe.batch_size, recipe.memory_ratio) == (10_000, 123, 1.0)
    assert (recipe.learning_rate, recipe.slow_rate, recipe.gamma) == (1e-3, 0.005, 1.0)
    assert (recipe.mask_probability, recipe.replace_probability, recipe.weight_decay) == (0.025, 0.175, 0.1)
    assert (recipe.validate_every, recipe.selection) == (10, "score")


def test_overrides_replace_a_recipes_values_unless_they_are_none() -> None:
    recipe = make_recipe("default", 1000, learning_rate=0.5, batch_size=None, max_epochs=400)
    assert recipe.learning_rate == 0.5
    assert recipe.batch_size == make_recipe("default", 1000).batch_size
    assert (recipe.max_epochs, recipe.validate_every) == (400, 10)


def test_impossible_recipes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"recipe must be one of \['default', 'paper'\], not 'quick'"):
        make_recipe("quick", 100)
    for name in ("max_epochs", "batch_size", "validate_every", "patience"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
            make_recipe("paper", 100, **{name: 0})
