"""Warnings of a training that ended before it should have."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from sklearn.exceptions import ConvergenceWarning

from hopular.model.trainer import Progress

LAST = 0.25  # share of the epochs that are looked at
FALL = 0.05  # of the loss over these, from which on more epochs promise a better model


def is_falling(history: Sequence[Progress]) -> bool:
    """Tell whether the epochs were over while the validation loss still fell clearly."""
    if not history or history[-1].epoch < history[-1].max_epochs:
        return False
    last = history[-1]
    before = [progress.loss for progress in history if progress.epoch <= (1 - LAST) * last.max_epochs]
    return bool(before) and last.loss < (1 - FALL) * min(before)


def warn_of_end(history: Sequence[Progress], is_interrupted: bool, stacklevel: int) -> None:
    """Warn if training was interrupted, or ended while the validation loss was still falling."""
    if is_interrupted:
        reached = f" in epoch {history[-1].epoch} of {history[-1].max_epochs}" if history else ""
        message = f"fit was interrupted{reached}: the best state so far is kept."
    elif is_falling(history):
        epochs = history[-1].max_epochs
        message = (
            f"training ended after max_epochs={epochs} while the validation loss was still falling, at "
            f"{history[-1].loss:.4g}. Set max_epochs to {2 * epochs} or more, or raise learning_rate."
        )
    else:
        return
    warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel + 1)
