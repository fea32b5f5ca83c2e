"""Channels: the ways by which messages leave the platform. Their credentials are stored encrypted, never returned."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Request
from pydantic import Field

from openpai.api.answers import Done, Reply, done, reply
from openpai.api.audit import about
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import alert_channels as shapes
from openpai.notify.channels import check_size, split, with_credentials
from openpai.ports.alerts import Channel, Message, ReportedAlert
from openpai.protocol.errors import Refused, Unavailable
from openpai.wire.alert_channels import AlertChannel

router = Router("alerts")
_CHANNEL: Final = "/api/v2/alert-channels/{name}"
Name = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
_EXAMPLE: Final[dict[str, Any]] = {"host": "mail.example.org", "from": "pai@example.org", "username": "pai"}


class ChannelBody(Body, example={"kind": "mail", "data": _EXAMPLE}):
    """The definition of a channel."""

    kind: Literal["mail", "webhook", "slack", "teams", "alertmanager"] = Field(description="What it speaks.")
    data: dict[str, Any] = Field(
        description="For mail: host, port, security (starttls, tls or none), from, to, username, password, ca. For the "
        "others: url, and authorization for webhook and alertmanager. Credentials that are left out stay as they are."
    )


class TestMessageBody(Body, example={"to": "ann@example.org"}, is_required=False):
    """Where to send a test message."""

    __test__ = False
    to: str = Field("", max_length=254, description="A mail address, for a mail channel without recipients.")


@router.serves("GET /api/v2/alert-channels", "List channels of messages")
async def list_alert_channels(
    request: Request, caller: Annotated[Caller, needs("alert.rules")]
) -> Reply[list[AlertChannel]]:
    """Return every channel, by name, without credentials."""
    return reply([shapes.channel(each) for each in await context_of(request).services.alerts.channels()])


@router.serves(f"PUT {_CHANNEL}", "Set a channel of messages", takes=ChannelBody)
async def set_alert_channel(
    request: Request, caller: Annotated[Caller, needs("alert.channels")], name: Name
) -> Reply[AlertChannel]:
    """Add or replace a channel. Credentials stay with their server: for another one they must be given again."""
    body = await read_body(request, ChannelBody)
    about(request, target=name)
    services = context_of(request).services
    known = {each.name: each for each in await services.alerts.channels()}
    check_size(name, body.data, known)
    before = known.get(name)
    given = body.data
    if before is not None and before.kind == body.kind and before.sealed is not None:
        given = with_credentials(body.kind, before.data, services.sealer.open(before.sealed), given)
    plain, secret = split(name, body.kind, given)
    channel = Channel(name, body.kind, plain, services.sealer.seal(secret), caller.user, services.clock.now_ms())
    services.sender.check_channel(channel, secret)
    await services.alerts.set_channel(channel)
    return reply(shapes.channel(channel))


@router.serves(f"DELETE {_CHANNEL}", "Remove a channel of messages", "NoChannelError")
async def remove_alert_channel(
    request: Request, caller: Annotated[Caller, needs("alert.channels")], name: Name
) -> Done:
    """Remove a channel; messages that wait for it are kept until they are given up."""
    about(request, target=name)
    if not await context_of(request).services.alerts.remove_channel(name):
        raise no_channel(name)
    return done(f"channel {name} is removed")


@router.serves(f"POST {_CHANNEL}/test", "Send a test message", "NoChannelError", takes=TestMessageBody)
async def test_alert_channel(request: Request, caller: Annotated[Caller, needs("alert.channels")], name: Name) -> Done:
    """Send a message now and say whether it was taken; nothing is kept or sent again."""
    to = (await read_body(request, TestMessageBody)).to if await request.body() else ""
    about(request, target=name)
    services = context_of(request).services
    found = {each.name: each for each in await services.alerts.channels()}.get(name)
    if found is None:
        raise no_channel(name)
    text = f"{caller.user} sent this message to test channel {name} of OpenPAI."
    labels = {"alertname": "PaiTest", "severity": "info"}
    alert = ReportedAlert(labels, {"summary": text}, services.clock.now_ms())
    message = Message(f"test/{secrets.token_hex(8)}", "a test message of OpenPAI", text, "firing", (alert,))
    if to:
        split("test", "mail", {"host": "x", "from": to})
        message = replace(message, to=(to,))
    try:
        await services.sender.send(found, services.sealer.open(found.sealed), message)
    except Unavailable as error:
        # The test is over with its answer; a client would repeat what may work later.
        raise Refused("InvalidParametersError", error.message, "correct the channel, or mend its server") from error
    return done(f"channel {name} took the message")


def no_channel(name: str) -> Refused:
    """Return the error for a channel that does not exist."""
    return Refused("NoChannelError", f"there is no channel {name!r}", "`pai alert channels` shows them")
