"""How messages leave: which addresses a webhook may reach, what each kind sends, and what an enemy's text cannot do."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from openpai.notify.addresses import check_url, may_reach, reachable
from openpai.notify.channels import split
from openpai.notify.mail import mail_of
from openpai.notify.service import Messenger
from openpai.notify.webhooks import body_of
from openpai.ports.alerts import Channel, Message, ReportedAlert
from openpai.protocol.errors import InvalidParameters, Refused, Unavailable

LABELS, TEXTS = {"alertname": "A", "severity": "warn"}, {"summary": "s"}
STARTS, UNTIL = "2026-01-31T12:00:00.000Z", "2026-02-01T13:00:00.000Z"
ALERT = ReportedAlert(
    LABELS, TEXTS, starts_at_ms=1769860800000, valid_until_ms=1769950800000, fingerprint="0d7c2a52c1f64e2f"
)
MESSAGE = Message("k/1", "[firing] A", "job <!channel> & [x](http://evil)", "firing", (ALERT,))


@pytest.mark.parametrize(
    ("address", "users", "admins"),
    [
        ("93.184.216.34", True, True),
        ("10.1.2.3", False, True),
        ("192.168.0.1", False, True),
        ("127.0.0.1", False, True),
        ("169.254.169.254", False, False),
        ("168.63.129.16", False, False),
        ("fd00:ec2::254", False, False),
        ("0.0.0.0", False, False),
        ("224.0.0.1", False, False),
        ("::1", False, True),
        ("fe80::1", False, False),
        ("fd00::1", False, True),
        ("::ffff:169.254.169.254", False, False),
        ("::ffff:127.0.0.1", False, True),
        ("64:ff9b::a9fe:a9fe", False, False),
        ("2002:a9fe:a9fe::", False, False),
        ("2606:2800:220:1:248:1893:25c8:1946", True, True),
    ],
)
def test_which_addresses_webhooks_reach(address: str, users: bool, admins: bool) -> None:
    found = ipaddress.ip_address(address)
    assert may_reach(found, (), is_trusted=False) is users
    assert may_reach(found, (), is_trusted=True) is admins
    everything = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
    assert may_reach(found, everything, is_trusted=False)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "http://", "http://user:secret@example.org/", "http://exa mple.org/", "http://a\\b/",
        "http://example.org:99999/", "javascript:alert(1)", "http://example.org/\r\nX: y", "h" * 3000, "file:///etc/passwd",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_webhook(url: str) -> None:
    with pytest.raises(InvalidParameters):
        check_url(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "localhost", "[::1]", "[::ffff:7f00:1]"])
async def test_other_spellings_of_this_machine_are_refused_too(host: str) -> None:
    with pytest.raises((InvalidParameters, Unavailable)):
        await reachable(f"http://{host}/", (), is_trusted=False)


@asynccontextmanager
async def server(
    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serve HTTP on this machine; yield the port and what is received."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
        )
        received.append(head + await reader.readexactly(length))
        writer.write(answer)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], received


async def test_a_webhook_gets_the_message_with_its_key_and_no_redirect_is_followed() -> None:
    messenger = Messenger()
    async with server() as (port, received):
        channel = Channel("hook", "webhook", {})
        url = f"http://localhost:{port}/x?y=1"
        await messenger.send(channel, {"url": url, "authorization": "Bearer s"}, MESSAGE)
        head, _, body = received[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /x?y=1 HTTP/1.1")
        assert f"host: localhost:{port}".encode() in head.lower()
        assert b"Idempotency-Key: k/1" in head
        assert b"Authorization: Bearer s" in head
        assert json.loads(body)["alerts"][0]["labels"]["alertname"] == "A"
        # The same server as a user's own target is out of reach, and gets no credentials.
        own = Message("k/2", "s", "t", url=url)
        with pytest.raises(InvalidParameters, match="may not reach"):
            await messenger.send(Channel("@webhook", "webhook", {}), {}, own)
        assert len(received) == 1
    async with server(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n") as (port, _):
        with pytest.raises(Refused, match="status 302"):
            await messenger.send(Channel("hook", "webhook", {}), {"url": f"http://127.0.0.1:{port}/"}, MESSAGE)
    async with server(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n") as (port, _):
        with pytest.raises(Unavailable, match="status 503"):
            await messenger.send(Channel("hook", "webhook", {}), {"url": f"http://127.0.0.1:{port}/"}, MESSAGE)
    with pytest.raises(Unavailable, match="cannot be reached"):
        await messenger.send(Channel("hook", "webhook", {}), {"url": "http://127.0.0.1:1/"}, MESSAGE)
    await messenger.close()


async def test_a_refusal_is_given_with_the_reason_of_the_receiver_and_without_its_address() -> None:
    reason = b"invalid_payload \x1b[31m at /services/T0/hooksecret99\nmore"
    answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s" % (len(reason), reason)
    messenger = Messenger()
    async with server(answer) as (port, _):
        secrets = {"url": f"http://127.0.0.1:{port}/services/T0/hooksecret99"}
        with pytest.raises(Refused, match=r"status 400: invalid_payload") as refused:
            await messenger.send(Channel("chat", "slack", {}), secrets, MESSAGE)
        assert not {"hooksecret99", "\x1b", "more"} & set(re.findall(r"\w+|\x1b", refused.value.message))
    # A user could point their own at a server that only the platform reaches: nothing of its answer is passed on.
    networks = (ipaddress.ip_network("127.0.0.0/8"),)
    open_to_users = Messenger(networks)
    async with server(answer) as (port, _):
        own = Message("k/2", "s", "t", url=f"http://127.0.0.1:{port}/")
        with pytest.raises(Refused, match=r"status 400$"):
            await open_to_users.send(Channel("@slack", "slack", {}), {}, own)
    await messenger.close()
    await open_to_users.close()


async def test_alertmanager_gets_alerts_that_last() -> None:
    messenger = Messenger()
    async with server() as (port, received):
        await messenger.send(Channel("am", "alertmanager", {"url": f"http://127.0.0.1:{port}/"}), {}, MESSAGE)
        head, _, body = received[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /api/v2/alerts HTTP/1.1")
        assert json.loads(body) == [{"labels": LABELS, "annotations": TEXTS, "startsAt": STARTS, "endsAt": UNTIL}]
    await messenger.close()


def test_webhooks_get_alerts_as_alertmanager_sends_them() -> None:
    over = replace(ALERT, labels={**LABELS, "severity": "error"}, ends_at_ms=1769950800000)
    sent: Any = body_of("webhook", replace(MESSAGE, alerts=(ALERT, over)))
    shared = {"annotations": TEXTS, "startsAt": STARTS, "generatorURL": "", "fingerprint": ALERT.fingerprint}
    assert sent["alerts"] == [
        {**shared, "labels": LABELS, "status": "firing", "endsAt": "0001-01-01T00:00:00Z"},
        {**shared, "labels": over.labels, "status": "resolved", "endsAt": UNTIL},
    ]
    assert (sent["commonLabels"], sent["commonAnnotations"]) == ({"alertname": "A"}, TEXTS)


def test_text_of_jobs_is_neither_a_mention_nor_a_link() -> None:
    slack: Any = body_of("slack", MESSAGE)
    assert "&lt;!channel&gt; &amp;" in slack["blocks"][1]["text"]["text"]
    teams: Any = body_of("teams", MESSAGE)
    assert "\\[x\\]\\(http" in teams["attachments"][0]["content"]["body"][1]["text"]


def test_slack_gets_blocks_and_mattermost_which_has_none_the_same_as_text() -> None:
    slack: Any = body_of("slack", Message("k", "GPU <idle>", "first\nsecond"))
    header, section = slack["blocks"]
    assert header == {"type": "header", "text": {"type": "plain_text", "text": "GPU <idle>", "emoji": False}}
    assert section == {"type": "section", "text": {"type": "mrkdwn", "text": "first\nsecond", "verbatim": True}}
    assert slack["text"] == "GPU &lt;idle&gt;\nfirst\nsecond"
    # Mattermost would call everybody.
    assert "@all" not in body_of("slack", Message("k", "s", "@all: ann@example.org"))["text"]
    assert "ann@example.org" in body_of("slack", Message("k", "s", "@all: ann@example.org"))["text"]


@pytest.mark.parametrize("letter", ["xy&", "<", "[", "\n", "\x01", "\U0001f600"])
def test_a_long_message_is_within_the_limits_of_the_chats(letter: str) -> None:
    message = Message("k", letter * 1000, letter * 100_000)
    slack: Any = body_of("slack", message)
    header, section = (block["text"]["text"] for block in slack["blocks"])
    assert (len(header), len(section) <= 3000) == (150, True)
    assert re.search("&[a-z]*$", section) is None
    teams: Any = body_of("teams", message)
    assert len(json.dumps(teams, ensure_ascii=False).encode()) < 28_000


def test_teams_gets_an_adaptive_card_as_an_attachment() -> None:
    teams: Any = body_of("teams", Message("k", "GPU idle", "text", "firing"))
    (attachment,) = teams.pop("attachments")
    assert teams == {"type": "message"}
    card = attachment.pop("content")
    assert attachment == {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None}
    title, text = card.pop("body")
    assert (title["text"], title["color"], text["text"], text["wrap"]) == ("GPU idle", "attention", "text", True)
    assert card["type"] == "AdaptiveCard"


def test_text_of_jobs_is_no_header_of_mail() -> None:
    message = Message("k\r\nBcc: x@y", "a\r\nBcc: evil@example.org", "text")
    mail = mail_of(Channel("mail", "mail", {"from": "pai@example.org"}), message, ("ann@example.org",))
    assert "Bcc" not in mail
    assert mail["Subject"] == "a Bcc: evil@example.org"
    assert "\n" not in mail["Message-ID"].strip()


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("mail", {"host": "m", "from": "a@b", "password": "p", "security": "none"}, "without TLS"),
        ("mail", {"host": "m", "from": "a@b\r\nX: y"}, "not a mail address"),
        ("mail", {"from": "a@b"}, "`host`"),
        ("mail", {"host": "m", "from": "a@b", "port": 0}, "`port`"),
        ("mail", {"host": "m", "from": "a@b", "colour": "x"}, "no key 'colour'"),
        ("webhook", {}, "`url` is missing"),
        ("webhook", {"url": 7}, "another type"),
        ("pigeon", {}, "no kind of channel"),
    ],
)
def test_a_faulty_channel_is_refused(kind: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameters, match=message):
        split("x", kind, given)


def test_credentials_are_split_from_the_rest() -> None:
    plain, secret = split("mail", "mail", {"host": "m", "from": "a@b", "username": "u", "password": "p"})
    assert (plain, secret) == ({"host": "m", "from": "a@b", "username": "u"}, {"password": "p"})
    assert split("chat", "slack", {"url": "https://h/x"}) == ({}, {"url": "https://h/x"})
