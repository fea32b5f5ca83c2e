"""Logging in on an identity provider's page: the browser brings the code back to a door that only this machine has.

Where there is no browser, the address can be opened on any machine; what its address bar shows at the end is pasted
here. The code is worth nothing without the secret, which never leaves this process.
"""

from __future__ import annotations

import base64
import secrets
import sys
import threading
from collections.abc import Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlencode

from openpai.protocol.errors import Refused, Unavailable

WAIT_S: Final = 300.0
_PAGES: Final = {
    True: b"<!doctype html><title>OpenPAI</title><p>Go on in the terminal. This page can be closed.",
    False: b"<!doctype html><title>OpenPAI</title><p>The login failed; the terminal says why. This page can be closed.",
}


class _Door(ThreadingHTTPServer):
    """Listens on this machine for the one answer.

    Browsers open connections in advance and say nothing on them, so each gets a thread of its own.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Guest)
        # No page elsewhere can guess where the answer is waited for.
        self.place = f"/{secrets.token_urlsafe(16)}/"
        self.answer: dict[str, str] = {}
        self.came = threading.Event()

    @property
    def url(self) -> str:
        """Return where the answer is to come."""
        return f"http://127.0.0.1:{self.server_port}{self.place}"


class _Guest(BaseHTTPRequestHandler):
    server: _Door

    def do_GET(self) -> None:
        found = read_answer(self.path)
        is_here = self.path.partition("?")[0] == self.server.place
        is_it = is_here and bool({"code", "errorMessage"} & found.keys())
        self.send_response(200 if is_it else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        if is_it:
            self.wfile.write(_PAGES["code" in found])
            self.server.answer = found
            self.server.came.set()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
        """Write nothing: the address holds the code."""


def read_answer(address: str) -> dict[str, str]:
    """Return what an address says in its query, without what would steer a terminal; nothing where it is none."""
    found = parse_qs(address.strip().partition("#")[0].partition("?")[2])
    return {key: "".join(letter for letter in values[0] if letter.isprintable()) for key, values in found.items()}


def begun(server: str, back: str, verifier: str) -> str:
    """Return the address at which a login begins whose code comes to `back`."""
    challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    said = urlencode({"challenge": challenge, "redirect_uri": back})
    return f"{server}/api/v2/authn/oidc/login?{said}"


def code_of(answer: Mapping[str, str]) -> str:
    """Return the code of an answer; raise Refused with the provider's words when there is none."""
    if "code" in answer:
        return answer["code"]
    if "errorMessage" in answer:
        raise Refused("ForbiddenUserError", answer["errorMessage"])
    raise Refused("InvalidParametersError", "the address holds no code", "log in again with `pai login --sso`")


def code_from_page(server: str, *, has_browser: bool) -> tuple[str, str]:
    """Let somebody log in on the provider's page; return the code that comes back, and the secret it goes with."""
    verifier = secrets.token_urlsafe(48)
    door = _Door()
    try:
        address = begun(server, door.url, verifier)
        if not has_browser:
            sys.stderr.write(f"Open this address in a browser, on any machine:\n\n  {address}\n\n")
            sys.stderr.write("The last page will not load there; paste its address here: ")
            sys.stderr.flush()
            return code_of(read_answer(sys.stdin.readline())), verifier
        _open(address)
        threading.Thread(target=door.serve_forever, daemon=True).start()
        if not door.came.wait(WAIT_S):
            raise Unavailable("nobody logged in within five minutes", "try again, or use --no-browser")
        door.shutdown()
        return code_of(door.answer), verifier
    finally:
        door.server_close()


def _open(address: str) -> None:
    import webbrowser

    sys.stderr.write(f"Log in on the page that opens now, or open it yourself:\n\n  {address}\n\n")
    sys.stderr.flush()
    webbrowser.open(address)
