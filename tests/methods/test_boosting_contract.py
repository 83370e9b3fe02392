"""What scikit-learn asks of the boosting methods, and that listing methods loads none of their libraries."""

from __future__ import annotations

import subprocess
import sys

from sklearn.utils.estimator_checks import parametrize_with_checks

from hopular.methods import Run, get_method

NAMES = ["catboost", "lightgbm", "xgboost"]
TASKS = ["classification", "regression"]
FEW_ROUNDS = {"n_estimators": 10, "learning_rate": 0.5}


@parametrize_with_checks([get_method(name).make(task, FEW_ROUNDS, Run()) for name in NAMES for task in TASKS])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_libraries_are_imported_only_when_needed():
    code = f"import sys; from hopular.methods import methods; methods(); print(sorted(set({NAMES}) & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
