"""A real Kubernetes for the tests: etcd and kube-apiserver, and on demand controllers, scheduler and a node.

The binaries come from KUBEBUILDER_ASSETS, as for envtest. One server serves all processes of a test run: `shared`
starts it in a process of its own, which ends it when the last user is gone, even one that was killed, because the
system gives a killed process's locks back.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, Final

from cryptography.hazmat.primitives.asymmetric import ec

from tests.kube.certificates import Authority, write_key
from tests.ports import free_port

ASSETS: Final = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"))
START_PATIENCE_S: Final = 120.0
SERVICES: Final = "10.96.0"
"""The network of the services, by its first three numbers."""


def why_not(*programs: str) -> str:
    """Return what is missing for a Kubernetes of these programs; empty if nothing is."""
    missing = [name for name in ("etcd", "kube-apiserver", *programs) if not (ASSETS / name).is_file()]
    return f"no Kubernetes binaries: {', '.join(missing)} not in {ASSETS} (KUBEBUILDER_ASSETS)" if missing else ""


class ControlPlane:
    """A Kubernetes without nodes. Its parts die with the process that started it."""

    def __init__(self, root: Path, services: str = SERVICES, environment: Mapping[str, str] | None = None) -> None:
        """Its parts have the variables of `environment` beside those of this process."""
        self.root = root
        self._environment = {**os.environ, **(environment or {})}
        self.services = services
        self.port = free_port()
        self.etcd_url = ""
        self.kubeconfig = root / "admin.conf"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        """The processes by program."""
        self._commands: dict[str, list[str]] = {}
        (root / "log").mkdir(parents=True, exist_ok=True)
        self.authority = Authority(root)
        write_key(root / "accounts.key", ec.generate_private_key(ec.SECP256R1()))
        names = (
            "127.0.0.1",
            f"{services}.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        )
        self.authority.issue("server", "kube-apiserver", hosts=names)
        self.kubeconfig_for("admin", "admin", group="system:masters")

    @property
    def url(self) -> str:
        """Return the address of the API server."""
        return f"https://127.0.0.1:{self.port}"

    def kubeconfig_for(self, name: str, user: str, group: str = "") -> Path:
        """Write NAME.conf, with a certificate for a user, and return its path."""
        pair = self.authority.issue(name, user, group=group)
        return self._write_kubeconfig(name, user, {"client-certificate": f"{pair}.crt", "client-key": f"{pair}.key"})

    def kubeconfig_for_account(self, namespace: str) -> Path:
        """Create the service account `openpai`, which may do anything, and write a kubeconfig with a token of it."""
        account = f"{namespace}:openpai"
        self.kubectl("create", "serviceaccount", "openpai", f"--namespace={namespace}")
        self.kubectl(
            "create", "clusterrolebinding", f"openpai-{namespace}", "--clusterrole=cluster-admin",
            f"--serviceaccount={account}",
        )  # fmt: skip
        token = self.kubectl("create", "token", "openpai", f"--namespace={namespace}", "--duration=4h").strip()
        return self._write_kubeconfig(f"account-{namespace}", account, {"token": token})

    def _write_kubeconfig(self, name: str, user: str, account: dict[str, str]) -> Path:
        path = self.root / f"{name}.conf"
        cluster = {"server": self.url, "certificate-authority": str(self.authority.path.with_suffix(".crt"))}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": account}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(document))
        return path

    def start_api(self, *, service_accounts: bool = False, kubelets: bool = True, flags: tuple[str, ...] = ()) -> None:
        """Start etcd and the API server, and wait until it is ready. Without `kubelets` none may log in.

        To know what a kubelet may read, the API server would watch all pods and keep them once more.
        """
        client, peer = free_port(), free_port()
        self.etcd_url = f"http://127.0.0.1:{client}"
        self._run(
            "etcd",
            f"--data-dir={self.root / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
            "--quota-backend-bytes=4294967296",
            "--max-request-bytes=16777216",
        )
        (self.root / "etcd.url").write_text(self.etcd_url)
        # Without the controllers no namespace has a service account, and pods that name none would be refused.
        admission = () if service_accounts else ("--disable-admission-plugins=ServiceAccount",)
        self._run(
            "kube-apiserver",
            f"--etcd-servers={self.etcd_url}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={self.services}.0/24",
            f"--cert-dir={self.root}",
            f"--tls-cert-file={self.root / 'server.crt'}",
            f"--tls-private-key-file={self.root / 'server.key'}",
            f"--client-ca-file={self.root / 'ca.crt'}",
            f"--service-account-key-file={self.root / 'accounts.pub'}",
            f"--service-account-signing-key-file={self.root / 'accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--authorization-mode={'Node,RBAC' if kubelets else 'RBAC'}",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--runtime-config=resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true",
            f"--kubelet-client-certificate={self.root / 'admin.crt'}",
            f"--kubelet-client-key={self.root / 'admin.key'}",
            *admission,
            *flags,
        )
        self._await_ready()

    def start_controllers(self) -> None:
        """Start kube-controller-manager and kube-scheduler."""
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={self.root / 'accounts.key'}",
            f"--root-ca-file={self.root / 'ca.crt'}",
            "--use-service-account-credentials=false",
            "--leader-elect=false",
            "--secure-port=0",
        )
        self._run("kube-scheduler", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0")

    def stop(self, name: str) -> None:
        """End a part, as a crash would; `start_again` brings it back with what it stored."""
        process = self.running.pop(name)
        process.kill()
        process.wait(30)

    def start_again(self, name: str) -> None:
        """Start a part that was stopped. Not in a thread: what a thread starts ends with it."""
        self._run(name, *self._commands[name][1:])
        if name in ("etcd", "kube-apiserver"):
            self._await_ready()

    def close(self) -> None:
        """End every part, the last one first."""
        for name in reversed(list(self.running)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop(name)

    def _run(self, program: str, *flags: str) -> None:
        command = [str(ASSETS / program), *flags]
        with (self.root / "log" / f"{program}.log").open("ab") as log:
            self.running[program] = subprocess.Popen(
                command, cwd=self.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent,
                # On more than one core the threads of etcd wake each other up, which costs a quarter more.
                env={**self._environment, **({"GOMAXPROCS": "1"} if program == "etcd" else {})},
            )  # fmt: skip
        self._commands[program] = command

    def get(self, path: str) -> bytes:
        """Return what the API server answers to an administrator; raise OSError if it refuses.

        Waits ask in this way: each start of kubectl takes a tenth of a second of processor time.
        """
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10, context=self._context) as answer:
            found: bytes = answer.read()
        return found

    @cached_property
    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.root / "ca.crt"))
        # Since Python 3.13 a default, which certificates of many clusters do not meet.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.load_cert_chain(self.root / "admin.crt", self.root / "admin.key")
        return context

    def _await_ready(self) -> None:
        limit_s = time.monotonic() + START_PATIENCE_S
        while time.monotonic() < limit_s:
            for name, process in self.running.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}: {self.log_tail(name)}")
            with contextlib.suppress(OSError):
                self.get("/readyz")
                return
            time.sleep(0.05)
        raise RuntimeError(f"no API server in {START_PATIENCE_S:.0f} s: {self.log_tail('kube-apiserver')}")

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Return what kubectl answers to an administrator; raise with its message if it fails."""
        command = [str(ASSETS / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        ran = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)
        if ran.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {ran.stderr.strip()}")
        return ran.stdout

    def log_tail(self, name: str) -> str:
        """Return the end of a part's log."""
        return (self.root / "log" / f"{name}.log").read_text(errors="replace")[-2000:]


@contextlib.contextmanager
def control_plane(
    *,
    controllers: bool = False,
    service_accounts: bool = False,
    kubelets: bool = True,
    flags: tuple[str, ...] = (),
    services: str = SERVICES,
    environment: Mapping[str, str] | None = None,
) -> Iterator[ControlPlane]:
    """Run a Kubernetes of one's own; nothing is left of it afterwards."""
    root = Path(tempfile.mkdtemp(prefix="pai-kube-"))
    plane = ControlPlane(root, services, environment)
    try:
        plane.start_api(service_accounts=service_accounts or controllers, kubelets=kubelets, flags=flags)
        if controllers:
            plane.start_controllers()
        yield plane
    finally:
        plane.close()
        shutil.rmtree(root, ignore_errors=True)


@contextlib.contextmanager
def shared(place: Path, kind: str) -> Iterator[Path]:
    """Yield the kubeconfig of the server of a kind that this run's processes share; the first one starts it."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"{kind}.users").open("a+b") as users:
        with (place / f"{kind}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kubeconfig = _joined(place, kind, users) or _launched(place, kind, users)
        yield kubeconfig


def _joined(place: Path, kind: str, users: IO[bytes]) -> Path | None:
    """Become a user of the server that runs, if there is one."""
    try:
        fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # The last user is gone, and the server is being ended.
        fcntl.flock(users, fcntl.LOCK_SH)
        return None
    running = place / f"{kind}.running"
    if running.exists() and (kubeconfig := Path(running.read_text())).exists():
        return kubeconfig
    return None


def _launched(place: Path, kind: str, users: IO[bytes]) -> Path:
    log = place / f"{kind}.log"
    with log.open("ab") as out:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.kube.server", kind, str(place)],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=out,
            start_new_session=True,
        )
    assert keeper.stdout is not None
    kubeconfig = keeper.stdout.readline().decode().strip()
    if not kubeconfig:
        keeper.wait(60)
        raise RuntimeError(f"no Kubernetes for the tests: {log.read_text(errors='replace')[-3000:]}")
    (place / f"{kind}.running").write_text(kubeconfig)
    return Path(kubeconfig)


def keep(kind: str, place: Path) -> None:
    """Run a server until no process uses it any more."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with control_plane(controllers=kind == "full") as plane, (place / f"{kind}.users").open("rb") as users:
        print(plane.kubeconfig, flush=True)
        fcntl.flock(users, fcntl.LOCK_EX)
        (place / f"{kind}.running").unlink(missing_ok=True)


_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Let the process that is about to start be killed when this one ends."""
    os.setsid()
    _LIBC.prctl(1, signal.SIGKILL)


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]))
