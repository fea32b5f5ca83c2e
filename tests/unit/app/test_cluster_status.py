"""What `pai cluster status` learns from a server."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from openpai.app.cluster.status import _health
from openpai.app.cluster.target import Target
from openpai.kube.errors import KubeUnavailable

POD = {"metadata": {"name": "pai-0"}, "status": {"containerStatuses": [{"ready": True}]}}


class Servers:
    """Kubernetes, which passes requests on to a server."""

    def __init__(self, *, leads: bool, wrong: str = "") -> None:
        self._leads, self._wrong = leads, wrong

    async def raw(self, method: str, path: str) -> bytes:
        assert path.startswith("/api/v1/namespaces/pai/pods/pai-0:9186/proxy/")
        if path.endswith("/readyz") and self._wrong:
            raise KubeUnavailable(self._wrong)
        return json.dumps({"status": "ok", "leads": self._leads, "loopFailures": 0}).encode()


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("wrong", ["", "leader: the backend: of the other server does not answer"])
def test_a_server_leads_because_it_says_so_whatever_is_wrong(leads: bool, wrong: str) -> None:
    client, at = cast("Any", Servers(leads=leads, wrong=wrong)), Target(cast("Any", None), None, None, "pai", "pai")
    found = asyncio.run(_health(client, at, POD))
    assert (found.leads, found.error) == (leads, wrong)


def test_a_pod_that_is_not_ready_is_not_asked() -> None:
    found = asyncio.run(_health(cast("Any", None), cast("Any", None), {"metadata": {"name": "pai-0"}}))
    assert (found.leads, found.error) == (False, "")
