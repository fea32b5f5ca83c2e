"""Mail through a real SMTP server, which is away at first."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from openpai.notify.mail import send_mail
from openpai.ports.alerts import Channel, Message
from openpai.protocol.errors import Refused, Unavailable

controller = pytest.importorskip("aiosmtpd.controller", reason="the package aiosmtpd, a mail server, is missing")


class Box:
    """Keeps what the server receives."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address.startswith("gone"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.received.append(envelope)
        return "250 OK"


def started(box: Box) -> Any:
    """Return a mail server that runs, on a port that nothing else took meanwhile."""
    for _ in range(20):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            server = controller.Controller(box, hostname="127.0.0.1", port=free.getsockname()[1])
        try:
            server.start()
        except OSError:
            continue
        return server
    raise AssertionError("no port is free")


async def test_mail_is_refused_while_the_server_is_away_and_arrives_once_it_is_there() -> None:
    box = Box()
    server = started(box)
    away = socket.socket()
    away.bind(("127.0.0.1", 0))
    data = {"host": "127.0.0.1", "port": server.port, "security": "none", "from": "pai@example.org"}
    channel = Channel("mail", "mail", data)
    message = Message("k/1", "job ann~train failed", "It ran out of memory.\nnext: pai job show ann~train")
    ann = Message(message.key, message.subject, message.text, to=("ann@example.org",))
    with pytest.raises(Unavailable, match="cannot be reached"):
        await send_mail(Channel("mail", "mail", {**data, "port": away.getsockname()[1]}), {}, ann)
    with pytest.raises(Refused, match="no recipient"):
        await send_mail(channel, {}, message)
    try:
        await send_mail(channel, {}, ann)
        [envelope] = box.received
        assert envelope.rcpt_tos == ["ann@example.org"]
        text = envelope.content.decode()
        assert "Subject: job ann~train failed" in text
        assert "Message-ID: <k.1@openpai>" in text
        assert "It ran out of memory." in text
        with pytest.raises(Refused, match="refuses every recipient"):
            await send_mail(channel, {}, Message("k", "s", "t", to=("gone@example.org",)))
        # A server without TLS gets no mail, and no password, of a channel that asks for it.
        safe = Channel("mail", "mail", {**data, "security": "starttls", "username": "u"})
        with pytest.raises(Unavailable):
            await send_mail(safe, {"password": "p"}, ann)
        assert len(box.received) == 1
    finally:
        away.close()
        server.stop()
