"""CatBoost (Prokhorenkova et al., 2018), with its own handling of categories and missing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hopular.methods.boosting import (
    EARLY_STOPPING_ROUNDS,
    Array,
    BoostedClassifier,
    BoostedRegressor,
    BoostingEstimator,
    Deadline,
    Rows,
    Trained,
    boosting_method,
)

_LOSSES = {"regression": "RMSE", "binary": "Logloss", "multiclass": "MultiClass"}
_MISSING = -1  # CatBoost refuses NaN among categories, so missing is a category like the codes 0, 1, ...


@dataclass(kw_only=True, eq=False, repr=False)
class CatBoostTrees(BoostingEstimator):
    """Common part of classifier and regressor; parameters are named as in CatBoost, which chooses those that are None.

    CatBoost has no gain: `feature_importances_` are its PredictionValuesChange. On a GPU it takes no callbacks, so
    `max_seconds` has no effect there.
    """

    _model_file = "model.cbm"
    _refusals = ("catboost/private/libs/options/",)

    n_estimators: int = 1000
    learning_rate: float | None = None
    depth: int = 6
    random_strength: float = 1.0
    one_hot_max_size: int | None = None
    l2_leaf_reg: float = 3.0
    bagging_temperature: float = 1.0
    leaf_estimation_iterations: int | None = None
    max_seconds: float | None = None
    n_jobs: int = 1
    device: str = "cpu"
    random_state: int | np.random.RandomState | None = None

    def _pool(self, rows: Array, target: Array | None = None, weights: Array | None = None) -> Any:
        import catboost

        places = self._categorical
        columns: dict[int, Array] = dict(enumerate(rows.astype(np.float32).T))
        columns |= {i: np.nan_to_num(rows[:, i], nan=_MISSING).astype(np.int64) for i in places}
        frame = pd.DataFrame(columns)
        return catboost.Pool(frame, target, cat_features=places, weight=weights, thread_count=self.n_jobs)

    def _train(self, rows: Rows, valid: Rows | None, deadline: Deadline) -> Trained:
        import catboost

        class Stop:
            def after_iteration(self, info: Any) -> bool:
                return not deadline.passed()

        loss, on_gpu = _LOSSES[self._kind], self.device.startswith("cuda")
        params = self._settings | {"n_estimators": self.n_estimators, "loss_function": loss, "random_seed": self._seed}
        params |= {"bootstrap_type": "Bayesian", "use_best_model": valid is not None, "thread_count": self.n_jobs}
        if on_gpu and ":" in self.device:
            params["devices"] = self.device.partition(":")[2]
        params |= {"task_type": "GPU" if on_gpu else "CPU", "logging_level": "Silent", "allow_writing_files": False}
        model = catboost.CatBoost(params)
        model.fit(
            self._pool(*rows),
            eval_set=self._pool(*valid) if valid else None,
            early_stopping_rounds=EARLY_STOPPING_ROUNDS if valid else None,
            callbacks=None if on_gpu else [Stop()],
        )
        curve = model.get_evals_result()["validation"][loss] if valid else []
        gains = np.nan_to_num(model.get_feature_importance())  # NaN where no tree has a split
        return Trained(model, model.tree_count_, gains, curve)

    def _outputs(self, rows: Array) -> Array:
        kind = "RawFormulaVal" if self._kind == "regression" else "Probability"
        outputs = np.asarray(self.model_.predict(self._pool(rows), prediction_type=kind, thread_count=self.n_jobs))
        return outputs[:, 1] if self._kind == "binary" else outputs

    def _write_model(self, path: str) -> None:
        self.model_.save_model(path)

    def _read_model(self, path: str) -> Any:
        import catboost

        return catboost.CatBoost().load_model(path)


@dataclass(kw_only=True, eq=False, repr=False)
class CatBoostClassifier(BoostedClassifier, CatBoostTrees):
    """CatBoost for classification."""


class CatBoostRegressor(BoostedRegressor, CatBoostTrees):
    """CatBoost for regression."""


METHOD = boosting_method("catboost", "CatBoost", CatBoostClassifier, CatBoostRegressor, cost=4.0)
