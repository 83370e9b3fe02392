"""`hopular doctor`: find what is wrong with this installation, and say how to fix it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hopular.cli.frame import FAILED
from hopular.cli.screen import Json, say, show_json, show_mark, waiting
from hopular.formatting import plural
from hopular.redaction import without_secrets

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_GIGABYTE = 1e9
_URL_FORMS = "use sqlite:////folder/file.db or postgresql+psycopg://user@host/name"  # of a database


@dataclass(frozen=True)
class _Diagnosis:
    """One thing that was checked. `detail` says what was found and, if something is wrong, how to fix it."""

    state: Literal["ok", "warn", "fail"]
    name: str
    detail: str


def doctor(*, json: Json = False) -> int:
    """Check the installation, and say how to fix it.

    Checks packages, device, folders, databases, servers and data, and exits
    with 1 if something is broken.

    For example
      hopular doctor
      hopular doctor --json
    """
    found = []
    with waiting(is_quiet=json or not sys.stderr.isatty()) as tell:
        for check in _CHECKS:
            name = check.__name__.removeprefix("_")
            tell(f"checking the {name}")
            found += _diagnoses(name, check)
    broken = [item for item in found if item.state == "fail"]
    if json:
        show_json({"healthy": not broken, "checks": [asdict(item) for item in found]})
    else:
        for item in found:
            show_mark(item.state, item.name, item.detail)
        say(_verdict(found))
    return FAILED if broken else 0


def _diagnoses(name: str, check: Callable[[], Iterator[_Diagnosis]]) -> list[_Diagnosis]:
    """Return what a check finds; that it cannot be carried out is a finding too."""
    try:
        return list(check())
    except Exception as error:
        return [_Diagnosis("fail", name, without_secrets(f"could not be checked: {type(error).__name__}: {error}"))]


def _verdict(found: list[_Diagnosis]) -> str:
    fails, warnings = (sum(item.state == state for item in found) for state in ("fail", "warn"))
    if fails:
        return f"\n{fails} of {len(found)} must be fixed."
    return f"\nAll is well, with {plural(warnings, 'warning')}." if warnings else "\nAll is well."


def _python() -> Iterator[_Diagnosis]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield _Diagnosis("ok", "python", f"{version} in {sys.prefix}")


def _packages() -> Iterator[_Diagnosis]:
    """Compare what is installed with what the project requires; extras that are missing are only mentioned."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement

    needs = [Requirement(line) for line in requires("hopular") or []]
    core = [need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    wrong = [(need, trouble) for need in core if (trouble := _trouble(need))]
    for need, trouble in wrong:
        remedy = f"pip install '{need.name}{need.specifier}'"
        yield _Diagnosis("fail", "packages", f"{need.name} {trouble}: {remedy}")
    if not wrong:
        yield _Diagnosis("ok", "packages", f"all {len(core)} are as needed")
    missing = []
    for extra in ("dask", "excel", "modern", "ray"):
        extras = [need for need in needs if need.marker is not None and need.marker.evaluate({"extra": extra})]
        if any(_trouble(need) for need in extras if need not in core):
            missing.append(extra)
    if missing:
        yield _Diagnosis("ok", "extras", f"not installed: {', '.join(missing)} (pip install 'hopular[{missing[0]}]')")


def _trouble(need: Requirement) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version(need.name)
    except PackageNotFoundError:
        return "is not installed"
    is_fine = need.specifier.contains(found, prereleases=True)
    return None if is_fine else f"is {found}, but {need.specifier} is needed"


def _device() -> Iterator[_Diagnosis]:
    import psutil
    import torch

    memory = psutil.virtual_memory()
    cores = f"{plural(os.cpu_count() or 1, 'core')}, {memory.total / _GIGABYTE:.0f} GB of memory"
    state: Literal["ok", "warn"] = "ok" if memory.available > _GIGABYTE else "warn"
    free = "" if state == "ok" else f", only {memory.available / _GIGABYTE:.1f} GB of it free: close other programs"
    yield _Diagnosis(state, "machine", cores + free)
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        yield _Diagnosis("ok", "GPU", ", ".join(names))
    elif torch.backends.mps.is_available():
        yield _Diagnosis("ok", "GPU", "Apple silicon (--device mps)")
    elif shutil.which("nvidia-smi"):
        remedy = "install a torch with CUDA, see pytorch.org/get-started"
        yield _Diagnosis("warn", "GPU", f"there is one, but torch {torch.__version__} cannot use it: {remedy}")
    else:
        yield _Diagnosis("ok", "GPU", "none; everything runs on the CPU")


def _folders() -> Iterator[_Diagnosis]:
    from hopular import settings

    places = (("results", settings.runs_folder(), "HOPULAR_RUNS"), ("cache", settings.cache_folder(), "HOPULAR_CACHE"))
    for name, folder, variable in places:
        remedy = f"name another folder with {variable}"
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(existing).free / _GIGABYTE
        if not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
            yield _Diagnosis("fail", name, f"{folder} cannot be written: {remedy}")
        elif free < 1:
            yield _Diagnosis("warn", name, f"{folder} has only {free:.1f} GB left: make room, or {remedy}")
        else:
            yield _Diagnosis("ok", name, f"{folder} ({free:.0f} GB free)")


def _databases() -> Iterator[_Diagnosis]:
    from flows.services.health import problem
    from flows.services.state import tracking_server, tracking_store
    from hopular import settings

    yield _database("studies", settings.storage_url(), "HOPULAR_STORAGE")
    address = tracking_server()
    if address is None:
        yield _database("tracking", tracking_store(), "MLFLOW_TRACKING_URI")
        return
    shown = without_secrets(address)
    trouble = problem(f"{shown.rstrip('/')}/health")
    remedy = "start that server, or unset MLFLOW_TRACKING_URI"
    yield _Diagnosis("fail" if trouble else "ok", "tracking", f"{shown} {trouble}: {remedy}" if trouble else shown)


def _database(name: str, url: str, variable: str) -> _Diagnosis:
    """Check that a database answers; a file that does not exist yet will be created."""
    import sqlalchemy as sa

    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        return _Diagnosis("fail", name, f"{variable} is not the URL of a database: {_URL_FORMS}, or unset it")
    if parsed.drivername in ("postgres", "postgresql") and name == "studies":
        parsed = parsed.set(drivername="postgresql+psycopg")  # as the search does
    shown, file = without_secrets(url), parsed.database
    is_file = parsed.get_backend_name() == "sqlite"
    if is_file and file and not Path(file).exists():
        return _Diagnosis("ok", name, f"{file} (will be created)")
    try:
        engine = sa.create_engine(parsed)
    except (sa.exc.ArgumentError, ImportError) as error:
        return _Diagnosis("fail", name, f"{shown} has no driver here ({error}): {_URL_FORMS} in {variable}")
    try:
        with engine.connect() as connection:
            answer = connection.execute(sa.text("PRAGMA quick_check" if is_file else "SELECT 'ok'")).scalar()
    except sa.exc.SQLAlchemyError as error:
        answer = str(error.__cause__ or error).splitlines()[0]
    finally:
        engine.dispose()
    if answer == "ok":
        return _Diagnosis("ok", name, str(file) if is_file else shown)
    remedy = f"move the file away or restore a copy of it; {variable} names another" if is_file else f"see {variable}"
    return _Diagnosis("fail", name, f"{shown} cannot be used ({answer}): {remedy}")


def _servers() -> Iterator[_Diagnosis]:
    from flows.services.health import check
    from flows.services.processes import check_port
    from flows.services.state import read_state

    state = read_state()
    if state is not None:
        for item in check(state):
            remedy = "" if item.is_healthy else "; `hopular down`, then `hopular up`"
            yield _Diagnosis("ok" if item.is_healthy else "fail", item.name, item.detail + remedy)
        return
    yield _Diagnosis("ok", "servers", "not running (start them with `hopular up`)")
    for service, port in (("prefect", 4200), ("mlflow", 5000)):
        variable = f"HOPULAR_{service.upper()}_PORT"
        value = os.environ.get(variable) or str(port)
        if not value.isdecimal():
            yield _Diagnosis("fail", "servers", f"{variable} is {value!r}: use a number from 1 to 65535, or unset it")
            continue
        try:
            check_port(service, "127.0.0.1", int(value))
        except ValueError as error:
            yield _Diagnosis("warn", "servers", str(error))


def _plugin() -> Iterator[_Diagnosis]:
    """Check that `prefect deployment run NAME` works here with a bare name."""
    import tomllib
    from importlib.metadata import entry_points

    file = Path("prefect.toml")
    content = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    is_enabled = content.get("plugins", {}).get("enabled") or os.environ.get("PREFECT_PLUGINS_ENABLED") == "true"
    if not any(point.value == "flows.plugin" for point in entry_points(group="prefect.plugins")):
        yield _Diagnosis("fail", "plugin", "Prefect does not know it: install this project again (pip install -e .)")
    elif not is_enabled:
        remedy = "use the project's folder, or set PREFECT_PLUGINS_ENABLED=true"
        yield _Diagnosis("warn", "plugin", f"off in {Path.cwd()}, so deployments need their full names: {remedy}")
    else:
        yield _Diagnosis("ok", "plugin", "Prefect finds the server, and deployments by their own names")


def _data() -> Iterator[_Diagnosis]:
    """Check the local copy of the paper's files, if there is one; otherwise files are downloaded when needed."""
    from hopular import settings
    from hopular.data.sources.paper import checksums

    folder, files = settings.mirror(), checksums()
    if folder is None:
        yield _Diagnosis("ok", "data", "the paper's files are downloaded when needed (HOPULAR_DATA names a local copy)")
        return
    missing = [file for file in files if not (folder / file).is_file()]
    if missing:
        remedy = "complete the copy, or unset HOPULAR_DATA to download"
        detail = f"{folder} lacks {len(missing)} of {plural(len(files), 'file')}, such as {missing[0]}: {remedy}"
        yield _Diagnosis("fail", "data", detail)
    else:
        yield _Diagnosis("ok", "data", f"{folder} has all {len(files)} files of the paper")


_CHECKS = (_python, _packages, _device, _folders, _databases, _servers, _plugin, _data)
