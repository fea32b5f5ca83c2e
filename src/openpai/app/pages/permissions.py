"""The page of permissions: every action, who may do it, and the requests that do it.

The answers are not copied from the table but computed, for a user of each kind, by the same function that decides in a
running server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fastapi.routing import APIRoute

from openpai.access.deciding import refusal
from openpai.access.model import GUEST, NOTHING, Action, Principal, Role, Scope, Thing
from openpai.access.table import ACTIONS, open_action
from openpai.api.app import ROUTERS
from openpai.api.context import action_of
from openpai.app.pages.markdown import code, page, table

_INTRO: Final = """\
Every request to the platform is one of these actions, and each route of the [REST API](rest.md) names its action. The
rights of a user follow from their groups and role at that moment, never from those at the creation of their token:"""

_KINDS: Final = (
    ("guest", "has no login"),
    ("viewer", "has a login, and an administrator made them a viewer: they look and change nothing but their account"),
    ("user", "has a login; this is about what belongs to others"),
    ("owner", "it is their job, or their account"),
    ("granted", "a group of theirs grants them the virtual cluster of a job that is not private, or the storage"),
    ("manager", "a group of theirs lets them manage the virtual cluster (`managedVirtualClusters`)"),
    ("admin", "a group of theirs makes them an administrator (`admin`)"),
)

_TOKENS: Final = """\
The last column shows what an application's token may do, which is created with `POST /api/v2/tokens/application` or
`pai token create`: never more than its owner may at that moment, and only within its scope. *read* means
that any scope is enough, *jobs* that it must be `jobs` or `all`, *all* that it must be `all`, and *no* that only a
login may do it, no token."""

_OPEN: Final = "These need no login."
_THING: Final = Thing("owner", "vc", "storage")


def permissions() -> str:
    """Return the page."""
    routes = _routes()
    heads = ("Action", "What it is", *(name for name, _ in _KINDS), "token")
    guarded = [action for action in ACTIONS.values() if action.role is not Role.GUEST]
    open_to_all = [action for action in ACTIONS.values() if action.role is Role.GUEST]
    return page(
        "Permissions",
        "`openpai/access/table.py`",
        _INTRO,
        table(("Kind", "Meaning"), _KINDS),
        _TOKENS,
        "## Who may do what",
        table(heads, (_row(action) for action in guarded)),
        "## Open to all",
        _OPEN,
        table(("Action", "What it is"), [[code(action.name), action.message] for action in open_to_all]),
        "## Requests",
        table(("Action", "Requests"), _requests(routes)),
    )


def _row(action: Action) -> list[str]:
    answers = ("yes" if refusal(who, action.name, thing) is None else "" for who, thing in _people())
    return [code(action.name), action.message, *answers, _token(action)]


def _people() -> Iterable[tuple[Principal, Thing]]:
    """Return a user of each kind, in the order of `_KINDS`, with the object of the action."""
    yield GUEST, NOTHING
    yield Principal("viewer", Role.VIEWER), _THING
    yield Principal("user", Role.USER), _THING
    # Jobs and accounts have an owner, storages have none.
    yield Principal("owner", Role.USER), Thing("owner", "vc")
    yield Principal("mate", Role.USER, frozenset({"vc"}), storages=frozenset({"storage"})), _THING
    yield Principal("manager", Role.USER, frozenset({"vc"}), frozenset({"vc"})), _THING
    yield Principal("root", Role.ADMIN), _THING


def _token(action: Action) -> str:
    for scope in (Scope.READ, Scope.JOBS, Scope.ALL):
        token = Principal("root", Role.ADMIN, is_application=True, scope=scope)
        if refusal(token, action.name, _THING) is None:
            return scope.value
    return "no"


def _routes() -> Mapping[str, list[str]]:
    """Return the requests of each action, in the order of the table."""
    found: dict[str, list[str]] = {name: [] for name in ACTIONS}
    for module in ROUTERS:
        for route in module.router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                for method in sorted(route.methods or ()):
                    action = action_of(route) or open_action(method, route.path)
                    if action is not None:
                        found[action].append(f"{method} {route.path_format}")
    return found


def _requests(routes: Mapping[str, list[str]]) -> Iterable[list[str]]:
    for action, requests in routes.items():
        wider = (f"{code(each)}, which then shows more" for each in routes.get(ACTIONS[action].widens, ()))
        yield [code(action), "<br>".join([*map(code, requests), *wider])]
