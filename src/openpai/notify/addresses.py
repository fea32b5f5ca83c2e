"""Which addresses a webhook may reach: what is public, and the networks that the operator allows.

The address that was checked is the one that is connected to, so that a name cannot mean another one a moment later.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from openpai.protocol.errors import InvalidParameters, Unavailable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
URL_MAX: Final = 2000
RESOLVE_S: Final = 10.0
# A machine's metadata, with credentials, is served here; the last one is Azure's, although it looks public.
_NEVER: Final = (
    ipaddress.ip_network("169.254.0.0/16"),
    ipaddress.ip_network("fe80::/10"),
    ipaddress.ip_network("fd00:ec2::/32"),
    ipaddress.ip_network("168.63.129.16/32"),
)
_ADVICE: Final = "give an address that is public, or have the operator allow its network with --webhook-networks"


def check_url(url: str) -> tuple[str, int, bool]:
    """Return host, port and whether TLS is used; raise InvalidParameters for what is no address of a webhook."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise InvalidParameters(f"{url[:80]!r} is not a URL", "give one such as https://example.org/hook") from None
    is_odd = any(letter <= " " or letter == "\x7f" for letter in url) or "\\" in url
    if len(url) > URL_MAX or is_odd or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidParameters(f"{url[:80]!r} is not a URL", "give one such as https://example.org/hook")
    if parts.username or parts.password:
        message = "the URL holds a user name or password, which logs would show"
        raise InvalidParameters(message, "give it as the channel's authorization")
    return parts.hostname, port, parts.scheme == "https"


def check_literal(url: str, allowed: Sequence[Network] = ()) -> None:
    """Raise InvalidParameters for a URL of an administrator whose host is an address that no webhook may reach.

    What a name means is known only when it is used.
    """
    host, _, _ = check_url(url)
    with contextlib.suppress(ValueError):
        _check(host, ipaddress.ip_address(host.partition("%")[0]), allowed, is_trusted=True)


def _check(host: str, address: Address, allowed: Sequence[Network], *, is_trusted: bool) -> None:
    if not may_reach(address, allowed, is_trusted=is_trusted):
        message = f"{host} has the address {address}, which webhooks may not reach"
        raise InvalidParameters(message, _ADVICE)


async def reachable(url: str, allowed: Sequence[Network], *, is_trusted: bool) -> Address:
    """Return an address of a URL that may be connected to; raise InvalidParameters if it has another one.

    `is_trusted` is a URL that an administrator set, which may be in the cluster's own network. Raises Unavailable while
    its name has no address.
    """
    host, port, _ = check_url(url)
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise Unavailable(f"the name {host!r} has no address: {error or 'no answer in time'}") from error
    addresses = list(dict.fromkeys(ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found))
    for address in addresses:
        _check(host, address, allowed, is_trusted=is_trusted)
    return addresses[0]


def may_reach(address: Address, allowed: Sequence[Network], *, is_trusted: bool) -> bool:
    """Return whether a webhook may connect to an address."""
    plain = _plain(address)
    if any(plain in network for network in allowed if network.version == plain.version):
        return True
    if any(plain in network for network in _NEVER if network.version == plain.version):
        return False
    if plain.is_unspecified or plain.is_multicast:
        return False
    return is_trusted or plain.is_global


def _plain(address: Address) -> Address:
    """Return the IPv4 address inside of an IPv6 address, if there is one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is not None:
            return inner
        # NAT64 leads to any address of IPv4.
        if address in ipaddress.ip_network("64:ff9b::/96"):
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
