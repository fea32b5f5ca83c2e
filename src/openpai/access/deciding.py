"""Decides whether an actor may do an action, with the reason for a refusal."""

from __future__ import annotations

from typing import Final

from openpai.access.model import NOTHING, Action, Principal, Role, Scope, Thing
from openpai.access.table import ACTIONS
from openpai.protocol.errors import Refused

_REACH: Final = {Scope.READ: 0, Scope.JOBS: 1, Scope.ALL: 2}


def at_door(who: Principal, action: str) -> None:
    """Raise ForbiddenUserError if an actor may not do an action to any resource at all."""
    asked = ACTIONS[action]
    is_open_to_some = asked.is_open_to_owner or asked.is_open_to_manager or asked.is_open_to_granted
    error = _unfit(who, asked) if is_open_to_some else refusal(who, action)
    if error is not None:
        raise error


def refusal(who: Principal, action: str, thing: Thing = NOTHING) -> Refused | None:
    """Return why an actor may not do an action to a resource, None if they may."""
    asked = ACTIONS[action]
    error = _unfit(who, asked)
    if error is not None or asked.role is Role.GUEST or who.role >= asked.role or _is_related(who, asked, thing):
        return error
    what = f"{who.name} may not {asked.message}"
    if _is_too_much_for_viewers(who, asked):
        what += ", being a viewer"
    if thing.owner == who.name and not who.owns(thing):
        what += ", which belongs to an earlier user of this name"
    return Refused("ForbiddenUserError", f"{what}: {thing.label}" if thing.label else what, _advice(who, asked, thing))


def _unfit(who: Principal, asked: Action) -> Refused | None:
    """Return why this login or token cannot do an action to any resource; None if it can."""
    if asked.role is Role.GUEST:
        return None
    if who.role is Role.GUEST:
        return Refused("UnauthorizedUserError", "this needs a login", "log in and send `Authorization: Bearer TOKEN`")
    if asked.in_person and who.is_application:
        return Refused("ForbiddenUserError", "an application token may not do this", "log in with a password")
    if _REACH[who.scope] < _REACH[asked.scope]:
        message = f"a token with scope {who.scope.value!r} may not {asked.message}"
        return Refused("ForbiddenUserError", message, f"use a token with scope {asked.scope.value!r} or wider")
    return None


def check(who: Principal, action: str, thing: Thing = NOTHING) -> None:
    """Raise ForbiddenUserError with the reason if an actor may not do an action to a resource."""
    error = refusal(who, action, thing)
    if error is not None:
        raise error


def _is_related(who: Principal, asked: Action, thing: Thing) -> bool:
    if _is_too_much_for_viewers(who, asked):
        return False
    if asked.is_open_to_owner and thing.owner and who.owns(thing):
        return True
    if asked.is_open_to_manager and thing.virtual_cluster in who.managed:
        return True
    if not asked.is_open_to_granted or thing.is_private:
        return False
    return thing.storage in who.storages if thing.storage else thing.virtual_cluster in who.virtual_clusters


def _is_too_much_for_viewers(who: Principal, asked: Action) -> bool:
    # A viewer may not change even their own resources.
    return who.role is Role.VIEWER and asked.scope is not Scope.READ and not asked.in_person


def _advice(who: Principal, asked: Action, thing: Thing) -> str:
    doors = ["administrators"]
    # To a later user of the owner's name, that name would be no advice.
    if asked.is_open_to_owner and thing.owner != who.name:
        doors.insert(0, thing.owner or "its owner")
    if asked.is_open_to_manager:
        doors.append("managers of its virtual cluster")
    if asked.is_open_to_granted:
        doors.append("members of groups that are granted it")
    if asked.role is Role.USER:
        doors = ["users who are not viewers"]
    return f"only {', '.join(doors[:-1])} and {doors[-1]} may" if len(doors) > 1 else f"only {doors[0]} may"
