"""Flow runs that ended with the services: the server is told, or it would show them as running for ever."""

from __future__ import annotations

import logging
from collections.abc import Collection

from flows.services.http import ask
from flows.services.state import State

UNFINISHED = ("PENDING", "RUNNING", "CANCELLING")
MESSAGE = "The services were stopped while it ran. Run it again: what was finished is not done twice."


def report_ended(state: State, pids: Collection[int]) -> None:
    """Tell the server that the unfinished flow runs in these processes are over; runs of other machines go on.

    A server that is gone cannot be told, which must not keep the rest from being stopped.
    """
    try:
        found = ask(f"{state.api_url}/flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": UNFINISHED}}}})
        for run in found:
            if run["infrastructure_pid"] in {str(pid) for pid in pids}:
                crashed = {"type": "CRASHED", "name": "Crashed", "message": MESSAGE}
                ask(f"{state.api_url}/flow_runs/{run['id']}/set_state", {"state": crashed, "force": True})
    except OSError as error:
        logging.getLogger(__name__).warning("the server could not be told which flow runs ended: %s", error)
