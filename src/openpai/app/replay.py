"""`pai vc plan` and `pai scheduler replay`: the scheduler outside of the server.

A plan derives a whole configuration from the nodes and a line of promises. A replay takes a snapshot of the scheduler
and repeats its decisions about waiting jobs. Neither changes anything on the platform.
"""

from __future__ import annotations

import json as reader
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from openpai.cli import output, session
from openpai.cli.options import argument, option
from openpai.cli.text_file import read_text
from openpai.cli.vc import write
from openpai.ports.backend import GRACE_S
from openpai.protocol.errors import BadConfiguration, InvalidParameters, Refused

REPLAYED_MAX = 20
"""The number of waiting jobs to explain when none is named."""


def plan(
    promises: Annotated[str, argument("PROMISES", 'Promises, such as "team-a: 3 nodes, team-b: 8 GPUs of A100".')],
    file: Annotated[Path | None, option("-o --output FILE", "Write the configuration to this file.")] = None,
    json: output.Json = False,
) -> None:
    """Write a configuration for the nodes of the platform, in HiveD's format.

    What is not promised goes to `default`, unless a promise such as "team-a: rest" takes it. Nothing changes on the
    platform; use `pai vc apply` for that.
    """
    from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER
    from openpai.scheduler.config.planning import plan as planned
    from openpai.scheduler.config.promises import Promise, read_promises
    from openpai.scheduler.model import Node

    promised = read_promises(promises)
    if not any(promise.is_rest for promise in promised):
        promised = (*promised, Promise(DEFAULT_VIRTUAL_CLUSTER, is_rest=True))
    with session.connect() as pai:
        seen = pai.nodes()
    if not seen:
        raise BadConfiguration("there are no nodes to share", "see pai node list")
    nodes = [
        (Node(node.name, node.cpus.total, node.memory_mb.total, node.gpus.total), node.gpu_model)
        for node in sorted(seen, key=lambda node: node.name)
    ]
    text = planned(nodes, promised).text
    if file is not None:
        write(file, text)
    if json:
        output.document({"hived": text})
    elif file is None:
        sys.stdout.write(text)
    else:
        output.say(f"Written to {file}.")
        output.next_step(f"pai vc apply {file}")


def replay(
    file: Annotated[Path, argument("FILE", "A snapshot that `pai scheduler snapshot` took.")],
    job: Annotated[
        str | None, option("--job NAME", "A waiting job, as `user~job`, or by the id that `--json` shows.")
    ] = None,
    json: output.Json = False,
) -> None:
    """Repeat, on a snapshot, the decisions about waiting jobs, and explain them.

    It needs no server: the same scheduler on the same state gives the same answers.
    """
    from openpai.scheduler.queue.replay import answer

    data = _snapshot(file)
    waiting = [row["gang"] for row in data.get("waiting", ())]
    named = [each for each in waiting if job in (None, each["id"], each["job"])]
    if job is not None and not named:
        message = f"no job named {job!r} waits in {file}"
        some = ", ".join(dict.fromkeys(each["job"] or each["id"] for each in waiting[:5]))
        raise Refused("NoJobError", message, f"waiting jobs: {some}" if some else "no job waits in it")
    try:
        answers = [answer(data, each["id"]) | {"job": each["job"]} for each in named[:REPLAYED_MAX]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"{file} is damaged: {type(error).__name__} at {error}"
        raise InvalidParameters(message, "take a new one with `pai scheduler snapshot`") from error
    if output.as_json(json, {"now_ms": data.get("now_ms"), "waiting": len(waiting), "answers": answers}):
        return
    if not answers:
        output.say("No job waits in this snapshot.")
        output.next_step("pai scheduler snapshot -o FILE")
        return
    for each in answers:
        _report(each, data["now_ms"])
    if len(named) > len(answers):
        output.say_marked_up(f"[dim]{len(named) - len(answers)} more wait; name one with --job[/]")


def _snapshot(file: Path) -> Mapping[str, Any]:
    from openpai.scheduler.queue.snapshot import FORMAT

    try:
        data = reader.loads(read_text(file, "a text file"))
    except ValueError as error:
        raise InvalidParameters(f"{file} is not JSON: {error}", "name a snapshot's file") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or not {"now_ms", "core", "waiting"} <= data.keys():
        raise InvalidParameters(f"{file} is not a snapshot", "take one with `pai scheduler snapshot`")
    return data


def _report(answer: Mapping[str, Any], now_ms: int) -> None:
    from rich.markup import escape

    from openpai.cli.job_tables import wait_text
    from openpai.client.model import Wait

    output.say_marked_up(f"[bold]{escape(answer['job'] or answer['gang'])}[/]")
    decision = answer["decision"]
    if "place" in decision:
        spots = ", ".join(f"{spot['node']} {spot['devices']}" for spot in decision["place"])
        output.say(f"  is placed: {spots}")
    elif "preempt" in decision:
        for gang, job, message in zip(decision["preempt"], decision["jobs"], decision["message"], strict=True):
            output.say(f"  preempts {job or gang}: {message}")
    elif answer["why"] is not None:
        output.say_marked_up(f"  waits: {wait_text(Wait.read(_as_message(answer['why'])), now_ms)}")


def _as_message(why: Mapping[str, Any]) -> Mapping[str, Any]:
    estimate = why.get("estimate")
    if estimate is not None:
        estimate = {**estimate, "earliestTime": estimate["earliest_ms"], "latestTime": estimate["latest_ms"]}
    lent = [
        {"virtualCluster": each["virtual_cluster"], "gpu": each["gpus"], "cpu": each["cpus"]} for each in why["lent"]
    ]
    more = {"lentBackSeconds": GRACE_S, "interruptible": why["is_interruptible"]}
    return {**why, **more, "estimate": estimate, "lent": lent}
