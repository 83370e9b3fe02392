"""`hopular report`, `compare` and `paper` on a small store: two benchmarks of the paper's datasets, made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flows.tracking.runs import Lineage
from flows.tracking.store import open_store
from flows.tracking.summary import save_summary
from hopular.evaluation.results import Results
from tests.cli.conftest import Hopular
from tests.evaluation.benchmarks import make_results

EARLY: dict = {
    "glass": {"hopular": [0.70], "catboost": [0.75], "svm": [0.65]},
    "ecoli": {"hopular": [0.80], "catboost": [0.85], "svm": [0.50]},
}
LATE: dict = {
    "glass": {"hopular": [0.71], "catboost": None, "svm": [0.30]},
    "ecoli": {"hopular": [0.95], "catboost": [0.85], "svm": [0.50]},
}
DEEP: dict = {"glass": {"hopular": [0.9]}}
OTHER: dict = {"iris": {"hopular": [0.95], "svm": [0.9]}}


def benchmark(name: str, table: dict, month: int, **settings: object) -> Results:
    results = make_results(table, id=name, created=f"2030-0{month}-01T00:00:00", suite="small")
    return replace(results, settings=settings)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPULAR_RUNS", str(folder))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        client = open_store()
        for results in (
            benchmark("early", EARLY, 1, budget="smoke"),
            benchmark("late", LATE, 2, budget="smoke"),
            benchmark("other", OTHER, 3, budget="quick"),
            benchmark("deep", DEEP, 4, budget="paper"),
        ):
            save_summary(client, results, Lineage(results.id))
    return folder


@pytest.fixture(autouse=True)
def runs(store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOPULAR_RUNS", str(store))
    monkeypatch.setenv("COLUMNS", "150")
    for name in ("MLFLOW_TRACKING_URI", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return store


def strict(text: str) -> dict:
    """JSON as the standard has it: NaN is none."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    answer: dict = json.loads(text, parse_constant=refuse)
    return answer


def test_benchmarks_are_listed(hopular: Hopular) -> None:
    lines = hopular("report", "--list").out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["benchmark", "deep", "other", "late", "early"]


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("terminal", "late"),
        ("markdown", "| # | Method | Group | Mean rank |"),
        ("csv", "method,place,title,group,mean_rank"),
        ("latex", r"\begin{tabular}"),
    ],
)
def test_every_form_of_the_leaderboard(hopular: Hopular, form: str, start: str) -> None:
    outcome = hopular("report", "late", "--form", form)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(start)
    assert all(name in outcome.out for name in ("Hopular", "CatBoost", "SVM"))


def test_a_form_goes_to_a_file(hopular: Hopular, tmp_path: Path) -> None:
    path = tmp_path / "board.md"
    outcome = hopular("report", "late", "--form", "markdown", "-o", str(path))
    assert outcome.out == f"written  {path}\n"
    assert path.read_text().startswith("| # | Method |")


def test_the_page_is_written(hopular: Hopular, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    outcome = hopular("report", "early", "-o", str(path))
    assert outcome.code == 0, outcome.err
    page = path.read_text()
    assert "CatBoost leads on 2 datasets" in page
    assert page.count('<span class="chip published">published</span>') == 16


def test_json_has_null_for_what_is_not_known(hopular: Hopular) -> None:
    answer = strict(hopular("report", "other", "--json").out)
    assert answer["id"] == "other"
    assert {row["method"]: row["rank_low"] for row in answer["leaderboard"]} == {"hopular": None, "svm": None}


def test_several_benchmarks_are_merged(hopular: Hopular) -> None:
    answer = strict(hopular("report", "early", "other", "--json").out)
    assert answer["id"] == "early+other"
    assert {row["method"]: row["datasets"] for row in answer["leaderboard"]} == {"hopular": 3, "svm": 3, "catboost": 2}


def test_budgets_are_not_mixed(hopular: Hopular) -> None:
    outcome = hopular("report", "early", "deep")
    assert outcome.code == 2
    assert (
        "'glass' was run with budget smoke (early) and budget paper (deep): ranking them together is unfair"
        in outcome.err
    )


def test_an_unknown_benchmark_is_named(hopular: Hopular) -> None:
    outcome = hopular("report", "erly", "--json")
    assert outcome.code == 2
    assert "there is no benchmark 'erly'. Did you mean 'early'?" in outcome.err


def test_compare_says_what_changed(hopular: Hopular) -> None:
    outcome = hopular("compare", "early", "late")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert "newly failed: catboost on glass" in lines
    assert "glass\tcatboost\thopular\tunknown" in lines
    assert "ecoli\tcatboost\thopular\treal" in lines
    assert "glass\tsvm\taccuracy\t0.65\t0.3\tworse" in lines
    assert lines[-1] == "2 of 5 scores moved by more than noise; 2 new leaders."


def test_compare_for_scripts(hopular: Hopular) -> None:
    answer = strict(hopular("compare", "late", "early", "--json").out)
    assert answer["recovered"] == [["glass", "catboost"]]
    assert {row["dataset"]: row["is_noise"] for row in answer["leaders"]} == {"ecoli": False, "glass": False}
    other = strict(hopular("compare", "early", "other", "--json").out)
    assert (other["new_datasets"], other["gone_datasets"]) == (["iris"], ["ecoli", "glass"])
    assert other["gone_methods"] == ["catboost"]


def test_the_papers_tables(hopular: Hopular) -> None:
    outcome = hopular("paper", "early")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert "Median rank on the small suite (Table 'Median rank of compared methods' (appendix))" in lines
    assert "title\tmethod\torigin\tpaper\tours\tlow\thigh\tdatasets" in lines
    row = next(line for line in lines if line.startswith("Decision Trees\t"))
    assert row.split("\t")[2] == "published"
    networks = "MSRAinit, Highway Networks, BatchNorm, WeightNorm, ResNet, LayerNorm"
    assert f"Self-Normalizing Networks, {networks}: Theirs is trained by SGD, ours by AdamW." in lines
    assert any(line.startswith("Rule-Based Methods: No method of ours: ") for line in lines)
    assert "Median rank on the medium suite (Section 'Medium-Sized Tabular Datasets')" in lines
    assert "Step time in milliseconds" in outcome.out


def test_the_papers_tables_for_scripts(hopular: Hopular) -> None:
    answer = strict(hopular("paper", "early", "--json").out)
    ranks = {row["title"]: row for row in answer["median-ranks"]}
    assert ranks["XGBoost"]["ours"] is None
    assert ranks["Hopular"]["origin"] == "ours"
    assert "difference" not in ranks["Hopular"]
    assert len(answer["medium-ranks"]) == 5
    assert len(answer["step-time"]) == 24
