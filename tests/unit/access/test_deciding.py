"""Decisions about permissions, and laws that hold for any table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.access.deciding import at_door, check, refusal
from openpai.access.model import GUEST, NOTHING, Principal, Role, Scope, Thing
from openpai.access.table import ACTIONS, OPEN, open_action
from openpai.protocol.errors import Refused

NAMES = st.sampled_from(["", "a", "b"])
SETS = st.frozensets(st.sampled_from(["a", "b"]))
ROLES = st.sampled_from([Role.GUEST, Role.VIEWER, Role.USER, Role.ADMIN])
PEOPLE = st.builds(
    Principal,
    name=NAMES,
    role=ROLES,
    virtual_clusters=SETS,
    managed=SETS,
    storages=SETS,
    is_application=st.booleans(),
    scope=st.sampled_from(Scope),
)
THINGS = st.builds(Thing, owner=NAMES, virtual_cluster=NAMES, storage=NAMES, is_private=st.booleans())
ANY_ACTION = st.sampled_from(sorted(ACTIONS))


def may(who: Principal, action: str, thing: Thing = NOTHING) -> bool:
    return refusal(who, action, thing) is None


@given(PEOPLE, ANY_ACTION, THINGS)
def test_an_actor_refused_at_the_route_may_do_it_to_no_resource(who: Principal, action: str, thing: Thing) -> None:
    try:
        at_door(who, action)
    except Refused:
        assert not may(who, action, thing)


@given(PEOPLE, ANY_ACTION, THINGS)
def test_a_guest_may_do_only_open_actions(who: Principal, action: str, thing: Thing) -> None:
    assert may(GUEST, action, thing) == (ACTIONS[action].role is Role.GUEST)
    if ACTIONS[action].role is Role.GUEST:
        assert may(who, action, thing)


@given(PEOPLE, ANY_ACTION, THINGS)
def test_an_administrator_in_person_may_do_everything(who: Principal, action: str, thing: Thing) -> None:
    assert may(Principal(who.name, Role.ADMIN), action, thing)


@given(PEOPLE, ANY_ACTION, THINGS)
def test_a_token_never_reaches_further_than_its_owner(who: Principal, action: str, thing: Thing) -> None:
    person = replace(who, is_application=False, scope=Scope.ALL)
    assert may(person, action, thing) or not may(who, action, thing)


@given(PEOPLE, ANY_ACTION, THINGS)
def test_a_token_to_read_changes_nothing(who: Principal, action: str, thing: Thing) -> None:
    reader = replace(who, is_application=False, scope=Scope.READ)
    if may(reader, action, thing):
        assert ACTIONS[action].scope is Scope.READ or ACTIONS[action].role is Role.GUEST


@given(PEOPLE, ANY_ACTION, THINGS)
def test_a_viewer_may_do_nothing_that_a_user_may_not(who: Principal, action: str, thing: Thing) -> None:
    def as_role(role: Role) -> Principal:
        return replace(who, role=role, is_application=False, scope=Scope.ALL)

    assert may(as_role(Role.USER), action, thing) or not may(as_role(Role.VIEWER), action, thing)
    assert may(as_role(Role.ADMIN), action, thing) or not may(as_role(Role.USER), action, thing)


def test_an_actor_without_a_name_owns_nothing() -> None:
    assert not may(Principal("", Role.USER), "job.stop", Thing(owner=""))
    assert not may(Principal("ann", Role.USER), "job.stop", NOTHING)


def test_a_private_job_is_hidden_from_other_users_of_its_virtual_cluster() -> None:
    mate = Principal("mia", Role.USER, frozenset({"team"}))
    manager = Principal("max", Role.USER, frozenset({"team"}), frozenset({"team"}))
    for is_private in (False, True):
        job = Thing("ann", "team", is_private=is_private)
        assert may(mate, "job.config", job) is not is_private
        assert may(manager, "job.config", job)
        assert not may(mate, "job.logs", job)


@pytest.mark.parametrize(
    ("who", "action", "thing", "message", "advice"),
    [
        (GUEST, "job.list", NOTHING, "this needs a login", "log in"),
        (
            Principal("bob", Role.USER),
            "job.stop",
            Thing("ann", "team", label="job ann~train"),
            "bob may not stop, start or restart a job: job ann~train",
            "only ann, administrators and managers of its virtual cluster may",
        ),
        (Principal("bob", Role.USER), "user.add", NOTHING, "bob may not add users", "only administrators may"),
        (
            Principal("ann", Role.USER, is_application=True),
            "token.create",
            NOTHING,
            "an application token may not do this",
            "log in with a password",
        ),
        (
            Principal("ann", Role.USER, scope=Scope.READ),
            "job.submit",
            NOTHING,
            "a token with scope 'read' may not submit jobs",
            "use a token with scope 'jobs' or wider",
        ),
        (Principal("vera", Role.VIEWER), "job.submit", NOTHING, "vera may not submit jobs", "who are not viewers may"),
        (
            Principal("vera", Role.VIEWER),
            "job.tag",
            Thing("vera", "vc"),
            "vera may not tag a job, being a viewer",
            "administrators and managers",
        ),
        (
            Principal("bob", Role.USER),
            "storage.read",
            Thing(storage="data"),
            "bob may not browse",
            "members of groups that are granted it may",
        ),
    ],
)
def test_a_refusal_names_the_user_the_action_and_the_users_who_may_do_it(
    who: Principal, action: str, thing: Thing, message: str, advice: str
) -> None:
    with pytest.raises(Refused) as refused:
        check(who, action, thing)
    assert message in refused.value.message
    assert advice in refused.value.advice
    assert refused.value.code == ("UnauthorizedUserError" if who is GUEST else "ForbiddenUserError")


def test_open_routes_are_about_actions_that_are_open() -> None:
    assert all(ACTIONS[action].role is Role.GUEST for action in OPEN.values())
    assert open_action("DELETE", "/api/v2/info") == "info.read"
    assert open_action("POST", "/api/v2/tokens") == "login"
    assert open_action("GET", "/api/v2/tokens") is None
