"""Whether the server of a network storage can be reached, before an Engine mounts it.

A mount by the kernel waits for minutes for a server that is gone, and says nothing of use then. Only silence counts
here: what answers, even by refusing, is left to the mount, which knows the port that it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Iterable
from typing import Final

from openpai.ports.backend import Mount

PATIENCE_S: Final = 10.0
_PORTS: Final = {"nfs": 2049, "cifs": 445}
_AWAY: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT})


async def require_reachable(mounts: Iterable[Mount], patience_s: float = PATIENCE_S) -> None:
    """Raise OSError if the server of a mount over the network does not answer in time."""
    networked = [mount for mount in mounts if mount.filesystem]
    for refusal in await asyncio.gather(*(_refusal(mount, patience_s) for mount in networked)):
        if refusal:
            raise OSError(refusal)


async def _refusal(mount: Mount, patience_s: float) -> str:
    options = dict(part.partition("=")[::2] for part in mount.options.split(",") if "password" not in part)
    server, port = options.get("addr", ""), int(options.get("port") or _PORTS.get(mount.filesystem, 0))
    if not server or not port:
        return ""
    where = f"storage {mount.name} cannot be mounted: {server} port {port}"
    try:
        async with asyncio.timeout(patience_s):
            _, writer = await asyncio.open_connection(server, port)
    except TimeoutError:
        return f"{where} does not answer within {patience_s:g} s"
    except OSError as error:
        return f"{where} cannot be reached ({error.strerror})" if error.errno in _AWAY else ""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ""
