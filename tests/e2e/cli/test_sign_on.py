"""Logging in at a terminal through an OpenID provider's page, each in a process of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx

from tests.e2e.server import ROOT, Server, person, refused
from tests.fork_server import PAI
from tests.integration.sign_on import real_provider

IDENTITY = """
oidc:
  issuer: {issuer}
  clientId: pai
  clientSecret: a secret
  label: Example University
"""


def through_the_browser(address: str, issuer: str) -> str:
    """Go where the address leads, log in there as carol, and return the last address the browser shows."""
    with httpx.Client(trust_env=False) as browser:
        claims = {"email": "carol@example.org", "preferred_username": "carol"}
        browser.put(f"{issuer}/users/carol-1", json=claims).raise_for_status()
        begun = browser.get(address)
        assert begun.status_code == 302
        answered = browser.post(begun.headers["location"], data={"sub": "carol-1"})
        assert answered.status_code == 302
        landed = browser.get(answered.headers["location"])
        assert landed.status_code == 302, landed.text
        return str(landed.headers["location"])


def test_a_user_logs_in_on_their_organisations_page(tmp_path: Path) -> None:
    with real_provider() as issuer:
        identity = tmp_path / "identity.yaml"
        identity.write_text(IDENTITY.format(issuer=issuer))
        identity.chmod(0o600)
        server = Server.start(tmp_path / "platform", 0, "--identity", str(identity), "--backend", "simulated")
        carol = person(tmp_path / "home", server.url)
        login = [*PAI, "login", "--url", server.url, "--sso", "--no-browser"]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            login, env=carol.environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT
        ) as terminal:
            assert terminal.stderr is not None
            while not (line := terminal.stderr.readline().strip()).startswith("http"):
                assert terminal.poll() is None, "it asked for nothing"
            out, err = terminal.communicate(through_the_browser(line, issuer) + "\n", timeout=120)
        assert terminal.returncode == 0, err
        assert "as carol" in out
        listed = carol("job", "list", "--json")
        assert listed.code == 0, listed.err
        assert server.end() == 0


def test_without_single_sign_on_the_terminal_says_so(server: Server, tmp_path: Path) -> None:
    message = person(tmp_path / "home", server.url)("login", "--url", server.url, "--sso")
    assert message.code == 2
    assert "no single sign-on" in message.err
    # After a login at another server than the usual one, the next step names that server.
    elsewhere = person(tmp_path / "home", "http://usual.invalid")
    message = elsewhere("login", "--url", server.url, "--token-stdin", stdin="no such token")
    assert message.code == 4
    assert f"pai login --url {server.url}" in message.err


def test_a_faulty_identity_file_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    identity = tmp_path / "identity.yaml"
    identity.write_text("oidc: {isuer: x}\nladp: {}\n")
    message = refused("--data-dir", tmp_path / "data", "--identity", identity, lines_max=6)
    assert all(word in message for word in ("oidc.isuer", "oidc.issuer", "ladp"))
    assert not (tmp_path / "data").exists()
