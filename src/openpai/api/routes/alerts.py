"""Alerts: what needs attention now, what alerts did, silences, and subscriptions of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal

from fastapi import Path, Query, Request
from pydantic import Field

from openpai.access.accounts import User, check_extension
from openpai.api.answers import Done, Reply, done, reply
from openpai.api.audit import about
from openpai.api.bodies import Body, read_body
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import alerts as shapes
from openpai.orchestrator.alert_outbox import Subscription, subscription_of
from openpai.orchestrator.present_alerts import WATCHED, firing_for, present_alerts
from openpai.ports.alerts import Channel
from openpai.ports.queries import JobFilter
from openpai.wire import alerts as wire

router = Router("alerts")
JOBS_MAX: Final = 1000
ALERTS_MAX: Final = 10_000
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]


class SilenceBody(Body, example={"matchers": ["node_name=n1"], "minutes": 120, "comment": "new disks"}):
    """What to silence, and for how long."""

    matchers: list[Annotated[str, Field(max_length=500)]] = Field(
        min_length=1,
        max_length=20,
        description="All of them hold: the name of a rule, or as in `node_name=n1`.",
    )
    minutes: float = Field(ge=1, le=366 * 1440, description="How long.")
    comment: str = Field("", max_length=500, description="Why.")


class SubscriptionBody(Body, example={"on": ["end", "failure"]}):
    """What to hear of one's own jobs."""

    on: list[Literal["start", "end", "failure", "waiting", "retry", "weekly"]] = Field(
        max_length=6, description="The events."
    )
    waitingMinutes: float = Field(30, ge=1, le=100_000, description="How long a job may wait before a message.")
    url: str = Field("", max_length=2000, description="A webhook of one's own; empty: mail.")
    shape: Literal["webhook", "slack", "teams"] = Field("webhook", description="The form of what the webhook gets.")


@router.serves("GET /api/v2/alerts", "List alerts")
async def list_alerts(request: Request, caller: Annotated[Caller, needs("alert.list")]) -> Reply[list[wire.Alert]]:
    """Return alerts in Alertmanager's shape: all for administrators, those about their own jobs for others.

    They report the present state: nodes that are not ready or are drained, bad GPUs, and jobs that wait for more than
    half an hour, do not begin, or do not end; and the alerts of rules that fire. At most 1,000 jobs are examined,
    oldest first.
    """
    services = context_of(request).services
    where = JobFilter(phases=WATCHED, is_ascending=True, limit=JOBS_MAX)
    if not caller.is_admin:
        where = replace(where, users=(caller.user,), submitted_from_ms=caller.principal.since_ms)
    page = await services.jobs.jobs(where, count=False)
    nodes = await services.platform.nodes() if caller.is_admin else ()
    now_ms = services.clock.now_ms()
    silences = await services.platform.silences()
    stored = firing_for(caller.principal, await services.alerts.alerts())
    # The present state does not say since when a node is as it is; the rule about the same has seen it begin.
    began = {shapes.about(dict(each.labels)): each.since_ms for each in stored}
    found = [shapes.of_present(each, began, now_ms, silences) for each in present_alerts(nodes, page.jobs, now_ms)]
    known = {shapes.about(each["labels"]) for each in found}
    of_rules = [shapes.of_rule(each, now_ms, silences) for each in stored]
    return reply([*found, *(each for each in of_rules if shapes.about(each["labels"]) not in known)][:ALERTS_MAX])


@router.serves("GET /api/v2/alerts/silences", "List silences")
async def list_silences(request: Request, caller: Annotated[Caller, needs("alert.rules")]) -> Reply[list[wire.Silence]]:
    """Return silences, the newest first; those that are over are kept for a week."""
    services = context_of(request).services
    now_ms = services.clock.now_ms()
    return reply([shapes.silence(each, now_ms) for each in reversed(await services.platform.silences())])


@router.serves("POST /api/v2/alerts/silences", "Silence alerts", takes=SilenceBody)
async def silence_alerts(request: Request, caller: Annotated[Caller, needs("alert.silence")]) -> Reply[wire.Silence]:
    """Let the alerts that fit all matchers neither notify nor act for a time."""
    body = await read_body(request, SilenceBody)
    about(request, target=", ".join(body.matchers)[:200])
    services = context_of(request).services
    now_ms = services.clock.now_ms()
    to_ms = now_ms + int(body.minutes * 60_000)
    made = await services.platform.silence(body.matchers, to_ms, caller.user, body.comment)
    return reply(shapes.silence(made, now_ms))


@router.serves("DELETE /api/v2/alerts/silences/{id}", "End a silence", "NoSilenceError")
async def end_silence(
    request: Request,
    caller: Annotated[Caller, needs("alert.silence")],
    id: Annotated[str, Path(max_length=64, description="The silence.")],  # noqa: A002
) -> Done:
    """End a silence at once."""
    about(request, target=id)
    await context_of(request).services.platform.end_silence(id, caller.user)
    return done(f"silence {id} is over")


@router.serves("GET /api/v2/alerts/actions", "List actions of alerts")
async def list_alert_actions(
    request: Request, caller: Annotated[Caller, needs("alert.rules")], limit: Limit = 100
) -> Reply[list[wire.AlertAction]]:
    """Return what alerts did, or would have done without a limit, the newest first."""
    rows = await context_of(request).services.alerts.actions(limit=limit)
    return reply([shapes.action(row) for row in rows])


@router.serves("GET /api/v2/alerts/messages", "List messages of the outbox")
async def list_alert_messages(
    request: Request,
    caller: Annotated[Caller, needs("alert.rules")],
    state: Annotated[Literal["waiting", "sent", "given_up", ""], Query(description="Only those in this state.")] = "",
    limit: Limit = 100,
) -> Reply[list[wire.AlertMessage]]:
    """Return messages that wait, were sent or were given up, the newest first, each with the reason."""
    states = (state,) if state else ("waiting", "sent", "given_up")
    found = await context_of(request).services.alerts.notices(states, limit)
    return reply([shapes.message(each) for each in found])


@router.serves("GET /api/v2/alerts/subscription", "Show one's subscription")
async def get_subscription(
    request: Request, caller: Annotated[Caller, needs("alert.subscribe")]
) -> Reply[wire.Subscription]:
    """Return what the caller hears of their own jobs."""
    services = context_of(request).services
    user = await services.users.user(caller.user)
    return reply(_subscription(user, await services.alerts.channels()))


@router.serves("PUT /api/v2/alerts/subscription", "Subscribe to one's own jobs", takes=SubscriptionBody)
async def set_subscription(
    request: Request, caller: Annotated[Caller, needs("alert.subscribe")]
) -> Reply[wire.Subscription]:
    """Set what the caller hears of their own jobs, by mail or by a webhook of theirs, which must be public."""
    body = await read_body(request, SubscriptionBody)
    about(request, target=caller.user, owner=caller.user)
    services = context_of(request).services
    if body.url:
        await services.sender.check_target(body.url)
    wanted = {
        "on": sorted(set(body.on)), "waitingMinutes": body.waitingMinutes, "url": body.url, "shape": body.shape,
    }  # fmt: skip

    def change(user: User) -> User:
        extension = {**user.extension, "notifications": wanted}
        check_extension(extension)
        return replace(user, extension=extension)

    user = await services.users.change_user(caller.user, change)
    return reply(_subscription(user, await services.alerts.channels()))


def _subscription(user: User | None, channels: Sequence[Channel]) -> wire.Subscription:
    if user is None:
        return {"on": [], "waitingMinutes": 30, "url": "", "shape": "webhook", "problem": ""}
    found = subscription_of(user)
    words: tuple[Literal["start", "end", "failure", "waiting", "retry", "weekly"], ...]
    words = ("start", "end", "failure", "waiting", "retry", "weekly")
    shape: Literal["webhook", "slack", "teams"] = (
        "slack" if found.shape == "slack" else "teams" if found.shape == "teams" else "webhook"
    )
    return {
        "on": [word for word in words if word in found.on],
        "waitingMinutes": found.waiting_minutes,
        "url": found.url,
        "shape": shape,
        "problem": _in_the_way(user, found, channels),
    }


def _in_the_way(user: User, subscription: Subscription, channels: Sequence[Channel]) -> str:
    if not subscription.on or subscription.url:
        return ""
    if not user.email:
        return "you have no e-mail address; add one to your profile, or use a webhook"
    if not any(channel.kind == "mail" for channel in channels):
        return "the platform cannot send mail yet: an administrator has to set a channel of mail"
    return ""
