"""Checks of the machine that a server runs on: clock, disk, port, container Engine, versions and certificates."""

from __future__ import annotations

import os
import platform
import socket
import sqlite3
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx
from cryptography import x509

from openpai.app.check import Finding
from openpai.app.settings import Settings
from openpai.protocol.errors import PaiError
from openpai.system.time_service import BUILT, is_synchronized

PATIENCE_S: Final = 5.0
CERTIFICATE_DAYS: Final = 21
"""How long before its end a certificate is reported."""
_INODES_LEAST: Final = 10_000
_DAY_S: Final = 86_400
_PEM: Final = b"-----BEGIN CERTIFICATE-----"


def check_versions() -> Finding:
    """Return which versions run here."""
    from importlib.metadata import version

    message = (
        f"openpai {version('openpai')}, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"{platform.system()} {platform.release()}"
    )
    return Finding("versions", "ok", message)


def check_clock(root: Path) -> Finding:
    """Return whether the clock is plausible and set by a time service."""
    now = datetime.now(UTC)
    if now < BUILT:
        return Finding("clock", "fault", f"it shows {now:%Y-%m-%d %H:%M}", "set it: logins and estimates depend on it")
    ahead_s = max((path.stat().st_mtime for path in (root / "openpai.db-wal", root / "openpai.db") if path.exists()),
                  default=0.0) - time.time()  # fmt: skip
    if ahead_s > 60:
        message = f"the database was last written {ahead_s:.0f} s in the future, so the clock was set back"
        return Finding("clock", "warning", message, "let a time service set it: chrony or systemd-timesyncd")
    if not is_synchronized():
        return Finding(
            "clock", "warning", "no time service sets it", "install one: chrony, or timedatectl set-ntp true"
        )
    return Finding("clock", "ok", "a time service sets it")


def check_inodes(root: Path) -> Finding:
    """Return whether the disk can take more files."""
    found = os.statvfs(root)
    if not found.f_files:
        return Finding("files", "ok", "this file system sets no limit on their number")
    state = Finding("files", "ok", f"{found.f_favail} more fit on the disk")
    if found.f_favail >= _INODES_LEAST:
        return state
    return Finding("files", "fault", f"only {found.f_favail} more fit on the disk", "remove files that are not needed")


def check_port(settings: Settings, running: str | None) -> Iterator[Finding]:
    """Yield whether the server answers on its port, or could listen there; `running` is the address of one that runs.

    A server may listen elsewhere than these settings say: its options are not known here.
    """
    at = urlsplit(running or "")
    host, port = at.hostname or settings.host, at.port or settings.port
    if port:
        yield _of_port(host, port)
    if running and settings.port not in (0, port):
        message = f"the server listens on port {port}, and these settings say {settings.port}"
        yield Finding("settings of the server", "warning", message, "name its file with --config, as for `pai up`")


def _of_port(host: str, port: int) -> Finding:
    what = f"port {port}"
    host = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host  # noqa: S104  it is only compared
    shown = f"[{host}]" if ":" in host else host
    try:
        with httpx.Client(trust_env=False, timeout=PATIENCE_S) as http:
            health = http.get(f"http://{shown}:{port}/healthz")
            parts = http.get(f"http://{shown}:{port}/readyz")
    except httpx.ConnectError:
        return _free_port(what, host, port)
    except httpx.HTTPError as error:
        message = f"what listens there does not answer as a server does: {type(error).__name__}"
        return Finding(what, "fault", message, "find it: ss -ltnp; stop it, or choose another --port")
    if "x-request-id" not in health.headers:
        message = "another program than openpai answers there"
        return Finding(what, "fault", message, "find it: ss -ltnp; stop it, or choose another --port")
    if parts.status_code == 200:
        return Finding(what, "ok", "the server answers, and everything that jobs need works")
    return Finding(what, "fault", f"the server answers, but is not ready: {_message_in(parts)}", "its log says more")


def _message_in(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])[:1000]
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"


def _free_port(what: str, host: str, port: int) -> Finding:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            message = f"no server runs, and none could listen there: {error.strerror}"
            return Finding(what, "fault", message, "choose another --port, or --host")
    return Finding(what, "warning", "no server runs; the port is free", "start it: pai up")


def check_engine(settings: Settings) -> Finding | None:
    """Return whether the container Engine answers; None where it is not needed."""
    if settings.backend != "docker":
        return None
    url = urlsplit(settings.docker_url or "unix:///var/run/docker.sock")
    transport = httpx.HTTPTransport(uds=url.path) if url.scheme == "unix" else None
    address = "http://engine" if transport else f"http://{url.netloc}"
    try:
        with httpx.Client(transport=transport, trust_env=False, timeout=PATIENCE_S) as http:
            found = http.get(f"{address}/version").json()
    except (httpx.HTTPError, ValueError) as error:
        advice = "start it, and let the server's user use its socket: the group docker, or --docker-url"
        return Finding("container Engine", "fault", f"it does not answer: {error or type(error).__name__}", advice)
    return Finding("container Engine", "ok", f"version {found.get('Version', '?')}")


def check_certificates(files: dict[str, Path], url: str = "") -> Iterator[Finding]:
    """Yield when the certificates in some files end, each with its name, and that of an https:// address."""
    for name, path in files.items():
        try:
            data = path.read_bytes()
            found = x509.load_pem_x509_certificates(data) if _PEM in data else []
        except (OSError, ValueError) as error:
            yield Finding(f"certificate {name}", "fault", f"{path} cannot be read: {error}", "correct the file")
            continue
        if found:
            yield _of_end(f"certificate {name}", min(one.not_valid_after_utc for one in found))
    if url.startswith("https://"):
        yield _of_address(url)


def check_kubeconfig(settings: Settings) -> Iterator[Finding]:
    """Yield whether the access to Kubernetes can be read, and when its certificates end."""
    try:
        from openpai.kube.config import cluster_access
    except ModuleNotFoundError as error:
        advice = "install it with: pip install 'openpai[kubernetes]'"
        yield Finding("Kubernetes", "fault", f"--backend kubernetes needs {error.name}", advice)
        return
    try:
        access = cluster_access(settings.kubeconfig, settings.kube_context)
    except PaiError as error:
        yield Finding("Kubernetes", "fault", error.message, error.advice)
        return
    yield Finding("Kubernetes", "ok", f"{access.source} names {access.server}")
    given = {"of the user": access.certificate.certificate if access.certificate else "", "authority": access.authority}
    for name, text in given.items():
        if not text:
            continue
        try:
            ends = [one.not_valid_after_utc for one in x509.load_pem_x509_certificates(text.encode())]
        except ValueError as error:
            yield Finding(f"Kubernetes certificate {name}", "fault", f"it cannot be read: {error}", "correct the file")
        else:
            yield _of_end(f"Kubernetes certificate {name}", min(ends))


def files_of_certificates(database_url: str | None) -> dict[str, Path]:
    """Return the files of certificates that the URL of a database names."""
    query = parse_qs(urlsplit(database_url).query) if database_url else {}
    return {key: Path(query[key][0]) for key in ("sslrootcert", "sslcert") if key in query}


def _of_address(url: str) -> Finding:
    what, parts = f"certificate of {url}", urlsplit(url)
    # Whether the certificate is to be believed is another question, which the private one of a test would not pass.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((parts.hostname or "", parts.port or 443), PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secured,
        ):
            found = secured.getpeercert(binary_form=True) or b""
        return _of_end(what, x509.load_der_x509_certificate(found).not_valid_after_utc)
    except (OSError, ValueError) as error:
        return Finding(what, "warning", f"it cannot be read: {error}", "check the proxy before the server")


def _of_end(what: str, end: datetime) -> Finding:
    left_days = (end.timestamp() - time.time()) / _DAY_S
    if left_days < 0:
        return Finding(what, "fault", f"it ended on {end:%Y-%m-%d}", "renew it")
    if left_days < CERTIFICATE_DAYS:
        return Finding(what, "warning", f"it ends on {end:%Y-%m-%d}, in {left_days:.0f} days", "renew it")
    return Finding(what, "ok", f"it ends on {end:%Y-%m-%d}")
