"""Budget: how much a search may try, for how long, and by which criterion the best trial is chosen.

By default the criterion is the loss on the validation rows: log loss, or mean squared error. On few rows it tells more
than accuracy, which has many ties. The paper chose by accuracy, so its protocol does too. A regression is judged by
mean squared error either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from hopular.methods import Method
from hopular.model.architecture import ARCHITECTURES, choose_architecture
from hopular.model.recipe import RECIPES
from hopular.util import InputError, did_you_mean

Criterion = Literal["loss", "accuracy"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
DEFAULT_CRITERION: Criterion = "loss"


@dataclass(frozen=True)
class Budget:
    """Limits of one search; of a grid each setting is tried once."""

    trials: int = 10
    grid_trials: int | None = None  # for methods with a grid; None means the whole grid, however small `trials` is
    seconds_per_trial: float | None = None
    seconds: float | None = None  # of the whole search, restarts included
    max_epochs: int | None = None  # of methods that train by epochs; None leaves it to the method
    memory: float | None = None  # bytes that a trial's process may use
    replicates: int = 1  # seeds that the best setting is trained with
    recipe: str | None = None  # of methods that have the published one; None leaves it to the method
    architecture: str | None = None  # of Hopular; None means the paper's with its recipe, otherwise the default
    criterion: Criterion = DEFAULT_CRITERION  # what decides between trials
    prunes: bool = True  # whether trials of networks that do badly at half of their training are ended

    def __post_init__(self) -> None:
        for name in ("trials", "grid_trials", "max_epochs", "replicates"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise InputError(f"budget: {name} is {value!r}: use a whole number from 1 on")
        for name in ("seconds_per_trial", "seconds", "memory"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise InputError(f"budget: {name} is {value!r}: use a number above 0")
        if self.recipe is not None and self.recipe not in RECIPES:
            raise InputError(f"budget: recipe is {self.recipe!r}: use one of {', '.join(RECIPES)}")
        if self.architecture is not None and self.architecture not in ARCHITECTURES:
            hint = did_you_mean(self.architecture, ARCHITECTURES)
            raise InputError(
                f"there is no architecture {self.architecture!r}.{hint} There are: {', '.join(ARCHITECTURES)}"
            )
        if self.criterion not in CRITERIA:
            raise InputError(f"budget: criterion is {self.criterion!r}: use one of {', '.join(CRITERIA)}")

    def __repr__(self) -> str:
        """Return what studies and benchmarks are named by: the same whether the architecture was named or implied."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["architecture"] = choose_architecture(self.architecture, self.recipe)
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    def concerning(self, method: Method) -> Budget:
        """Return the budget without an architecture that a method does not have: its trials are the same with any.

        Hopular may be a member of an ensemble, so it concerns that too.
        """
        is_concerned = method.has_architecture or method.is_ensemble
        return self if is_concerned else replace(self, architecture="default")

    def slots(self, grid_size: int | None) -> int:
        """Return how many trials a search has: of a distribution `trials`, of a grid at most its size."""
        if grid_size is None:
            return self.trials
        return grid_size if self.grid_trials is None else min(grid_size, self.grid_trials)

    def architecture_of(self, method: Method) -> str | None:
        """Return the architecture that the method's search space is for; None if the method has no choice."""
        return choose_architecture(self.architecture, self.recipe) if method.has_architecture else None

    def settings_of(self, method: Method, params: Mapping[str, Any], trials: int = 1) -> dict[str, Any]:
        """Return a setting together with how the budget has the method trained, as far as that concerns the method.

        Where a search chooses among several `trials`, each of them trains a single member of the default architecture.
        """
        epochs = {"max_epochs": self.max_epochs} if method.has_curve and self.max_epochs is not None else {}
        recipe = {"recipe": self.recipe} if method.has_recipe and self.recipe is not None else {}
        settings = {**params, **epochs, **recipe}
        if method.has_architecture:
            asked = self.architecture or settings.get("architecture")
            settings["architecture"] = choose_architecture(asked, settings.get("recipe"))
            if trials > 1 and settings["architecture"] == "default":
                settings["n_members"] = 1
        return settings


PRESETS = {
    "smoke": Budget(trials=2, grid_trials=1, seconds_per_trial=20, max_epochs=10),
    "quick": Budget(trials=15, grid_trials=3, seconds_per_trial=120, seconds=900),
    "paper": Budget(trials=1000, replicates=3, recipe="paper", criterion="accuracy", prunes=False),
}


def preset(name: str, **overrides: Any) -> Budget:
    """Return a named budget with some of its limits changed."""
    if name not in PRESETS:
        raise InputError(f"there is no budget {name!r}.{did_you_mean(name, PRESETS)} There are: {', '.join(PRESETS)}")
    unknown = sorted(set(overrides) - set(Budget.__dataclass_fields__))
    if unknown:
        hint = did_you_mean(unknown[0], Budget.__dataclass_fields__)
        raise InputError(f"a budget has no limit {unknown[0]!r}.{hint}")
    return replace(PRESETS[name], **overrides)


def metric_of(criterion: Criterion, task: str) -> str:
    """Return the name of the metric that decides."""
    if task == "regression":
        return "mse"
    return "log_loss" if criterion == "loss" else "accuracy"


def score_of(criterion: Criterion, metrics: Mapping[str, float]) -> float:
    """Return what a search maximises: the accuracy, or minus the loss."""
    if "mse" in metrics:
        return 0.0 - metrics["mse"]  # of a perfect model not -0.0
    return metrics["accuracy"] if criterion == "accuracy" else 0.0 - metrics["log_loss"]
