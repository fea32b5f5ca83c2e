"""`pai node lemons`: the nodes that failed jobs of several users, and the score at which such a node is drained."""

from __future__ import annotations

from typing import Annotated, Final

from openpai.cli import output, session
from openpai.cli.options import argument
from openpai.protocol.errors import InvalidParameters
from openpai.protocol.wording import exact, plural

_MAX: Final = 100.0


def lemons(
    threshold: Annotated[str | None, argument("SCORE", "Score at which a node is drained; `off` for never.")] = None,
    json: output.Json = False,
) -> None:
    """List the nodes that failed jobs, and show or set the score at which such a node is drained.

    Each user whose job failed for the hardware of a node adds 1, half of it after two weeks; see the page on failures.
    `pai node undrain NODE` puts a node back and sets its score to 0.
    """
    wanted = None if threshold is None else _score(threshold)
    with session.connect() as pai:
        found = pai.lemons() if wanted is None else pai.set_lemons(wanted)
        nodes = sorted((node for node in pai.nodes() if node.lemon_score), key=lambda node: -node.lemon_score)
    shown = [{"node": node.name, "score": node.lemon_score, "users": node.lemon_users} for node in nodes]
    if output.as_json(json, {**found, "nodes": shown}):
        return
    at = float(found["threshold"])
    output.say(f"A node is drained at a score of {exact(at)}." if at else "Off: no node is drained for its failures.")
    if nodes:
        from openpai.cli.listing import listing

        rows = [
            (node.name, exact(node.lemon_score), plural(node.lemon_users, "user"), _state(node.drained_because))
            for node in nodes
        ]
        output.say(listing(("NODE", "SCORE", "FAILED JOBS OF", "DRAINED"), rows, right=("SCORE",)))
        output.next_step(f"pai node show {nodes[0].name}")
    else:
        output.say("No node has failed jobs of users lately.")
        output.next_step("pai node list")


def _state(drained_because: str) -> str:
    return drained_because or "no"


def _score(text: str) -> float:
    if text.lower() == "off":
        return 0.0
    try:
        score = float(text)
    except ValueError:
        score = -1.0
    if not 0 <= score <= _MAX:
        raise InvalidParameters(f"{text!r} is not a score", "give a number up to 100, such as 2.5, or off")
    return score
