"""`pai node show`: one node, its state, the jobs on it, and its history."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from openpai.cli import formatting, output, session
from openpai.cli.node import Node

if TYPE_CHECKING:
    from rich.table import Table

    from openpai.client.model import AuditEntry, Held, Holding, NodeCheck, NodeDetail


def show(node: Node, json: output.Json = False) -> None:
    """Show a node: its GPUs, its checks, the jobs on it, and its history.

    Jobs that you may not see are only counted. The history is shown to administrators.
    """
    with session.connect() as pai:
        found = pai.node(node)
    if output.as_json(json, found.document):
        return
    now_ms = int(time.time() * 1000)
    output.facts(_facts(found))
    if found.checks:
        output.say()
        output.say(_checks(found.checks))
        if checked := max((check.checked_ms or 0 for check in found.checks), default=0):
            output.say(f"checked at {formatting.clock_time(checked)}")
    if found.jobs:
        output.say()
        output.say(held_table(found.jobs, now_ms))
    if rest := others(found):
        output.say(rest)
    if found.history:
        output.say()
        output.say(_history(found.history))
    is_drained = found.is_drained
    output.next_step(f"pai job list --node {node}", f"pai node {'undrain' if is_drained else 'drain'} {node}")


def _facts(node: NodeDetail) -> Iterator[tuple[str, str]]:
    yield "node", node.name
    yield "address", node.address
    health = "good" if node.is_healthy else "" if node.message else "not healthy"
    yield "health", "; ".join(filter(None, (health, node.message)))
    if node.is_drained:
        until = (
            ""
            if node.drain_deadline_ms is None
            else f"; jobs are stopped at {formatting.clock_time(node.drain_deadline_ms)}"
        )
        yield "drained", (node.drained_because or "yes") + until
    if node.lemon_score:
        users = formatting.plural(node.lemon_users, "user")
        yield "lemon score", f"{node.lemon_score:.1f}: jobs of {users} failed for its hardware"
    yield "CPUs", f"{node.cpus.used} of {node.cpus.total} in use"
    yield "memory", f"{formatting.memory(node.memory_mb.used)} of {formatting.memory(node.memory_mb.total)} in use"
    if node.gpus.total:
        yield "GPUs", f"{node.gpus.used} of {node.gpus.total} in use{f', {node.gpu_model}' if node.gpu_model else ''}"
        yield from _devices(node)


def _devices(node: NodeDetail) -> Iterator[tuple[str, str]]:
    users = {device: one.job for one in node.jobs for device in one.devices}
    for device in range(node.gpus.total):
        message = [users[device]] if device in users else []
        if device in node.bad_devices:
            message.append(f"bad{f': {node.bad_because}' if node.bad_because else ''}")
        if message:
            yield f"GPU {device}", ", ".join(message)


def _checks(checks: Iterable[NodeCheck]) -> Table:
    from openpai.cli.listing import listing

    rows = [(check.name, check.result, formatting.clock_time(check.since_ms), check.message) for check in checks]
    return listing(("CHECK", "RESULT", "SINCE", "REASON"), rows, whole=("RESULT", "SINCE"))


def held_table(jobs: Iterable[Holding], now_ms: int) -> Table:
    """Return a table of the resources that jobs hold, since when, and until when at the latest."""
    from openpai.cli.listing import listing

    rows = [
        (
            one.job,
            str(one.tasks),
            str(one.gpus),
            str(one.cpus),
            "starting" if one.started_at_ms is None else formatting.span((now_ms - one.started_at_ms) / 1000),
            _end(one, now_ms),
        )
        for one in jobs
    ]
    whole = ("RUNNING", "ENDS")
    return listing(("JOB", "TASKS", "GPUS", "CPUS", *whole), rows, right=("TASKS", "GPUS", "CPUS"), whole=whole)


def _end(one: Holding, now_ms: int) -> str:
    if one.is_ending:
        return "now"
    if one.ends_at_ms is None:
        return "no time limit"
    return f"in {formatting.span(max(0, one.ends_at_ms - now_ms) / 1000)} at most"


def others(held: Held) -> str:
    """Return a line about the jobs that the user may not see; empty if there are none."""
    if not held.other_jobs:
        return ""
    gpus = f"{formatting.plural(held.other_gpus, 'GPU')} and " if held.other_gpus else ""
    return (
        f"{formatting.plural(held.other_jobs, 'job')} of other users: {gpus}{formatting.plural(held.other_cpus, 'CPU')}"
    )


def _history(entries: Iterable[AuditEntry]) -> Table:
    from openpai.cli.listing import listing

    rows = [(formatting.clock_time(one.at_ms), one.actor, formatting.details(one.detail)) for one in entries]
    return listing(("TIME", "USER", "CHANGE"), rows, whole=("TIME",))
