"""The documentation is executed: its Python, its commands, its links, its build, and the tour."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import development
from hopular.cli.benchmark import Preset
from hopular.data import expand
from search_spaces.hopular import grid
from tests.documented import PAGES, ROOT, blocks_of, check_line, run_python, shell_lines, write_houses

SCREENSHOTS = {"mlflow-compare.png", "mlflow-experiments.png", "mlflow-trials.png"}  # taken from a real run
REPRODUCE = "docs/howto/reproduce-the-paper.md"
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
DOCS = [page for page in PAGES if page.parent != ROOT]
WITH_PYTHON = [page for page in DOCS if any(b.language == "python" and b.is_executed for b in blocks_of(page))]
WITH_SHELL = [page for page in DOCS if shell_lines(page)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the table that pages talk of, and results of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOPULAR_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HOPULAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")  # no command may look for a server here
    for variable in ("MLFLOW_TRACKING_URI", "HOPULAR_STORAGE", "HOPULAR_DATA"):
        monkeypatch.delenv(variable, raising=False)
    write_houses(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = link.partition("#")
        if link.startswith(("http://", "https://")) or Path(file).name in SCREENSHOTS:
            continue
        target = (page.parent / file).resolve() if file else page
        assert target.is_file(), f"{name(page)} links to {link}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.M)
            assert anchor in [re.sub(r"[^\w]+", "-", heading.lower()).strip("-") for heading in headings], link


@pytest.mark.parametrize("page", [*TEXTS, ROOT / "mkdocs.yml", ROOT / "examples" / "tour.py"], ids=name)
def test_no_page_knows_a_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    places = re.findall(r"(?<![\w.])/(?:work|home|root|tmp|Users|usr|opt)/\S*", text)
    hosts = re.findall(r"--index-url|PIP_INDEX_URL|https?://[^/\s]*(?:registry|mirror|nexus|artifactory)\S*", text)
    assert places + hosts == []


@pytest.mark.parametrize("page", WITH_SHELL, ids=name)
def test_shell_lines_hold(page: Path, elsewhere: Path) -> None:
    for line in shell_lines(page):
        if not line.startswith("make") or shutil.which("make"):
            check_line(line)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name)
def test_python_blocks_run(page: Path, elsewhere: Path) -> None:
    assert len(run_python(page)) > 2


@pytest.mark.slow
def test_a_method_outside_of_the_project_is_two_files(elsewhere: Path) -> None:
    page = ROOT / "docs" / "howto" / "add-a-method.md"
    files = re.findall(r"^`(\w+/qda\.py)`:$", page.read_text(encoding="utf-8"), re.M)
    codes = [block.code for block in blocks_of(page) if block.language == "python"]
    assert len(files) == len(codes) == 2
    for file, code in zip(files, codes, strict=True):
        path = elsewhere / "my-methods" / file
        path.parent.mkdir(parents=True)
        path.write_text(code, encoding="utf-8")
    use = """
from pathlib import Path

from hopular.data import load, make_splits
from hopular.methods import Run, get_method
from hopular.methods.saved import load_model, save_model
from hopular.trials.budget import preset
from hopular.trials.run import search
from hopular.trials.problem import make_problem

data = load("wine")
problem = make_problem(data, make_splits(data)[0])
best = search(problem, "qda", preset("smoke")).best
model = get_method("qda").make(data.task, best.params, Run(seed=0)).fit(problem.X_train, problem.y_train)
save_model(model, Path("saved"))
assert (load_model(Path("saved")).predict(problem.X_valid) == model.predict(problem.X_valid)).all()
print(best.metrics["accuracy"])
"""
    environment = {**os.environ, "HOPULAR_PLUGINS": str(elsewhere / "my-methods"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", use], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.8


def test_the_published_protocol_takes_as_long_in_all_places() -> None:
    readme, page = (" ".join((ROOT / path).read_text().split()) for path in ("README.md", REPRODUCE))
    [in_readme] = re.findall(r"The full protocol takes (\w+) on a laptop", readme)
    [on_page] = re.findall(r"On a laptop that takes (\w+):", page)
    [in_help] = re.findall(r"or paper \((\w+)\)", Preset.__metadata__[0].help)
    assert in_readme == on_page == in_help == "weeks"


def test_the_time_of_the_published_protocol_is_what_the_measured_step_makes_it() -> None:
    """The smallest model of the grid on one thread, as docs/speed.md has it."""
    [step] = re.findall(
        r"\| \(165, 14, 4, 8\) \| 1 \|(?: [\d.]+ ms \|){2} ([\d.]+) ms", (ROOT / "docs/speed.md").read_text()
    )
    fits = len(grid("small", "paper")) * 4 * len(expand(["small"]))
    hours = 10_000 * float(step) / 1000 * fits / 3600
    page = " ".join((ROOT / REPRODUCE).read_text().split())
    assert f"takes {float(step) / 1000:.3f} s on one core" in page
    assert f"{len(grid('small', 'paper'))} settings on each of 84 splits {round(hours, -1):.0f} hours" in page
    assert f"which is {hours / 24:.0f} days of one core" in page


def test_what_defaults_are_chosen_on_is_a_rule_and_no_page_claims_otherwise() -> None:
    rules = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    assert "Test rows of the paper's 27 datasets decide nothing" in rules
    assert "400 lines" not in rules
    recipe = " ".join((ROOT / "docs/default-recipe.md").read_text().split())
    assert "no part in choosing" not in recipe
    assert "45 % of the 856 test rows here are test rows there" in recipe


def test_figures_of_the_development_suite_are_those_of_the_file() -> None:
    recipe = (ROOT / "docs/default-recipe.md").read_text()
    assert development.summary() in recipe
    assert development.details() in recipe
    assert development.summary() in (ROOT / "README.md").read_text()
    losses = development.losses_by_table()
    means = losses.mean()
    assert f"The mean loss is {means['default'] / means['3a96518']:.3f} times what it was before" in recipe
    assert f"better than CatBoost on {(losses['default'] < losses['catboost']).sum()} (" in recipe


def test_the_notice_of_mlflows_page_is_explained() -> None:
    """The server's part is in tests/faults/test_stop.py."""
    settings = " ".join((ROOT / "docs/reference/settings.md").read_text().split())
    assert "Telemetry of Prefect and MLflow is off" in settings
    assert "MLflow collects usage data" in settings


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the documentation's tools are not installed: pip install 'hopular[docs]'")
    pytest.importorskip("mkdocstrings")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    reference = (tmp_path / "site" / "reference" / "automl.html").read_text(encoding="utf-8")
    command_line = (tmp_path / "site" / "reference" / "command-line.html").read_text(encoding="utf-8")
    loaded = re.findall(r"""(?:<script[^>]+src|<link[^>]+rel="stylesheet"[^>]+href)="(https?://[^"]+)""", home)
    assert loaded == [], "a page must need no network"
    assert "fit_table" in reference
    assert "--minutes" in command_line


@pytest.mark.soak
def test_the_tour_goes_from_a_raw_csv_to_a_served_model(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "MLFLOW_"))}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "tour.py"), str(tmp_path / "tour")],
        env={**environment, "PYTHONPATH": str(ROOT), "HOPULAR_CACHE": str(tmp_path / "cache")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"hopular-flats is now \w+, version 1", done.stdout)
    assert re.search(r"the server answers: \{'predictions': \[\d+\.\d+\]\}", done.stdout)
    assert (tmp_path / "tour" / "model" / "report.html").is_file()


def test_every_step_of_the_walks_is_there() -> None:
    """The names that the walks through the pipeline give in code are functions, classes or methods of the source."""
    text = (ROOT / "docs/explanation/pipeline.md").read_text(encoding="utf-8")
    source = "\n".join(
        file.read_text(encoding="utf-8") for folder in ("hopular", "flows") for file in (ROOT / folder).rglob("*.py")
    )
    walks = re.findall(r"^## What `hopular [a-z ]+` does$(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert walks
    for walk in walks:
        steps = re.findall(r"^(\d+)\. ", walk, re.MULTILINE)
        assert len(steps) <= 12
        names = {found.rpartition(".")[2] for found in re.findall(r"`([A-Za-z_.]+)`", walk)}
        missing = [found for found in names if not re.search(rf"(def|class) {found}\b", source)]
        assert missing == []
