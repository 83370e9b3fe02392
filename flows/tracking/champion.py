"""Champions: the winner by validation on each dataset, registered under the dataset's name and replaced by better ones.

A method's validation score is the mean over its splits. A challenger must have been measured on all splits that the
champion was, and is compared on those; a dataset whose content has changed starts anew.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from flows.tracking.store import one_at_a_time
from hopular.report.words import plural

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

ALIAS = "champion"
SCORES, FINGERPRINT, METHOD = "hopular.valid_scores", "hopular.dataset_fingerprint", "hopular.method"
SHORT = 12  # characters of a split's fingerprint


@dataclass(frozen=True)
class Candidate:
    """A logged model and how it did on the validation rows of its split: accuracy, or minus the mean squared error."""

    model_id: str
    run_id: str
    method: str
    split: str
    split_fingerprint: str
    dataset_fingerprint: str
    valid_score: float


def registered_name(dataset: str) -> str:
    """`hopular-<dataset>`, with what a name in the registry or an address must not have replaced."""
    return f"hopular-{re.sub(r'[^A-Za-z0-9._-]+', '-', dataset).strip('-.')[:200] or 'dataset'}"


def promote(client: MlflowClient, dataset: str, candidates: Iterable[Candidate]) -> str:
    """Make the best candidate the champion if it beats the present one, and say in a sentence what was decided and why.

    The candidates are of one dataset. Done again with the same ones it changes nothing.
    """
    by_method: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_method[candidate.method].append(candidate)
    name = registered_name(dataset)
    if not by_method:
        return f"{name} stays as it is: there is no model to choose from."
    best = max(by_method.values(), key=_standing)
    chosen = min(best, key=lambda candidate: candidate.split)
    scores = {candidate.split_fingerprint[:SHORT]: candidate.valid_score for candidate in best}
    with one_at_a_time("champions"):
        present = champion(client, dataset)
        is_better, reason = _judge(present, chosen, scores)
        if present is not None and not is_better:
            return f"{name} stays {present.tags.get(METHOD)}, version {present.version}: {reason}"
        description = f"{chosen.method} on {dataset}, {chosen.split}: {reason}"
        version = _register(client, name, chosen, scores, description)
    return f"{name} is now {chosen.method}, version {version}: {reason}"


def champion(client: MlflowClient, dataset: str) -> ModelVersion | None:
    """The registered version that is a dataset's champion; None if there is none yet."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version_by_alias(registered_name(dataset), ALIAS)
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise


def _standing(candidates: list[Candidate]) -> tuple[int, float, str]:
    """More splits first, since a mean over fewer might be over the easy ones; then the score; the name settles ties."""
    return len(candidates), fmean(candidate.valid_score for candidate in candidates), candidates[0].method


def _judge(present: ModelVersion | None, chosen: Candidate, scores: Mapping[str, float]) -> tuple[bool, str]:
    """Whether the chosen one should be champion, and why or why not."""
    reached = f"validation score {fmean(scores.values()):z.4g} (mean of {plural(len(scores), 'split')})"
    if len(scores) == 1:
        reached = f"validation score {fmean(scores.values()):z.4g}"
    if present is None:
        return True, f"{reached}, the best of the first benchmark on this dataset."
    if present.tags.get(FINGERPRINT) != chosen.dataset_fingerprint:
        return True, f"{reached}, the best since the dataset has changed."
    before: dict[str, float] = json.loads(present.tags.get(SCORES, "{}"))
    common = sorted(set(before) & set(scores))
    if not common:
        return False, f"{chosen.method} was measured on other splits, which cannot be compared."
    if len(common) < len(before):  # they may be the easy ones
        return False, f"{chosen.method} was measured on {len(common)} of its {plural(len(before), 'split')} only."
    old, new = (fmean(values[split] for split in common) for values in (before, scores))
    if new <= old:
        return False, "nothing did better."
    return True, f"validation score {new:z.4g} against {old:z.4g} of {present.tags.get(METHOD)} before."


def _register(client: MlflowClient, name: str, chosen: Candidate, scores: Mapping[str, float], description: str) -> str:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name, description="The best model by validation; see the alias champion.")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    tags = {
        SCORES: json.dumps(dict(scores)),
        FINGERPRINT: chosen.dataset_fingerprint,
        METHOD: chosen.method,
        "hopular.split": chosen.split,
    }
    version = client.create_model_version(
        name,
        client.get_logged_model(chosen.model_id).artifact_location,  # models:/... would ask MLflow's default store
        run_id=chosen.run_id,
        tags=tags,
        description=description,
        model_id=chosen.model_id,
    )
    client.set_registered_model_alias(name, ALIAS, version.version)
    shown = json.dumps([{"name": name, "version": version.version}])  # MLflow's pages of the model and its run show it
    client.set_logged_model_tags(chosen.model_id, {"mlflow.modelVersions": shown})
    return str(version.version)
