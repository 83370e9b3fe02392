"""HopularClassifier and HopularRegressor: the model behind scikit-learn's interface, for tables as people have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from hopular.model.base import HopularEstimator
from hopular.model.encoding import Attribute, mean_and_scale
from hopular.report.words import plural


class HopularClassifier(ClassifierMixin, HopularEstimator):  # type: ignore[misc]
    """Hopular for classification: binary or many classes, labels of any type."""

    _task = "classification"

    def _check_y(self, y: Any) -> np.ndarray[Any, Any]:
        missing = int(np.sum(pd.isna(np.asarray(y, dtype=object))))
        if missing:
            raise ValueError(f"Input y contains NaN: labels are missing in {plural(missing, 'row')}. Drop these rows.")
        target = np.asarray(column_or_1d(y, warn=True))
        check_classification_targets(target)
        return target

    def _learn_classes(self, y: np.ndarray[Any, Any]) -> None:
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class only, {self.classes_.tolist()[0]!r}: a classifier needs at least two classes"
            )

    def _target_attribute(self, y: np.ndarray[Any, Any]) -> Attribute:
        return Attribute("target", "categorical", -1, categories=tuple(map(str, range(len(self.classes_)))))

    def _encode_y(self, y: Any) -> np.ndarray[Any, Any]:
        codes = pd.Index(self.classes_).get_indexer(pd.Index(y))
        return np.where(codes < 0, np.nan, codes.astype(np.float64))

    def predict_proba(self, X: Any) -> np.ndarray[Any, Any]:
        """Class probabilities, columns in the order of `classes_`."""
        return self._predict_target(X).double().softmax(1).numpy()

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The most probable class of each row."""
        codes = self._predict_target(X).argmax(1).numpy()
        return np.asarray(self.classes_[codes])

    def _fitted_json(self) -> dict[str, Any]:
        classes = {"values": self.classes_.tolist(), "dtype": str(self.classes_.dtype)}
        return {**super()._fitted_json(), "classes": classes}

    def _set_fitted_json(self, data: dict[str, Any]) -> None:
        super()._set_fitted_json(data)
        self.classes_ = np.asarray(data["classes"]["values"], dtype=data["classes"]["dtype"])


class HopularRegressor(RegressorMixin, HopularEstimator):  # type: ignore[misc]
    """Hopular for regression."""

    _task = "regression"

    def _check_y(self, y: Any) -> np.ndarray[Any, Any]:
        target = np.asarray(column_or_1d(y, warn=True))
        try:
            target = target.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"y must be numbers for a regressor ({error}); use HopularClassifier for labels"
            ) from error
        if not np.isfinite(target).all():
            raise ValueError(
                f"Input y contains NaN or infinity in {plural(int((~np.isfinite(target)).sum()), 'row')}. Drop them."
            )
        return target

    def _target_attribute(self, y: np.ndarray[Any, Any]) -> Attribute:
        mean, scale = mean_and_scale(y)
        return Attribute("target", "continuous", -1, mean, scale or 1.0)

    def _encode_y(self, y: Any) -> np.ndarray[Any, Any]:
        target = self.encoding_.attributes[self.encoding_.target]
        return (np.asarray(y, dtype=np.float64) - target.mean) / target.scale

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The predicted number for each row."""
        predicted = self._predict_target(X).double().squeeze(1).numpy()
        return self.encoding_.attributes[self.encoding_.target].decode(predicted)
