"""Method: a competitor behind one contract."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hopular.data.dataset import Task
from hopular.model.architecture import ARCHITECTURES, choose_parts, describe_parts
from hopular.util import InputError

Group = Literal["deep", "boosting", "modern", "classical", "plain", "ensemble", "floor"]  # in the order of interest


class InvalidParametersError(InputError):
    """A method refuses its parameters: no fit with them can succeed."""


@dataclass(frozen=True)
class Run:
    """The circumstances of one fit, which are not hyperparameters."""

    seed: int = 0
    threads: int = 1
    device: str = "cpu"
    max_seconds: float | None = None  # a fit that can stop early ends by then; others are stopped from outside


Make = Callable[[Task, Mapping[str, Any], Run], Any]


@dataclass(frozen=True)
class Method:
    """A name and a way to make its estimator.

    `make(task, params, run)` returns a scikit-learn estimator whose `fit(X, y, eval_set=(X_valid, y_valid))` takes
    frames as a Dataset holds them (float64 and category columns, NaN) and labels as strings or numbers. Parameters out
    of range are refused by `make` with a ValueError, or by `fit` with InvalidParametersError or scikit-learn's own.
    Methods that stop early use `eval_set`, the others ignore it. Where `has_curve`, `fit` takes `hooks` with `on_epoch`
    and `on_validation` (see hopular.model.trainer.Hook), which may raise to end the fit. Settings that differ in what
    is named in `shares` only can be fitted at once, by hopular.model.table.fit_together; they may differ in seed, too.
    """

    name: str
    title: str
    group: Group
    make: Make
    tasks: tuple[Task, ...] = ("classification", "regression")
    paper_name: str | None = None  # its row in the paper's table of median ranks
    paper_note: str = ""  # where it is not like for like with that row
    packages: tuple[str, ...] = ()  # it computes with beside scikit-learn; another version is another result
    model_packages: tuple[str, ...] = ()  # that a saved model needs beside those, to be read
    extra: str | None = None  # the extra of this distribution that installs `packages`
    cost: float = 1.0  # of a first fit, relative to that of a linear model: `hopular fit` tries cheap methods first
    least_seconds: float = 0.0  # a shorter `hopular fit` leaves the method out unless it is named
    has_curve: bool = False
    has_recipe: bool = False  # `params` may name a recipe: "default", or "paper" for the published one
    has_architecture: bool = False  # `params` may name an architecture, and results say which one it was
    takes_folds: bool = False  # `fit` takes `folds` and trains them at once, see hopular.model.table.TableEstimator.fit
    takes_weights: bool = False  # `fit` takes `sample_weight`; others raise InputError if it is given
    needs_validation: bool = False  # it cannot tell when to stop without rows that it is not trained on
    retrieves: bool = False  # its estimator's `retrieve` names the training rows that a prediction was read from
    shares: tuple[str, ...] = ()  # parameters in which settings may differ that share one training
    uses_gpu: bool = False
    is_savable: bool = True  # without pickle
    notes: tuple[str, ...] = ()

    def architecture_of(self, params: Mapping[str, Any]) -> str:
        """Return the architecture that parameters name, in words; empty if there is no choice or none is named."""
        name = params.get("architecture") if self.has_architecture else None
        if name not in ARCHITECTURES:
            return str(name or "")
        return describe_parts(choose_parts(name, *(params.get(part) for part in ("embedding", "values", "summary"))))

    @property
    def is_ensemble(self) -> bool:
        """Tell whether it is made of other methods' models, and so comes after them."""
        return self.group == "ensemble"

    @property
    def missing_packages(self) -> list[str]:
        """Return the packages that are not installed."""
        return [name for name in self.packages if importlib.util.find_spec(name) is None]

    @property
    def install_command(self) -> str:
        """Return the command that installs what is missing."""
        return f"pip install 'hopular[{self.extra}]'" if self.extra else f"pip install {' '.join(self.packages)}"
