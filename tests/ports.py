"""Ports for servers that cannot be asked to choose one themselves."""

from __future__ import annotations

import contextlib
import random
import socket


def free_port() -> int:
    """Return a port of this machine that no program uses.

    It is outside of the range out of which the system serves port 0 and every connection: those are hundreds in the
    second that a server takes to start.
    """
    while True:
        port = random.randrange(21_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
