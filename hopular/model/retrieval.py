"""Retrieval and imputation: what an estimator can do whose network reads training rows and predicts every attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hopular.model.columns import is_date, is_duration, label
from hopular.model.encoding import Attribute, Encoding
from hopular.model.masking import target_mask
from hopular.model.members import Memory
from hopular.model.network import AttributePredictor
from hopular.model.prediction import chunks
from hopular.model.table import TableEstimator


class RetrievingEstimator(TableEstimator):
    """Tells which training rows a prediction was read from, and fills missing values."""

    network_: AttributePredictor

    def retrieve(self, X: Any, k: int = 5) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the k training rows that each prediction was read from, and the weights with which it was.

        Rows are positions in the X given to `fit`; those that no member trained on never appear. A weight is the
        association of H_s, averaged over networks, blocks and members; all weights of a row sum to one.
        """
        rows = self._encode_table(X)
        if not (isinstance(k, int | np.integer) and 1 <= k <= len(self.train_index_)):
            raise ValueError(f"k must be an integer from 1 to the {len(self.train_index_)} stored rows, not {k!r}")
        indices, values = [], []
        for chunk in chunks(*rows.shape):
            weights = self.network_.read_weights(rows[..., chunk], self._memory).cpu()
            of_rows = torch.zeros(len(self.rows_), weights.shape[-1])
            for places, of_member in zip(self.members_, weights, strict=True):
                of_rows[places] += of_member[: len(places)] / len(self.members_)
            top = of_rows.T.topk(int(k), dim=1)
            indices.append(top.indices)
            values.append(top.values)
        return self.train_index_[torch.cat(indices).numpy()], torch.cat(values).numpy()

    def impute(self, X: Any) -> pd.DataFrame:
        """Return X as a frame with its missing feature values filled by the members' own predictions of them.

        Columns that were left out in training stay as they are.
        """
        rows = self._encode_table(X)
        frame = self._check_table(X, reset=False)
        filled = _fill_missing(frame, rows, self.encoding_, self.network_, self._memory)
        return filled.iloc[:, : self.n_features_in_]  # without the parts of dates


def _fill_missing(
    frame: pd.DataFrame, rows: Tensor, encoding: Encoding, network: AttributePredictor, memory: Memory
) -> pd.DataFrame:
    """Return a copy of `frame` whose missing values are predicted by the members: they are shown as masked."""
    filled = frame.copy()
    missing = rows.isnan()
    masked = missing | target_mask(rows, encoding.target)
    with torch.inference_mode():
        parts = [network(rows[..., chunk], masked[..., chunk], memory) for chunk in chunks(*rows.shape)]
    predictions = [torch.cat(group, dim=-1) for group in zip(*parts, strict=True)]
    for place, attribute in enumerate(encoding.attributes):
        # A category never seen in training is encoded as missing, yet it is a value and stays.
        where = frame.iloc[:, attribute.column].isna().to_numpy() & missing[0, place].cpu().numpy()
        if place == encoding.target or not where.any():
            continue
        predicted = network.attribute(predictions, place)
        is_number = attribute.kind == "continuous"
        mean = (predicted if is_number else predicted.softmax(1)).mean(0).cpu().numpy()[:, where]
        values = mean[0] if is_number else mean.argmax(0)
        column = filled.iloc[:, attribute.column]
        filled[filled.columns[attribute.column]] = _put(column, where, attribute, attribute.decode(values))
    return filled


def _put(
    column: pd.Series, where: np.ndarray[Any, Any], attribute: Attribute, values: np.ndarray[Any, Any]
) -> pd.Series:
    """Put `values` into `column` at `where`, in the column's own type if it can hold them."""
    result, new = column.copy(), _in_kind_of(column, attribute, values)
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = column.dtype.categories
        result = result.cat.add_categories([value for value in dict.fromkeys(new) if value not in known])
    elif pd.api.types.is_float_dtype(column.dtype) and any(isinstance(value, str | bool) for value in new):
        result = result.astype(object)  # a column of texts or booleans that came without any of them
    result.iloc[np.flatnonzero(where)] = new
    return result


def _in_kind_of(column: pd.Series, attribute: Attribute, values: np.ndarray[Any, Any]) -> Any:
    """Write predicted values as the column does: dates as dates, whole numbers whole, categories as they stand."""
    dtype = column.dtype
    if attribute.kind == "categorical":
        known = list(dtype.categories) if isinstance(dtype, pd.CategoricalDtype) else list(column.dropna().unique())
        original = {label(value): value for value in known}
        return [original[text] if text in original else _from_label(text, dtype) for text in values]
    if is_duration(column):
        return _in_unit(pd.to_timedelta(values, unit="s"), column)
    if is_date(column):
        dates = _in_unit(pd.to_datetime(values, unit="s", utc=True), column)
        return dates.tz_convert(dtype.tz) if isinstance(dtype, pd.DatetimeTZDtype) else dates.tz_localize(None)
    return np.round(values) if pd.api.types.is_integer_dtype(dtype) else values


def _in_unit(times: Any, column: pd.Series) -> Any:
    """Make times as precise as the column's are, if that is of a time type."""
    return times.as_unit(column.dt.unit) if column.dtype.kind in "mM" else times


def _from_label(text: str, dtype: Any) -> Any:
    """Return a category that the column at hand does not show, in the column's type where that is possible."""
    if pd.api.types.is_numeric_dtype(dtype):  # booleans among them, or a column without any value
        if text in ("True", "False"):
            return text == "True"
        try:
            return float(text)
        except ValueError:
            return text
    return text
