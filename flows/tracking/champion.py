"""Champions: the winner by validation on each dataset, trained on all rows it can use and registered by its name.

Methods are compared by log loss or mean squared error on the validation rows, whatever chose among their settings, so
that champions of different budgets can be compared. A champion is replaced only by a method that

- was measured on all of its splits,
- has a lower mean loss there,
- and is ahead by more than noise. Losses are paired row by row: the noise is the standard error of the mean difference,
  over validation rows or over splits, whichever is larger, times the quantile of a normal distribution for a two-sided
  test at 5 %, divided by the number of settings that the challenging benchmark has tried on a split (Bonferroni). The
  best of a thousand settings is ahead by luck on rows that chose it; it has to be ahead by more than the best of two.

A dataset whose content has changed starts anew.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from flows.tracking.store import is_unavailable, one_at_a_time
from hopular.formatting import plural

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

_ALIAS = "champion"
RUNS, FINGERPRINT, METHOD = "hopular.validation_runs", "hopular.dataset_fingerprint", "hopular.method"
ROWS, TRAINED_ON, SPLIT = "hopular.rows", "hopular.trained_on", "hopular.split"
_VALIDATION = "predictions/validation.csv"  # of a unit's run: the loss on each validation row
_SHORT = 12  # characters of a split's fingerprint
_LEVEL = 0.05
Losses = Mapping[str, pd.Series]  # by split: the loss on each validation row, by its place in the dataset


@dataclass(frozen=True)
class Candidate:
    """A method on one split, whose model can be kept."""

    run_id: str  # has the losses on the validation rows
    method: str
    split: str
    split_fingerprint: str
    dataset_fingerprint: str
    loss: float  # on the validation rows: log loss or mean squared error
    tried: int  # settings


@dataclass(frozen=True)
class Decision:
    """A verdict on a dataset's champion: who is to replace it, if anyone, and why or why not."""

    dataset: str
    reason: str
    present: str = ""  # 'xgboost, version 2', if there is one
    chosen: tuple[Candidate, ...] = ()  # of one method, by split; none if the champion stays
    tried: int = 0  # settings on one split, by all methods

    def stays(self, reason: str = "") -> str:
        """Return the sentence that nothing changes, because of the decision or for another reason."""
        name = registered_name(self.dataset)
        said = f"{name} stays {self.present}" if self.present else f"there is no {name} yet"
        return f"{said}: {reason or self.reason}"


def registered_name(dataset: str) -> str:
    """Return `hopular-<dataset>`, with what a name in the registry or an address must not have replaced."""
    return f"hopular-{re.sub(r'[^A-Za-z0-9._-]+', '-', dataset).strip('-.')[:200] or 'dataset'}"


def decide(client: MlflowClient, dataset: str, candidates: Iterable[Candidate]) -> Decision:
    """Find the best of the candidates, which are of one dataset, and whether it is to be its champion."""
    by_method: dict[str, list[Candidate]] = defaultdict(list)
    tried: dict[str, int] = defaultdict(int)
    for candidate in candidates:
        by_method[candidate.method].append(candidate)
        tried[candidate.split] += candidate.tried
    present = champion(client, dataset)
    name = "" if present is None else f"{present.tags.get(METHOD)}, version {present.version}"
    if not by_method:
        return Decision(dataset, "there is no model to choose from.", name)
    best = min(by_method.values(), key=_standing)
    chosen = tuple(sorted(best, key=lambda candidate: candidate.split))
    return _judge(client, present, Decision(dataset, "", name, chosen, max(tried.values())))


def promote(client: MlflowClient, decision: Decision, model_id: str, rows: str, trained_on: str) -> str:
    """Make a logged model the champion that `decision` asks for, and say so in a sentence.

    The decision is looked at again, since another benchmark may have made a champion meanwhile.
    """
    chosen, name = decision.chosen[0], registered_name(decision.dataset)
    with one_at_a_time("champions"):
        present = champion(client, decision.dataset)
        again = _judge(client, present, decision)
        if not again.chosen:
            return again.stays()
        tags = {
            RUNS: json.dumps({one.split_fingerprint[:_SHORT]: one.run_id for one in decision.chosen}),
            FINGERPRINT: chosen.dataset_fingerprint,
            METHOD: chosen.method,
            SPLIT: chosen.split,
            ROWS: rows,
            TRAINED_ON: trained_on,
        }
        card = (
            f"{chosen.method} on {decision.dataset}, {trained_on}, with the setting of {chosen.split}: {again.reason}"
        )
        version = _register(client, name, chosen, model_id, tags, card)
    return f"{name} is now {chosen.method}, version {version}, {trained_on}: {again.reason}"


def champion(client: MlflowClient, dataset: str) -> ModelVersion | None:
    """Return the registered version that is a dataset's champion; None if there is none yet."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version_by_alias(registered_name(dataset), _ALIAS)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise


def write_losses(folder: Path, rows: Sequence[int], losses: Sequence[float]) -> None:
    """Write the loss on each validation row as a file of a unit's run, by which champions are compared row by row."""
    file = folder / _VALIDATION
    file.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"row": rows, "loss": losses}).to_csv(file, index=False, lineterminator="\n")


def lead(before: Losses, after: Losses, tried: int) -> tuple[float, float]:
    """Return by how much `after` has the lower mean loss on the splits of `before`, and how much of that is noise."""
    gains = [before[split] - after[split] for split in before]
    by_row = pd.concat(gains).groupby(level=0).mean().to_numpy()  # a row may be a validation row of several splits
    by_split = np.array([gain.mean() for gain in gains])
    error = max(_standard_error(by_row), _standard_error(by_split) if len(by_split) > 1 else 0.0)
    return float(by_split.mean()), NormalDist().inv_cdf(1 - _LEVEL / 2 / tried) * error


def _standard_error(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def _standing(candidates: list[Candidate]) -> tuple[int, float, str]:
    """Sort by splits, since a mean over fewer might be over the easy ones, then by loss; the name settles ties."""
    return -len(candidates), fmean(candidate.loss for candidate in candidates), candidates[0].method


def _judge(client: MlflowClient, present: ModelVersion | None, asked: Decision) -> Decision:
    """Decide whether the chosen one is to be champion in place of the present one."""
    chosen, count = asked.chosen[0], len(asked.chosen)
    mean = f"validation loss {fmean(one.loss for one in asked.chosen):.4g}"
    if count > 1:
        mean += f" (mean of {count} splits)"
    name = "" if present is None else f"{present.tags.get(METHOD)}, version {present.version}"

    def decision(is_better: bool, reason: str) -> Decision:
        return Decision(asked.dataset, reason, name, asked.chosen if is_better else (), asked.tried)

    if present is None:
        return decision(True, f"{mean}, the best of the first benchmark on this dataset.")
    if present.tags.get(FINGERPRINT) != chosen.dataset_fingerprint:
        return decision(True, f"{mean}, the best since the dataset has changed.")
    runs: dict[str, str] = json.loads(present.tags.get(RUNS, "{}"))
    challengers = {one.split_fingerprint[:_SHORT]: one.run_id for one in asked.chosen}
    if runs and not set(runs) & set(challengers):
        return decision(False, f"{chosen.method} was measured on other splits, which cannot be compared.")
    common = sorted(set(runs) & set(challengers))
    if len(common) < len(runs):  # they may be the easy ones
        return decision(
            False, f"{chosen.method} was measured on {len(common)} of its {plural(len(runs), 'split')} only."
        )
    before = _read_losses(client, {split: runs[split] for split in common})
    if not before:
        return decision(True, f"{mean}; the champion before kept no losses by row to compare with.")
    after = _read_losses(client, {split: challengers[split] for split in common})
    if not after:
        return decision(False, f"{chosen.method} has no losses by row to compare.")
    gain, noise = lead(before, after, asked.tried)
    old, new = (fmean(values.mean() for values in losses.values()) for losses in (before, after))
    said = f"validation loss {new:.4g} against {old:.4g} of {present.tags.get(METHOD)}"
    if gain <= 0:
        return decision(False, "nothing did better.")
    if gain <= noise:
        return decision(False, f"{chosen.method} is within noise of it, {said}: {gain:.2g} ahead, noise {noise:.2g}.")
    return decision(True, f"{said} before: {gain:.2g} ahead, noise {noise:.2g}.")


def _read_losses(client: MlflowClient, runs: Mapping[str, str]) -> dict[str, pd.Series[float]]:
    """Read the losses by row of each split; empty if those of one are gone, deleted by a person perhaps."""
    from mlflow.exceptions import MlflowException

    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for place, (split, run_id) in enumerate(runs.items()):
            folder = Path(scratch, str(place))
            folder.mkdir()
            try:
                file = client.download_artifacts(run_id, _VALIDATION, str(folder))
            except (MlflowException, OSError) as error:
                if is_unavailable(error):
                    raise
                return {}
            found[split] = pd.read_csv(file, index_col="row")["loss"]
    return found


def _register(
    client: MlflowClient, name: str, chosen: Candidate, model_id: str, tags: Mapping[str, str], description: str
) -> str:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name, description="The best model by validation; see the alias champion.")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    version = client.create_model_version(
        name,
        client.get_logged_model(model_id).artifact_location,  # models:/... would ask MLflow's default store
        run_id=chosen.run_id,
        tags=dict(tags),
        description=description,
        model_id=model_id,
    )
    client.set_registered_model_alias(name, _ALIAS, version.version)
    shown = json.dumps([{"name": name, "version": version.version}])  # MLflow's pages of the model and its run show it
    client.set_logged_model_tags(model_id, {"mlflow.modelVersions": shown})
    return str(version.version)
