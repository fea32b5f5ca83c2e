"""Single sign-on: the browser returns the code from the identity provider to a port of this machine.

Without a browser, the user opens the address on any machine, and pastes what its address bar shows at the end. The
code is useless without the secret, which never leaves this process.
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

from openpai.protocol.errors import InvalidParameters, Refused, Unavailable

WAIT_S: Final = 300.0
_PAGES: Final = {
    True: b"<!doctype html><title>OpenPAI</title><p>Go on in the terminal. This page can be closed.",
    False: b"<!doctype html><title>OpenPAI</title><p>The login failed; the terminal says why. This page can be closed.",
}


class _CallbackServer(ThreadingHTTPServer):
    """Listens on this machine for the answer.

    Browsers open connections in advance without sending anything, so each gets its own thread.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _CallbackHandler)
        # A random path, which no other page can guess.
        self.place = f"/{secrets.token_urlsafe(16)}/"
        self.answer: dict[str, str] = {}
        self.came = threading.Event()

    @property
    def url(self) -> str:
        """Return the address for the answer."""
        return f"http://127.0.0.1:{self.server_port}{self.place}"


class _CallbackHandler(BaseHTTPRequestHandler):
    server: _CallbackServer

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
    """Return the query of an address, without control characters; empty if it has none."""
    found = parse_qs(address.strip().partition("#")[0].partition("?")[2])
    return {key: "".join(letter for letter in values[0] if letter.isprintable()) for key, values in found.items()}


def login_address(server: str, back: str, verifier: str) -> str:
    """Return the address that begins a login whose code comes to `back`."""
    challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = urlencode({"challenge": challenge, "redirect_uri": back})
    return f"{server}/api/v2/authn/oidc/login?{query}"


def code_of(answer: Mapping[str, str]) -> str:
    """Return the code of an answer; raise Refused with the provider's message if there is none."""
    if "code" in answer:
        return answer["code"]
    if "errorMessage" in answer:
        raise Refused("ForbiddenUserError", answer["errorMessage"])
    raise InvalidParameters("the address holds no code", "log in again with `pai login --sso`")


def code_from_page(server: str, *, has_browser: bool) -> tuple[str, str]:
    """Let the user log in on the provider's page; return the code and the secret that belongs to it."""
    verifier = secrets.token_urlsafe(48)
    callback = _CallbackServer()
    try:
        address = login_address(server, callback.url, verifier)
        if not has_browser:
            sys.stderr.write(f"Open this address in a browser, on any machine:\n\n  {address}\n\n")
            sys.stderr.write("The last page will not load there; paste its address here: ")
            sys.stderr.flush()
            return code_of(read_answer(sys.stdin.readline())), verifier
        _open(address)
        threading.Thread(target=callback.serve_forever, daemon=True).start()
        if not callback.came.wait(WAIT_S):
            raise Unavailable("no login within five minutes", "try again, or use --no-browser")
        callback.shutdown()
        return code_of(callback.answer), verifier
    finally:
        callback.server_close()


def _open(address: str) -> None:
    import webbrowser

    sys.stderr.write(f"Log in on the page that opens now, or open it yourself:\n\n  {address}\n\n")
    sys.stderr.flush()
    webbrowser.open(address)
