"""Decides whether an actor may do an action, with the reason for a refusal."""

from __future__ import annotations

from typing import Final

from openpai.access.model import NOTHING, Action, Principal, Role, Scope, Thing
from openpai.access.table import ACTIONS
from openpai.protocol.errors import Refused

_REACH: Final = {Scope.READ: 0, Scope.JOBS: 1, Scope.ALL: 2}


def at_door(who: Principal, action: str) -> None:
    """Raise ForbiddenUserError if an actor may not do an action to any resource at all."""
    rule = ACTIONS[action]
    is_open_to_some = rule.is_open_to_owner or rule.is_open_to_manager or rule.is_open_to_granted
    error = _unfit(who, rule) if is_open_to_some else refusal(who, action)
    if error is not None:
        raise error


def refusal(who: Principal, action: str, thing: Thing = NOTHING) -> Refused | None:
    """Return why an actor may not do an action to a resource, None if they may."""
    rule = ACTIONS[action]
    error = _unfit(who, rule)
    if error is not None or rule.role is Role.GUEST or who.role >= rule.role or _is_related(who, rule, thing):
        return error
    what = f"{who.name} may not {rule.message}"
    if _is_too_much_for_viewers(who, rule):
        what += ", being a viewer"
    if thing.owner == who.name and not who.owns(thing):
        what += ", which belongs to an earlier user of this name"
    return Refused("ForbiddenUserError", f"{what}: {thing.label}" if thing.label else what, _advice(who, rule, thing))


def _unfit(who: Principal, rule: Action) -> Refused | None:
    """Return why this login or token cannot do an action to any resource; None if it can."""
    if rule.role is Role.GUEST:
        return None
    if who.role is Role.GUEST:
        return Refused("UnauthorizedUserError", "this needs a login", "log in and send `Authorization: Bearer TOKEN`")
    if rule.in_person and who.is_application:
        return Refused("ForbiddenUserError", "an application token may not do this", "log in with a password")
    if _REACH[who.scope] < _REACH[rule.scope]:
        message = f"a token with scope {who.scope.value!r} may not {rule.message}"
        return Refused("ForbiddenUserError", message, f"use a token with scope {rule.scope.value!r} or wider")
    return None


def check(who: Principal, action: str, thing: Thing = NOTHING) -> None:
    """Raise ForbiddenUserError with the reason if an actor may not do an action to a resource."""
    error = refusal(who, action, thing)
    if error is not None:
        raise error


def clusters_open_to(who: Principal, action: str, label: str) -> frozenset[str] | None:
    """Return the virtual clusters to which a manager may do an action, None for all of them.

    Raise ForbiddenUserError with `label` if there are none.
    """
    if refusal(who, action) is None:
        return None
    if not who.managed:
        check(who, action, Thing(label=label))
    return who.managed


def _is_related(who: Principal, rule: Action, thing: Thing) -> bool:
    if _is_too_much_for_viewers(who, rule):
        return False
    if rule.is_open_to_owner and thing.owner and who.owns(thing):
        return True
    if rule.is_open_to_manager and thing.virtual_cluster in who.managed:
        return True
    if not rule.is_open_to_granted or thing.is_private:
        return False
    return thing.storage in who.storages if thing.storage else thing.virtual_cluster in who.virtual_clusters


def _is_too_much_for_viewers(who: Principal, rule: Action) -> bool:
    # A viewer may not change even their own resources.
    return who.role is Role.VIEWER and rule.scope is not Scope.READ and not rule.in_person


def _advice(who: Principal, rule: Action, thing: Thing) -> str:
    doors = ["administrators"]
    # To a later user of the owner's name, that name would be no advice.
    if rule.is_open_to_owner and thing.owner != who.name:
        doors.insert(0, thing.owner or "its owner")
    if rule.is_open_to_manager:
        doors.append("managers of its virtual cluster")
    if rule.is_open_to_granted:
        doors.append("members of groups that are granted it")
    if rule.role is Role.USER:
        doors = ["users who are not viewers"]
    return f"only {', '.join(doors[:-1])} and {doors[-1]} may" if len(doors) > 1 else f"only {doors[0]} may"
