"""The platform as a Python library: `Client` blocks, `AsyncClient` is awaited; both have the same methods."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openpai.client.async_client import AsyncClient as AsyncClient
    from openpai.client.client import Client as Client
    from openpai.client.model import JobDetail as JobDetail
    from openpai.client.model import JobSummary as JobSummary
    from openpai.client.model import NodeView as NodeView
    from openpai.client.model import TaskView as TaskView


def __getattr__(name: str) -> Any:
    # The command line never awaits, and loading asyncio takes as long as many of its commands.
    place = {"AsyncClient": "async_client", "Client": "client"}.get(name, "model")
    return getattr(import_module(f"{__name__}.{place}"), name)
