"""Optuna's tables, written directly: a trial enters them in the very transaction that ends its lease.

Optuna's own way asks the database some forty questions a trial and commits by itself, so that a trial could be stored
though its lease was lost. Its tables have had the same version since 2022; if `KNOWN` is false they have another one,
and that way is taken.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from optuna.distributions import distribution_to_json
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial
from sqlalchemy.orm import Session

KNOWN = models.SCHEMA_VERSION == 12


def insert_trial(session: Session, study: int, trial: FrozenTrial) -> None:
    """Add a finished trial to a study, as `optuna.Study.add_trial` does."""
    models.StudyModel.find_or_raise_by_id(study, session, for_update=True)  # numbers are given one after another
    row = models.TrialModel(
        study_id=study,
        state=trial.state,
        datetime_start=trial.datetime_start,
        datetime_complete=trial.datetime_complete,
    )
    session.add(row)
    session.flush()
    row.number = row.count_past_trials(session)
    key, parts = row.trial_id, []
    for name, value in trial.params.items():
        space = trial.distributions[name]
        internal, text = space.to_internal_repr(value), distribution_to_json(space)
        parts.append(
            models.TrialParamModel(trial_id=key, param_name=name, param_value=internal, distribution_json=text)
        )
    for name, value in trial.user_attrs.items():
        parts.append(models.TrialUserAttributeModel(trial_id=key, key=name, value_json=json.dumps(value)))
    for step, value in trial.intermediate_values.items():
        number, kind = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr(value)
        column = {"intermediate_value": number, "intermediate_value_type": kind}
        parts.append(models.TrialIntermediateValueModel(trial_id=key, step=step, **column))
    if trial.values is not None:
        score, type_ = models.TrialValueModel.value_to_stored_repr(trial.values[0])
        parts.append(models.TrialValueModel(trial_id=key, objective=0, value=score, value_type=type_))
    session.add_all(parts)


def count_trials(session: Session, study: int) -> int:
    """How many trials a study has."""
    query = sa.select(sa.func.count()).where(models.TrialModel.study_id == study)
    return int(session.execute(query).scalar_one())
