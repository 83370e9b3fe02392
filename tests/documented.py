"""The code in README and documentation, and the cheapest real way to check each line of it."""

from __future__ import annotations

import atexit
import json
import re
import shlex
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(?:<!-- (not executed): .+? -->\n)?^```(\w+)\n(.*?)^```", re.M | re.S)
SETTINGS = {  # variables that a line may set beside those of docs/reference/settings.md
    "PREFECT_SERVER_DATABASE_CONNECTION_URL",
}
SHORT = {"doctor", "methods"}  # commands of seconds, which run as they stand; so does `hopular datasets`, see below

FIT = "hopular fit houses.csv --target price --minutes 5 -o model/"  # behind the lines that predict
FITTED: dict[tuple[str, ...], Path] = {}  # models of the lines that were run


@dataclass(frozen=True)
class Block:
    """A block of code on a page; one behind the comment `not executed: <reason>` is for reading."""

    language: str
    code: str
    is_executed: bool


def blocks_of(page: Path) -> list[Block]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(language, code, not mark) for mark, language, code in found]


def shell_lines(page: Path) -> list[str]:
    return [line for block in blocks_of(page) if block.language == "sh" for line in block.code.strip().splitlines()]


def run_python(page: Path) -> dict[str, Any]:
    """Execute a page's Python in one session, and return what it defined."""
    session: dict[str, Any] = {}
    for block in blocks_of(page):
        if block.language == "python" and block.is_executed:
            exec(compile(block.code, str(page), "exec"), session)
    return session


def write_houses(folder: Path) -> None:
    """The table that pages talk of, as a stranger might bring it."""
    random = np.random.default_rng(0)
    rooms, town = random.integers(1, 8, 120), random.choice(["Linz", "Wien", "Graz"], 120)
    frame = pd.DataFrame({"rooms": rooms, "town": town, "area": 20 * rooms + random.normal(0, 9, 120)})
    frame["price"] = (1000 * frame["area"] + 30_000 * (town == "Wien") + random.normal(0, 4000, 120)).round()
    frame.loc[::7, "area"] = np.nan
    frame.to_csv(folder / "houses.csv", index=False)
    frame.drop(columns="price").head(5).to_csv(folder / "new-houses.csv", index=False)


def check_line(line: str) -> None:
    """Run a line of shell, or the part of it that needs no server, network or hours; a wrong one raises.

    Words and options are parsed by the program's own parser, names are looked up where the program would look.
    """
    words = shlex.split(line)
    program = words[0]
    assert program in CHECKS, f"{line!r}: no check for {program!r}"
    CHECKS[program](words)


def _hopular(words: list[str]) -> None:
    """`doctor`, `methods`, `fit` and `predict` run for real, a fit with one method instead of minutes of all.

    So does `datasets`, except on the paper's data, which is not in the project.
    """
    from hopular.cli import app
    from hopular.cli.frame import run
    from hopular.data import suites

    command, *rest = words[1:]
    if command in SHORT or (command == "datasets" and (not rest or rest[0] in suites() or Path(rest[0]).is_file())):
        assert run(app, words[1:]) == 0, words
        return
    _, bound, _ = app.parse_args(words[1:], exit_on_error=False, print_error=False)
    if command == "fit" and "output" in bound.arguments:  # a line without a folder of its own is only parsed
        _fit(tuple(rest), bound.arguments["output"])
    if command == "predict":
        if not bound.arguments["model"].exists():  # a test of this line alone
            check_line(FIT)
        assert run(app, words[1:]) == 0, words
    if command == "benchmark":  # takes minutes to days: its plan is checked, and not run
        _check_plan(bound.arguments)


def _fit(words: tuple[str, ...], folder: Path) -> None:
    """Fit for real, and the same line only once in a process: later its model is there again."""
    from hopular.cli import app
    from hopular.cli.frame import run

    if words not in FITTED:
        assert run(app, ["fit", *words, "--methods", "mean", "--quiet"]) == 0, words
        FITTED[words] = Path(tempfile.mkdtemp(prefix="hopular-documented-")) / "model"
        shutil.copytree(folder, FITTED[words])
        atexit.register(shutil.rmtree, FITTED[words].parent, ignore_errors=True)
    elif not folder.exists():
        shutil.copytree(FITTED[words], folder)


def _check_plan(given: Mapping[str, Any]) -> None:
    """The fields that name something, as the command would fill them in."""
    from hopular.benchmark.plan import Plan

    values = {name: given[name] for name in ("budget", "target", "runner", "address", "device") if name in given}
    if "methods" in given:
        own = {"qda"}  # of docs/howto/add-a-method.md, which has a test of its own
        values["methods"] = [name for name in given["methods"].split(",") if name not in own]
    Plan(datasets=list(given.get("datasets", ["demo"])), **values)


def _prefect(words: list[str]) -> None:
    """Needs a server: options are parsed, deployments are looked up in prefect.yaml, and plans are checked."""
    import prefect.cli  # noqa: F401 - registers the commands
    from prefect.cli._app import _app

    from hopular.benchmark.plan import Plan

    _, bound, _ = _app.parse_args(words[1:], exit_on_error=False, print_error=False)
    if words[1:3] == ["deployment", "run"]:
        deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
        assert bound.arguments["name"] in [deployment["name"] for deployment in deployments], words
        for text in bound.arguments.get("params", []):
            name, _, value = text.partition("=")
            assert name == "plan", words
            Plan(**json.loads(value))


def _click(command: Any, words: list[str]) -> None:
    """Parse the words by click, down to the last command."""
    context = command.make_context(words[0], words[1:], resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(command.name, rest, parent=context)


def _mlflow(words: list[str]) -> None:
    """A server that does not end: options are parsed. examples/tour.py serves a model for real."""
    from mlflow.cli import cli

    _click(cli, words)


def _dask(words: list[str]) -> None:
    """A server that does not end: options are parsed."""
    from distributed.cli import dask_scheduler, dask_worker

    _click({"scheduler": dask_scheduler, "worker": dask_worker}[words[1]].main, words[1:])


def _make(words: list[str]) -> None:
    """A dry run: the tests are no place to run all tests."""
    done = subprocess.run([*words, "-n"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ".venv/bin/" in done.stdout, done.stdout


def _pip(words: list[str]) -> None:
    """Not run: it would change the environment. The extras must exist."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert words[1] == "install", words
    for name in re.findall(r"hopular\[(\w+)\]", " ".join(words)):
        assert name in extras, words


def _export(words: list[str]) -> None:
    """The variable must be a documented one."""
    settings = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    name = words[1].partition("=")[0]
    assert name in SETTINGS or f"`{name}`" in settings, words


def _optuna_dashboard(words: list[str]) -> None:
    """A server of another project: the database must be the one that studies are in by default."""
    from hopular.settings import storage_url

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.delenv("HOPULAR_RUNS", raising=False)
        patch.delenv("HOPULAR_STORAGE", raising=False)
        patch.chdir(folder)
        assert words[1] == storage_url().replace(f"{Path(folder).resolve()}/", ""), words


def _curl(words: list[str]) -> None:
    """Needs a served model: the body must be JSON as MLflow wants it, or `hopular serve`, whose line is really run."""
    field = "dataframe_records" if "/invocations" in words[2] else "rows"
    assert field in json.loads(words[words.index("-d") + 1])


def _file(words: list[str]) -> None:
    """`python FILE` and `source FILE`: the file is there; the tour has a test of its own."""
    assert (ROOT / words[1]).is_file() or words[1] == ".venv/bin/activate", words


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "curl": _curl,
    "dask": _dask,
    "export": _export,
    "hopular": _hopular,
    "make": _make,
    "mlflow": _mlflow,
    "optuna-dashboard": _optuna_dashboard,
    "pip": _pip,
    "prefect": _prefect,
    "python": _file,
    "source": _file,
}
