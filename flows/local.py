"""Run a flow from this process: through the servers of `hopular up` if they are running, otherwise without any."""

from __future__ import annotations

import os
import signal
import threading
import time

from flows.services.environment import QUIET, prefect_home, reach
from flows.services.health import ended
from flows.services.state import read_state

ALONE = {  # a server for this run alone
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "90",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_PLUGINS_ENABLED": "true",  # flows/plugin.py, which lets that server end with the run
}
OWNER = "HOPULAR_OWNER"  # the process that has a server for itself alone


def settle() -> str:
    """Set the environment before Prefect is imported, and say where runs can be watched ("" if nowhere).

    PREFECT_API_URL and MLFLOW_TRACKING_URI of the user's come before everything else.
    """
    prefect_home().mkdir(parents=True, exist_ok=True)
    for name, value in {**QUIET, "PREFECT_HOME": str(prefect_home()), "NO_PROXY": "127.0.0.1,localhost,::1"}.items():
        os.environ.setdefault(name, value)
    if os.environ.get("PREFECT_API_URL"):
        return os.environ["PREFECT_API_URL"]
    state = read_state()
    if state is not None and not ended(state):
        os.environ.update(reach(state))
        os.environ.setdefault("MLFLOW_TRACKING_URI", state.mlflow_url)
        return state.prefect_url
    os.environ.update({**ALONE, OWNER: str(os.getpid())})
    return ""


def end_with_owner() -> None:
    """In the server of a run alone: end when the run's process is gone, however it went, so that no orphan is left."""
    owner = int(os.environ[OWNER])

    def watch() -> None:
        while os.getppid() == owner:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="watch-owner", daemon=True).start()
