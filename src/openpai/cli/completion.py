"""Names that the shell offers when a user presses Tab.

Completion must neither wait nor fail: without a login, or without an answer within a second, it offers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from openpai.wire.states import STATES

if TYPE_CHECKING:
    from openpai.client import Client

WITHIN_S: Final = 1.0
OFFERED: Final = 50


def _client() -> Client | None:
    from openpai.cli import session
    from openpai.client.credentials import load

    found = load(session.chosen_url())
    if found.token is None:
        return None
    from openpai.client import Client

    def never(_: float) -> None:
        raise TimeoutError

    # A retry would take longer than a user waits for Tab.
    return Client(found.url, found.token, user=found.user, timeout_s=WITHIN_S, sleep=never)


def _offer(incomplete: str, names: Callable[[Client], Iterable[str]]) -> list[str]:
    from openpai.protocol.errors import PaiError

    try:
        pai = _client()
        if pai is None:
            return []
        with pai:
            return [name for name in names(pai) if name.startswith(incomplete)][:OFFERED]
    except (PaiError, OSError):
        return []


def jobs(incomplete: str) -> list[str]:
    """Offer the user's own jobs by name, and those of others after a `~`."""
    owner, tilde, part = incomplete.partition("~")

    def names(pai: Client) -> Iterable[str]:
        if tilde:
            return [job.full_name for job in pai.jobs(limit=OFFERED, username=owner, keyword=part).jobs]
        own = pai.user or pai.whoami()
        return [job.name for job in pai.jobs(limit=OFFERED, username=own, keyword=incomplete).jobs]

    return _offer(incomplete, names)


def virtual_clusters(incomplete: str) -> list[str]:
    """Offer virtual clusters; after a comma, the next one of a list."""
    before, comma, last = incomplete.rpartition(",")
    found = _offer(last, lambda pai: [vc.name for vc in pai.virtual_clusters()])
    return [f"{before}{comma}{name}" for name in found]


def states(incomplete: str) -> list[str]:
    """Offer states of jobs; after a comma, the next one of a list."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{state}" for state in STATES if state.startswith(last)]


def _offering(names: Callable[[Client], Iterable[str]]) -> Callable[[str], list[str]]:
    return lambda incomplete: _offer(incomplete, names)


storages = _offering(lambda pai: [found.name for found in pai.storages()])
users = _offering(lambda pai: [user.name for user in pai.users()])
groups = _offering(lambda pai: [found.name for found in pai.groups()])
nodes = _offering(lambda pai: [node.name for node in pai.nodes()])
tokens = _offering(lambda pai: [token.id for token in pai.tokens()])
