"""The environment of the services' processes: where their state is, whom they talk to, and whom they do not."""

from __future__ import annotations

import os
from pathlib import Path

from flows.services.processes import MARK
from flows.services.state import State
from hopular import settings

QUIET = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}


def prefect_home() -> Path:
    """Prefect's database, profiles and stored results, apart from those of the user's other projects."""
    return settings.runs_folder() / "prefect"


def tracking_store() -> str:
    """The database behind our tracking server: MLFLOW_TRACKING_URI if it names one, otherwise mlflow.db."""
    value = os.environ.get("MLFLOW_TRACKING_URI", "")
    return value if value and not is_address(value) else f"sqlite:///{settings.runs_folder() / 'mlflow.db'}"


def tracking_server() -> str | None:
    """A tracking server of the user's (MLFLOW_TRACKING_URI), if there is one."""
    value = os.environ.get("MLFLOW_TRACKING_URI", "")
    return value if is_address(value) else None


def is_address(uri: str) -> bool:
    """Whether a tracking URI means a server rather than a database."""
    return uri.startswith(("http://", "https://"))


def reach(state: State) -> dict[str, str]:
    """What a Prefect client needs to reach the server: its address, and no proxy on the way."""
    direct = [part for part in os.environ.get("NO_PROXY", "").split(",") if part]
    return {
        "PREFECT_API_URL": state.api_url,
        "NO_PROXY": ",".join(dict.fromkeys([*direct, "127.0.0.1", "localhost", "::1"])),
    }


def service_environment(state: State) -> dict[str, str]:
    """All variables for servers and worker, and so for the flow runs that the worker starts."""
    return {
        **os.environ,
        **QUIET,
        **reach(state),
        MARK: state.mark,
        "HOPULAR_RUNS": str(settings.runs_folder()),
        "MLFLOW_TRACKING_URI": tracking_server() or state.mlflow_url,
        "MLFLOW_BACKEND_STORE_URI": tracking_store(),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # three more processes, for features that nothing here uses
        "PREFECT_HOME": str(prefect_home()),
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "90",
        "PREFECT_WORKER_QUERY_SECONDS": "2",  # a run starts at once, not after 10 s
        "PREFECT_UI_API_URL": "/api",  # as the browser sees the server, whatever name it was reached by
        "PYTHONUNBUFFERED": "1",
    }
