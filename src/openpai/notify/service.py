"""Sends messages by the kind of their channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openpai.notify.addresses import Network, check_literal, reachable
from openpai.notify.mail import send_mail
from openpai.notify.webhooks import post, url_of
from openpai.ports.alerts import Channel, Message

if TYPE_CHECKING:
    import httpx


class Messenger:
    """`ports.alerts.MessageSender`. `allowed` are networks that every webhook may reach."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed)
        self._http: httpx.AsyncClient | None = None

    async def send(self, channel: Channel, secrets: Mapping[str, Any], message: Message) -> None:
        if channel.kind == "mail":
            await send_mail(channel, secrets, message)
            return
        if self._http is None:
            # A start need not wait for it.
            import httpx

            # No proxy of the environment: it would resolve names itself.
            self._http = httpx.AsyncClient(trust_env=False)
        await post(self._http, channel, secrets, message, self._allowed)

    async def check_target(self, url: str) -> None:
        await reachable(url, self._allowed, is_trusted=False)

    def check_channel(self, channel: Channel, secrets: Mapping[str, Any]) -> None:
        if channel.kind != "mail":
            check_literal(url_of(channel, secrets), self._allowed)

    async def close(self) -> None:
        """Close its connections."""
        if self._http is not None:
            await self._http.aclose()
