"""Plug-in pages: pages of other servers that the portal's navigation has, each in a frame of its own origin.

An administrator names them in the settings: `Wiki=https://wiki.example.org/, GPUs=https://grafana.example.org/d/x`.
The portal's Content Security Policy permits frames of exactly their origins. A page gets no token and no login:
`{user}`, `{theme}` and `{language}` in its address are all that it learns, and they prove nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from openpai.protocol.errors import BadConfiguration
from openpai.protocol.wording import WORD_MAX, cut, plural

PAGES_MAX: Final = 20
TITLE_MAX: Final = 40
WORDS: Final = ("user", "theme", "language")
"""What an address may have in braces; the portal writes the values into it."""
_EXAMPLE: Final = "write Wiki=https://wiki.example.org/, with commas between several"
# A comma belongs to an address unless another title and address follow.
_BETWEEN: Final = re.compile(r",(?=[^,=]*=\s*[A-Za-z]+://)")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class PluginPage:
    """A page of another server in the portal's navigation."""

    name: str
    """The word in its address at the portal, made of the title."""
    title: str
    address: str
    origin: str
    """Scheme, host and port, as a Content Security Policy has it."""


def read_plugin_pages(text: str) -> tuple[PluginPage, ...]:
    """Return the pages that a text names; raise BadConfiguration for the first that cannot be one."""
    pages = tuple(_read(each.strip()) for each in _BETWEEN.split(text) if each.strip())
    names = [page.name for page in pages]
    for page in pages:
        if names.count(page.name) > 1:
            message = f"has several pages of the address /pages/{page.name}"
            raise BadConfiguration(message, "give them titles that differ in letters or digits")
    if len(pages) > PAGES_MAX:
        raise BadConfiguration(f"has {plural(len(pages), 'page')}", f"give {PAGES_MAX} at most")
    return pages


def _read(text: str) -> PluginPage:
    title, equals, address = (part.strip() for part in text.partition("="))
    shown = cut(title or text, WORD_MAX)
    if not equals or not title or not address:
        raise BadConfiguration(f"{shown} is not a title and an address", _EXAMPLE)
    if len(title) > TITLE_MAX or not title.isprintable():
        raise BadConfiguration(f"{shown} is no title for a menu", f"use {TITLE_MAX} printable characters at most")
    name = re.sub(r"\W+", "-", title.lower()).strip("-_")
    if not name:
        raise BadConfiguration(f"{shown} has no letter and no digit", "give the page a title with some")
    return PluginPage(name, title, address, _origin(shown, address))


def _origin(shown: str, address: str) -> str:
    """Return the origin of an address that a frame may have."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadConfiguration(f"{shown} has an address that cannot be read", _EXAMPLE) from None
    if parts.scheme not in ("http", "https") or re.search(r"[\s\"'<>\\;]", address):
        raise BadConfiguration(f"{shown} has an address that a browser does not open", _EXAMPLE)
    if parts.username is not None or parts.password is not None:
        message = f"{shown} has a user or a password in its address, which every user would see"
        raise BadConfiguration(message, "leave it out: users log in at that page themselves")
    if not _HOST.fullmatch(host):
        # A Content Security Policy has no form for IPv6 addresses.
        raise BadConfiguration(f"{shown} has no name of a host in its address", "give a name or an IPv4 address")
    for word in re.findall(r"\{(.*?)\}", address):
        if word not in WORDS:
            listed = ", ".join(f"{{{one}}}" for one in WORDS)
            raise BadConfiguration(f"{shown} has {{{cut(word, WORD_MAX)}}} in its address", f"use one of {listed}")
    return f"{parts.scheme}://{host.lower()}" + (f":{port}" if port is not None else "")
