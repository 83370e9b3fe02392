"""A Prefect plugin: `prefect deployment run hopular-benchmark` works as it is typed, while the services are up.

Prefect loads it at its import (entry point `prefect.plugins`) where `[plugins] enabled` is set, as it is in this
project's prefect.toml. It does three things. The address of the server comes from services.json, so that no shell has
to export it and any port will do; PREFECT_API_URL in the environment has precedence, and without services Prefect's own
settings apply. A deployment can be named without its flow, if only one flow has a deployment of that name. And a worker
keeps the results of tasks in the runs folder, if that is named: where machines share it, each knows what another has
finished.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect.plugins import HookContext, SetupResult, register_hook

from flows.services.environment import prefect_home, reach
from flows.services.state import read_state
from flows.services.stop import is_running
from hopular.util import did_you_mean

if TYPE_CHECKING:
    from prefect.client.schemas.responses import DeploymentResponse

    Reader = Callable[[Any, str], Coroutine[Any, Any, DeploymentResponse]]

RESULTS = ("PREFECT_RESULTS_LOCAL_STORAGE_PATH", "PREFECT_LOCAL_STORAGE_PATH")  # two names of one setting


@register_hook
def setup_environment(*, ctx: HookContext) -> SetupResult | None:
    """Called by Prefect at its import: accept bare names, and say where the server is."""
    accept_bare_names()
    kept = results_place()
    together = SetupResult(env=kept, note="the runs folder") if kept else None
    if "PREFECT_API_URL" in os.environ:
        return together
    state = read_state()
    if state is not None and is_running(state):
        return SetupResult(env={**reach(state), **kept}, note="the services of this project")
    is_run = is_prefect_command(sys.argv) and sys.argv[1:3] == ["deployment", "run"] and "--help" not in sys.argv
    if ctx.api_url is None and is_run:
        # Prefect would start a server of its own for this command, wait for it, and find no deployment in it.
        sys.exit("No Prefect server is running here: start one with `hopular up --detach`, or set PREFECT_API_URL.")
    return together


def results_place() -> dict[str, str]:
    """For a worker, where it and its flow runs keep the results of tasks; nothing if its user has said that already."""
    is_worker = is_prefect_command(sys.argv) and sys.argv[1:3] == ["worker", "start"]
    if not is_worker or not os.environ.get("HOPULAR_RUNS") or {"PREFECT_HOME", *RESULTS} & set(os.environ):
        return {}
    return {RESULTS[0]: str(prefect_home() / "storage")}


def is_prefect_command(words: list[str]) -> bool:
    """Whether this process is Prefect's command line (`prefect ...` or `python -m prefect ...`)."""
    program = Path(words[0])
    return program.name == "prefect" or program.parts[-2:] == ("prefect", "__main__.py")


def accept_bare_names() -> None:
    """Teach Prefect's client to find a deployment by its own name; `flow/deployment` is looked up as ever."""
    from prefect.client.orchestration import PrefectClient

    read = PrefectClient.read_deployment_by_name
    if not hasattr(read, "__wrapped__"):
        PrefectClient.read_deployment_by_name = _with_bare_names(read)  # type: ignore[assignment, method-assign]


def _with_bare_names(read: Reader) -> Reader:
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    @wraps(read)
    async def read_deployment_by_name(self: Any, name: str) -> DeploymentResponse:
        if "/" in name:
            return await read(self, name)
        wanted = DeploymentFilter(name=DeploymentFilterName(any_=[name]))
        found = await self.read_deployments(deployment_filter=wanted)
        if len(found) == 1:
            only: DeploymentResponse = found[0]
            return only
        if found:
            flows = [(await self.read_flow(deployment.flow_id)).name for deployment in found]
            full = ", ".join(sorted(f"{flow}/{name}" for flow in flows))
            raise _refusal(f"Several flows have a deployment {name!r}: say which one, {full}.")
        known = sorted({deployment.name for deployment in await self.read_deployments()})
        listing = f"The deployments are: {', '.join(known)}." if known else "There are none yet: see `hopular up`."
        raise _refusal(f"There is no deployment {name!r}.{did_you_mean(name, known)} {listing}")

    return read_deployment_by_name


def _refusal(message: str) -> BaseException:
    """The error to raise. Prefect's command line would drop the text of its own error, so there it ends the command."""
    from prefect.exceptions import ObjectNotFound

    if is_prefect_command(sys.argv):
        return SystemExit(message)
    return ObjectNotFound(http_exc=LookupError(message), help_message=message)
