"""Creates pods as a Python program does with the usual client libraries; prints how long that took as JSON.

Run by `bench.kubernetes_jobs` beside our own loop, with the Python that `--clients-python` names: it needs nothing but
the standard library and the library that it measures, so they may be installed in an environment of their own.

- `kubernetes_asyncio`: 40 tasks, one ApiClient.
- `kubernetes`: the official client, 40 threads, one ApiClient.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, Final

AT_ONCE: Final = 40
LIBRARIES: Final = ("kubernetes_asyncio", "kubernetes")


def bodies(body: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Yield the pod under so many names."""
    name = body["metadata"]["name"]
    for number in range(count):
        yield {**body, "metadata": {**body["metadata"], "name": f"{name[:-6]}{number:06}"}}


async def with_asyncio(kubeconfig: str, namespace: str, pods: Iterator[dict[str, Any]]) -> None:
    """Create the pods with kubernetes_asyncio."""
    client, config = (import_module(f"kubernetes_asyncio.{part}") for part in ("client", "config"))
    await config.load_kube_config(kubeconfig)
    async with client.ApiClient(pool_threads=1) as api:
        core = client.CoreV1Api(api)

        async def create() -> None:
            for pod in pods:
                await core.create_namespaced_pod(namespace, pod)

        await asyncio.gather(*(create() for _ in range(AT_ONCE)))


def with_threads(kubeconfig: str, namespace: str, pods: Iterator[dict[str, Any]]) -> None:
    """Create the pods with the official client."""
    client, config = (import_module(f"kubernetes.{part}") for part in ("client", "config"))
    config.load_kube_config(kubeconfig)
    settings = client.Configuration.get_default_copy()
    settings.connection_pool_maxsize = AT_ONCE
    core = client.CoreV1Api(client.ApiClient(settings))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in threads.map(lambda pod: core.create_namespaced_pod(namespace, pod), pods):
            pass


def measured(work: Callable[[], None], count: int) -> dict[str, float]:
    """Return pods a second, and the processor time that this process used for each."""
    cpu_s, began_s = time.process_time(), time.monotonic()
    work()
    took_s = time.monotonic() - began_s
    return {"per_s": count / took_s, "own_ms": (time.process_time() - cpu_s) / count * 1000, "took_s": took_s}


def run(library: str, kubeconfig: str, namespace: str, count: int, body: dict[str, Any]) -> dict[str, Any]:
    """Create so many pods with a library, if it is installed."""
    if importlib.util.find_spec(library) is None:
        return {"missing": f"{library} is not installed: {sys.executable} -m pip install {library}"}
    version = import_module(library).__version__
    pods = bodies(body, count)
    if library == "kubernetes_asyncio":
        found = measured(lambda: asyncio.run(with_asyncio(kubeconfig, namespace, pods)), count)
    else:
        found = measured(lambda: with_threads(kubeconfig, namespace, pods), count)
    return {**found, "version": version}


if __name__ == "__main__":
    chosen, config_path, place, pods_wanted = sys.argv[1:5]
    print(json.dumps(run(chosen, config_path, place, int(pods_wanted), json.load(sys.stdin))))
