"""Alerts: what needs attention, silences, what alerts did, and subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, given, listed, nothing, query_of, whole


class Alerts:
    """What needs attention."""

    @asks
    def alerts(self) -> Call[tuple[model.Alert, ...]]:
        """Return alerts: about one's own jobs, and for administrators all."""
        return Call("GET", "/alerts", listed(model.Alert.read))

    @asks
    def silences(self) -> Call[tuple[model.Silence, ...]]:
        """Return silences, the newest first."""
        return Call("GET", "/alerts/silences", listed(model.Silence.read))

    @asks
    def silence(self, matchers: Sequence[str], minutes: float, comment: str = "") -> Call[model.Silence]:
        """Let the alerts that fit all matchers, such as `node_name=n1`, neither notify nor act for a time."""
        body = {"matchers": list(matchers), "minutes": minutes, "comment": comment}
        return Call("POST", "/alerts/silences", whole(model.Silence.read), json=body)

    @asks
    def end_silence(self, id_: str) -> Call[None]:
        """End a silence."""
        return Call("DELETE", f"/alerts/silences/{segment(id_, 'a silence')}", nothing)

    @asks
    def alert_actions(self, limit: int = 100) -> Call[tuple[model.AlertAction, ...]]:
        """Return what alerts did, the newest first."""
        return Call("GET", "/alerts/actions", listed(model.AlertAction.read), query_of(limit=limit))

    @asks
    def alert_messages(self, state: str = "", limit: int = 100) -> Call[tuple[model.AlertMessage, ...]]:
        """Return messages that wait, were sent or were given up, the newest first."""
        return Call("GET", "/alerts/messages", listed(model.AlertMessage.read), query_of(state=state, limit=limit))

    @asks
    def subscription(self) -> Call[model.Subscription]:
        """Return what one hears of one's own jobs."""
        return Call("GET", "/alerts/subscription", whole(model.Subscription.read))

    @asks
    def subscribe(
        self, on: Sequence[str], *, waiting_minutes: float | None = None, url: str = "", shape: str = "webhook"
    ) -> Call[model.Subscription]:
        """Hear of one's own jobs: start, end, failure, waiting and retry; by mail, or by a webhook."""
        body = given(on=list(on), waitingMinutes=waiting_minutes, url=url, shape=shape)
        return Call("PUT", "/alerts/subscription", whole(model.Subscription.read), json=body)
