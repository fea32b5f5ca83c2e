"""The identity file: its keys, and that all its faults are reported together."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpai.app.identity import read_identity
from openpai.protocol.errors import Refused

GOOD = """
publicUrl: https://pai.example.org
origins: [https://portal.example.org]
requireGroup: true
oidc:
  issuer: https://id.example.org/realms/lab
  clientId: openpai
  clientSecretEnv: PAI_TEST_SECRET
ldap:
  url: ldaps://ldap.example.org
  userBase: ou=people,dc=example,dc=org
  bindPasswordEnv: PAI_TEST_SECRET
"""


def test_secrets_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "identity.yaml"
    path.write_text(GOOD)
    monkeypatch.setenv("PAI_TEST_SECRET", "hush")
    output = read_identity(path)
    assert output.oidc is not None
    assert output.ldap is not None
    assert output.oidc.settings().client_secret == "hush"
    assert output.oidc.settings().scopes[0] == "openid"
    assert output.ldap.settings().bind_password == "hush"
    assert "hush" not in repr(output)


def test_every_fault_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "identity.yaml"
    path.write_text(
        GOOD.replace("issuer", "isuer").replace("ldaps:", "ldap:").replace("[https://portal", "[javascript://portal")
    )
    with pytest.raises(Refused) as refused:
        read_identity(path)
    message = refused.value.message
    assert "oidc.isuer" in message
    assert "oidc.issuer: is missing" in message
    assert "origins.0" in message
    assert "PAI_TEST_SECRET" in message or "in clear" in message


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("https://id", "http://id", "http://id.example.org/realms/lab would send keys and secrets unencrypted"),
        ("userBase:", "caFile: /nowhere/ca.pem\n  userBase:", "there is no file /nowhere/ca.pem, named for caFile"),
        ("userBase:", "userFilter: (uid=carol)\n  userBase:", "finds the same entry for every user"),
        ("userBase:", "bindPassword: hush\n  userBase:", "both bindPassword and bindPasswordEnv are given"),
    ],
)
def test_a_file_that_would_let_in_every_user_or_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, message: str
) -> None:
    monkeypatch.setenv("PAI_TEST_SECRET", "hush")
    path = tmp_path / "identity.yaml"
    path.write_text(GOOD.replace(right, wrong))
    with pytest.raises(Refused) as refused:
        read_identity(path)
    assert message in refused.value.message


def test_secrets_of_the_file_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "identity.yaml"
    path.write_text(
        GOOD.replace("clientSecretEnv: PAI_TEST_SECRET", "clientSecret: hush").replace(
            "bindPasswordEnv: PAI_TEST_SECRET", "bindPassword: hush"
        )
    )
    path.chmod(0o640)
    assert "hush" not in repr(read_identity(path))


@pytest.mark.parametrize("key", ["clientSecret", "bindPassword"])
def test_a_secret_that_every_user_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("PAI_TEST_SECRET", "hush")
    path = tmp_path / "identity.yaml"
    path.write_text(GOOD.replace(f"{key}Env: PAI_TEST_SECRET", f"{key}: murmur"))
    path.chmod(0o644)
    with pytest.raises(Refused, match="other users of this machine can read") as refused:
        read_identity(path)
    assert "murmur" not in refused.value.message
    path.write_text(GOOD)
    assert read_identity(path).oidc is not None


@pytest.mark.parametrize("text", ["{", "- a", "3", "oidc: {}"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "identity.yaml"
    path.write_text(text)
    with pytest.raises(Refused, match=r"the identity file .*identity\.yaml"):
        read_identity(path)
    with pytest.raises(Refused, match="cannot be read"):
        read_identity(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    "written", ["clientSecret: hush: hush", "clientSecret: *hush", "clientSecret: '*hush", "%hush"]
)
def test_a_file_that_is_not_yaml_is_not_quoted(tmp_path: Path, written: str) -> None:
    path = tmp_path / "identity.yaml"
    path.write_text(f"oidc:\n  {written}\n")
    with pytest.raises(Refused) as refused:
        read_identity(path)
    assert "is not YAML: see line " in refused.value.message
    assert "hush" not in refused.value.message
