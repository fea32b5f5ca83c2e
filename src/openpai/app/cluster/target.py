"""Which release in which cluster a command of `pai cluster` works on, and the options that name it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

from openpai.app.cluster_check import Context, Kubeconfig
from openpai.app.setting_values import namespace_fault
from openpai.cli.options import option
from openpai.protocol.errors import BadConfiguration

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient
    from openpai.kube.config import ClusterAccess

__all__ = ["Context", "Kubeconfig"]

T = TypeVar("T")
RELEASE = "openpai"
_RELEASE_MAX: Final = 53
_RELEASE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""What Helm takes."""

Namespace = Annotated[str, option("--namespace", "Namespace of the platform's own pods.")]
Release = Annotated[str, option("--release NAME", "Name of the release, of which a cluster may have several.")]
Values = Annotated[list[Path] | None, option("--values FILE", "Values of the chart, in YAML; may be repeated.")]
Sets = Annotated[
    list[str] | None, option("--set NAME=VALUE", "One value of the chart, as in replicas=2; may be repeated.")
]
Chart = Annotated[Path | None, option("--chart", "Directory or file of the chart [default: the one in this package].")]
DryRun = Annotated[bool, option("--dry-run", "Show what would change, and change nothing.")]
Timeout = Annotated[int, option("--timeout-s", "Seconds to wait until everything is ready.")]
Confirm = Annotated[str | None, option("--confirm NAME", "The name of the cluster, instead of being asked for it.")]
TIMEOUT_S = 600


@dataclass(frozen=True)
class Target:
    """A release in a cluster."""

    access: ClusterAccess
    kubeconfig: Path | None
    context: str | None
    namespace: str
    release: str

    @property
    def cluster(self) -> str:
        """Return the name of the cluster for people: that of its context, or the host of its API server."""
        named = self.access.source.rpartition("context ")[2] if "context " in self.access.source else ""
        return named or urlsplit(self.access.server).hostname or self.access.server

    @property
    def name(self) -> str:
        """Return the name of the objects of the release, as the chart makes it."""
        if "openpai" in self.release:
            return self.release[:50].rstrip("-")
        return f"{self.release[:42].rstrip('-')}-openpai"

    @property
    def selector(self) -> str:
        """Return the labels of the pods of the release."""
        return f"app.kubernetes.io/instance={self.release}"

    def run(self, work: Callable[[KubeClient], Awaitable[T]]) -> T:
        """Return what a coroutine returns that uses the cluster."""
        from openpai.kube.client import KubeClient

        async def with_client() -> T:
            async with KubeClient(self.access) as client:
                return await work(client)

        return asyncio.run(with_client())

    def about(self) -> dict[str, Any]:
        """Return what names the release in a document."""
        return {"cluster": self.cluster, "server": self.access.server, "namespace": self.namespace,
                "release": self.release}  # fmt: skip


def target(kubeconfig: Path | None, context: str | None, namespace: str, release: str) -> Target:
    """Return the release that options name; raise Refused where there is no access to a cluster."""
    try:
        from openpai.kube.config import cluster_access
    except ModuleNotFoundError as error:
        advice = "install it with: pip install 'openpai[kubernetes]'"
        raise BadConfiguration(f"Kubernetes needs {error.name}", advice) from error
    if (fault := namespace_fault(namespace)) is not None:
        raise BadConfiguration(f"--namespace: {fault.message}", fault.advice)
    if len(release) > _RELEASE_MAX or not _RELEASE.fullmatch(release):
        message = f"--release: {release!r} cannot be the name of a release"
        raise BadConfiguration(message, f"use lower-case letters, digits and hyphens, at most {_RELEASE_MAX}")
    return Target(cluster_access(kubeconfig, context), kubeconfig, context, namespace, release)
