"""What `pai cluster check` advises where a cluster is new."""

from __future__ import annotations

from typing import Any

from openpai.app.cluster_check import _pod, check_nodes
from openpai.kube.errors import error_of

NO_ACCOUNT = b'{"message": "pods is forbidden: error looking up service account jobs/default: not found", "code": 403}'


class NewCluster:
    """A cluster without nodes, in which a namespace was created a moment ago."""

    async def list(self, *_: object) -> list[Any]:
        return []

    async def create(self, *_: object, **__: object) -> None:
        raise error_of("create pods", 403, NO_ACCOUNT)


async def test_a_new_namespace_is_not_called_a_rule() -> None:
    cluster: Any = NewCluster()
    (finding,) = await _pod(cluster, "jobs")
    assert finding.state == "fault"
    assert "gets its account in a moment" in finding.advice
    assert "rule" not in finding.advice


async def test_a_cluster_without_nodes_is_said_to_have_none() -> None:
    cluster: Any = NewCluster()
    (finding,) = await check_nodes(cluster, "jobs")
    assert (finding.state, finding.message, finding.advice) == ("fault", "the cluster has none", "add workers")
