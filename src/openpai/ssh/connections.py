"""One connection of an SSH client: how it logs in, what it may open, and when it ends.

Only public keys of the account's profile log in. A connection opens shells, commands, file transfers and forwarded
ports of the one task that its user name names; it never listens on the server, and its agent is never asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from typing import Final

import asyncssh
import structlog

from openpai.access.ssh_destinations import Destination, read_destination
from openpai.protocol.errors import PaiError, Refused
from openpai.ssh.files import TaskFileServer
from openpai.ssh.forwarding import ForwardedPort, ForwardedSocket, local_port
from openpai.ssh.model import Services
from openpai.ssh.processes import TaskProcess
from openpai.ssh.recording import Recorder
from openpai.ssh.rights import Reached
from openpai.ssh.sessions import Open, Opening

SFTP_VERSION: Final = 3
_log = structlog.get_logger(__name__)


class TaskConnection(asyncssh.SSHServer, Opening):
    """The server's side of one connection."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._connection: asyncssh.SSHServerConnection | None = None
        self._address = ""
        self._is_counted = False
        self._is_guessing = False
        self._is_lost = False
        self._keys_offered = 0
        self._to: Destination | None = None
        self._blob = b""
        self._fingerprint = ""
        self._open: set[Open] = set()
        self._looking: asyncio.Task[None] | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Accept a connection, or end it at once if there are too many."""
        self._connection = conn
        peer = conn.get_extra_info("peername")
        self._address = str(peer[0]) if peer else "local"
        self._is_counted = True
        refusal = self._services.callers.enter(self._address)
        try:
            if refusal is not None:
                raise refusal
            self._services.rate(self._address)
        except Refused as error:
            _log.info("an SSH connection was refused", address=self._address, reason=error.message)
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what the connection has open."""
        self._is_lost = True
        self._leave()
        if self._is_guessing and self._to is not None and not self._keys_offered:
            self._services.logins.undecided(self._to.account, self._address)
        if self._looking is not None:
            self._looking.cancel()
        for each in tuple(self._open):
            each.hang_up()

    def _leave(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._services.callers.leave(self._address)

    def begin_auth(self, username: str) -> bool:
        """Ask for a key, whether or not there is such an account."""
        if self._to is None:
            self._to = read_destination(username)
            if self._to is not None:
                try:
                    self._services.logins.begin(self._to.account, self._address)
                    self._is_guessing = True
                except Refused as error:
                    self._end(asyncssh.DISC_BY_APPLICATION, error.message)
        elif read_destination(username) != self._to:
            self._end(asyncssh.DISC_PROTOCOL_ERROR, "the user name may not change")
        return True

    def public_key_auth_supported(self) -> bool:
        """Return that keys log in."""
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Return whether the account that a user name names has a key in its profile."""
        self._keys_offered += 1
        if self._keys_offered > 2 * self._services.limits.keys_per_login:
            self._end(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, "too many keys were offered")
            return False
        to = read_destination(username)
        if to is None or to != self._to:
            return False
        found = await self._services.rights.key_of(to.account, key.public_data)
        if found is None:
            return False
        # The client has not shown yet that the key is its own: it counts only once the login is complete.
        self._blob, self._fingerprint = found.blob, found.fingerprint
        return True

    def auth_completed(self) -> None:
        """Begin to watch over the rights of a connection that has logged in."""
        self._leave()
        if self._to is not None and self._is_guessing:
            self._services.logins.succeeded(self._to.account, self._address)
            self._is_guessing = False
        self._looking = asyncio.get_running_loop().create_task(self._look())

    def session_requested(self) -> asyncssh.SSHServerProcess[bytes]:
        """Return the session of a shell, a command or a file transfer."""
        return TaskProcess(self, TaskFileServer.factory(self), SFTP_VERSION)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Awaitable[asyncssh.SSHTCPSession[bytes]]:
        """Connect to a port of the task."""
        return ForwardedPort.open(self, local_port(dest_host, dest_port))

    def unix_connection_requested(self, dest_path: str) -> Awaitable[asyncssh.SSHUNIXSession[bytes]]:
        """Connect to a Unix socket in the task."""
        return ForwardedSocket.open(self, dest_path)

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        """Refuse to listen on the server."""
        return False

    def unix_server_requested(self, listen_path: str) -> bool:
        """Refuse to listen on the server."""
        return False

    @property
    def services(self) -> Services:
        """Return what the gateway uses."""
        return self._services

    async def reach(self) -> Reached:
        """Return the task of the connection; raise Refused or Unavailable if it may not or cannot be reached."""
        to = self._destination
        try:
            return await self._services.rights.reach(to, self._blob)
        except Refused as error:
            if error.code == "ForbiddenUserError":
                await self._recorder.refused(to, error)
            raise

    @contextlib.contextmanager
    def opened(self, session: Open) -> Iterator[None]:
        """Count a session, and end it when the connection ends or loses its rights."""
        with self._services.one_session_of(self._destination.account):
            if self._is_lost:
                session.hang_up()
            self._open.add(session)
            try:
                yield
            finally:
                self._open.discard(session)

    def record(self, reached: Reached, detail: dict[str, object]) -> Recorder:
        """Return what writes the begin and the end of a session into the audit log."""
        return self._recorder.of(reached, detail)

    @property
    def _recorder(self) -> Recorder:
        return Recorder(self._services, self._destination.account, self._fingerprint, self._address)

    @property
    def _destination(self) -> Destination:
        if self._to is None:
            raise Refused("UnauthorizedUserError", "this connection has not logged in")
        return self._to

    async def _look(self) -> None:
        """End the sessions once all of them were idle for too long, and everything once the right is lost."""
        limits = self._services.limits
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(limits.look_every_s, limits.idle_s))
            # Count the activity of all: an editor keeps a silent command open beside the ports that it works through.
            active_at_s = max((each.active_at_s for each in self._open), default=loop.time())
            if loop.time() - active_at_s >= limits.idle_s:
                message = f"the session was closed: nothing happened in it for {limits.idle_s / 60:g} minutes"
                for each in tuple(self._open):
                    each.end("idle", message)
            try:
                refused = await self._services.rights.may_go_on(self._destination, self._blob) if self._open else None
            except PaiError:
                # The database does not answer; the next look asks again.
                continue
            if refused is not None:
                for each in tuple(self._open):
                    each.end("right lost", refused.message)
                self._end(asyncssh.DISC_BY_APPLICATION, refused.message)
                return

    def _end(self, reason: int, message: str) -> None:
        if self._connection is not None:
            self._connection.disconnect(reason, message)
