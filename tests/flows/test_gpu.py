"""The GPU slot on a real server: the limit is made when it is missing, holds, and does not hold up a stop."""

from __future__ import annotations

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate

from flows import gpu
from hopular.search.train import StoppedError

pytestmark = pytest.mark.slow


def test_the_limit_is_made_once_and_holds(prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.make_limit()
    with get_client(sync_client=True) as client:
        assert client.read_global_concurrency_limit_by_name(gpu.LIMIT).limit == gpu.gpu_count()
        client.update_global_concurrency_limit(gpu.LIMIT, GlobalConcurrencyLimitUpdate(limit=1))
        gpu.make_limit()
        assert client.read_global_concurrency_limit_by_name(gpu.LIMIT).limit == 1
        answers = iter([False, False, True])
        monkeypatch.setattr(gpu, "should_stop", lambda: next(answers))
        monkeypatch.setattr(gpu, "POLL", 2.0)
        with gpu.slot("cuda"):
            assert client.read_global_concurrency_limit_by_name(gpu.LIMIT).active_slots == 1
            with pytest.raises(StoppedError, match="waiting for a GPU"), gpu.slot("cuda"):
                pass
            with gpu.slot("cpu"):
                pass
        assert client.read_global_concurrency_limit_by_name(gpu.LIMIT).active_slots == 0
