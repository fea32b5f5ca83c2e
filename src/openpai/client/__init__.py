"""The platform as a Python library: `Client` blocks, `AsyncClient` is awaited; both have the same methods."""

from typing import TYPE_CHECKING, Any

from openpai.client import model
from openpai.client.client import Client as Client

if TYPE_CHECKING:
    from openpai.client.async_client import AsyncClient as AsyncClient
    from openpai.client.model import JobDetail as JobDetail
    from openpai.client.model import JobSummary as JobSummary
    from openpai.client.model import NodeView as NodeView
    from openpai.client.model import TaskView as TaskView


def __getattr__(name: str) -> Any:
    # The command line never awaits, and loading asyncio takes as long as many of its commands.
    if name == "AsyncClient":
        from openpai.client.async_client import AsyncClient

        return AsyncClient
    return getattr(model, name)
