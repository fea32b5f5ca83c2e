"""Groups after a change of a user: exactly the requested rights change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpai.access.accounts import ADMIN_GROUP, DEFAULT_GROUP, Group, User
from openpai.access.memberships import (
    GRANTED_TO_ALL,
    UserChange,
    changed_user,
    check_admins,
    check_removable_group,
    check_removable_user,
    granted_clusters,
    granting,
    groups_named,
    joining,
    leaving,
    with_admin,
    with_clusters,
    with_external,
)
from openpai.protocol.errors import Refused

CLUSTERS = ("a", "b", "c")
GROUPS = {
    group.name: group
    for group in (
        Group(DEFAULT_GROUP, virtual_clusters=("default",)),
        Group(ADMIN_GROUP, is_admin=True),
        *(Group(name, virtual_clusters=(name,)) for name in CLUSTERS),
        Group("two", virtual_clusters=("a", "b"), storages=("disk",)),
        Group("lead", managed=("c",)),
        Group("disk", storages=("disk",)),
        Group("chiefs", external_name="cn=chiefs", is_admin=True),
        Group("people", external_name="cn=people", virtual_clusters=("b",)),
    )
}
HELD = st.lists(st.sampled_from(sorted(GROUPS)), unique=True).map(lambda names: groups_named(GROUPS, names))
REQUESTED = st.lists(st.sampled_from(("default", *CLUSTERS)), unique=True)


@given(HELD, REQUESTED)
def test_a_user_is_granted_exactly_what_was_requested(held: tuple[Group, ...], requested: list[str]) -> None:
    after = with_clusters(GROUPS, held, requested)
    by_admin = granted_clusters(group for group in held if group.is_admin)
    assert granted_clusters(after) | GRANTED_TO_ALL == {*requested, *by_admin, *GRANTED_TO_ALL}
    kept = [group for group in held if group.is_admin or not granted_clusters([group])]
    assert set(map(str, kept)) <= set(map(str, after))
    assert after[0].name == DEFAULT_GROUP
    assert with_clusters(GROUPS, after, requested) == after


@given(HELD, st.booleans())
def test_the_right_of_an_administrator_is_all_that_changes(held: tuple[Group, ...], is_admin: bool) -> None:
    after = with_admin(GROUPS, held, is_admin)
    assert any(group.is_admin for group in after) is is_admin
    assert [group for group in after if not group.is_admin] == [group for group in held if not group.is_admin]


@given(HELD, st.sets(st.sampled_from(("cn=chiefs", "cn=people", "cn=nobody", ""))))
def test_a_provider_decides_over_its_own_groups_alone(held: tuple[Group, ...], message: set[str]) -> None:
    after = with_external(GROUPS, held, message)
    assert {group.external_name for group in after if group.external_name} == message & {"cn=chiefs", "cn=people"}
    ours = [group for group in after if not group.external_name]
    assert ours == [group for group in held if not group.external_name]


@given(HELD)
def test_an_empty_change_changes_nothing(held: tuple[Group, ...]) -> None:
    user = User("ann", "hash", 1, "a@example.org", held, extension={"a": 1})
    assert changed_user(user, UserChange(), GROUPS) == user


@given(HELD)
def test_what_a_client_was_shown_of_an_administrator_may_be_handed_back(held: tuple[Group, ...]) -> None:
    root = User("root", "hash", 1, groups=with_admin(GROUPS, held, is_admin=True))
    shown = [*CLUSTERS, "default"]
    assert changed_user(root, UserChange(is_admin=True, virtual_clusters=shown), GROUPS) == root


@pytest.mark.parametrize(("requested", "code"), [("nowhere", "NoVirtualClusterError"), ("disk", "ConflictGroupError")])
def test_a_cluster_without_a_group_that_stands_for_it_is_not_granted(requested: str, code: str) -> None:
    with pytest.raises(Refused) as refused:
        with_clusters(GROUPS, (), [requested])
    assert refused.value.code == code
    assert refused.value.advice


def test_rules_about_the_groups_that_the_platform_needs():
    ann = User("ann", "", 1, groups=(Group(DEFAULT_GROUP), Group("team")))
    assert joining(ann, "more").groups == ["default", "team", "more"]
    assert leaving(ann, "team").groups == ["default"]
    for refused in (
        lambda: leaving(ann, DEFAULT_GROUP),
        lambda: check_removable_group(ADMIN_GROUP),
        lambda: check_admins(ADMIN_GROUP, is_admin=False),
        lambda: check_admins(DEFAULT_GROUP, is_admin=True),
    ):
        with pytest.raises(Refused) as error:
            refused()
        assert error.value.code == "ReadOnlyGroupError"
    root = User("root", "", 1, groups=(Group("roots", is_admin=True),))
    with pytest.raises(Refused, match="administrators may use every virtual cluster"):
        granting(root, ["vision"])
    with pytest.raises(Refused, match="administrators cannot be removed"):
        check_removable_user(root)
