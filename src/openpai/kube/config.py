"""Where the API server is and how to prove who asks: kubeconfig files, or the service account of a pod.

The rules are kubectl's: KUBECONFIG may name several files, of which the first wins for each name; relative paths in a
file are relative to that file. Without KUBECONFIG the service account of the pod is used, if this is a pod, and
`~/.kube/config` otherwise.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
import yaml
from typing_extensions import Buffer

from openpai.kube.credentials import ClientCertificate, Credentials, Fixed, Program, ProgramSpec, TokenFile
from openpai.protocol.errors import Refused
from openpai.protocol.wording import harmless_line

_FILE_BYTES_MAX: Final = 16 << 20
_RECORD_BYTES_MAX: Final = 16 << 10
"""The most that one TLS record carries (RFC 8446, 5.1)."""
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_user: str = msgspec.field(default="", name="as")
    as_groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    auth_provider: dict[str, Any] | None = None
    exec: ProgramSpec | None = None


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Encryption(ssl.SSLObject):
    """The encryption of a connection, read with as much memory as one record takes; its handshake goes on from another.

    Event loops ask for 256 KB, and get one record at most. The C library takes as much from the system for each read,
    and gives it back: that costs several times what decrypting a usual answer does. With its first answer a server
    gives a ticket, with which later connections need no certificates. Each context has a class of its own.
    """

    newest: ClassVar[ssl.SSLSession | None] = None
    renewals: ClassVar[int] = 0
    _began_after: int | None = None
    _has_looked = False

    def do_handshake(self) -> None:
        """Go on from an earlier handshake, if the server still knows it."""
        of_all = type(self)
        if self._began_after is None:
            self._began_after = of_all.renewals
            if of_all.newest is not None:
                self.session = of_all.newest
        super().do_handshake()

    def read(self, len: int = _RECORD_BYTES_MAX, buffer: Buffer | None = None) -> Any:  # noqa: A002
        """Return what has arrived, or how much of it is in the buffer."""
        found = super().read(min(len, _RECORD_BYTES_MAX), buffer)
        if not self._has_looked:
            self._has_looked, session, of_all = True, self.session, type(self)
            if session is not None and session.has_ticket and self._began_after == of_all.renewals:
                of_all.newest = session
        return found

    @classmethod
    def renew(cls) -> None:
        """Go on from no earlier handshake: its ticket says who we were then."""
        cls.newest, cls.renewals = None, cls.renewals + 1


@dataclass(frozen=True)
class ClusterAccess:
    """The address of one API server, and the identity to use there."""

    server: str
    """Its URL, without a slash at the end."""
    namespace: str = "default"
    """The namespace of the context, or of the pod."""
    authority: str = ""
    """The certificates, in PEM, that its certificate is checked with; the system's when empty."""
    is_verified: bool = True
    server_name: str = ""
    """The name in its certificate, where it differs from that in the URL."""
    proxy: str = ""
    certificate: ClientCertificate | None = None
    credentials: Credentials = field(default_factory=Fixed)
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every request, as for impersonation."""
    source: str = ""
    """Where this was read, for messages."""

    def tls(self) -> ssl.SSLContext:
        """Return the context for connections."""
        context = ssl.create_default_context(cadata=self.authority or None)
        # Authorities of many clusters lack extensions that the strict mode of Python 3.13 asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.is_verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None:
            load_certificate(context, self.certificate)
        context.sslobject_class = type("Encryption", (_Encryption,), {})
        return context


def load_certificate(context: ssl.SSLContext, pair: ClientCertificate) -> None:
    """Add a client certificate to a context."""
    # OpenSSL reads them from a file only.
    with tempfile.NamedTemporaryFile("w", prefix="pai-", suffix=".pem") as file:
        file.write(f"{pair.certificate}\n{pair.key}\n")
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except (ssl.SSLError, OSError) as error:
            raise _refused(f"the client certificate for Kubernetes cannot be used: {error}") from error
    if issubclass(context.sslobject_class, _Encryption):
        context.sslobject_class.renew()


def cluster_access(kubeconfig: str | Path | None = None, context: str | None = None) -> ClusterAccess:
    """Return the access to a cluster; raise Refused, naming file and key, if there is none or it is faulty."""
    named = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    if named:
        return _from_files([Path(one).expanduser() for one in named.split(os.pathsep) if one], context)
    if context is None and in_cluster():
        return service_account()
    return _from_files([Path("~/.kube/config").expanduser()], context)


def in_cluster() -> bool:
    """Return whether this process is in a pod with a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").exists()


def service_account(directory: Path = SERVICE_ACCOUNT) -> ClusterAccess:
    """Return the access that Kubernetes gives to a pod."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    if not host:
        raise _refused("this is no pod: KUBERNETES_SERVICE_HOST is not set")
    name = f"[{host}]" if ":" in host else host
    return ClusterAccess(
        server=f"https://{name}:{port or 443}",
        namespace=_read(directory / "namespace").strip() or "default",
        authority=_read(directory / "ca.crt"),
        credentials=TokenFile(directory / "token"),
        source=f"service account in {directory}",
    )


class _Merged:
    """Several kubeconfig files as one."""

    def __init__(self, paths: list[Path]) -> None:
        self.current = ""
        self._named: dict[tuple[str, str], tuple[dict[str, Any], Path]] = {}
        there = [path for path in paths if _exists(path)]
        if not there:
            listed = ", ".join(map(str, paths))
            raise _refused(f"no kubeconfig: {listed} does not exist", "name one with --kubeconfig or KUBECONFIG")
        self.source = ", ".join(map(str, there))
        for path in there:
            self._add(path)

    def _add(self, path: Path) -> None:
        try:
            found = yaml.safe_load(_read(path))
        except yaml.YAMLError as error:
            mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
            where = f" in line {mark.line + 1}" if mark is not None else ""
            raise _refused(f"{path} is no YAML{where}: {harmless_line(str(problem or error))}") from error
        found = {} if found is None else found
        if not isinstance(found, dict):
            raise _refused(f"{path} is no kubeconfig")
        self.current = self.current or str(found.get("current-context") or "")
        for kind in ("cluster", "context", "user"):
            for entry in found.get(f"{kind}s") or ():
                if isinstance(entry, dict) and "name" in entry:
                    value = entry.get(kind) or {}
                    self._named.setdefault((kind, str(entry["name"])), (value, path.parent))

    def get(self, kind: str, name: str, asked_by: str) -> tuple[dict[str, Any], Path]:
        """Return the entry of a name and the directory of its file."""
        try:
            return self._named[kind, name]
        except KeyError:
            known = ", ".join(sorted(one for of, one in self._named if of == kind)) or "none"
            raise _refused(f"{self.source}: {asked_by} names {kind} {name!r}; there are: {known}") from None

    def read(self, entry: dict[str, Any], name: str, as_type: type[Any]) -> Any:
        """Return an entry as a struct."""
        try:
            return msgspec.convert(entry, as_type)
        except msgspec.ValidationError as error:
            raise _refused(f"{self.source}: {name}: {error}") from error


def _from_files(paths: list[Path], context: str | None) -> ClusterAccess:
    merged = _Merged(paths)
    chosen = context or merged.current
    if not chosen:
        raise _refused(f"{merged.source}: there is no current-context", "choose one: kubectl config use-context NAME")
    entry, _ = merged.get("context", chosen, "--kube-context" if context else "current-context")
    place: _Context = merged.read(entry, f"context {chosen}", _Context)
    entry, beside = merged.get("cluster", place.cluster, f"context {chosen!r}")
    cluster: _Cluster = merged.read(entry, f"cluster {place.cluster}", _Cluster)
    if not cluster.server.startswith(("https://", "http://")):
        raise _refused(f"{merged.source}: cluster {place.cluster!r} has no server with https://")
    user, home = _User(), beside
    if place.user:
        entry, home = merged.get("user", place.user, f"context {chosen!r}")
        user = merged.read(entry, f"user {place.user}", _User)
    authority = _pem(cluster.certificate_authority_data, cluster.certificate_authority, beside)
    certificate = _pem(user.client_certificate_data, user.client_certificate, home)
    key = _pem(user.client_key_data, user.client_key, home)
    return ClusterAccess(
        server=cluster.server.rstrip("/"),
        namespace=place.namespace or "default",
        authority=authority,
        is_verified=not cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
        proxy=cluster.proxy_url,
        certificate=ClientCertificate(certificate, key) if certificate and key else None,
        credentials=_credentials(user, home, cluster, authority),
        headers=_impersonation(user),
        source=f"{merged.source}, context {chosen}",
    )


def _credentials(user: _User, home: Path, cluster: _Cluster, authority: str) -> Credentials:
    if user.token_file:
        return TokenFile(home / Path(user.token_file).expanduser())
    if user.token:
        return Fixed(f"Bearer {user.token}")
    if user.username:
        return Fixed("Basic " + base64.b64encode(f"{user.username}:{user.password}".encode()).decode())
    if user.exec is not None:
        about = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
            "proxy-url": cluster.proxy_url,
        }
        return Program(user.exec, home, {name: value for name, value in about.items() if value})
    if user.auth_provider is not None:
        raise _refused(
            f"the kubeconfig uses auth-provider {user.auth_provider.get('name')!r}, which Kubernetes has removed",
            "use the exec program of your provider, such as gke-gcloud-auth-plugin or kubelogin",
        )
    return Fixed()


def _impersonation(user: _User) -> tuple[tuple[str, str], ...]:
    if not user.as_user:
        return ()
    return (("Impersonate-User", user.as_user), *(("Impersonate-Group", group) for group in user.as_groups or ()))


def _pem(data: str, path: str, beside: Path) -> str:
    if not data:
        return _read(beside / Path(path).expanduser()) if path else ""
    try:
        return base64.b64decode("".join(data.split()), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise _refused(f"a certificate or key in the kubeconfig is no base64 of PEM: {error}") from error


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        # Before Python 3.14, a name that no file can have.
        return False


def _read(path: Path) -> str:
    try:
        # A device may never end. A pipe is what a shell gives for `<(command)`.
        if path.is_char_device() or path.is_block_device():
            raise _refused(f"cannot read {path}: it is a device")
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
        if len(content) > _FILE_BYTES_MAX:
            raise _refused(f"cannot read {path}: it is larger than {_FILE_BYTES_MAX >> 20} MiB")
        return content.decode()
    except (OSError, ValueError) as error:
        message = f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is no text'}"
        raise _refused(
            message, "make it readable, or name another kubeconfig with --kubeconfig or KUBECONFIG"
        ) from error


def _refused(message: str, advice: str = "correct the kubeconfig") -> Refused:
    return Refused("BadConfigurationError", message, advice)
