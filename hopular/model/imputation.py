"""Filling missing feature values from the network's own predictions of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hopular.model.encoding import Attribute, Encoding, label
from hopular.model.masking import target_mask
from hopular.model.network import Hopular, Memory


def fill_missing(
    frame: pd.DataFrame, rows: Tensor, encoding: Encoding, network: Hopular, memory: Memory, chunk: int = 1024
) -> pd.DataFrame:
    """A copy of `frame` whose missing values are predicted: they are shown to the network as masked."""
    filled = frame.copy()
    missing = rows.isnan()
    masked = missing | target_mask(rows, encoding.target)
    with torch.inference_mode():
        parts = [network(rows[i : i + chunk], masked[i : i + chunk], memory) for i in range(0, len(rows), chunk)]
    predictions = [torch.cat(group) for group in zip(*parts, strict=True)]
    for place, attribute in enumerate(encoding.attributes):
        # A category never seen in training is encoded as missing, yet it is a value and stays.
        where = frame.iloc[:, attribute.column].isna().to_numpy() & missing[:, place].cpu().numpy()
        if place == encoding.target or not where.any():
            continue
        predicted = network.attribute(predictions, place).cpu().numpy()[where]
        values = predicted[:, 0] if attribute.kind == "continuous" else predicted.argmax(1)
        column = filled.columns[attribute.column]
        filled[column] = _put(filled[column], where, attribute, attribute.decode(values))
    return filled


def _put(
    column: pd.Series, where: np.ndarray[Any, Any], attribute: Attribute, values: np.ndarray[Any, Any]
) -> pd.Series:
    """`column` with `values` at `where`, in the column's own type where it can hold them."""
    dtype = column.dtype
    if attribute.kind == "continuous":
        if pd.api.types.is_datetime64_any_dtype(dtype):
            new: Any = pd.to_datetime(values, unit="s", utc=True)
            new = new.tz_convert(dtype.tz) if isinstance(dtype, pd.DatetimeTZDtype) else new.tz_localize(None)
        elif pd.api.types.is_timedelta64_dtype(dtype):
            new = pd.to_timedelta(values, unit="s")
        else:
            new = np.round(values) if pd.api.types.is_integer_dtype(dtype) else values
    else:
        known = list(dtype.categories) if isinstance(dtype, pd.CategoricalDtype) else list(column.dropna().unique())
        original = {label(value): value for value in known}
        new = [original.get(text, float(text) if pd.api.types.is_numeric_dtype(dtype) else text) for text in values]
    result = column.copy()
    if isinstance(dtype, pd.CategoricalDtype):
        result = result.cat.add_categories([value for value in dict.fromkeys(new) if value not in dtype.categories])
    result[where] = pd.Series(new, index=result.index[where])
    return result
