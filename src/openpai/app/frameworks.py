"""`pai frameworks`: serve FrameworkController's Framework objects of a Kubernetes cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from openpai.app.cluster_check import Context, Kubeconfig
from openpai.cli import output
from openpai.cli.options import option
from openpai.cli.text_file import read_text
from openpai.protocol.errors import BadConfiguration

if TYPE_CHECKING:
    from openpai.frameworks.settings import Grant
    from openpai.kube.config import ClusterAccess

POLL_S: Final = 2.0


def crd(json: output.Json = False) -> None:
    """Print the definition of Framework objects, for `kubectl apply -f -`."""
    try:
        from openpai.frameworks.objects import crd as definition
    except ModuleNotFoundError as error:
        raise _lacks(error) from error
    if json:
        import yaml

        output.document(yaml.safe_load(definition()))
        return
    output.say(definition().rstrip("\n"))


def serve(
    config: Annotated[
        Path, option("--config", "Which namespaces are served, as which users, in which virtual clusters.")
    ] = Path("frameworks.yaml"),
    url: Annotated[str | None, option("--url", "Address of the platform.", envvar="PAI_URL")] = None,
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    poll_s: Annotated[float, option("--poll-s", "Seconds between two looks at a running job.")] = POLL_S,
    ready_file: Annotated[
        Path | None, option("--ready-file", "Write {apiServer, pid} here, as JSON, once all objects were listed.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Turn Framework objects of a Kubernetes cluster into jobs, in the foreground.

    Each becomes a job of the platform, with the token of a user that the configuration names for its namespace; its
    status follows the job. Nothing is stored, so the process may be ended and started again.
    """
    from openpai.app.console import set_up_logging
    from openpai.client.credentials import URL_DEFAULT

    try:
        from openpai.frameworks.settings import read_settings
        from openpai.kube.config import cluster_access
    except ModuleNotFoundError as error:
        raise _lacks(error) from error
    if not 0.05 <= poll_s <= 3600:
        raise BadConfiguration(f"--poll-s {poll_s} is not between 0.05 and 3600", "choose another number of seconds")
    grants = read_settings(read_text(config, "a configuration of namespaces"), config.absolute().parent)
    access = cluster_access(kubeconfig, kube_context)
    set_up_logging()
    asyncio.run(_serve(access, grants, url or URL_DEFAULT, poll_s, _Announcement(ready_file, is_json=json)))


class _Announcement:
    """How it is announced that Frameworks are served."""

    def __init__(self, ready_file: Path | None, *, is_json: bool) -> None:
        self._ready_file = ready_file
        self._is_json = is_json

    def write(self, api_server: str, url: str, namespaces: list[str]) -> None:
        """Say that Frameworks are served from now on."""
        if self._ready_file is not None:
            unfinished = self._ready_file.with_suffix(".part")
            unfinished.write_text(json.dumps({"apiServer": api_server, "pid": os.getpid()}))
            unfinished.rename(self._ready_file)
        if self._is_json:
            output.document({"apiServer": api_server, "url": url, "namespaces": namespaces})
        else:
            output.say(f"Frameworks of {', '.join(namespaces)} at {api_server} become jobs at {url}.")


async def _serve(
    access: ClusterAccess, grants: dict[str, Grant], url: str, poll_s: float, announcement: _Announcement
) -> None:
    from openpai.client import AsyncClient
    from openpai.frameworks.accounts import Accounts
    from openpai.frameworks.serving import serving
    from openpai.kube.client import KubeClient
    from openpai.system.supervision import count_what_nobody_catches

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    count_what_nobody_catches(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    files = {user: file for grant in grants.values() for user, file in grant.users.items()}
    accounts = Accounts(files, lambda user, token: AsyncClient(url, token, user=user))

    async def work() -> None:
        async with (
            KubeClient(access) as kube,
            contextlib.aclosing(accounts),
            serving(kube, grants, accounts, lambda: time.time_ns() // 1_000_000, poll_s),
        ):
            announcement.write(access.server, url, list(grants))
            await asyncio.Event().wait()

    working, ending = asyncio.create_task(work()), asyncio.create_task(ended.wait())
    await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        await working
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


def _lacks(error: ModuleNotFoundError) -> BadConfiguration:
    message = f"the library {error.name} for Kubernetes is not installed"
    return BadConfiguration(message, "pip install 'openpai[kubernetes]'")
