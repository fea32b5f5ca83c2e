"""Virtual clusters, and the configuration that guarantees cells to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, as_it_came, asks, given, query_of, whole


def _vc(name: str) -> str:
    return f"/virtual-clusters/{segment(name, 'a virtual cluster')}"


def _by_name(response: httpx.Response) -> tuple[model.VirtualCluster, ...]:
    return tuple(model.VirtualCluster.read(document, name=name) for name, document in response.json().items())


class VirtualClusters:
    """Virtual clusters and their configuration."""

    @asks
    def virtual_clusters(self) -> Call[tuple[model.VirtualCluster, ...]]:
        """Return every virtual cluster, by name."""
        return Call("GET", "/virtual-clusters", _by_name)

    @asks
    def virtual_cluster(self, name: str) -> Call[model.VirtualCluster]:
        """Return one virtual cluster."""
        return Call("GET", _vc(name), whole(lambda document: model.VirtualCluster.read(document, name=name)))

    @asks
    def queue(self, name: str, limit: int | None = None) -> Call[model.VcQueue]:
        """Return the jobs that wait in a virtual cluster, in order: the first 100 unless another number is given."""
        return Call("GET", f"{_vc(name)}/queue", whole(model.VcQueue.read), query_of(limit=limit))

    @asks
    def promise(self, name: str, promise: str) -> Call[model.ClusterConfig]:
        """Guarantee a virtual cluster resources, such as `3 nodes`; it is created if it is new."""
        return Call("PUT", _vc(name), whole(model.ClusterConfig.read), json={"promise": promise})

    @asks
    def preview_promise(self, name: str, promise: str) -> Call[model.PromisePreview]:
        """Return what guaranteeing this would do; an empty promise asks about removing the virtual cluster."""
        return Call("POST", f"{_vc(name)}/preview", whole(model.PromisePreview.read), json={"promise": promise})

    @asks
    def remove_virtual_cluster(self, name: str) -> Call[model.ClusterConfig]:
        """Remove a virtual cluster that no job uses."""
        return Call("DELETE", _vc(name), whole(model.ClusterConfig.read))

    @asks
    def sku_types(self, virtual_cluster: str | None = None) -> Call[Mapping[str, Any]]:
        """Return the SKU types, with the CPUs and memory that belong to one GPU of each."""
        return Call("GET", "/cluster/sku-types", as_it_came, query_of(vc=virtual_cluster))

    @asks
    def cluster_config(self) -> Call[model.ClusterConfig]:
        """Return the guarantees of virtual clusters."""
        return Call("GET", "/cluster/config", whole(model.ClusterConfig.read))

    @asks
    def configure(
        self, *, promises: str | None = None, hived: str | None = None, version: int | None = None
    ) -> Call[model.ClusterConfig]:
        """Replace the guarantees, in words or in HiveD's format; running jobs are not stopped."""
        body = given(promises=promises, hived=hived, version=version)
        # With a version, a repeated request would be refused although the first one succeeded.
        return Call("PUT", "/cluster/config", whole(model.ClusterConfig.read), json=body, is_repeatable=version is None)
