"""The credentials file: its path, its mode, and what takes precedence over it."""

from __future__ import annotations

import pytest

from openpai.client.credentials import Credentials, credentials_file, forget, load, normal_url, save
from openpai.protocol.errors import Refused


@pytest.fixture
def home(tmp_path):
    return {"XDG_CONFIG_HOME": str(tmp_path / "config")}


def test_no_other_user_may_read_the_file(home):
    path = save(Credentials("http://a:1", "ann", "t"), home)
    assert path == credentials_file(home)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_latest_login_is_the_current_one_and_others_are_kept(home):
    save(Credentials("http://a:1", "ann", "ta"), home)
    save(Credentials("http://b:2", "bob", "tb"), home)
    assert load(None, home) == Credentials("http://b:2", "bob", "tb")
    assert load("http://a:1/", home).token == "ta"
    assert [path.name for path in credentials_file(home).parent.iterdir()] == ["credentials.json"]


def test_the_environment_goes_before_the_file_and_an_argument_before_both(home):
    save(Credentials("http://a:1", "ann", "ta"), home)
    assert load(None, home | {"PAI_URL": "http://c:3"}) == Credentials("http://c:3")
    assert load(None, home | {"PAI_TOKEN": "app"}) == Credentials("http://a:1", None, "app")
    assert load(None, home | {"PAI_TOKEN": "app\n"}).token == "app"
    assert load("a:1", home | {"PAI_URL": "http://c:3"}).user == "ann"


def test_logging_out_forgets_one_server_only(home):
    save(Credentials("http://a:1", "ann", "ta"), home)
    save(Credentials("http://b:2", "bob", "tb"), home)
    assert forget("http://b:2", home)
    assert not forget("http://b:2", home)
    assert (load("http://b:2", home).token, load("http://a:1", home).token) == (None, "ta")


def test_a_damaged_file_is_named(home):
    path = save(Credentials("http://a:1", "ann", "ta"), home)
    path.write_text("{")
    with pytest.raises(Refused, match=r"credentials\.json") as caught:
        load(None, home)
    assert "log in again" in caught.value.advice


def test_the_token_is_not_shown():
    assert "hush" not in repr(Credentials("http://a:1", "ann", "hush"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://h:9186/", "http://h:9186"),
        ("h:9186", "http://h:9186"),
        ("https://h/rest-server/api/v2/", "https://h/rest-server"),
    ],
)
def test_addresses_have_one_form(given, expected):
    assert normal_url(given) == expected


@pytest.mark.parametrize(
    "given", ["", "ftp://h", "http://", "http://a b", "http://[::1", "http://h:99999", "http://h:x"]
)
def test_what_is_no_address_is_refused(given):
    with pytest.raises(Refused):
        normal_url(given)


@pytest.mark.parametrize(
    "content", ['{"current": 5, "servers": {}}', '{"servers": []}', '{"servers": {"http://a:1": 3}}']
)
def test_a_file_of_another_form_holds_no_login(home, content):
    path = save(Credentials("http://a:1", "ann", "t"), home)
    path.write_text(content, encoding="utf-8")
    assert load("http://a:1", home) == Credentials("http://a:1")
    save(Credentials("http://a:1", "ann", "t"), home)
    assert load(None, home).user == "ann"


def test_a_directory_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "openpai").symlink_to(tmp_path / "gone")
    with pytest.raises(Refused, match="cannot keep the credentials in") as caught:
        save(Credentials("http://a:1", "ann", "t"), {"XDG_CONFIG_HOME": str(tmp_path)})
    assert "XDG_CONFIG_HOME" in caught.value.advice
