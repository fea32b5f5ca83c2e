"""Mail through a real SMTP server, which is away at first."""

from __future__ import annotations

import email
import email.policy
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openpai.access.budgets import Budget, Kind, Period
from openpai.notify.mail import send_mail
from openpai.orchestrator.weekly_reports import last_monday, weekly_report
from openpai.ports.alerts import Channel, Message
from openpai.protocol.errors import Refused, Unavailable
from openpai.store.database import Database
from openpai.store.schema import metadata
from openpai.store.usage import SqlUsageStore
from tests.ports import free_port

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


@pytest.fixture
def mail_server(tmp_path: Path) -> Iterator[int]:
    """The port of a mail server that is a process of its own, which keeps what it receives in `tmp_path`/box."""
    words = ["-m", "aiosmtpd", "-n", "-l", f"127.0.0.1:{(port := free_port())}", "-c", "aiosmtpd.handlers.Mailbox"]
    with subprocess.Popen([sys.executable, *words, str(tmp_path / "box")]) as server:
        try:
            for _ in range(600):
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert server.poll() is None
                    time.sleep(0.1)
            yield port
        finally:
            server.terminate()


async def test_the_weekly_report_reaches_a_manager_through_a_mail_server(mail_server: int, tmp_path: Path) -> None:
    now_ms = 1_790_000_000_000
    monday_ms = int(last_monday(now_ms).timestamp()) * 1000
    database = Database(f"sqlite:///{tmp_path / 'openpai.db'}", inline=True)
    metadata.create_all(database.engine)
    usage = SqlUsageStore(database)
    await usage.set_budget(Budget(Kind.VC, "vision", Period.TOTAL, 10.0))
    subject, text = await weekly_report(usage, ["vision"], now_ms)
    database.close()
    data = {"host": "127.0.0.1", "port": mail_server, "security": "none", "from": "pai@example.org"}
    await send_mail(Channel("post", "mail", data), {}, Message("w/max/1", subject, text, to=("max@example.org",)))
    [file] = (tmp_path / "box" / "new").iterdir()
    found = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
    day = datetime.fromtimestamp(monday_ms / 1000 - 7 * 86_400, UTC).date()
    assert (found["Subject"], found["To"]) == (f"GPU hours of vision in the week of {day}", "max@example.org")
    body = found.get_content()
    assert "Virtual cluster vision" in body
    assert "virtual cluster vision: 0 of its 10 GPU hours are used" in body
    assert f"next: pai report --by vc,user --from {day}" in body


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
