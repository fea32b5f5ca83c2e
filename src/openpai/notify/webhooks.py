"""Sends messages over HTTP: plain JSON, in the shapes of Slack and Teams, and to Alertmanager."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NotRequired, TypedDict
from urllib.parse import urlsplit, urlunsplit

from openpai.notify.addresses import Network, check_url, reachable
from openpai.ports.alerts import Channel, Message, ReportedAlert
from openpai.protocol.errors import Refused, Unavailable
from openpai.protocol.times import iso_time

if TYPE_CHECKING:
    import httpx

TIMEOUT_S: Final = 20.0
TEXT_MAX: Final = 3_000
"""The longest text of one section of a chat message."""
ANSWER_MAX: Final = 4_096
"""How many bytes of a refusal are read."""
REASON_MAX: Final = 200
SECRET_MIN: Final = 8
"""The least length of a part of a URL that may be a password."""
SUBJECT_MAX: Final = 150
"""The longest header of a message of Slack."""
_MENTION: Final = re.compile(r"@(?=(?:all|channel|here)\b)")
_CUT_ESCAPE: Final = re.compile(r"&[a-z]{0,3}$")
_NEVER: Final = "0001-01-01T00:00:00Z"
_COLOURS: Final = {"firing": "attention", "resolved": "good"}


class PostedAlert(TypedDict):
    """An alert as Alertmanager's API takes it."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    startsAt: str
    endsAt: NotRequired[str]


class WebhookAlert(PostedAlert):
    """An alert as Alertmanager sends it to webhooks, where the end of one that fires is the year 1."""

    status: Literal["firing", "resolved"]
    generatorURL: Literal[""]
    fingerprint: str


async def post(
    http: httpx.AsyncClient,
    channel: Channel,
    secrets: Mapping[str, Any],
    message: Message,
    allowed: Sequence[Network],
) -> None:
    """Post a message to the URL of its channel, or of its user."""
    # A start need not wait for it.
    import httpx

    url = message.url or url_of(channel, secrets)
    if channel.kind == "alertmanager":
        url = url.rstrip("/") + "/api/v2/alerts"
    host, port, is_tls = check_url(url)
    address = await reachable(url, allowed, is_trusted=not message.url)
    shown = f"[{address}]" if address.version == 6 else str(address)
    # The address that was checked, with the name in the request and in the certificate.
    target = urlunsplit(urlsplit(url)._replace(netloc=f"{shown}:{port}", fragment=""))
    named = f"[{host}]" if ":" in host else host
    headers = {
        "Host": named if port == (443 if is_tls else 80) else f"{named}:{port}",
        # A receiver recognises a message that comes twice.
        "Idempotency-Key": message.key,
        "User-Agent": "openpai",
    }
    if secrets.get("authorization") and not message.url:
        headers["Authorization"] = str(secrets["authorization"])
    extensions = {"sni_hostname": host} if is_tls else {}
    body = body_of(channel.kind, message)
    try:
        async with http.stream(
            "POST", target, json=body, headers=headers, extensions=extensions, timeout=TIMEOUT_S,
            follow_redirects=False,
        ) as answer:  # fmt: skip
            status = answer.status_code
            reason = "" if message.url or 200 <= status < 300 else await _reason(answer, url)
    except (httpx.HTTPError, OSError) as error:
        raise Unavailable(f"{host}:{port} cannot be reached: {type(error).__name__} {error}"[:300]) from error
    if 200 <= status < 300:
        return
    if status in (408, 425, 429) or status >= 500:
        raise Unavailable(f"{host}:{port} answered with status {status}{reason}")
    raise Refused(
        "InvalidParametersError", f"{host}:{port} answered with status {status}{reason}", "correct the channel"
    )


def url_of(channel: Channel, secrets: Mapping[str, Any]) -> str:
    """Return the URL of a channel."""
    return str(secrets.get("url") or channel.data.get("url", ""))


async def _reason(answer: httpx.Response, url: str) -> str:
    """Return what a receiver that an administrator chose says of a refusal: its first line, without the channel's URL.

    The answer to a user's own webhook is not read: it could be one of a server that only the platform reaches.
    """
    found = bytearray()
    async for part in answer.aiter_raw():
        found += part
        if len(found) >= ANSWER_MAX:
            break
    lines = found[:ANSWER_MAX].decode(errors="replace").strip().splitlines()
    line = "".join(letter if letter.isprintable() else " " for letter in lines[0]) if lines else ""
    parts = urlsplit(url)
    for secret in (parts.query, parts.path, *parts.path.split("/")):
        if len(secret) >= SECRET_MIN:
            line = line.replace(secret, "***")
    return f": {line[:REASON_MAX]}" if line else ""


def body_of(kind: str, message: Message) -> Any:
    """Return the JSON document of a message."""
    match kind:
        case "slack":
            return slack(message)
        case "teams":
            return teams(message)
        case "alertmanager":
            return alertmanager(message)
        case "webhook":
            return webhook(message)
    raise ValueError(f"no document for a channel of kind {kind!r}")


def webhook(message: Message) -> dict[str, Any]:
    """Return a message in the form of Alertmanager's webhooks, with its subject and text."""
    return {
        "version": "4",
        "key": message.key,
        "status": message.status,
        "subject": message.subject,
        "text": message.text,
        "alerts": [_alert(each) for each in message.alerts],
        "groupKey": message.key,
        "receiver": "webhook",
        "groupLabels": {},
        "commonLabels": _common([each.labels for each in message.alerts]),
        "commonAnnotations": _common([each.annotations for each in message.alerts]),
        "externalURL": "",
        "truncatedAlerts": 0,
    }


def slack(message: Message) -> dict[str, Any]:
    """Return a message for an incoming webhook of Slack, which Mattermost takes, too."""
    subject, text = _for_slack(message.subject, SUBJECT_MAX), _for_slack(message.text, TEXT_MAX)
    return {
        # Slack shows the blocks, and this in its notifications alone; Mattermost knows no blocks, and shows all of it.
        "text": f"{subject}\n{text}".strip(),
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": message.subject[:SUBJECT_MAX], "emoji": False}},
            {"type": "section", "text": {"type": "mrkdwn", "text": text or subject, "verbatim": True}},
        ],
    }


def _for_slack(text: str, most: int) -> str:
    """Escape text that could mention a whole channel, or be a link that shows another address; cut no escape."""
    # Mattermost knows the plain words; between the two is a space of no width.
    text = _MENTION.sub("@\u200b", text)
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped if len(escaped) <= most else _CUT_ESCAPE.sub("", escaped[:most])


def teams(message: Message) -> dict[str, Any]:
    """Return a message for a workflow of Teams: an Adaptive Card."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": _for_teams(message.subject[:SUBJECT_MAX]), "weight": "bolder", "wrap": True,
             "color": _COLOURS.get(message.status, "default")},
            {"type": "TextBlock", "text": _for_teams(message.text[:TEXT_MAX]), "wrap": True},
        ],
    }  # fmt: skip
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _for_teams(text: str) -> str:
    # Markdown of a job would be a link.
    for letter in "\\[]()*_`#<>":
        text = text.replace(letter, f"\\{letter}")
    return text.replace("\n", "\n\n")


def _alert(alert: ReportedAlert) -> WebhookAlert:
    return {
        "status": "firing" if alert.ends_at_ms is None else "resolved",
        "labels": alert.labels,
        "annotations": alert.annotations,
        "startsAt": iso_time(alert.starts_at_ms),
        "endsAt": _NEVER if alert.ends_at_ms is None else iso_time(alert.ends_at_ms),
        "generatorURL": "",
        "fingerprint": alert.fingerprint,
    }


def alertmanager(message: Message) -> list[PostedAlert]:
    """Return the alerts of a message for Alertmanager's API."""
    if not message.alerts:
        now = datetime.now(UTC).isoformat()
        labels = {"alertname": "PaiMessage", "severity": "info", "key": message.key}
        return [{"labels": labels, "annotations": {"summary": message.subject}, "startsAt": now}]
    return [_for_alertmanager(each) for each in message.alerts]


def _for_alertmanager(alert: ReportedAlert) -> PostedAlert:
    found: PostedAlert = {
        "labels": alert.labels, "annotations": alert.annotations, "startsAt": iso_time(alert.starts_at_ms)
    }  # fmt: skip
    # Without an end it would be over for Alertmanager after five minutes.
    end_ms = alert.valid_until_ms if alert.ends_at_ms is None else alert.ends_at_ms
    if end_ms is not None:
        found["endsAt"] = iso_time(end_ms)
    return found


def _common(pairs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first = pairs[0] if pairs else {}
    return {name: text for name, text in first.items() if all(each.get(name) == text for each in pairs)}
