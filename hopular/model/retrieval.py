"""Retrieval and imputation: what an estimator can do whose network reads training rows and predicts every attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from hopular.model.imputation import fill_missing
from hopular.model.network import AttributePredictor
from hopular.model.prediction import chunks, read_weights
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
            weights = read_weights(self.network_, rows[..., chunk], self._memory).cpu()
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
        return fill_missing(frame, rows, self.encoding_, self.network_, self._memory)
