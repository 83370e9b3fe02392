"""A table as every estimator reads it: dates bring their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from hopular.methods import get_method
from hopular.methods.method import Run
from hopular.model.columns import check_table
from hopular.model.estimator import HopularClassifier

QUICK = {"max_epochs": 2, "n_members": 2, "random_state": 0}


def opening_hours(n: int = 400) -> tuple[pd.DataFrame, pd.Series]:
    """Make visits to a shop that is open on weekdays from 9 to 18, and on Saturday mornings."""
    rng = np.random.default_rng(0)
    since = pd.Timestamp("2023-03-01") + pd.to_timedelta(rng.integers(0, 500 * 24 * 60, n), unit="min")
    day, hour = since.day_of_week, since.hour
    is_open = ((day < 5) & (hour >= 9) & (hour < 18)) | ((day == 5) & (hour >= 9) & (hour < 13))
    return pd.DataFrame({"since": since, "noise": rng.normal(size=n)}), pd.Series(np.where(is_open, "open", "shut"))


def test_parts_of_dates_follow_the_columns_and_are_named_after_them() -> None:
    frame = opening_hours()[0]
    estimator = BaseEstimator()
    table = check_table(estimator, frame, reset=True)
    parts = ["year", "month", "day", "weekday", "hour", "clock"]
    assert list(table.columns) == ["since", "noise", *(f"since: {part}" for part in parts)]
    assert estimator.n_features_in_ == 2
    assert list(estimator.feature_names_in_) == ["since", "noise"]
    one_day = frame[frame["since"].dt.date == frame["since"].dt.date[0]]
    assert list(check_table(estimator, one_day, reset=False).columns) == list(table.columns)
    assert list(check_table(BaseEstimator(), frame[["noise"]], reset=True).columns) == ["noise"]


def test_new_rows_have_the_parts_of_training_whatever_the_type_of_their_dates() -> None:
    frame, estimator = opening_hours(20)[0], BaseEstimator()
    table = check_table(estimator, frame, reset=True)
    since = (frame["since"] - pd.Timestamp(0)).dt.total_seconds()
    for column in (frame["since"].astype(object), frame["since"].dt.tz_localize("UTC").dt.tz_convert("CET"), since):
        again = check_table(estimator, frame.assign(since=column), reset=False)
        pd.testing.assert_frame_equal(again.iloc[:, 2:], table.iloc[:, 2:])
    missing = check_table(estimator, frame.assign(since=None), reset=False)
    assert list(missing.columns) == list(table.columns)
    assert missing.iloc[:, 2:].isna().all(axis=None)


@pytest.mark.parametrize("name", ["catboost", "lightgbm", "xgboost", "random_forest", "glm"])
def test_methods_learn_opening_hours_and_save_what_they_learned(name: str, tmp_path: Path) -> None:
    X, y = opening_hours()
    model = get_method(name).make("classification", {}, Run(seed=0)).fit(X[:300], y[:300])
    assert (model.predict(X[300:]) == y[300:]).mean() > 0.85, "two of three are shut"
    model.save(tmp_path)
    np.testing.assert_array_equal(type(model).load(tmp_path).predict_proba(X), model.predict_proba(X))


def test_hopular_reads_parts_saves_them_and_fills_dates_without_showing_them(tmp_path: Path) -> None:
    X, y = opening_hours(60)
    model: Any = HopularClassifier(**QUICK).fit(X, y)
    names = {attribute.name for attribute in model.encoding_.attributes}
    assert {"since", "since: weekday", "since: hour", "since: clock"} <= names
    model.save(tmp_path / "model.safetensors")
    loaded = HopularClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    holes = X.copy()
    holes.loc[:5, "since"] = pd.NaT
    filled = model.impute(holes)
    assert list(filled.columns) == list(X.columns)
    assert filled["since"].notna().all()
