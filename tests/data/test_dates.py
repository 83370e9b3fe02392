"""The parts of dates are those of the calendar, and only those that differ are used."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hopular.data.dates import PARTS, date_parts, varying_parts
from hopular.data.notation import since_1970


def seconds(dates: object) -> np.ndarray:
    return since_1970(pd.Series(pd.to_datetime(dates)))


def test_parts_are_those_of_pandas_before_and_after_1970() -> None:
    dates = pd.Series(pd.date_range("1899-12-30", periods=4000, freq="16h23min"))
    parts = date_parts(seconds(dates), PARTS)
    assert parts["year"].tolist() == dates.dt.year.tolist()
    assert parts["month"].astype(int).tolist() == dates.dt.month.tolist()
    assert parts["day"].tolist() == dates.dt.day.tolist()
    assert parts["weekday"].astype(int).tolist() == dates.dt.isocalendar().day.tolist()
    assert parts["hour"].astype(int).tolist() == dates.dt.hour.tolist()
    np.testing.assert_allclose(parts["clock"], dates.dt.hour + dates.dt.minute / 60, atol=1e-9)


def test_month_weekday_and_hour_are_categories_in_their_order() -> None:
    parts = date_parts(seconds(["2024-02-05 10:00"]), PARTS)
    categories = {name: list(part.cat.categories) for name, part in parts.items() if part.dtype == "category"}
    assert list(categories) == ["month", "weekday", "hour"]
    assert categories["month"] == [str(month) for month in range(1, 13)]
    assert parts["weekday"].tolist() == ["1"], "a Monday"


@pytest.mark.parametrize(
    ("dates", "parts"),
    [
        (["2024-01-01", "2024-01-08"], ["day"]),
        (["2024-01-01", "2024-01-09"], ["day", "weekday"]),
        (["2024-01-01", "2024-04-01"], ["month"]),
        (["2023-05-01", "2024-05-01"], ["year", "weekday"]),
        (["2024-01-01 10:00", "2024-01-01 10:30"], ["clock"]),
        (["2024-01-01 10:00", "2024-01-01 11:00"], ["hour", "clock"]),
        (["2024-01-01", "2024-01-01", None], []),
        ([None, None], []),
    ],
)
def test_parts_that_are_the_same_everywhere_are_left_out(dates: list[str], parts: list[str]) -> None:
    assert varying_parts(seconds(dates)) == parts


def test_parts_of_missing_dates_are_missing_and_far_ones_are_cut() -> None:
    parts = date_parts(np.array([np.nan, 1e300, -1e300]), PARTS)
    assert all(part.isna().tolist() == [True, False, False] for part in parts.values())
