"""`pai user`, `pai group` and `pai token` in front of the real API."""

from __future__ import annotations

import pytest

from tests.integration.api_world import PASSWORD
from tests.integration.terminal import Terminal


def add(pai: Terminal, name: str, *more: str) -> None:
    pai.ok("user", "add", name, "--password-stdin", *more, stdin="new-secret\n")


def test_an_added_user_can_log_in_and_out_again(pai):
    add(pai, "carl", "--email", "carl@example.org")
    shown = pai.json("user", "show", "carl")
    assert (shown["email"], shown["admin"], shown["grouplist"]) == ("carl@example.org", False, ["default"])
    assert "carl@example.org" in pai.ok("user", "list").out
    assert pai.client().login("carl", "new-secret").user == "carl"
    assert "is removed" in pai.ok("user", "remove", "carl", "--yes").out
    message = pai("user", "show", "carl")
    assert (message.code, message.out) == (3, "")


def test_a_password_comes_from_a_terminal_or_from_standard_input_only(pai):
    message = pai("user", "add", "carl")
    assert message.code == 2
    assert "--password-stdin" in message.err


def test_what_is_not_named_stays(pai):
    add(pai, "carl", "--email", "c@example.org", "--viewer")
    pai.ok("user", "set", "carl", "--admin")
    shown = pai.json("user", "show", "carl")
    assert (shown["email"], shown["admin"]) == ("c@example.org", True)
    pai.ok("user", "set", "carl", "--no-admin", "--no-viewer", "--email", "")
    shown = pai.json("user", "show", "carl")
    assert (shown["email"], shown["admin"], shown["viewer"]) == ("", False, False)


def test_others_see_no_more_than_names(pai):
    message = pai.ok("user", "list", user="ann")
    assert "bob" in message.out
    assert "ROLE" in message.out
    assert pai.json("user", "show", "bob", user="ann") == {"username": "bob"}
    assert "only they and administrators may see more" in pai.ok("user", "show", "bob", user="ann").out
    assert "ann" in pai.ok("user", "show", user="ann").out
    assert pai("user", "add", "eve", "--password-stdin", user="ann", stdin="new-secret\n").code == 4


def test_ones_own_password_needs_the_old_one_and_that_of_another_user_does_not(pai):
    message = pai("user", "password", "--password-stdin", user="ann", stdin="wrong-one\nnew-secret\n")
    assert message.code == 4
    pai.ok("user", "password", "--password-stdin", user="ann", stdin=f"{PASSWORD}\nnew-secret\n")
    assert pai("job", "list", user="ann").code == 4
    pai.ok("user", "password", "bob", "--password-stdin", stdin="newer-secret\n")
    assert pai.client("ann", pai.client().login("bob", "newer-secret").token).whoami() == "bob"


def test_every_login_of_a_user_can_be_ended(pai):
    pai.ok("job", "list", user="ann")
    assert pai.json("user", "revoke", "ann", "--yes") == {"user": "ann", "revoked": 1}
    assert pai("job", "list", user="ann").code == 4


def test_a_group_grants_and_takes_away(pai):
    assert "no virtual cluster" not in pai.ok("group", "list").out
    pai.ok("group", "add", "vision", "--description", "sees", "--vc", "a,b", "--vc", "c", "--manage", "a")
    assert "choose another name" in pai("group", "add", "vision").err
    pai.ok("group", "set", "vision", "--storage", "data", "--external", "AD vision")
    shown = pai.json("group", "show", "vision")
    assert (shown["description"], shown["externalName"], shown["members"]) == ("sees", "AD vision", [])
    assert shown["extension"]["acls"] == {
        "admin": False,
        "virtualClusters": ["a", "b", "c"],
        "managedVirtualClusters": ["a"],
        "storageConfigs": ["data"],
    }
    pai.ok("group", "set", "vision", "--vc", "")
    assert pai.json("group", "show", "vision")["extension"]["acls"]["virtualClusters"] == []
    pai.ok("group", "add-user", "vision", "ann", "bob")
    assert "ann, bob" in pai.ok("group", "show", "vision").out
    assert "vision" in pai.ok("user", "list").out
    refused = pai("group", "add-user", "vision", "ann", "nobody")
    assert refused.code == 3
    assert "done before: ann" in refused.err
    pai.ok("group", "remove-user", "vision", "ann")
    assert pai.json("group", "show", "vision")["members"] == ["bob"]
    assert pai.json("group", "show", "vision", user="bob")["members"] is None
    pai.ok("group", "remove", "vision", "--yes")
    assert pai("group", "show", "vision").code == 3
    assert pai("group", "remove-user", "vision", "bob").code == 3


def test_a_token_for_a_program_is_printed_alone_and_does_what_it_is_for(pai):
    message = pai.ok("token", "create", "--name", "ci", "--scope", "read", "--expires", "12h", user="ann")
    token = message.out.strip()
    assert "\n" not in token
    found = pai.client("ann", token).check()
    assert (found.user, found.is_application, found.scope) == ("ann", True, "read")
    listed = pai.ok("token", "list", user="ann").out
    assert "ci" in listed
    assert "this login" in listed
    assert token not in listed
    id_ = next(one["id"] for one in pai.json("token", "list", user="ann") if one["name"] == "ci")
    pai.ok("token", "revoke", id_[:12], user="ann")
    with pytest.raises(Exception, match="token"):
        pai.client("ann", token).whoami()


def test_tokens_are_revoked_by_kind(pai):
    token = pai.ok("token", "create", user="ann").out.strip()
    assert pai.json("token", "revoke", "--programs", user="ann") == {"revoked": 1}
    with pytest.raises(Exception, match="token"):
        pai.client("ann", token).whoami()
    assert pai.json("token", "revoke", "--logins", user="ann") == {"revoked": 1}
    assert pai("token", "list", user="ann").code == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("token", "revoke"), "--logins or --programs"),
        (("token", "create", "--expires", "soon"), "1d12h"),
        (("token", "revoke", "no-such"), "no such token"),
    ],
)
def test_arguments_for_tokens_that_mean_nothing_are_refused(pai, arguments, message):
    answer = pai(*arguments)
    assert answer.code in (2, 3)
    assert message in answer.err


def test_every_user_in_a_file_is_added(pai, tmp_path):
    file = tmp_path / "people.csv"
    file.write_text(
        "username,password,email,admin,virtual cluster,groups\n"
        "carl,secret-1,c@example.org,false,,vision speech\n"
        'dora," secret 2 ",,true,,\n'
        "ann,secret-3,,,,\n"
    )
    for name in ("vision", "speech"):
        pai.ok("group", "add", name)
    assert "3 users can be added" in pai.ok("user", "import", str(file), "--dry-run").out
    message = pai("user", "import", str(file))
    assert message.code == 2
    assert "2 added, 0 skipped, 1 refused" in message.out
    assert "line 4: ann" in message.err
    assert set(pai.json("user", "show", "carl")["grouplist"]) == {"default", "vision", "speech"}
    assert pai.client().login("dora", " secret 2 ").is_admin
    assert pai.json("user", "import", str(file), "--skip-existing")["users"][2]["result"] == "skipped"
    file.write_text("username,password\nCarl,secret-1\n")
    message = pai("user", "import", str(file), "--skip-existing")
    assert (message.code, "which looks like 'Carl'" in message.err) == (2, True)


def test_no_user_of_a_file_with_faults_is_created_and_every_fault_is_reported(pai, tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("username,password,admin\ncarl,secret-1,no\na b,secret-1,\ncarl,short,perhaps\nzo\xeb,secret-1,\n")
    message = pai("user", "import", str(file))
    assert message.code == 2
    for expected in (
        "line 3: username",
        "line 4: username: carl appears twice",
        "line 4: password",
        "line 4: admin",
        "line 5",
    ):
        assert expected in message.err
    assert "short" not in message.err.replace("too short", "")
    assert pai("user", "show", "carl").code == 3


def test_no_user_is_added_if_one_is_granted_what_does_not_exist(pai, tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("username,password,groups\ncarl,secret-1,default\ndora,secret-1,visoin\n")
    message = pai("user", "import", str(file))
    assert (message.code, "line 3: groups: 'visoin' does not exist" in message.err) == (2, True)
    assert pai("user", "show", "carl").code == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("username,password,email\ncarl,secret-1,nobody\n", "not an e-mail address"),
        ("username\ncarl\n", "password: this column is missing"),
        ("username,password,colour\n", "unknown column"),
        ("username,password\n", "has no users"),
        ('username,password\n"carl', "is not CSV"),
        ("username,password\ncarl,secret-1,more\n", "more cells"),
    ],
)
def test_a_file_that_is_no_list_of_people_is_refused(pai, tmp_path, text, message):
    file = tmp_path / "people.csv"
    file.write_text(text)
    answer = pai("user", "import", str(file))
    assert answer.code == 2
    assert message in answer.err
