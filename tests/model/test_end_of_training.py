"""How training ends and what is seen of it: a loss that still falls, Ctrl-C, and the progress bar."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from hopular.model.convergence import is_falling
from hopular.model.perceptron_estimators import MLPClassifier
from hopular.model.trainer import Progress

SMALL = {"random_state": 0, "device": "cpu", "n_layers": 1, "width": 8, "max_epochs": 8}


def table(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


def history(losses, max_epochs=None):
    return [Progress(i + 1, max_epochs or len(losses), 0.0, 0.0, 0.0, loss=loss) for i, loss in enumerate(losses)]


# ------------------------------------------------------------------------------------------------------ under-training


@pytest.mark.parametrize(
    ("losses", "max_epochs", "falls"),
    [
        ([1.0, 0.8, 0.6, 0.4], None, True),
        ([1.0, 0.5, 0.49, 0.48], None, False),  # hardly
        ([1.0, 0.3, 0.6, 0.4], None, False),  # it was lower before
        ([1.0, 0.8, 0.6, 0.4], 40, False),  # something else ended training
        ([0.4], None, False),  # nothing to compare with
        ([], None, False),
    ],
)
def test_a_loss_that_still_falls(losses, max_epochs, falls):
    assert is_falling(history(losses, max_epochs)) == falls


def test_under_training_warns_and_says_what_to_do():
    with pytest.warns(ConvergenceWarning, match=r"after max_epochs=8 while the validation loss was still .* to 16"):
        MLPClassifier(**{**SMALL, "learning_rate": 3e-3}).fit(*table())


def test_early_stopping_and_a_time_limit_do_not_warn():
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        MLPClassifier(**{**SMALL, "max_epochs": 100, "patience": 1, "learning_rate": 0.1}).fit(X, y)
        MLPClassifier(**{**SMALL, "max_epochs": 100_000, "max_seconds": 0.2, "learning_rate": 1e-4}).fit(X, y)


# -------------------------------------------------------------------------------------------------------------- Ctrl-C

ENDLESS = """
    import sys, warnings
    import numpy as np
    from hopular.model.perceptron_estimators import MLPClassifier

    class Tell:
        def on_epoch(self, progress):
            if progress.epoch == 3:
                print("training", flush=True)

        def on_validation(self, progress):
            pass

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    model = MLPClassifier(
        n_layers=1, width=8, max_epochs=10**9, patience=10**9, device="cpu", keep_on_interrupt=sys.argv[1] == "keep"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, hooks=[Tell()])
        except KeyboardInterrupt:
            print("interrupted", sorted(name for name in vars(model) if name.endswith("_")))
        else:
            print(len(model.predict(X)) == len(X), model.best_epochs_[0] <= model.history_[-1].epoch)
            print(*(f"{one.category.__name__}: {one.message}" for one in caught))
    try:
        signal = __import__("signal")
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        print("the handler is back")
"""


def interrupted(what):
    """What a process prints whose fit gets a SIGINT."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENDLESS), what], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "training\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return out.splitlines()


def test_ctrl_c_keeps_the_best_state_if_asked():
    usable, warning, handler = interrupted("keep")
    assert usable == "True True"
    assert warning.startswith("ConvergenceWarning: fit was interrupted in epoch ")
    assert warning.endswith(": the best state so far is kept.")
    assert handler == "the handler is back"


def test_ctrl_c_leaves_the_estimator_as_it_was():
    assert interrupted("leave") == ["interrupted []", "the handler is back"]


# ------------------------------------------------------------------------------------------------------------- the bar


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_bar_is_drawn_if_asked(capsys):
    quiet = MLPClassifier(**SMALL).fit(*table())
    assert capsys.readouterr() == ("", "")
    shown = MLPClassifier(**SMALL, verbose=1).fit(*table())
    out, err = capsys.readouterr()
    assert out == ""
    assert "MLPClassifier: 100%" in err
    assert "8/8" in err
    best = min(p.loss for p in shown.history_)
    assert f"best={best:.3g}" in err
    assert [p.loss for p in shown.history_] == [p.loss for p in quiet.history_]


def test_verbose_is_0_or_1():
    with pytest.raises(ValueError, match=r"verbose must be one of \[0, 1\], not 7"):
        MLPClassifier(verbose=7).fit(*table())
