"""Follows the Frameworks of each namespace, and hands each that changed to the controller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

from openpai.frameworks.accounts import Accounts
from openpai.frameworks.controller import Controller
from openpai.frameworks.objects import FRAMEWORKS, Framework
from openpai.frameworks.settings import Grant
from openpai.kube.changes import Changes
from openpai.kube.client import KubeClient
from openpai.kube.reflector import Key, Reflector
from openpai.kube.work_queue import WorkQueue
from openpai.system.supervision import supervise


@contextlib.asynccontextmanager
async def serving(
    kube: KubeClient, grants: Mapping[str, Grant], accounts: Accounts, now_ms: Callable[[], int], poll_s: float
) -> AsyncIterator[None]:
    """Serve the Frameworks of some namespaces while the context is open; it opens once all were listed."""
    controller = Controller(kube, grants, accounts, now_ms, poll_s)
    async with contextlib.AsyncExitStack() as stack:
        reflectors = {
            namespace: await stack.enter_async_context(Reflector(kube, FRAMEWORKS, namespace)) for namespace in grants
        }

        async def step(key: Key) -> float | None:
            framework = reflectors[key.namespace].get(key.name, key.namespace)
            return None if framework is None else await controller.reconcile(framework)

        queue = WorkQueue("frameworks", step)
        tasks = [
            supervise(f"frameworks of {namespace}", partial(_follow, reflector.subscribe(), queue, controller))
            for namespace, reflector in reflectors.items()
        ]
        tasks.append(supervise("work on frameworks", queue.run))
        try:
            for reflector in reflectors.values():
                await reflector.synced.wait()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(changes: Changes[Framework], queue: WorkQueue[Key], controller: Controller) -> None:
    while True:
        for change in await changes.wait():
            key = Key(change.last.namespace, change.last.name)
            if change.is_deletion:
                controller.forget(change.last.uid)
            queue.add(key)
