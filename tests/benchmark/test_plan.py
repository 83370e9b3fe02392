"""The plan: wrong names are refused at once, with the nearest valid one."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hopular.benchmark.plan import DEFAULT_METHODS, Plan, select_methods
from hopular.methods import methods
from hopular.trials.budget import preset


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"datasets": ["gllass"]}, "no dataset or suite 'gllass'. Did you mean 'glass'"),
        ({"datasets": ["there/is/none.csv"]}, "no file 'there/is/none.csv'"),
        ({"datasets": []}, "at least 1 item"),
        ({"methods": ["xgbost"]}, "no method 'xgbost'. Did you mean 'xgboost'"),
        ({"budget": "quik"}, "no budget 'quik'. Did you mean 'quick'"),
        ({"architecture": "papre"}, "no architecture 'papre'. Did you mean 'paper'"),
        ({"limits": {"trals": 3}}, "no limit 'trals'. Did you mean 'trials'"),
        ({"limits": {"trials": 0}}, "trials is 0: use a whole number from 1 on"),
        ({"splits": 0}, "greater than or equal to 1"),
        ({"splits": "some"}, "should be 'all'"),
        ({"replicates": 0}, "greater than or equal to 1"),
        ({"seed": -1}, "greater than or equal to 0"),
        ({"runner": "slurm"}, "'local', 'dask' or 'ray'"),
        ({"device": "tpu"}, "'auto', 'cpu', 'cuda' or 'mps'"),
        ({"dataset": ["iris"]}, "Extra inputs are not permitted"),
    ],
)
def test_a_wrong_value_is_named_with_its_remedy(values, message):
    with pytest.raises(ValidationError) as error:
        Plan(**values)
    assert message in str(error.value)


def test_a_method_that_is_not_installed_says_how_to_get_it():
    with pytest.raises(ValidationError, match=r"hopular\[modern\]"):
        Plan(methods=["realmlp"])


def test_the_default_is_the_demo_suite():
    plan = Plan()
    assert plan.references() == ["iris", "wine", "breast-cancer-wisconsin", "diabetes"]
    assert plan.methods_for("classification") == [name for name in DEFAULT_METHODS if name != "mean"]
    assert plan.methods_for("regression") == [name for name in DEFAULT_METHODS if name != "majority"]


def test_groups_and_all_are_methods_too():
    assert select_methods(["boosting", "hopular", "xgboost"]) == ["catboost", "lightgbm", "xgboost", "hopular"]
    usable = [name for name, method in methods().items() if not method.missing_packages]
    assert select_methods(["all"]) == usable


def test_the_ensemble_comes_last():
    assert Plan(methods=["ensemble", "glm", "mean"]).methods_for("regression") == ["glm", "mean", "ensemble"]


def test_limits_change_the_preset():
    budget = Plan(budget="smoke", limits={"trials": 7}, replicates=2).limited_budget
    assert (budget.trials, budget.grid_trials, budget.replicates) == (7, 1, 2)


def test_the_digest_depends_on_what_results_depend_on():
    plan = Plan(datasets=["iris"])
    same = plan.model_copy(update={"runner": "dask", "workers": 3, "device": "cpu", "datasets": ["iris"]})
    assert plan.digest(["a", "b"]) == plan.digest(["b", "a"]) == same.digest(["a", "b"])
    others = [
        plan.digest(["a"]),
        plan.model_copy(update={"seed": 1}).digest(["a", "b"]),
        plan.model_copy(update={"methods": ["glm"]}).digest(["a", "b"]),
        plan.model_copy(update={"limits": {"trials": 2}}).digest(["a", "b"]),
        plan.model_copy(update={"splits": 2}).digest(["a", "b"]),
    ]
    assert len({plan.digest(["a", "b"]), *others}) == 6
    assert plan.digest(["a"]).startswith("iris-quick-")


def test_the_type_of_the_device_is_part_of_it_where_a_method_uses_one():
    def digest(method, device):
        return Plan(datasets=["iris"], methods=[method], device=device).digest(["a"])

    assert digest("hopular", "cpu") != digest("hopular", "cuda")
    assert digest("knn", "cpu") == digest("knn", "cuda")


def test_files_are_known_by_their_full_path(tmp_path, monkeypatch):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    monkeypatch.chdir(tmp_path)
    assert Plan(datasets=["table.csv"]).datasets == [str(tmp_path / "table.csv")]
    assert Plan(datasets=["iris"]).datasets == ["iris"]


def test_the_architecture_is_the_budgets_unless_it_is_given():
    assert Plan(budget="paper").limited_budget == preset("paper")
    assert Plan(budget="paper", architecture="default").limited_budget.architecture == "default"
    assert Plan(budget="paper").wanted() == Plan(budget="paper", architecture="paper").wanted()
    named = [None, "paper", "released"]
    assert len({Plan(architecture=name).wanted() for name in named}) == 3
    assert Plan(architecture="default").wanted() == Plan().wanted()
