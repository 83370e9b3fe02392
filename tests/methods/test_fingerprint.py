"""Fingerprints: what changes a result changes them, what cannot does not, and nothing that a fit runs is left out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

import hopular.methods
from hopular.methods import MethodError, fingerprint, methods, module_of
from hopular.methods.fingerprint import (
    NOT_COMPUTING,
    SEARCH,
    Fingerprint,
    Source,
    scoring_code,
    sources,
    take_fingerprint,
)
from hopular.methods.perceptrons import PLAIN
from tests.toys import edit, plugin_methods, write_plugin

ROOT = Path(hopular.__file__).parents[1]
METHOD = '''"""Answers a number."""

from hopular.methods.method import Method


def make(task, params, run):
    """Make it."""
    from {helper} import answer  # which

    return answer()


METHOD = Method(name="mine", title="Mine", group="floor", make=make, packages=("safetensors",))
'''


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    """A method in a folder of its own, with a file that it imports by a plain name when it is made."""
    write_plugin(tmp_path, "mine", METHOD.format(helper="answers"), "def grid(size):\n    return [{'a': 1}]\n")
    (tmp_path / "answers.py").write_text("def answer():\n    return 1\n")
    with plugin_methods(tmp_path):
        yield tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("methods/mine.py", "Answers a number.", "Answers another number."),
        ("methods/mine.py", '"""Make it."""', '"""Make it, and say so."""'),
        ("methods/mine.py", '    """Make it."""\n', ""),
        ("methods/mine.py", "# which", "# whichever"),
        ("methods/mine.py", "(task, params, run)", "(\n    task,\n    params,\n    run,\n)"),
        ("search_spaces/mine.py", "[{'a': 1}]", '[{"a": 1}]  # one'),
        ("answers.py", "def answer", "# the answer\ndef answer"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(plugin: Path, file: str, old: str, new: str) -> None:
    before = take_fingerprint("mine")
    edit(plugin / file, old, new)
    assert take_fingerprint("mine") == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("methods/mine.py", "return answer()", "return -answer()"),
        ("search_spaces/mine.py", "'a': 1", "'a': True"),
        ("answers.py", "return 1", "return 1.0"),
        ("answers.py", "return 1", "return '1'"),
    ],
)
def test_every_file_that_a_plug_in_runs_counts(plugin: Path, file: str, old: str, new: str) -> None:
    before, others = take_fingerprint("mine"), take_fingerprint("knn")
    edit(plugin / file, old, new)
    assert take_fingerprint("mine").code != before.code
    assert take_fingerprint("knn") == others


@pytest.mark.parametrize("helper", ["hopular.methods.answers", ".answers", "shared.answers", "shared"])
def test_helpers_are_found_wherever_they_can_be_imported_from(plugin: Path, helper: str) -> None:
    (plugin / "shared").mkdir()
    (plugin / "shared" / "__init__.py").write_text("from shared.deeper import answer\n")
    for name in ("shared/deeper.py", "shared/answers.py", "methods/answers.py"):
        (plugin / name).write_text("def answer():\n    return 1\n")
    edit(plugin / "methods" / "mine.py", "from answers import", f"from {helper} import")
    place = {"shared.answers": "shared/answers.py", "shared": "shared/deeper.py"}.get(helper, "methods/answers.py")
    before = take_fingerprint("mine")
    edit(plugin / place, "return 1", "return 2")
    assert take_fingerprint("mine").code != before.code


def test_the_versions_are_those_of_the_libraries_that_a_method_declares(plugin: Path) -> None:
    common = ("numpy", "scipy", "pandas", "scikit-learn", "optuna")
    assert take_fingerprint("mine").versions == {name: version(name) for name in (*common, "safetensors")}
    assert set(take_fingerprint("xgboost").versions) == {*common, "xgboost"}
    networks = [name for name, method in methods().items() if method.has_curve]
    assert {"hopular", "npt", "mlp", "snn", "resnet"} <= set(networks)
    assert all("torch" in take_fingerprint(name).versions for name in networks)


def test_a_package_is_known_by_the_distribution_that_it_belongs_to() -> None:
    assert fingerprint.version_of("sklearn") == version("scikit-learn")
    assert fingerprint.version_of("no_such_package") == "unknown"
    assert fingerprint.requirement_of("sklearn") == f"scikit-learn=={version('scikit-learn')}"
    assert fingerprint.requirement_of("no_such_package") == ""


def test_the_type_of_the_device_counts_where_it_is_used() -> None:
    assert take_fingerprint("hopular", "cuda:1") == take_fingerprint("hopular", "cuda") != take_fingerprint("hopular")
    assert take_fingerprint("knn", "cuda").device == "cpu"


def test_code_versions_and_device_each_change_the_digest() -> None:
    one = Fingerprint("a", {"torch": "2.1"}, "cpu")
    others = [Fingerprint("b", one.versions, "cpu"), Fingerprint("a", {"torch": "2.2"}, "cpu")]
    others += [Fingerprint("a", one.versions, "cuda")]
    assert len({one.digest, *(other.digest for other in others)}) == 4
    assert one.digest == Fingerprint("a", {"torch": "2.1"}, "cpu").digest


def modules_of(method: str) -> set[str]:
    return set(sources((module_of(method), f"search_spaces.{method}")))


def test_hopular_is_its_model_and_recipe_and_no_other_method() -> None:
    own = modules_of("hopular")
    files = ("architecture", "association", "block", "encoding", "estimator", "lamb", "masking", "members", "network")
    assert {f"hopular.model.{name}" for name in (*files, "recipe", "table", "trainer")} <= own
    assert {name for name in own if not name.startswith("hopular.model")} == {
        *("hopular.methods.hopular", "hopular.methods.networks", "search_spaces.hopular", "hopular.data.dates")
    }
    assert "hopular.model.npt" in modules_of("npt") - own
    assert {f"hopular.model.{name}" for name in ("perceptrons", "perceptron_estimators")} <= modules_of("mlp") - own


@pytest.mark.parametrize("method", ["mlp", "snn", *PLAIN])
def test_the_code_of_networks_counts(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any change of the layers, of the estimators or of the training that all networks share is one of the method."""
    read = fingerprint._read
    before, of_hopular = take_fingerprint(method), take_fingerprint("hopular")
    for file, counts_for_hopular in (("perceptrons", False), ("perceptron_estimators", False), ("trainer", True)):

        def changed(path: str, name: str = f"{file}.py") -> Source:
            source = read(path)
            return replace(source, digest="another") if Path(path).name == name else source

        monkeypatch.setattr(fingerprint, "_read", changed)
        assert take_fingerprint(method).code != before.code, file
        assert (take_fingerprint("hopular").code != of_hopular.code) == counts_for_hopular, file


def test_how_a_fit_chooses_is_none_of_a_benchmark() -> None:
    """A change of the race or of the blend starts no unit of a benchmark anew."""
    found = sources(SEARCH, fingerprint.OF_THE_SEARCH)
    assert "hopular.trials.policy" in found
    assert not {"hopular.trials.race", "hopular.trials.blend"} & set(found)


def test_a_method_has_nothing_of_another() -> None:
    """Not of one in another file: those that share a file change together."""
    assert modules_of("knn") == {
        *("hopular.methods.simple", "hopular.methods.prepared", "hopular.methods.packed_trees", "search_spaces.knn"),
        *("hopular.model", "hopular.model.columns", "hopular.model.weights", "hopular.data.dates"),
    }
    assert not modules_of("xgboost") & {f"hopular.methods.{name}" for name in ("lightgbm", "catboost", "prepared")}
    assert not modules_of("npt") & {"hopular.methods.hopular", "hopular.methods.perceptrons"}
    assert not any(name.startswith("hopular.model") for name in sources(SEARCH, ("hopular.trials",)))


def test_the_search_counts_for_all_and_its_machinery_for_none() -> None:
    shared = set(sources(SEARCH, fingerprint.OF_THE_SEARCH))
    wanted = {"run", "space", "fit", "refit", "select", "trial", "problem", "budget"}
    assert {f"hopular.trials.{name}" for name in wanted} <= shared
    assert not shared & {f"hopular.trials.{name}" for name in ("study", "worker")}


def test_what_scores_is_known_apart() -> None:
    assert "hopular.evaluation.metrics" in sources(fingerprint.SCORING)
    assert scoring_code() == scoring_code()


def test_nothing_that_a_fit_imports_is_left_out() -> None:
    """The imports found in the source, against those that Python itself has made after a fit."""
    program = """
import json, sys
from importlib import import_module
import numpy as np, pandas as pd
from hopular.methods import Run, _methods_of
X = pd.DataFrame({"x": np.arange(30.0), "c": pd.Categorical(["a", "b", "c"] * 10)})
y = pd.Series(["u", "v"] * 15)
found = {}
for name, (module, params) in json.loads(sys.argv[1]).items():
    before = set(sys.modules)
    [method] = [method for method in _methods_of(import_module(module)) if method.name == name]
    made = method.make("classification", params, Run())
    made.fit(X, y, eval_set=(X[:6], y[:6])).predict_proba(X)
    found[name] = [module for module in set(sys.modules) - before if module.startswith("hopular")]
print(json.dumps(found))
"""
    settings = {"hopular": {"max_epochs": 1}, "mlp": {"max_epochs": 1}, "knn": {}, "xgboost": {}, "stacking": {}}
    given = json.dumps({name: (module_of(name), params) for name, params in settings.items()})
    done = subprocess.run([sys.executable, "-c", program, given], capture_output=True, text=True, check=True, cwd=ROOT)
    for name, loaded in json.loads(done.stdout).items():
        assert set(loaded) - {*NOT_COMPUTING} <= modules_of(name), name


def test_two_methods_of_one_name_are_refused(plugin: Path) -> None:
    write_plugin(plugin, "other", METHOD.format(helper="answers"))
    with pytest.raises(MethodError, match=r"two methods 'mine', one of them in .*other\.py: give it another name"):
        methods()


def test_a_space_without_a_file_is_refused(plugin: Path) -> None:
    (plugin / "search_spaces" / "mine.py").unlink()
    with pytest.raises(ValueError, match=r"the source of search_spaces\.mine is not there"):
        take_fingerprint("mine")
