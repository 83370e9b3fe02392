"""What comes from outside stays outside: no pickle, no secret in what is kept or shown, no name that becomes code."""

from __future__ import annotations

import inspect
import io
import json
import re
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from flows.services.lifecycle import check_places, mlflow_command, new_state
from flows.services.state import read_state, service_environment, write_state
from hopular.trials.study import StorageError, open_storage
from tests.data.loopback import Reply, serve
from tests.faults.whole import all_runs, store_of

pytestmark = pytest.mark.slow
SECRET = "hunter2.Tr0ub4dor"
PICKLE = re.compile(rb"\A\x80[\x02-\x05]")
SCRIPT = "<script>alert(1)</script>"
EVIL = "o'neil \"; DROP TABLE runs; -- <img src=x onerror=alert(1)>"


def table() -> str:
    """Wicked names of columns, categories and classes."""
    frame = pd.DataFrame({SCRIPT: range(80), "b`'{}": [f"{'uv'[i % 2]}{SCRIPT}" for i in range(80)]})
    frame[EVIL] = [SCRIPT if i % 7 > 3 else EVIL for i in range(80)]
    return frame.to_csv(index=False)


@pytest.fixture(scope="module")
def done(tmp_path_factory, prefect_server):
    """A benchmark of a table with wicked names, and of one from an address with a password and a token."""
    from flows.benchmark import hopular_benchmark
    from hopular.benchmark.plan import Plan

    folder = tmp_path_factory.mktemp("security")
    file = folder / "o'neil; DROP TABLE runs <b>.csv"
    file.write_text(table())
    with pytest.MonkeyPatch.context() as patch, serve() as server:
        patch.setenv("HOPULAR_RUNS", str(folder / "runs"))
        patch.setenv("HOPULAR_CACHE", str(folder / "cache"))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        good = server.answer(f"/good.csv?token={SECRET}", Reply(table().encode()))
        gone = f"{server.url}/gone.csv?token={SECRET}".replace("//", f"//me:{SECRET}@")
        plan = Plan(datasets=[str(file), good, gone], methods=["glm", "majority"], budget="smoke", target=EVIL)
        outcome = hopular_benchmark(plan)
        (folder / "runs" / "outcome.json").write_text(json.dumps(outcome))
        yield folder / "runs", outcome


def files_of(folder):
    from prefect.settings import get_current_settings

    results = Path(get_current_settings().results.local_storage_path)
    return [path for root in (folder, results) for path in root.rglob("*") if path.is_file()]


@pytest.mark.soak
def test_nothing_that_is_kept_is_a_pickle(done, said):
    runs, _ = done
    files = files_of(runs)
    for path in files:
        content = path.read_bytes()
        assert not PICKLE.match(content), path
        assert path.suffix not in (".pkl", ".pickle", ".joblib"), path
        if zipfile.is_zipfile(path):
            members = zipfile.ZipFile(io.BytesIO(content))
            assert not any(PICKLE.match(members.read(name)) for name in members.namelist() if name != "schema.json")
        if re.fullmatch(r"(search|train|evaluate|audit)-[0-9a-f]{32}", path.name):
            assert json.loads(content)["metadata"]["serializer"]["type"] == "json"
    said(f"{len(files)} files of a benchmark: no pickle among them, task results are JSON")


@pytest.mark.soak
def test_no_secret_is_in_what_is_kept(done, said):
    runs, outcome = done
    leaks = [str(path.relative_to(runs)) for path in runs.rglob("*") if path.is_file() and SECRET in _text(path)]
    assert leaks == []
    assert "gone.csv" in "".join(outcome["failed"])
    assert SECRET not in json.dumps(outcome)
    said("a password and a token in addresses of data: in no file of the runs folder")


def _text(path):
    return path.read_bytes().decode("utf-8", "ignore")


@pytest.mark.soak
def test_names_from_files_are_no_code(done, said):
    runs, outcome = done
    page = Path(outcome["report"]).read_text()
    assert "DROP TABLE" in page  # the name is shown,
    assert SCRIPT not in page  # and only shown
    assert "<img src=x" not in page
    with store_of(runs) as client:
        datasets = {run.data.tags.get("hopular.dataset") for run in all_runs(client)}
        assert "o'neil; DROP TABLE runs <b>" in datasets
    assert len(outcome["failed"]) == 1
    said("names with quotes, SQL and HTML in files, columns and classes: kept as they are, escaped in the report")


@pytest.mark.parametrize("url", ["postgresql://me:{}@127.0.0.1:1/studies", "mysql://me:{}@127.0.0.1/x", "me:{}@host"])
def test_a_password_of_the_database_of_studies_is_in_no_message(url, monkeypatch):
    monkeypatch.setattr("hopular.trials.study.RETRY_SECONDS", 0.0)
    with pytest.raises(StorageError) as caught:
        open_storage(url.format(SECRET))
    assert SECRET not in f"{caught.value}"


def test_a_password_of_the_tracking_store_is_in_no_message_file_or_command_line(runs, monkeypatch):
    runs.mkdir()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql://me:{SECRET}@127.0.0.1:1/mlflow")
    assert SECRET not in " ".join(mlflow_command("127.0.0.1", 5000))
    address = f"http://me:{SECRET}@127.0.0.1:1"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:1 does not answer") as caught:
        check_places("127.0.0.1", 1, 5000, address)
    assert SECRET not in str(caught.value)
    write_state(new_state("127.0.0.1", 4200, 5000, address))
    assert SECRET not in (runs / "services.json").read_text()
    state = read_state()
    assert (
        service_environment(state, "worker")["MLFLOW_TRACKING_URI"] == address
    )  # the worker needs it, from the environment
    assert SECRET not in state.mlflow_url


def test_servers_listen_on_this_machine_alone_unless_told_otherwise():
    from hopular.cli.services import up

    host = inspect.signature(up).parameters["host"].default
    assert host == "127.0.0.1"
    words = mlflow_command(host, 5000)
    assert words[words.index("--host") + 1] == "127.0.0.1"
