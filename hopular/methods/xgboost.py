"""XGBoost (Chen and Guestrin, 2016), with its own handling of categories and missing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

_OBJECTIVES = {  # with the metric that validates them
    "regression": ("reg:squarederror", "rmse"),
    "binary": ("binary:logistic", "logloss"),
    "multiclass": ("multi:softprob", "mlogloss"),
}


@dataclass(kw_only=True, eq=False, repr=False)
class XGBoostTrees(BoostingEstimator):
    """Common part of classifier and regressor; parameters are named as in XGBoost and have its defaults."""

    _model_file = "model.ubj"
    _refusals = ("for Parameter ", "Invalid Parameter")

    n_estimators: int = 1000
    learning_rate: float = 0.3
    max_depth: int = 6
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    colsample_bylevel: float = 1.0
    min_child_weight: float = 1.0
    reg_alpha: float = 0.0
    reg_lambda: float = 1.0
    gamma: float = 0.0
    max_seconds: float | None = None
    n_jobs: int = 1
    device: str = "cpu"
    random_state: int | np.random.RandomState | None = None

    def _matrix(self, rows: Array, target: Array | None = None, weights: Array | None = None) -> Any:
        import xgboost

        kinds = np.full(rows.shape[1], "q")
        kinds[self._categorical] = "c"
        return xgboost.DMatrix(
            rows,
            target,
            weight=weights,
            feature_types=kinds.tolist(),
            enable_categorical=True,
            nthread=self.n_jobs,
            missing=np.nan,
        )

    def _train(self, rows: Rows, valid: Rows | None, deadline: Deadline) -> Trained:
        import xgboost

        class Stop(xgboost.callback.TrainingCallback):
            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                return deadline.passed()

        objective, metric = _OBJECTIVES[self._kind]
        params = self._settings | {"objective": objective, "eval_metric": metric, "tree_method": "hist"}
        params |= {"nthread": self.n_jobs, "seed": self._seed, "verbosity": 0}
        params["device"] = self.device if self.device.startswith("cuda") else "cpu"
        if self._kind == "multiclass":
            params["num_class"] = len(self.prior_)
        history: dict[str, Any] = {}
        booster = xgboost.train(
            params,
            self._matrix(*rows),
            self.n_estimators,
            evals=[(self._matrix(*valid), "valid")] if valid else [],
            evals_result=history,
            callbacks=[*([xgboost.callback.EarlyStopping(rounds=EARLY_STOPPING_ROUNDS)] if valid else []), Stop()],
            verbose_eval=False,
        )
        curve = history["valid"][metric] if valid else []
        rounds = best_round(curve, booster.num_boosted_rounds())
        booster = booster[:rounds]
        booster.set_param({"nthread": self.n_jobs})
        gains = np.zeros(rows.matrix.shape[1])
        for name, gain in booster.get_score(importance_type="total_gain").items():
            gains[int(name[1:])] = np.sum(gain)
        return Trained(booster, rounds, gains, curve)

    def _outputs(self, rows: Array) -> Array:
        return np.asarray(self.model_.predict(self._matrix(rows)))

    def _write_model(self, path: str) -> None:
        self.model_.save_model(path)

    def _read_model(self, path: str) -> Any:
        import xgboost

        return xgboost.Booster({"nthread": self.n_jobs}, model_file=path)


@dataclass(kw_only=True, eq=False, repr=False)
class XGBoostClassifier(BoostedClassifier, XGBoostTrees):
    """XGBoost for classification."""


class XGBoostRegressor(BoostedRegressor, XGBoostTrees):
    """XGBoost for regression."""


METHOD = boosting_method("xgboost", "XGBoost", XGBoostClassifier, XGBoostRegressor, cost=2.0)
