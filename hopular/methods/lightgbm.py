"""LightGBM (Ke et al., 2017), with its own handling of categories and missing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hopular.methods.boosting import (
    EARLY_STOPPING_ROUNDS,
    Array,
    BoostedClassifier,
    BoostedRegressor,
    BoostingEstimator,
    Deadline,
    Rows,
    Trained,
    best_round,
    boosting_method,
)

_METRICS = {"regression": "rmse", "binary": "binary_logloss", "multiclass": "multi_logloss"}


@dataclass(kw_only=True, eq=False, repr=False)
class LightGBMTrees(BoostingEstimator):
    """Common part of classifier and regressor; parameters are named as in LGBMModel and have its defaults.

    With `boosting_type="dart"` later rounds rescale earlier trees, so there is no early stopping and all rounds are
    used. `subsample` draws new rows every round; "goss" draws rows in its own way and leaves it unused.
    """

    _model_file = "model.txt"
    _refusals = ("config_auto.cpp", "Parameter ", "Unknown boosting type")

    n_estimators: int = 1000
    learning_rate: float = 0.1
    max_depth: int = -1
    num_leaves: int = 31
    min_split_gain: float = 0.0
    min_child_weight: float = 1e-3
    min_child_samples: int = 20
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    colsample_bynode: float = 1.0
    reg_alpha: float = 0.0
    reg_lambda: float = 0.0
    boosting_type: Literal["gbdt", "dart", "goss"] = "gbdt"
    max_seconds: float | None = None
    n_jobs: int = 1
    device: str = "cpu"
    random_state: int | np.random.RandomState | None = None

    @property
    def _settings(self) -> dict[str, Any]:
        settings = super()._settings | {"objective": self._kind, "metric": _METRICS[self._kind], "verbosity": -1}
        settings |= {"num_threads": self.n_jobs, "seed": self._seed, "subsample_freq": 1}
        if self._kind == "multiclass":
            settings["num_class"] = len(self.prior_)
        if self.boosting_type == "goss":
            settings |= {"boosting_type": "gbdt", "data_sample_strategy": "goss", "subsample_freq": 0}
        if self.device.startswith("cuda"):
            number = self.device.partition(":")[2]
            settings |= {"gpu_device_id": int(number)} if number else {}
            return settings | {"device_type": "gpu"}  # OpenCL, which the wheels have; "cuda" needs a build of its own
        return settings | {"deterministic": True, "force_row_wise": True}

    def _train(self, rows: Rows, valid: Rows | None, deadline: Deadline) -> Trained:
        import lightgbm

        def stop(env: Any) -> None:
            if deadline.passed():
                raise lightgbm.callback.EarlyStopException(env.iteration, [])

        stop.order = 40  # type: ignore[attr-defined]  # after the round is recorded
        settings, stops_early = self._settings, valid is not None and self.boosting_type != "dart"
        history: dict[str, Any] = {}
        callbacks = [lightgbm.record_evaluation(history), stop]
        if stops_early:
            callbacks.append(lightgbm.early_stopping(EARLY_STOPPING_ROUNDS, verbose=False))
        data = lightgbm.Dataset(
            rows.matrix,
            rows.target,
            weight=rows.weights,
            categorical_feature=self._categorical,
            params=settings,
        )
        booster = lightgbm.train(
            settings,
            data,
            self.n_estimators,
            valid_sets=[data.create_valid(valid.matrix, valid.target, valid.weights)] if valid else [],
            valid_names=["valid"],
            callbacks=callbacks,
        )
        curve = history["valid"][_METRICS[self._kind]] if valid else []
        rounds = best_round(curve if stops_early else [], booster.current_iteration())
        return Trained(booster, rounds, booster.feature_importance("gain", iteration=rounds), curve)

    def _outputs(self, rows: Array) -> Array:
        return np.asarray(self.model_.predict(rows, num_iteration=self.best_iteration_, num_threads=self.n_jobs))

    def _write_model(self, path: str) -> None:
        self.model_.save_model(path, num_iteration=self.best_iteration_)

    def _read_model(self, path: str) -> Any:
        import lightgbm

        return lightgbm.Booster(model_file=path)


@dataclass(kw_only=True, eq=False, repr=False)
class LightGBMClassifier(BoostedClassifier, LightGBMTrees):
    """LightGBM for classification."""


class LightGBMRegressor(BoostedRegressor, LightGBMTrees):
    """LightGBM for regression."""


METHOD = boosting_method("lightgbm", "LightGBM", LightGBMClassifier, LightGBMRegressor, cost=0.8)
