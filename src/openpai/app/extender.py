"""`pai scheduler extender`: HiveD for the pods of a Kubernetes cluster, as an extender of its kube-scheduler.

It replaces HiveD's own process: the same configuration file, HTTP API and annotations. Nothing is stored; what runs is
read from the annotations of bound pods before the first question is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import structlog
import typer

from openpai.cli import output
from openpai.cli.text_file import read_text
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.extender.objects import Pod as HivedPod
    from openpai.extender.service import Service
    from openpai.extender.serving import Answering
    from openpai.extender.settings import ExtenderSettings
    from openpai.kube.changes import Changes
    from openpai.kube.client import KubeClient
    from openpai.kube.config import ClusterAccess
    from openpai.kube.objects.nodes import Node
    from openpai.kube.objects.pods import Pod

_LEASE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
RELOAD_EVERY_S: Final = 5.0
WOKEN: Final = "hivedscheduler.microsoft.com/pod-woken-at-ms"
CONFIG_KIND: Final = "a configuration in HiveD's format"
log: Final = structlog.get_logger(__name__)


def extender(
    config: Annotated[
        Path, typer.Option(help="HiveD's configuration file.", envvar=["PAI_EXTENDER_CONFIG", "CONFIG"])
    ] = Path("hivedscheduler.yaml"),
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address to listen on [default: webServerAddress, or :9096]."),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Credentials for the cluster [default: kubeConfigFilePath, or the usual places]."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate to answer with HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key of the certificate.")] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Write {url, pid} here, as JSON, once questions are answered.")
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="Answer questions only while this process holds this Lease, so that several may run.",
        ),
    ] = None,
    json: output.Json = False,
) -> None:
    """Schedule pods of a Kubernetes cluster as HiveD does, as an extender of kube-scheduler.

    It takes HiveD's configuration file and answers HiveD's HTTP API. A change of the file takes effect within seconds,
    and stops no pod. Run one process per cluster, or several with the same --lease, of which one answers.
    """
    from openpai.app.console import set_up_logging
    from openpai.extender.settings import host_and_port, read_settings

    settings = read_settings(read_text(config, CONFIG_KIND))
    access = _access(settings, kubeconfig)
    host, port = host_and_port(listen or settings.address)
    if (tls_cert is None) != (tls_key is None):
        raise Refused("BadConfigurationError", "a certificate needs its key", "give both --tls-cert and --tls-key")
    if lease is not None and not _LEASE.fullmatch(lease):
        raise Refused("BadConfigurationError", f"{lease!r} names no Lease", "give --lease NAMESPACE/NAME")
    for warning in settings.cells.warnings:
        output.aside(warning)
    set_up_logging()
    with contextlib.closing(_listener(host, port)) as listener:
        tls = {"ssl_certfile": tls_cert, "ssl_keyfile": tls_key} if tls_cert else {}
        asyncio.run(_serve(settings, access, config, _Front(listener, tls, ready_file, is_json=json), lease))


class _Front:
    """Where questions are answered, and how that is announced."""

    def __init__(self, listener: socket.socket, tls: dict[str, Any], ready_file: Path | None, *, is_json: bool) -> None:
        self.listener = listener
        self.tls = tls
        host, port = listener.getsockname()[:2]
        self.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
        self._ready_file = ready_file
        self._is_json = is_json

    def announce(self, access: ClusterAccess, lease: str | None) -> None:
        """Say that questions are answered from now on."""
        if self._ready_file is not None:
            unfinished = self._ready_file.with_suffix(".part")
            unfinished.write_text(json.dumps({"url": self.url, "pid": os.getpid()}))
            unfinished.rename(self._ready_file)
        if self._is_json:
            output.document({"url": self.url, "apiServer": access.server})
        elif lease:
            output.say(f"The extender listens at {self.url}/v1/extender, and answers while it holds lease {lease}.")
        else:
            output.say(f"The extender answers at {self.url}/v1/extender for {access.server}.")


async def _serve(
    settings: ExtenderSettings, access: ClusterAccess, config: Path, front: _Front, lease: str | None
) -> None:
    import uvicorn

    from openpai.extender.server import application
    from openpai.extender.serving import Answering
    from openpai.system.supervision import count_what_nobody_catches, supervise

    class Server(uvicorn.Server):
        """Uvicorn without its signal handlers, which would repeat the signal after a clean stop."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    loop = asyncio.get_running_loop()
    count_what_nobody_catches(loop)
    answering = Answering()
    async with contextlib.AsyncExitStack() as stack:
        if lease is None:
            answering.service = await stack.enter_async_context(_following(settings, access, config, answering))
        else:
            leading = supervise("lease of the extender", lambda: lead(lease, settings, access, config, answering))
            stack.push_async_callback(_cancelled, leading)
        server = Server(
            uvicorn.Config(
                application(answering), ws="none", log_config=None, access_log=False, lifespan="off",
                timeout_graceful_shutdown=1, **front.tls,
            )
        )  # fmt: skip
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: setattr(server, "should_exit", True))
        front.announce(access, lease)
        await server.serve(sockets=[front.listener])


async def lead(
    lease: str, settings: ExtenderSettings, access: ClusterAccess, config: Path, answering: Answering
) -> None:
    """Answer questions whenever this process holds the lease, each time from what the cluster shows then."""
    from openpai.extender.settings import read_settings
    from openpai.kube.client import KubeClient
    from openpai.kube.election import RENEW_EVERY_S, Election

    namespace, name = lease.split("/")
    identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
    async with KubeClient(access) as client:
        election = answering.election = Election(client, namespace, name, identity)
        try:
            while True:
                await election.acquire()
                log.info("this extender leads", lease=lease, holder=identity)
                with contextlib.suppress(Refused):
                    settings = read_settings(await asyncio.to_thread(read_text, config, CONFIG_KIND))
                term = asyncio.create_task(_term(settings, access, config, answering))
                keeping = asyncio.create_task(election.keep())
                try:
                    await asyncio.wait({term, keeping}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    answering.service = None
                    for task in (term, keeping):
                        await _cancelled(task)
                log.warning("this extender leads no longer", lease=lease)
                await asyncio.sleep(RENEW_EVERY_S)
        finally:
            await election.release()


async def _term(settings: ExtenderSettings, access: ClusterAccess, config: Path, answering: Answering) -> None:
    async with _following(settings, access, config, answering) as service:
        answering.service = service
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _following(
    settings: ExtenderSettings, access: ClusterAccess, config: Path, answering: Answering
) -> AsyncIterator[Service]:
    from openpai.system.supervision import supervise

    async with extending(settings, access, answering) as service:
        reloading = supervise("configuration of the extender", lambda: _follow_file(service, config, settings))
        try:
            yield service
        finally:
            reloading.cancel()


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    (error,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(error, Exception):
        log.error("the extender cannot follow the cluster", error=str(error))


@contextlib.asynccontextmanager
async def extending(
    settings: ExtenderSettings, access: ClusterAccess, answering: Answering | None = None
) -> AsyncIterator[Service]:
    """Follow a cluster's nodes and pods; yield the extender once everything that runs is recovered.

    `answering` says whether this process may still write.
    """
    from openpai.extender.objects import is_healthy, pod_of
    from openpai.extender.scheduling import Extender
    from openpai.extender.service import Service
    from openpai.kube.client import KubeClient
    from openpai.kube.objects import NODES, PODS
    from openpai.kube.reflector import Reflector
    from openpai.scheduler.cells.cluster import Cluster
    from openpai.scheduler.cells.core import Hived
    from openpai.system.supervision import supervise

    found = Extender(Hived(Cluster(settings.cells)), settings.force_bind_threshold)
    async with (
        KubeClient(access) as client,
        Reflector(client, NODES) as nodes,
        Reflector(client, PODS) as pods,
    ):
        await nodes.synced.wait()
        await pods.synced.wait()
        changed_nodes, changed_pods = nodes.subscribe(), pods.subscribe()
        changed_nodes.take()
        changed_pods.take()
        found.see_nodes({node.name: is_healthy(node) for node in nodes})
        found.recover(filter(None, map(pod_of, pods)))
        for node, reasons in found.unreadable.items():
            for reason in reasons.values():
                log.error("nothing is placed on a node while a pod with unknown cells runs", node=node, reason=reason)
        log.info("recovered", pods=len(found.pods), groups=len(found.groups), nodes=len(nodes))
        service = Service(found, _Binder(client, answering), lambda: time.time_ns() // 1_000_000, settings.block_ms)
        following = (
            supervise("nodes of the extender", lambda: _follow_nodes(service, changed_nodes)),
            supervise("pods of the extender", lambda: _follow_pods(service, changed_pods)),
        )
        try:
            yield service
        finally:
            for task in following:
                task.cancel()


async def _follow_nodes(service: Service, changes: Changes[Node]) -> None:
    from openpai.extender.objects import is_healthy

    while True:
        waiting = await changes.wait()
        service.see_nodes(
            {change.last.name: None if change.new is None else is_healthy(change.new) for change in waiting}
        )


async def _follow_pods(service: Service, changes: Changes[Pod]) -> None:
    from openpai.extender.objects import pod_of
    from openpai.system.supervision import note_failure

    while True:
        for change in await changes.wait():
            try:
                pod = None if change.new is None else pod_of(change.new)
                if pod is None:
                    service.lose_pod(change.last.uid)
                else:
                    service.see_pod(pod)
            except Exception as error:  # the other changes must not be lost with it
                note_failure("pods of the extender", error)


async def _follow_file(service: Service, config: Path, settings: ExtenderSettings) -> None:
    """Take over the cells of the configuration file whenever it changes and has no fault."""
    from openpai.extender.settings import read_settings

    last = settings.cells.text
    while True:
        await asyncio.sleep(RELOAD_EVERY_S)
        try:
            text = await asyncio.to_thread(read_text, config, CONFIG_KIND)
            if text == last:
                continue
            last = text
            report = service.extender.reconfigure(read_settings(text).cells)
            service.changed()
        except Refused as error:
            log.error("the configuration is not taken over", file=str(config), reason=error.message)
            continue
        log.info("a new configuration is in use; other settings need a restart", demoted=report.demoted)


class _Binder:
    """Writes to the API server, while this process is the one that may."""

    def __init__(self, client: KubeClient, answering: Answering | None) -> None:
        self._client = client
        self._answering = answering

    def _check(self) -> None:
        # After a pause in the middle of an answer another process may have decided otherwise.
        if self._answering is not None:
            self._answering.now()

    async def bind(self, binding: dict[str, Any]) -> None:
        """Create a Binding."""
        from openpai.kube.objects import PODS

        self._check()
        metadata = binding["metadata"]
        await self._client.raw("POST", PODS.path(metadata["namespace"], metadata["name"], "binding"), binding)

    async def delete(self, pod: HivedPod) -> None:
        """Delete a pod."""
        from openpai.kube.objects import PODS

        self._check()
        await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)

    async def wake(self, pod: HivedPod) -> None:
        """Change an annotation: kube-scheduler looks again at a waiting pod that changes."""
        from openpai.kube.objects import PODS

        self._check()
        metadata = {"uid": pod.uid, "annotations": {WOKEN: str(time.time_ns() // 1_000_000)}}
        await self._client.patch(PODS, pod.name, {"metadata": metadata}, pod.namespace)


def _access(settings: ExtenderSettings, kubeconfig: Path | None) -> ClusterAccess:
    """Return how to reach the cluster: HiveD's settings come after the option, before the usual places."""
    try:
        from openpai.kube.config import cluster_access
    except ModuleNotFoundError as error:
        message = f"the library {error.name} for Kubernetes is not installed"
        raise Refused("BadConfigurationError", message, "pip install 'openpai[kubernetes]'") from error
    found = cluster_access(kubeconfig or settings.kubeconfig or None)
    server = settings.api_server or os.environ.get("KUBE_APISERVER_ADDRESS", "")
    return replace(found, server=server.rstrip("/")) if server else found


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        message = f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}"
        raise Refused("BadConfigurationError", message, "choose another address with --listen") from error
    listener.setblocking(False)
    return listener
