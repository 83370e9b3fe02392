"""A result belongs to the code that made it: a method of one's own, benchmarked, changed and benchmarked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.benchmark import run_here
from flows.tracking import runs
from flows.tracking.store import open_store
from flows.tracking.summary import load_results
from hopular.benchmark.plan import Plan
from hopular.benchmark.unit import Unit
from hopular.cli.display import show_progress
from hopular.evaluation.compare import compare
from hopular.evaluation.verdict import Standings
from hopular.report.page import render
from tests.toys import edit, plugin_methods, write_plugin

pytestmark = pytest.mark.slow
METHOD = '''"""The class that is named here, always."""

import numpy as np

from hopular.methods.method import Method


class Same:
    def fit(self, X, y, eval_set=None):
        self.classes_ = np.unique(np.asarray(y))
        return self

    def predict_proba(self, X):
        return np.tile(np.eye(len(self.classes_))[0], (len(X), 1))  # the first


METHOD = Method(name="same", title="Same", group="floor", make=lambda task, params, run: Same())
'''


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> Iterator[Path]:
    """The file of the method, with a runs folder of its own."""
    folder = tmp_path_factory.mktemp("identity")
    file = write_plugin(folder, "same", METHOD)
    with pytest.MonkeyPatch.context() as patch, plugin_methods(folder):
        patch.setenv("HOPULAR_RUNS", str(folder / "runs"))
        patch.setenv("HOPULAR_CACHE", str(folder / "cache"))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield file


def run(capfd: pytest.CaptureFixture[str], **values: Any) -> SimpleNamespace:
    """A benchmark as the command line shows it where there is no terminal."""
    capfd.readouterr()
    with show_progress() as listener:
        plan = Plan(datasets=["iris"], methods=["same", "majority"], budget="smoke", **values)
        published = run_here(plan, listener)
    lines = [line for line in capfd.readouterr().err.splitlines() if " | " not in line]  # without Prefect's log
    return SimpleNamespace(**published.to_json(), lines=lines)


def units_of(outcome: SimpleNamespace) -> dict[str, Any]:
    return {unit.method: unit for unit in load_results(open_store(), outcome.benchmark).units}


def test_a_changed_method_is_computed_again_and_the_terminal_says_why(
    plugin: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = run(capfd)
    assert (first.units, first.reused, first.failed) == (2, 0, {})
    assert not [line for line in first.lines if "changed" in line]

    edit(plugin, "# the first", "# whichever is the first of them")
    edit(plugin, '"""The class that is named here, always."""', '"""Another docstring."""')
    again = run(capfd)
    assert (again.benchmark, again.reused) == (first.benchmark, 2)
    assert len([line for line in again.lines if line.endswith("(finished before)")]) == 2

    edit(plugin, "np.eye(len(self.classes_))[0]", "np.eye(len(self.classes_))[-1]")
    other = run(capfd)
    assert (other.units, other.reused, other.failed) == (2, 1, {})
    assert other.benchmark != first.benchmark
    why = [line for line in other.lines if line.startswith("same: ")]
    assert len(why) == 1, other.lines
    assert why[0].startswith("same: its code has changed since ")
    assert not [line for line in other.lines if line.startswith("majority: ")]

    before, after = units_of(first), units_of(other)  # of both benchmarks, by their ids
    assert before["same"].maker.code != after["same"].maker.code
    assert after["majority"].is_reused
    assert after["majority"].maker == before["majority"].maker  # it keeps what it was made with
    assert "scikit-learn" in after["same"].maker.versions
    page = render(Standings(load_results(open_store(), other.benchmark)))
    assert all(after[name].maker.code in page for name in after)
    assert before["same"].maker.code not in page
    run_tags = open_store().get_run(after["same"].run_id).data.tags
    assert run_tags["hopular.code"] == after["same"].maker.code
    assert run_tags.get("hopular.commit", "") == after["same"].maker.commit
    changes = compare(load_results(open_store(), first.benchmark), load_results(open_store(), other.benchmark))
    assert len(changes.scores) == 2

    edit(plugin, "        self.classes_ =", "        raise RuntimeError('it is broken now')\n        self.classes_ =")
    broken = run(capfd)
    assert ["it is broken now" in why for why in broken.failed.values()] == [True]
    assert [line for line in broken.lines if line.startswith("same: its code has changed since ")]


def test_code_that_changes_while_a_benchmark_runs_is_refused(
    plugin: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.write_text(METHOD)
    check = Unit.check_code

    def change_first(unit: Unit) -> None:
        if unit.method == "same":
            plugin.write_text(METHOD.replace("[0]", "[1]"))
        check(unit)

    monkeypatch.setattr(Unit, "check_code", change_first)
    monkeypatch.setattr(runs, "_units_of", lambda *_: 1 / 0)  # that nobody can say why does not stop a benchmark
    outcome = run(capfd, seed=2)
    assert [name.partition(" ")[0] for name in outcome.failed] == ["same"]
    assert "the code of same or a version of its libraries is another one here" in next(iter(outcome.failed.values()))
    assert units_of(outcome)["majority"].state == "complete"
