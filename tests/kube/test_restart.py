"""A cache whose API server dies, with a server of the test's own."""

from __future__ import annotations

import pytest

from openpai.kube.client import KubeClient
from openpai.kube.config import cluster_access
from openpai.kube.objects import CONFIG_MAPS
from openpai.kube.reflector import Reflector
from tests.kube.server import control_plane, why_not
from tests.kube.test_watch import a_map, equal, until


@pytest.mark.full
async def test_a_cache_outlives_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := why_not():
        pytest.skip(reason)
    monkeypatch.setattr("openpai.kube.reflector.PAUSE_MAX_S", 1.0)
    with control_plane() as plane:
        async with (
            KubeClient(cluster_access(plane.kubeconfig)) as client,
            Reflector(client, CONFIG_MAPS, "default") as cache,
        ):
            gone = await client.create(CONFIG_MAPS, a_map("gone"), "default")
            await until(lambda: cache.get("gone", "default") is not None)
            changes = cache.subscribe()
            changes.take()
            plane.stop("kube-apiserver")
            await until(lambda: cache.trouble is not None)
            assert cache.get("gone", "default") is not None
            plane.start_again("kube-apiserver")
            # Many versions, so that the new server cannot resume the watch from the old one.
            await client.delete(CONFIG_MAPS, "gone", "default")
            for number in range(30):
                await client.create(CONFIG_MAPS, a_map(f"m{number}"), "default")
            await equal(cache, client, "default")
            assert [change.last.uid for change in changes.take() if change.is_deletion] == [gone.uid]
            # And etcd alone.
            plane.stop("etcd")
            plane.start_again("etcd")
            await client.create(CONFIG_MAPS, a_map("later"), "default")
            await equal(cache, client, "default")
