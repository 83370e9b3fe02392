"""The progress bar of a training, with epochs and losses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

from hopular.model.trainer import Hook, Progress


class _Bar:
    """Draws every epoch. The bar is made with the first one, which says how many there are at most."""

    def __init__(self, title: str) -> None:
        self._title, self._best = title, math.inf
        self._bar: Any = None

    def on_epoch(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar = tqdm(desc=self._title, total=progress.max_epochs, unit="epoch")
        self._bar.update(progress.epoch - self._bar.n)  # the first one may be that of a checkpoint

    def on_validation(self, progress: Progress) -> None:
        assert self._bar is not None
        if progress.loss < self._best:
            self._best = progress.loss
        self._bar.set_postfix(train=progress.train_loss, loss=progress.loss, best=self._best)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@contextmanager
def progress_bar(title: str) -> Iterator[Hook]:
    """Give a hook that draws a bar on standard error, or in a notebook, for as long as the block lasts."""
    bar = _Bar(title)
    try:
        yield bar
    finally:
        bar.close()
