"""Credentials for the API server: a token, a file with a token that is replaced, or a program that issues them.

A program is what `exec` in a kubeconfig names; it answers a token, a client certificate, or both, for a time.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from openpai.protocol.errors import Refused, Unavailable
from openpai.protocol.wording import harmless_line

FILE_AGE_S: Final = 60.0
"""How long the token of a file is used before the file is read once more, as Kubernetes' own clients do."""
PROGRAM_PATIENCE_S: Final = 60.0
_EARLY: Final = timedelta(seconds=30)
_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class ClientCertificate(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


class Credentials(Protocol):
    """Where requests get their headers from."""

    certificate: ClientCertificate | None

    async def headers(self) -> Mapping[str, str]:
        """Return what authenticates a request."""

    async def refresh(self) -> bool:
        """Forget what the API server no longer accepts; return whether another try makes sense."""


class Fixed:
    """Credentials that never change: a token, a password, or none beside a certificate."""

    certificate: ClientCertificate | None = None

    def __init__(self, authorization: str = "") -> None:
        self._headers = {"Authorization": authorization} if authorization else {}

    async def headers(self) -> Mapping[str, str]:
        """Return what authenticates a request."""
        return self._headers

    async def refresh(self) -> bool:
        """Return False: the same credentials would be refused again."""
        return False


class TokenFile:
    """A token in a file that is replaced before it expires, such as that of a service account."""

    certificate: ClientCertificate | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = ""
        self._read_at_s = float("-inf")

    async def headers(self) -> Mapping[str, str]:
        """Return the token of the file, which is read once a minute."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._read_at_s > FILE_AGE_S:
            self._read(now_s)
        return {"Authorization": f"Bearer {self._token}"}

    async def refresh(self) -> bool:
        """Read the file; return whether it holds another token."""
        before = self._token
        self._read(asyncio.get_running_loop().time())
        return self._token != before

    def _read(self, now_s: float) -> None:
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            if self._token:
                return
            raise Unavailable(f"cannot read the token in {self._path}: {error.strerror}", "check the file") from error
        self._token, self._read_at_s = token, now_s


class ProgramSpec(msgspec.Struct, rename="camel"):
    """The program of a kubeconfig that issues credentials."""

    command: str
    api_version: str = _VERSIONS[0]
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False


class _Issued(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct):
    status: _Issued = msgspec.field(default_factory=_Issued)


class Program:
    """Credentials that a program issues, kept until shortly before they expire."""

    def __init__(self, spec: ProgramSpec, directory: Path, cluster: Mapping[str, Any]) -> None:
        if spec.api_version not in _VERSIONS:
            raise Refused(
                "BadConfigurationError",
                f"the kubeconfig's exec program {spec.command!r} uses {spec.api_version}",
                f"use a version of it for {_VERSIONS[0]}",
            )
        self.certificate: ClientCertificate | None = None
        self._spec = spec
        # Like kubectl: a path with a slash is relative to the kubeconfig, a name is looked up in PATH.
        self._command = str(directory / spec.command) if "/" in spec.command else spec.command
        about: dict[str, Any] = {"interactive": False}
        if spec.provide_cluster_info:
            about["cluster"] = dict(cluster)
        self._env = {one["name"]: one.get("value", "") for one in spec.env or () if "name" in one}
        self._env["KUBERNETES_EXEC_INFO"] = json.dumps(
            {"apiVersion": spec.api_version, "kind": "ExecCredential", "spec": about}
        )
        self._issued: _Issued | None = None
        self._asking = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """Return what the program issued; run it if that has expired."""
        async with self._asking:
            if self._issued is None or _is_over(self._issued):
                self._issued = await self._issue()
            token = self._issued.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def refresh(self) -> bool:
        """Forget what was issued, so that the next request runs the program."""
        self._issued = None
        return True

    async def _issue(self) -> _Issued:
        try:
            program = await asyncio.create_subprocess_exec(
                self._command,
                *(self._spec.args or ()),
                env={**os.environ, **self._env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = harmless_line(self._spec.install_hint)
            raise Unavailable(
                f"cannot run {self._command!r}, which issues the credentials for Kubernetes: {error.strerror}",
                hint or "install it, or use another kubeconfig",
            ) from error
        try:
            async with asyncio.timeout(PROGRAM_PATIENCE_S):
                out, err = await program.communicate()
        except TimeoutError:
            raise Unavailable(f"{self._command!r} issued no credentials in {PROGRAM_PATIENCE_S:.0f} s") from None
        finally:
            if program.returncode is None:
                program.kill()
        if program.returncode != 0:
            errors = harmless_line(err.decode("utf-8", "replace").strip())[-500:]
            raise Unavailable(f"{self._command!r} issued no credentials: exit code {program.returncode}: {errors}")
        return self._understood(out)

    def _understood(self, out: bytes) -> _Issued:
        try:
            issued = msgspec.json.decode(out, type=_Answer).status
        except msgspec.DecodeError as error:
            raise Unavailable(f"{self._command!r} answered no ExecCredential: {error}") from error
        if issued.client_certificate_data and issued.client_key_data:
            self.certificate = ClientCertificate(issued.client_certificate_data, issued.client_key_data)
        elif not issued.token:
            raise Unavailable(f"{self._command!r} answered neither a token nor a certificate")
        return issued


def _is_over(issued: _Issued) -> bool:
    ends = issued.expiration_timestamp
    return ends is not None and datetime.now(UTC) >= ends - _EARLY
