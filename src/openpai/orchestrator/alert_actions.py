"""Carries out the actions of alerts, by the commands that users and administrators have; the audit log has each.

An action is recorded with the state of its target first. If the server dies, the next one repeats what was recorded:
an action on another attempt of a job than the recorded one is dropped, and a command is never run twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from typing import Final

import structlog

from openpai.alerts.actions import ActionCause, Done, limit, target_of
from openpai.alerts.rules import Rule
from openpai.alerts.states import Alert
from openpai.lifecycle.lemons import Strike
from openpai.orchestrator import stored_jobs
from openpai.orchestrator.alert_state import AlertParts
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.lemons import save_lemons
from openpai.ports.alerts import ActionRow
from openpai.ports.platform import NodeChange
from openpai.ports.store import JobRecord, LeaseLost
from openpai.ports.usage import AuditEntry
from openpai.protocol.errors import PaiError, Refused, Unavailable
from openpai.protocol.job import owner_and_job

BY: Final = "platform"
COMMAND_S: Final = 60.0
OUTPUT_MAX: Final = 500
SHARE_MAX: Final = 0.5
"""The part of all nodes that rules may take out of service."""
AUDITED: Final = {
    "tag": "job.tag", "stop": "job.stop", "requeue": "job.stop", "exclude": "job.stop",
    "cordon": "node.change", "mark-bad": "node.change", "command": "alert.change", "webhook": "alert.change",
}  # fmt: skip
log: Final = structlog.get_logger(__name__)


def plan(leader: Leader, rule: Rule, alert: Alert, done: list[Done], now_ms: int) -> list[ActionRow]:
    """Return the actions of an alert that has begun to fire, each with whether it may be carried out."""
    labels = dict(alert.labels)
    rows = []
    for number, spec in enumerate(rule.actions):
        key = f"{alert.id}/{number}"
        try:
            target = target_of(spec, labels)
        except ValueError as error:
            rows.append(ActionRow(key, rule.name, spec, "", now_ms, "failed", str(error), alert.id))
            continue
        why = "" if rule.is_dry else limit(rule.name, spec, target, rule.actions_per_hour, done, now_ms)
        state = "dry" if rule.is_dry else "limited" if why else "planned"
        cause = _cause(leader, alert)
        rows.append(ActionRow(key, rule.name, spec, target, now_ms, state, why, alert.id, cause))
        if state == "planned":
            done.append(Done(rule.name, spec, target, now_ms))
    return rows


def _cause(leader: Leader, alert: Alert) -> ActionCause:
    labels, summary = dict(alert.labels), alert.annotations.get("summary", "")
    record = _record(leader, labels.get("job_name", ""))
    if record is None:
        return ActionCause(labels, summary)
    return ActionCause(labels, summary, record.job.id, record.job.attempt)


def _record(leader: Leader, name: str) -> JobRecord | None:
    return next((each for each in leader.active.records.values() if each.full_name == name), None) if name else None


async def carry_out(leader: Leader, parts: AlertParts, row: ActionRow) -> None:
    """Carry out one recorded action, and record what became of it."""
    kind = row.action.kind
    if kind == "command" and row.state == "started":
        detail = "the server stopped while the command ran; it is not repeated"
        await parts.store.set_action(row.key, "failed", detail, leader.epoch)
        return
    await parts.store.set_action(row.key, "started", "", leader.epoch)
    state, status = "done", 200
    try:
        detail = await _act(leader, parts, row)
    except Unavailable as error:
        # Tried again in the next pass; nothing was changed, or what was changed is found then.
        await parts.store.set_action(row.key, "planned", error.message, leader.epoch)
        raise
    except PaiError as error:
        state, detail, status = "failed", error.message, error.status
    except (OSError, ValueError) as error:
        state, detail, status = "failed", str(error), 500
    owner = owner_and_job(row.target, "")[0] if row.action.is_on_job else ""
    about = {"rule": row.rule, "action": str(row.action), "alert": row.alert, "result": detail[:200]}
    entry = AuditEntry(
        leader.clock.now_ms(), BY, AUDITED.get(kind, "alert.change"), row.target, owner,
        via=f"alert rule {row.rule}", status=status, detail=about,
    )  # fmt: skip
    # The entry first: an action that the log does not have would be worse than one that it has twice.
    await parts.usage.note(entry)
    await parts.store.set_action(row.key, state, detail[:1000], leader.epoch)
    log.info("an alert acted", **about, target=row.target, state=state)


async def _act(leader: Leader, parts: AlertParts, row: ActionRow) -> str:
    labels = row.cause.labels
    because = " ".join(f"alert {row.rule}: {row.cause.summary}".split())[:300].removesuffix(":")
    match row.action.kind:
        case "tag" | "stop" | "requeue" | "exclude":
            return await _on_job(leader, parts, row, because)
        case "cordon":
            return await _cordon(leader, parts, labels["node_name"], because)
        case "mark-bad":
            return await _mark_bad(leader, parts, labels["node_name"], int(labels["minor_number"]), because)
        case "command":
            return await _run(parts, row)
    raise Refused("InvalidParametersError", f"there is no action {row.action.kind!r}", "")


async def _on_job(leader: Leader, parts: AlertParts, row: ActionRow, because: str) -> str:
    kind, id_ = row.action.kind, row.cause.job
    record = leader.active.records.get(id_)
    if kind == "tag" and (found := await parts.jobs.job_of_id(id_) if id_ else None) is not None:
        await stored_jobs.tag(parts.jobs, found, row.action.argument)
        return f"tagged {row.action.argument}"
    if record is None or record.job.is_final or record.job.is_stop_requested:
        return "the job is over or is being stopped already"
    if record.job.attempt != row.cause.attempt:
        return "another attempt of the job runs by now; nothing was done"
    if kind == "stop":
        await parts.platform.stop(record.user, record.name, f"alert rule {row.rule}", because)
        return "stopped"
    if kind == "requeue":
        await parts.platform.restart(record.user, record.name, f"alert rule {row.rule}", because)
        return "stopped, and queued again"
    node = row.cause.labels["node_name"]
    strike = Strike(node, record.user, id_, "", row.at_ms, rule=row.rule)
    if strike not in leader.lemons.strikes:
        leader.lemons.strikes.append(strike)
        leader.lemons.is_changed = True
        await save_lemons(leader.lemons, leader.settings, leader.clock.now_ms(), leader.epoch)
    return f"the job avoids node {node} from its next attempt on"


async def _cordon(leader: Leader, parts: AlertParts, node: str, because: str) -> str:
    notes = leader.sharing.notes
    note = notes.get(node)
    if note is not None and note.is_drained:
        return "the node takes no new tasks already"
    out = sum(each.is_drained for each in notes.values())
    if out + 1 > max(1, len(notes) * SHARE_MAX):
        message = f"{out} of {len(notes)} nodes take no new tasks already; rules take at most half out of service"
        raise Refused("InvalidParametersError", message, "look at the nodes: pai node list")
    await parts.platform.change_node(node, NodeChange(is_drained=True, reason=because), BY)
    return "the node takes no new tasks; `pai node undrain` puts it back into service"


async def _mark_bad(leader: Leader, parts: AlertParts, node: str, device: int, because: str) -> str:
    note = leader.sharing.notes.get(node)
    known = note.bad_devices if note is not None else frozenset[int]()
    if device in known:
        return "the GPU is marked as bad already"
    await parts.platform.change_node(node, NodeChange(bad_devices=known | {device}, reason=because), BY)
    return f"GPU {device} is marked as bad"


async def _run(parts: AlertParts, row: ActionRow) -> str:
    """Run a command that the operator's configuration names. The alert is on its standard input, never in a shell."""
    name = row.action.argument
    argv = parts.commands.get(name)
    if not argv:
        raise Refused("NoSettingError", f"the configuration of the server names no command {name!r}",
                      "add it to the file of --alert-commands")  # fmt: skip
    about = json.dumps({"rule": row.rule, "alert": row.alert, **row.cause.as_dict()}).encode()
    known = {"PATH": os.environ.get("PATH", os.defpath), "PAI_ALERT_RULE": row.rule, "PAI_ALERT_KEY": row.key}
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env=known, cwd="/", start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(COMMAND_S):
            output = await _talk(process, about)
            code = await process.wait()
    except TimeoutError:
        raise Refused("InvalidParametersError", f"the command ran for more than {COMMAND_S:.0f} s and was killed",
                      "let it do its work in the background") from None  # fmt: skip
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    shown = "".join(letter if letter.isprintable() else " " for letter in output.decode(errors="replace"))
    if code:
        raise Refused("InvalidParametersError", f"the command ended with code {code}: {shown}".rstrip(": "), "")
    return f"the command ran: {shown}".rstrip(": ")


async def _talk(process: asyncio.subprocess.Process, text: bytes) -> bytes:
    """Write the alert to a command, and return the end of what it prints."""
    end = b""
    if process.stdin is not None:
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(text)
            await process.stdin.drain()
        process.stdin.close()
    while process.stdout is not None and (part := await process.stdout.read(65536)):
        end = (end + part)[-OUTPUT_MAX:]
    return end


async def carry_out_all(leader: Leader, parts: AlertParts) -> bool:
    """Carry out what is recorded; return whether something is left for the next pass."""
    rows = await parts.store.actions(states=("planned", "started"), limit=200)
    left = False
    for row in reversed(rows):
        try:
            await carry_out(leader, parts, row)
        except LeaseLost:
            raise
        except Unavailable as error:
            log.warning(
                "an action of an alert is tried again", rule=row.rule, action=str(row.action), error=error.message
            )
            left = True
    return left or len(rows) == 200
