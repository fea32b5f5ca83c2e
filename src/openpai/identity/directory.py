"""Logging in with the password of a directory (LDAP): find the person, then let the directory compare the password."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from openpai.ports.identity import Vouched
from openpai.protocol.errors import BadConfiguration, Unavailable

_log = structlog.get_logger(__name__)

TIMEOUT_S: Final = 5
THREADS: Final = 8
ASKING_MAX: Final = 64
GROUP_FILTER: Final = "(|(member={dn})(uniqueMember={dn})(memberUid={name}))"


@dataclass(frozen=True, slots=True)
class LdapSettings:
    """The address of a directory, and the form of its entries for people and groups."""

    url: str
    """ldaps://HOST[:PORT], or ldap://HOST[:PORT] with `start_tls`."""
    user_base: str
    user_filter: str = "(uid={name})"
    """The filter that finds the entry of a user name."""
    bind_dn: str = ""
    """The entry that searches; empty: anonymous."""
    bind_password: str = field(default="", repr=False)
    start_tls: bool = False
    ca_file: str = ""
    """Certificates to trust instead of the system's."""
    name_attribute: str = "uid"
    email_attribute: str = "mail"
    group_base: str = ""
    """The base of groups; empty: users are in no groups."""
    group_filter: str = GROUP_FILTER
    group_attribute: str = "cn"

    def check(self) -> None:
        """Raise Refused for an address that would send passwords in clear over a network."""
        found = urlsplit(self.url)
        if found.scheme not in ("ldap", "ldaps") or not found.hostname:
            message = f"the directory's url {self.url!r} is none"
            raise BadConfiguration(message, "write it as ldaps://HOST or ldap://HOST")
        if found.scheme == "ldap" and not self.start_tls and not is_this_machine(found.hostname):
            raise BadConfiguration(f"{self.url} would send passwords in clear", "use ldaps://, or set startTLS: true")
        if "{name}" not in self.user_filter:
            message = f"the directory's user filter {self.user_filter!r} finds the same entry for every user"
            raise BadConfiguration(message, "write it as (uid={name})")
        for pattern in (self.user_filter, self.group_filter):
            if not (pattern.startswith("(") and pattern.endswith(")")):
                message = f"the directory's filter {pattern!r} is none"
                raise BadConfiguration(message, "write it in parentheses, as in (uid={name})")


def is_this_machine(host: str) -> bool:
    """Return whether a host is this machine, so that nothing is sent over a network."""
    return host in ("localhost", "127.0.0.1", "::1")


class Directory:
    """`ports.identity.PasswordDirectory` over LDAP."""

    def __init__(self, settings: LdapSettings) -> None:
        settings.check()
        try:
            import ldap3
        except ImportError as error:
            message = "logging in through a directory needs the package ldap3"
            raise BadConfiguration(message, "pip install 'openpai[ldap]'") from error
        self._ldap: Any = ldap3
        self._settings = settings
        # Threads of its own: a directory that does not answer must not block others.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="directory")
        self._asking = 0

    async def check(self, name: str, password: str) -> Vouched | None:
        # A directory accepts a login without a password as an anonymous one.
        if not name or not password:
            return None
        if self._asking >= ASKING_MAX:
            message = f"the directory {self._settings.url} is being asked by {self._asking} others"
            raise Unavailable(message, "try again in a moment, or log in with a local account")
        self._asking += 1
        checked = asyncio.get_running_loop().run_in_executor(self._threads, self._check, name, password)
        checked.add_done_callback(self._answered)
        return await checked

    def _answered(self, _: object) -> None:
        self._asking -= 1

    def _check(self, name: str, password: str) -> Vouched | None:
        try:
            with self._connected(self._settings.bind_dn, self._settings.bind_password) as searching:
                if not searching.bound:
                    message = "the directory does not let the platform search it"
                    raise Unavailable(message, "an administrator has to correct bind_dn or bind_password")
                entry = self._find(searching, name)
                # Compare the password of unknown users too: otherwise the time would reveal who exists.
                dn = entry["dn"] if entry is not None else f"cn=nobody,{self._settings.user_base}"
                with self._connected(dn, password) as own:
                    if entry is None or not own.bound:
                        return None
                return self._vouched(searching, entry, name)
        except self._ldap.core.exceptions.LDAPExceptionError as error:
            # Users need no more detail than this; administrators do, above all about certificates.
            _log.warning("the directory gives no valid answer", url=self._settings.url, why=str(error)[:1000])
            message = f"the directory {self._settings.url} does not answer as it should ({type(error).__name__})"
            raise Unavailable(message, "try again in a moment, or log in with a local account") from error

    @contextmanager
    def _connected(self, dn: str, password: str) -> Iterator[Any]:
        """Yield a connection; its `bound` is whether the directory accepted the name and password."""
        ldap = self._ldap
        tls = ldap.Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=self._settings.ca_file or None)
        server = ldap.Server(self._settings.url, tls=tls, connect_timeout=TIMEOUT_S, get_info=ldap.NONE)
        connection = ldap.Connection(
            server,
            user=dn or None,
            # Bytes: text would be normalised, which changes a password that contains a fraction sign.
            password=password.encode() or None,
            authentication=ldap.SIMPLE if dn else ldap.ANONYMOUS,
            receive_timeout=TIMEOUT_S,
            read_only=True,
            auto_referrals=False,
        )
        try:
            connection.open()
            if self._settings.start_tls and not connection.start_tls(read_server_info=False):
                raise ldap.core.exceptions.LDAPStartTLSError("StartTLS did not begin")
            connection.bind()
            yield connection
        finally:
            # The earlier error is more helpful than one of closing.
            with suppress(ldap.core.exceptions.LDAPExceptionError):
                connection.unbind()

    def _find(self, connection: Any, name: str) -> dict[str, Any] | None:
        """Return the one entry of a user name, None if there is none or more than one."""
        wanted = [self._settings.name_attribute, self._settings.email_attribute]
        found = self._search(
            connection, self._settings.user_base, self._settings.user_filter, wanted, {"name": name}, most=2
        )
        return found[0] if len(found) == 1 else None

    def _vouched(self, connection: Any, entry: dict[str, Any], name: str) -> Vouched:
        own = self._settings
        names = _texts(entry["attributes"], own.name_attribute) or [name]
        emails = _texts(entry["attributes"], own.email_attribute) or [""]
        groups: list[str] = []
        if own.group_base:
            # A directory finds erin for ERIN, but memberUid is case-sensitive.
            who = {"dn": entry["dn"], "name": names[0]}
            found = self._search(connection, own.group_base, own.group_filter, [own.group_attribute], who, most=0)
            groups = [text for each in found for text in _texts(each["attributes"], own.group_attribute)]
        subject = f"{urlsplit(own.url).hostname}#{entry['dn']}".lower()
        return Vouched("ldap", subject, names[0], emails[0], frozenset(groups))

    def _search(
        self, connection: Any, base: str, pattern: str, wanted: list[str], values: dict[str, str], *, most: int
    ) -> list[dict[str, Any]]:
        from ldap3.utils.conv import escape_filter_chars

        text = pattern
        for key, value in values.items():
            text = text.replace(f"{{{key}}}", escape_filter_chars(value))
        connection.search(base, text, attributes=wanted, size_limit=most, time_limit=TIMEOUT_S)
        became = connection.result
        is_cut_short = became["description"] == "sizeLimitExceeded" and most
        if became["result"] != 0 and not is_cut_short:
            # Otherwise an empty base and one without read permission would look the same.
            message = f"the directory {self._settings.url} does not search {base} ({became['description']})"
            raise Unavailable(message, "an administrator has to correct its bases, or the platform's read permission")
        return [each for each in connection.response or () if each.get("type") == "searchResEntry"]


def _texts(attributes: dict[str, Any], name: str) -> list[str]:
    found = attributes.get(name) or []
    return [str(text) for text in (found if isinstance(found, list | tuple) else [found])]
