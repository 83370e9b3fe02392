"""Checkpoints: training that was interrupted goes on bit for bit, and from nothing that is not its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from hopular import HopularClassifier, HopularRegressor
from hopular.model import checkpoint
from hopular.model.checkpoint import Checkpoint
from hopular.model.table import fit_together
from tests.model.test_trainer import (
    N_ROWS,
    Watch,
    WatchedStep,
    one_fold_of_wrong_labels,
    short,
    train_members,
    watching,
)

SMALL = {"n_blocks": 1, "n_networks": 2, "embedding_dim": 8, "max_epochs": 12, "random_state": 0, "device": "cpu"}
LONG = {**SMALL, "max_epochs": 150, "n_members": 3}


@pytest.fixture(autouse=True)
def _after_every_epoch(monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.safetensors"


def numbers(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 3)) + y[:, None]
    X[::7, 1] = np.nan
    return X, y


class Interrupt:
    """Ends training in an epoch; notes the epochs that it saw."""

    def __init__(self, epoch=None, error=KeyboardInterrupt):
        self.epoch, self.error, self.seen = epoch, error, []

    def on_epoch(self, progress):
        self.seen.append(progress.epoch)
        if progress.epoch == self.epoch:
            raise self.error

    def on_validation(self, progress):
        pass


def assert_same(found, expected):
    """Compare two fitted estimators bit for bit, and their histories but for the seconds."""
    ours, theirs = found.network_.state_dict(), expected.network_.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert found.best_epochs_ == expected.best_epochs_
    assert [replace(p, seconds=0) for p in found.history_] == [replace(p, seconds=0) for p in expected.history_]
    for name in ("oof_proba_", "oof_prediction_"):
        assert hasattr(found, name) == hasattr(expected, name)
        if hasattr(found, name):
            assert np.array_equal(getattr(found, name), getattr(expected, name), equal_nan=True)


def interrupt(estimator, path, epoch, *given, error=KeyboardInterrupt):
    with pytest.raises(error):
        estimator.fit(*(given or numbers()), hooks=[Interrupt(epoch, error)], checkpoint=path)


# ---------------------------------------------------------------------------------------------------------- going on

FITS = {
    "one member": (HopularClassifier, {"n_members": 1}),
    "three members": (HopularClassifier, {"n_members": 3}),
    "mini-batches": (HopularClassifier, {"n_members": 2, "batch_size": 16, "memory_ratio": 0.5}),
    "numbers": (HopularRegressor, {"n_members": 3, "selection": "score"}),
    "the paper's way": (HopularClassifier, {"recipe": "paper"}),
    "as released": (HopularClassifier, {"architecture": "released", "n_members": 2}),
    "without dropout": (HopularRegressor, {"dropout_embedding": 0, "dropout_block": 0, "dropout_summary": 0}),
}


@pytest.mark.parametrize("epoch", [2, 7])
@pytest.mark.parametrize(("estimator", "parameters"), FITS.values(), ids=FITS.keys())
def test_an_interrupted_fit_goes_on_bit_for_bit(estimator, parameters, epoch, path):
    whole = estimator(**{**SMALL, **parameters}).fit(*numbers())
    model, hook = estimator(**{**SMALL, **parameters}), Interrupt()
    interrupt(model, path, epoch)
    assert path.exists()
    assert not hasattr(model, "network_")
    model.fit(*numbers(), hooks=[hook], checkpoint=str(path))
    assert hook.seen == list(range(epoch, 13))  # the epoch in which it was interrupted, and the others
    assert_same(model, whole)
    assert list(path.parent.iterdir()) == []  # nothing is left


def test_a_fit_can_be_interrupted_again_and_again(path):
    whole = HopularClassifier(**SMALL, n_members=2).fit(*numbers())
    for epoch in (2, 3, 4, 9, 12):
        interrupt(HopularClassifier(**SMALL, n_members=2), path, epoch)
    assert_same(HopularClassifier(**SMALL, n_members=2).fit(*numbers(), checkpoint=path), whole)


def test_a_checkpoint_changes_nothing(path):
    plain = HopularClassifier(**SMALL, n_members=2).fit(*numbers())
    assert_same(HopularClassifier(**SMALL, n_members=2).fit(*numbers(), checkpoint=path), plain)
    assert not path.exists()


def test_with_an_eval_set(path):
    given = (*numbers(), numbers(seed=1))
    whole = HopularClassifier(**SMALL, n_members=2).fit(*given)
    interrupt(HopularClassifier(**SMALL, n_members=2), path, 5, *given)
    assert_same(HopularClassifier(**SMALL, n_members=2).fit(*given, checkpoint=path), whole)


def test_the_error_of_a_hook_leaves_the_checkpoint(path):
    whole = HopularClassifier(**SMALL, n_members=2).fit(*numbers())
    model = HopularClassifier(**SMALL, n_members=2)
    interrupt(model, path, 5, error=TimeoutError)
    assert path.exists()
    assert_same(model.fit(*numbers(), checkpoint=path), whole)


def test_the_time_limit_may_change(path):
    whole = HopularClassifier(**SMALL, n_members=1).fit(*numbers())
    interrupt(HopularClassifier(**SMALL, n_members=1, max_seconds=900), path, 5)
    model = HopularClassifier(**SMALL, n_members=1, max_seconds=1800).fit(*numbers(), checkpoint=path)
    assert_same(model, whole)


def test_the_seconds_of_the_first_part_count(path):
    interrupt(HopularClassifier(**SMALL, n_members=1), path, 6)
    with safe_open(path, framework="pt") as file:
        before = file.get_tensor("clock/clock")[1].item()
    model = HopularClassifier(**SMALL, n_members=1).fit(*numbers(), checkpoint=path)
    seconds = [p.seconds for p in model.history_]
    assert seconds == sorted(seconds)
    assert seconds[5] > before > 0


KILLED = """
    import sys
    from hopular import HopularClassifier
    from hopular.model import checkpoint
    from tests.model.test_checkpoint import LONG, numbers

    class Tell:
        def on_epoch(self, progress):
            print(progress.epoch, flush=True)
        def on_validation(self, progress):
            pass

    checkpoint.EVERY = 0.0
    HopularClassifier(**LONG).fit(*numbers(), hooks=[Tell()], checkpoint=sys.argv[1])
"""


def test_a_killed_process(path):
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 10:
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    whole, hook = HopularClassifier(**LONG).fit(*numbers()), Interrupt()
    model = HopularClassifier(**LONG).fit(*numbers(), hooks=[hook], checkpoint=path)
    assert 10 <= hook.seen[0] <= 150
    assert_same(model, whole)
    assert list(path.parent.iterdir()) == []  # nor is a file that was being written


# ------------------------------------------------------------------------------------------------- members and bags


def test_members_that_have_left_the_stack_stay_away(path):
    rows, recipe = one_fold_of_wrong_labels(), short(N_ROWS, max_epochs=30, patience=4, gamma=0.0, slow_rate=0.5)
    made: list[WatchedStep] = []
    whole = train_members((0, 1, 2), recipe, rows, step=watching(made))
    first = made[0].members.index(2) + 1  # the first epoch without one of them
    stopped = min(range(3), key=lambda k: whole[k].history[-1].epoch)
    stays = Interrupt(first + 1)
    hooks = [[] if k == stopped else [stays] for k in range(3)]
    with pytest.raises(KeyboardInterrupt):
        train_members((0, 1, 2), recipe, rows, hooks=hooks, step=watching(made), checkpoint=Checkpoint(path))
    resumed = train_members((0, 1, 2), recipe, rows, step=watching(made), checkpoint=Checkpoint(path))
    assert made[2].members == made[0].members[first:]
    for found, expected in zip(resumed, whole, strict=True):
        ours, theirs = found.network.state_dict(), expected.network.state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        assert found.best_epochs == expected.best_epochs
        assert [replace(p, seconds=0) for p in found.history] == [replace(p, seconds=0) for p in expected.history]


def test_the_error_of_a_bag_is_not_forgotten(path):
    recipe = short(N_ROWS)
    with pytest.raises(KeyboardInterrupt):
        train_members((0, 1, 2), recipe, hooks=[[Watch(stop_at=3)], [], [Interrupt(5)]], checkpoint=Checkpoint(path))
    whole = train_members((0, 1, 2), recipe, hooks=[[Watch(stop_at=3)], [], []])
    resumed = train_members((0, 1, 2), recipe, checkpoint=Checkpoint(path))
    assert isinstance(resumed[0], RuntimeError)
    assert "a hook ended this training before it was interrupted: StopIteration('pruned')" in str(resumed[0])
    for k in (1, 2):
        ours, theirs = resumed[k].network.state_dict(), whole[k].network.state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert not path.exists()


def test_estimators_fitted_together(path):
    def some():
        return [HopularClassifier(**{**SMALL, "random_state": seed}, n_members=2, beta=1 + seed) for seed in range(3)]

    whole, resumed = some(), some()
    fit_together(whole, *numbers())
    with pytest.raises(KeyboardInterrupt):
        fit_together(resumed, *numbers(), hooks=[[], [Interrupt(6)], []], checkpoint=path)
    assert fit_together(resumed, *numbers(), checkpoint=path) == [None] * 3
    for found, expected in zip(resumed, whole, strict=True):
        assert_same(found, expected)
    assert not path.exists()


# ------------------------------------------------------------------------------------------------------------- the file


@pytest.fixture
def saved(path):
    interrupt(HopularClassifier(**SMALL, n_members=2), path, 4)
    return path


def test_the_file_is_safetensors_with_json_and_no_pickle(saved):
    with safe_open(saved, framework="pt") as file:
        facts = json.loads(file.metadata()["hopular"])
        names = set(file.keys())
    assert (facts["epoch"], facts["members"]) == (3, [0, 1])
    assert {name.split("/")[0] for name in names} == {"steps", "batches", "best", "clock"}
    assert not zipfile.is_zipfile(saved)  # as torch.save would write
    assert b"\x80\x04\x95" not in saved.read_bytes()  # the start of a pickle


def test_it_is_written_once_in_a_while(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 60.0)
    interrupt(HopularClassifier(**SMALL, n_members=1), path, 10)
    assert not path.exists()


def test_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "fit"
    interrupt(HopularClassifier(**SMALL, n_members=1), path, 3)
    assert path.exists()


OTHERS = {
    "seed": {"random_state": 1},
    "dropout": {"dropout_block": 0.2},
    "beta": {"beta": 2.0},
    "members": {"n_members": 3},
    "epochs": {"max_epochs": 13},
    "gamma": {"gamma": 0.5},
    "selection": {"selection": "score"},
    "decay": {"weight_decay": 0.2},
    "precision": {"precision": "bfloat16"},
    "values": {"values": "tied"},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_a_checkpoint_of_other_parameters_is_refused(saved, change):
    before = saved.read_bytes()
    model = HopularClassifier(**{**SMALL, "n_members": 2, **change})
    with pytest.raises(
        ValueError, match=r"fit.safetensors' belongs to another fit: .* or delete the file to begin anew"
    ):
        model.fit(*numbers(), checkpoint=saved)
    assert saved.read_bytes() == before
    assert not hasattr(model, "network_")


def test_a_checkpoint_of_other_rows_is_refused(saved):
    X, y = numbers()
    for other in ((X + 1e-3 * np.arange(3), 1 - y), (X[:-2], y[:-2])):
        with pytest.raises(ValueError, match=r"fit.safetensors' belongs to another fit"):
            HopularClassifier(**SMALL, n_members=2).fit(*other, checkpoint=saved)
    with pytest.raises(ValueError, match=r"fit.safetensors' belongs to another fit"):
        HopularClassifier(**SMALL, n_members=2).fit(X, y, eval_set=(X, y), checkpoint=saved)


def test_a_checkpoint_of_other_bags_is_refused(path):
    recipe = short(N_ROWS)
    with pytest.raises(KeyboardInterrupt):
        train_members((0, 1, 2), recipe, hooks=[[Interrupt(5)], [], []], checkpoint=Checkpoint(path))
    with pytest.raises(ValueError, match="belongs to another fit"):
        train_members((0, 1, 2), recipe, bags=[0, 0, 0], checkpoint=Checkpoint(path))


def test_a_model_is_no_checkpoint(path):
    HopularClassifier(**SMALL, n_members=2).fit(*numbers()).save(path)
    with pytest.raises(ValueError, match=r"fit.safetensors' belongs to another fit"):
        HopularClassifier(**SMALL, n_members=2).fit(*numbers(), checkpoint=path)
    assert path.exists()


@pytest.mark.parametrize("share", [0, 0.1, 0.9, 0.9999])
def test_a_damaged_checkpoint_is_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"fit.safetensors' cannot be read \(.*\). Delete it to begin anew"):
        HopularClassifier(**SMALL, n_members=2).fit(*numbers(), checkpoint=saved)
    saved.unlink()
    assert HopularClassifier(**SMALL, n_members=2).fit(*numbers(), checkpoint=saved).predict(numbers()[0]).shape == (
        60,
    )


def test_a_folder_is_no_checkpoint(tmp_path):
    with pytest.raises(ValueError, match="cannot be read"):
        HopularClassifier(**SMALL, n_members=2).fit(*numbers(), checkpoint=tmp_path)
