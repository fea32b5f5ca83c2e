"""Handshakes that go on from earlier ones: with fewer messages, and never as the client of an earlier certificate."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from openpai.kube.config import ClusterAccess, load_certificate
from openpai.kube.credentials import ClientCertificate
from tests.kube.certificates import Authority
from tests.unit.kube.test_connection_pool import OK, Server, ask, event_loop_policy, pool_of, serving

__all__ = ["event_loop_policy"]
pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy. fixture")


def client_of(authority: Authority, name: str) -> ClientCertificate:
    pair = authority.issue(name, name)
    return ClientCertificate(pair.with_suffix(".crt").read_text(), pair.with_suffix(".key").read_text())


def clients(server: Server) -> list[tuple[str, bool]]:
    """Return who opened each connection, and whether its handshake went on from another."""
    ends: list[Any] = [writer.get_extra_info("ssl_object") for writer in server.writers]
    return [(dict(part[0] for part in end.getpeercert()["subject"])["commonName"], end.session_reused) for end in ends]


async def later(server: Server, writer: asyncio.StreamWriter) -> None:
    await server.may_go_on.wait()
    writer.write(OK)


async def test_a_handshake_goes_on_from_one_of_the_same_client(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("server", "server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.path.with_suffix(".crt")))
    context.verify_mode = ssl.CERT_REQUIRED
    # Since Python 3.13 a default, which the certificates of the tests do not meet.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.load_cert_chain(issued.with_suffix(".crt"), issued.with_suffix(".key"))
    trusted = authority.path.with_suffix(".crt").read_text()
    tls = ClusterAccess("https://x", authority=trusted, certificate=client_of(authority, "first")).tls()
    async with serving(context) as server:
        pool = pool_of(server, tls, "localhost")
        await ask(pool)
        # As many connections as requests at a time.
        await asyncio.gather(ask(pool), ask(pool), ask(pool))
        assert sorted(clients(server)) == [("first", False), ("first", True), ("first", True)]
        # The answer to this one comes when the first client is one of the past.
        late = pool_of(server, tls, "localhost")
        server.turns = [later]
        asked = asyncio.create_task(ask(late))
        await server.asked(5)
        load_certificate(tls, client_of(authority, "second"))
        server.may_go_on.set()
        await asked
        await asyncio.gather(*(ask(pool) for _ in range(4)))
        assert clients(server)[3:] == [("first", True), ("second", False)]
        await asyncio.gather(*(ask(pool) for _ in range(5)))
        assert clients(server)[5:] == [("second", True)]
        other = pool_of(
            server,
            ClusterAccess("https://y", authority=trusted, certificate=client_of(authority, "other")).tls(),
            "localhost",
        )
        await ask(other)
        assert clients(server)[6:] == [("other", False)]
        for each in (pool, late, other):
            each.close()
