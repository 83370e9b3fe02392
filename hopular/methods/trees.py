"""Decision trees, one or many: a single tree, random forest, extra-trees, bagging and AdaBoost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin

from hopular.data.dataset import Task
from hopular.methods.method import Make, Method, Run
from hopular.methods.prepared import STOPPED_FROM_OUTSIDE, STOPS_IN_TIME, Array, prepared


class BoostedTrees(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """AdaBoostClassifier that falls back to a single tree where the first is no better than chance (as in XOR)."""

    def __init__(
        self, max_depth: int = 1, n_estimators: int = 200, learning_rate: float = 1.0, random_state: int = 0
    ) -> None:
        self.max_depth = max_depth
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        from sklearn.ensemble import AdaBoostClassifier
        from sklearn.tree import DecisionTreeClassifier

        tree = DecisionTreeClassifier(max_depth=self.max_depth, random_state=self.random_state)
        try:
            self.model_ = AdaBoostClassifier(
                tree,
                n_estimators=self.n_estimators,
                learning_rate=self.learning_rate,
                random_state=self.random_state,
            ).fit(X, y, sample_weight)
        except ValueError as error:
            if "worse than random" not in str(error):
                raise
            self.model_ = tree.fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Array) -> Array:
        return self.model_.predict_proba(X)  # type: ignore[no-any-return]

    def predict(self, X: Array) -> Array:
        return self.model_.predict(X)  # type: ignore[no-any-return]


def _make_tree(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make CART on category codes, with NaN as it is."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    tree = DecisionTreeClassifier if task == "classification" else DecisionTreeRegressor
    return prepared(task, tree(**params, random_state=run.seed), "ordinal")


def _maker(family: str, n_estimators: int) -> Make:
    """Return the `make` of an ensemble in sklearn.ensemble: so many trees on category codes, with NaN as it is."""

    def make(task: Task, params: Mapping[str, Any], run: Run) -> Any:
        from sklearn import ensemble

        kind = getattr(ensemble, f"{family}Classifier" if task == "classification" else f"{family}Regressor")
        trees = kind(**{"n_estimators": n_estimators, **params}, random_state=run.seed, n_jobs=run.threads)
        return prepared(task, trees, "ordinal", max_seconds=run.max_seconds)

    return make


def _make_adaboost(task: Task, params: Mapping[str, Any], run: Run) -> Any:
    """Make AdaBoost.SAMME, or AdaBoost.R2 for regression; the trees' depth is `max_depth`."""
    from sklearn.ensemble import AdaBoostRegressor
    from sklearn.tree import DecisionTreeRegressor

    if task == "classification":
        return prepared(task, BoostedTrees(**params, random_state=run.seed), "filled")
    settings = {"n_estimators": 200, **params}
    tree = DecisionTreeRegressor(max_depth=settings.pop("max_depth", 3))
    return prepared(task, AdaBoostRegressor(tree, **settings, random_state=run.seed), "filled")


METHODS = (
    Method(
        name="decision_tree",
        title="Decision tree",
        group="classical",
        make=_make_tree,
        takes_weights=True,
        paper_name="Decision Trees",
        notes=(STOPPED_FROM_OUTSIDE,),
    ),
    Method(
        name="random_forest",
        title="Random forest",
        group="classical",
        make=_maker("RandomForest", 500),
        takes_weights=True,
        paper_name="Random Forest",
        paper_note="Theirs is the regularised forest RRF, ours Breiman's.",
        cost=2.0,
        notes=(STOPS_IN_TIME,),
    ),
    Method(
        name="extra_trees",
        title="Extra-trees",
        group="classical",
        make=_maker("ExtraTrees", 500),
        takes_weights=True,
        paper_name="Other Ensembles",
        paper_note="Theirs is Weka's OrdinalClassClassifier, ours extremely randomised trees.",
        cost=2.0,
        notes=(STOPS_IN_TIME,),
    ),
    Method(
        name="bagging",
        title="Bagging",
        group="classical",
        make=_maker("Bagging", 200),
        takes_weights=True,
        paper_name="Bagging Methods",
        paper_note="Theirs bags conditional inference trees (ctree), ours those of scikit-learn.",
        cost=3.0,
        notes=(STOPS_IN_TIME,),
    ),
    Method(
        name="adaboost",
        title="AdaBoost",
        group="classical",
        make=_make_adaboost,
        takes_weights=True,
        paper_name="Boosting Methods",
        paper_note="Theirs is LogitBoost, the median of a group of boosting methods, ours AdaBoost.",
        cost=3.0,
        notes=(STOPPED_FROM_OUTSIDE,),
    ),
)
