"""The door that a login on a provider's page comes back to."""

from __future__ import annotations

import io
import socket
import sys
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from openpai.access.pkce import challenge_of
from openpai.cli import sign_on
from openpai.protocol.errors import Refused

SERVER = "https://pai.example.org"


class Browser:
    """A browser that opens an address and is redirected straight back, as after a login."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.challenge = ""
        self.page = ""
        self._gone: list[threading.Thread] = []

    def open(self, address: str) -> bool:
        asked = sign_on.read_answer(address)
        self.challenge = asked["challenge"]
        assert address.startswith(f"{SERVER}/api/v2/authn/oidc/login?")
        self._gone.append(threading.Thread(target=self._go, args=(asked["redirect_uri"],)))
        self._gone[-1].start()
        return True

    def _go(self, back: str) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        parts = urlsplit(back)
        # As browsers do: a connection in advance, on which nothing is said.
        with socket.create_connection((parts.hostname, parts.port)):
            for elsewhere in (f"{back}favicon.ico", f"http://{parts.netloc}/?code=made-up"):
                with pytest.raises(urllib.error.HTTPError):
                    opener.open(elsewhere)
            self.page = opener.open(f"{back}?{self._answer}", timeout=60).read().decode()

    def close(self) -> None:
        for thread in self._gone:
            thread.join()


def test_the_code_comes_back_through_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser("code=the+code&from=x")
    monkeypatch.setattr("webbrowser.open", browser.open)
    code, verifier = sign_on.code_from_page(SERVER, has_browser=True)
    browser.close()
    assert code == "the code"
    assert challenge_of(verifier) == browser.challenge


def test_a_refusal_is_reported_in_the_providers_words(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser("errorMessage=not%1b%5D0;+today%07")
    monkeypatch.setattr("webbrowser.open", browser.open)
    with pytest.raises(Refused) as refused:
        sign_on.code_from_page(SERVER, has_browser=True)
    browser.close()
    assert refused.value.message == "not]0; today"
    assert "failed" in browser.page


def test_the_last_address_can_be_pasted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("http://127.0.0.1:4711/?code=abc&from=\n"))
    code, verifier = sign_on.code_from_page(SERVER, has_browser=False)
    assert code == "abc"
    assert challenge_of(verifier) in capsys.readouterr().err
    assert verifier not in capsys.readouterr().err


def test_an_address_without_a_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("https://id.example.org/login\n"))
    with pytest.raises(Refused, match="no code"):
        sign_on.code_from_page(SERVER, has_browser=False)


@pytest.mark.parametrize("address", ["http://[", "http://[::1/x#?code=y", "//[", "", "code"])
def test_an_address_that_is_none_holds_no_code(address: str) -> None:
    with pytest.raises(Refused, match="the address holds no code"):
        sign_on.code_of(sign_on.read_answer(address))
