"""Space: the setting to try next, of a grid or as Optuna's TPE suggests from the finished trials."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.pruners import NopPruner, PercentilePruner
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState

from hopular.methods import MethodError, import_own

STARTUP = 10  # TPE takes over after this many random trials
BEST_PERCENT = 75.0  # a trial below this best share of the earlier ones, at the same point, is pruned
PRUNE_AFTER = 50  # no trial is pruned before this percent of its training: gamma leaves the target little weight
PRUNE_TRIALS = 4  # no trial is pruned before so many complete ones are there to compare with


@dataclass(frozen=True)
class Proposal:
    """A setting to try: for Optuna, and as the method takes it."""

    params: dict[str, Any]
    distributions: dict[str, BaseDistribution]
    settings: dict[str, Any]
    trial: Trial  # in memory, for the pruner


def load_space(method: str) -> ModuleType:
    """Return the module of a method's search space."""
    name = f"search_spaces.{method}"
    try:
        module = import_own(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MethodError(f"method {method!r} has no search space: add search_spaces/{method}.py") from error
    if not (hasattr(module, "grid") or hasattr(module, "suggest")):
        raise MethodError(f"search_spaces/{method}.py defines neither grid(size) nor suggest(trial, size)")
    return module


class Proposer:
    """Proposes the setting of a slot. The same slot after the same finished trials gets the same setting."""

    def __init__(
        self,
        method: str,
        size: str,
        seed: int,
        *,
        prunes: bool = True,
        architecture: str | None = None,
        first: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Load a method's space; `architecture` is that of a method with several, whose grid depends on it.

        The first slots have the settings in `first`, and the others what the space proposes.
        """
        self._method, self._module, self._size, self._seed = method, load_space(method), size, seed
        self.grid: list[dict[str, Any]] | None = None
        if hasattr(self._module, "grid"):
            choice = (size,) if architecture is None else (size, architecture)
            self.grid = [self._plain(settings) for settings in self._module.grid(*choice)]
            if not self.grid:
                raise MethodError(f"search_spaces/{method}.py has no setting for size {size!r}")
            known = [self._plain(settings) for settings in first]
            self.grid = known + [settings for settings in self.grid if settings not in known]
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruner = PercentilePruner(BEST_PERCENT, n_startup_trials=PRUNE_TRIALS, n_warmup_steps=PRUNE_AFTER)
        self._study = optuna.create_study(direction="maximize", pruner=pruner if prunes else NopPruner())
        self._known: set[int] = set()
        self._first = [self._plain(settings) for settings in first] if self.grid is None else []

    def learn(self, finished: Mapping[int, FrozenTrial]) -> None:
        """Take note of finished trials, in the order of their slots."""
        for slot, trial in finished.items():
            if slot not in self._known and slot >= len(self._first):
                self._study.add_trial(trial)
                self._known.add(slot)

    def propose(self, slot: int) -> Proposal:
        """Return the setting of a slot."""
        if slot < len(self._first):
            return Proposal({}, {}, self._first[slot], self._study.ask())
        if self.grid is not None:
            settings = self.grid[slot]
            params = {key: _choice(value) for key, value in settings.items()}
            return Proposal(params, {key: self._choices(key) for key in settings}, settings, self._study.ask())
        digest = hashlib.sha256(f"{self._seed} {slot - len(self._first)}".encode()).digest()
        seed = int.from_bytes(digest[:4], "little")
        with warnings.catch_warnings():  # of `group`, for choices within choices
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=STARTUP)
        self._study.sampler = sampler
        trial = self._study.ask()
        settings = self._plain(self._module.suggest(trial, self._size))
        return Proposal(trial.params, trial.distributions, settings, trial)

    def alike(self, slot: int, names: Sequence[str]) -> list[int]:
        """Return the slots of a grid whose settings differ from that of `slot` in parameters of these names only."""
        if self.grid is None or not names:
            return [slot]
        rest = [{key: value for key, value in setting.items() if key not in names} for setting in self.grid]
        return [place for place, other in enumerate(rest) if other == rest[slot]]

    def forget(self, proposal: Proposal) -> None:
        """Close the trial in memory: its outcome comes back through `learn`."""
        self._study.tell(proposal.trial, state=TrialState.FAIL)

    def _choices(self, key: str) -> CategoricalDistribution:
        assert self.grid is not None
        values = {json.dumps(setting[key]): _choice(setting[key]) for setting in self.grid if key in setting}
        return CategoricalDistribution(list(values.values()))

    def _plain(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return a setting as it is stored: a method gets the same whether or not it went through the database."""
        try:
            plain: dict[str, Any] = json.loads(json.dumps(dict(settings)))
        except (TypeError, ValueError) as error:
            raise MethodError(
                f"search_spaces/{self._method}.py: a setting must be made of plain Python values: {error}"
            ) from error
        return plain


def _choice(value: Any) -> Any:
    """Return a value as Optuna stores it: what is no scalar as text."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)
