"""A Prefect plugin: while the services are up, `prefect deployment run hopular-benchmark` works as it is typed.

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

from flows.services.health import is_running
from flows.services.state import client_environment, prefect_home, read_state
from hopular.util import did_you_mean

if TYPE_CHECKING:
    from prefect.client.schemas.responses import DeploymentResponse

    Reader = Callable[[Any, str], Coroutine[Any, Any, DeploymentResponse]]

_RESULTS = ("PREFECT_RESULTS_LOCAL_STORAGE_PATH", "PREFECT_LOCAL_STORAGE_PATH")  # two names of one setting


@register_hook
def setup_environment(*, ctx: HookContext) -> SetupResult | None:
    """Accept bare names, and tell Prefect, which calls this at its import, where the server is."""
    accept_bare_names()
    results = _results_folder()
    without_server = SetupResult(env=results, note="the runs folder") if results else None
    if "PREFECT_API_URL" in os.environ:
        return without_server
    state = read_state()
    if state is not None and is_running(state):
        return SetupResult(env={**client_environment(state), **results}, note="the services of this project")
    is_run = _is_prefect_command(sys.argv) and sys.argv[1:3] == ["deployment", "run"] and "--help" not in sys.argv
    if ctx.api_url is None and is_run:
        # Prefect would start a server of its own for this command, wait for it, and find no deployment in it.
        sys.exit("No Prefect server is running here: start one with `hopular up --detach`, or set PREFECT_API_URL.")
    return without_server


def _results_folder() -> dict[str, str]:
    """Tell a worker where it and its flow runs keep the results of tasks, unless its user has said so already."""
    is_worker = _is_prefect_command(sys.argv) and sys.argv[1:3] == ["worker", "start"]
    if not is_worker or not os.environ.get("HOPULAR_RUNS") or {"PREFECT_HOME", *_RESULTS} & set(os.environ):
        return {}
    return {_RESULTS[0]: str(prefect_home() / "storage")}


def _is_prefect_command(words: list[str]) -> bool:
    """Return whether this process is Prefect's command line (`prefect ...` or `python -m prefect ...`)."""
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
    """Return the error to raise: an exit in Prefect's command line, which would drop the text of its own error."""
    from prefect.exceptions import ObjectNotFound

    if _is_prefect_command(sys.argv):
        return SystemExit(message)
    return ObjectNotFound(http_exc=LookupError(message), help_message=message)
