"""`pai cluster backup`: database, keys and values of a release in one file, while it runs.

The server in the cluster makes the copy (`pai admin backup -`); what it cannot know, the key that seals secrets and the
values of the chart, comes from the cluster. With recipients the file is encrypted in the format of age.
"""

from __future__ import annotations

import io
import json as json_module
import os
import tarfile
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

from openpai.app.cluster.helm import Helm
from openpai.app.cluster.parts import name_of
from openpai.app.cluster.target import RELEASE, Context, Kubeconfig, Namespace, Release, Target, target
from openpai.app.cluster.watching import read_list
from openpai.cli import formatting
from openpai.cli.options import argument, option
from openpai.cli.output import Json, as_json, say, warn
from openpai.protocol.errors import BadConfiguration, Unavailable
from openpai.protocol.wording import harmless_line

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient

ABOUT: Final = "cluster.json"
PLATFORM: Final = "platform.tar.gz"
FORMAT: Final = 1
PAI: Final = "/opt/openpai/bin/pai"

Recipient = Annotated[
    list[str] | None,
    option("--recipient KEY", "Encrypt the backup for this key of age or SSH (age1..., ssh-ed25519 ..., or a file)."),
]


def backup(
    file: Annotated[Path, argument("FILE", "The file to write, such as openpai.backup.")],
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = RELEASE,
    release: Release = RELEASE,
    recipient: Recipient = None,
    force: Annotated[bool, option("--force", "Replace FILE if it exists.")] = False,
    json: Json = False,
) -> None:
    """Write database, keys and values of a release to one file; the platform runs on.

    Without --recipient the file opens every secret of the platform: keep it as safe as a password.
    """
    at = target(kubeconfig, kube_context, namespace, release)
    about = save(at, file, recipient or (), force=force, quiet=json)
    as_json(json, {**at.about(), "file": str(file), "isEncrypted": bool(recipient), **about})


def save(
    at: Target, file: Path, recipients: Sequence[str], *, force: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Write a backup of a release; return what it is of."""
    keys = [_recipient(one) for one in recipients]
    file = file.expanduser().absolute()
    if file.exists() and not force:
        raise BadConfiguration(f"{file} exists already", "choose another name, or use --force to replace it")
    history = Helm(at).history()
    if not history:
        raise BadConfiguration(f"there is no release {at.release} in namespace {at.namespace}", "pai cluster up")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as work:
            about: dict[str, Any] = {"format": FORMAT, "time": int(time.time()), "release": at.release}
            about |= {"version": history[-1].app_version, "values": Helm(at).values(history[-1].number)}
            inner = Path(work) / PLATFORM
            about["keys"] = at.run(lambda client: _fetch(client, at, inner))
            whole = Path(work) / "backup"
            _pack(whole, inner, about)
            if keys:
                whole = _encrypted(whole, keys)
            whole.chmod(0o600)
            with whole.open("rb") as made:
                os.fsync(made.fileno())
            whole.replace(file)
    except OSError as error:
        message = f"the backup {file} cannot be written: {error.strerror or error}"
        raise Unavailable(message, "choose a place with room for two copies of the database, and try again") from error
    if not keys:
        warn(f"{file} is NOT encrypted: it holds the database, and the key that opens every secret in it; keep it as "
             "safe as a password, or encrypt it with --recipient")  # fmt: skip
    if not quiet:
        say(f"{file} ({formatting.size(file.stat().st_size)}) holds database, keys and values of openpai "
            f"{about['version']}{', encrypted' if keys else ''}.")  # fmt: skip
    return {"version": about["version"], "time": about["time"]}


async def _fetch(client: KubeClient, at: Target, inner: Path) -> dict[str, Any]:
    """Let a server write its backup to a file here; return the secrets that belong to it."""
    deployment = await read_deployment(client, at)
    pods = await read_list(
        client,
        f"/api/v1/namespaces/{at.namespace}/pods",
        labelSelector=f"{at.selector},app.kubernetes.io/component=server",
    )
    ready = [pod for pod in pods if any(one.get("ready") for one in pod.get("status", {}).get("containerStatuses", ()))]
    if not ready:
        message = f"no server of release {at.release} runs, and only a server can copy the database"
        raise Unavailable(message, "see what is wrong with: pai cluster status")
    with inner.open("xb") as made:
        await _copy(client, at, name_of(ready[0]), made)
    return await _secrets(client, at, deployment)


async def _copy(client: KubeClient, at: Target, pod: str, made: IO[bytes]) -> None:
    from openpai.kube.exec import STDOUT

    command, errors = [PAI, "admin", "backup", "-", "--without-key"], b""
    async with await client.exec(pod, at.namespace, command, container="server") as session:
        async for output in session:
            if output.channel == STDOUT:
                made.write(output.data)
            else:
                errors = (errors + output.data)[-4_000:]
        code = session.exit_code
    if code:
        reason = harmless_line(errors.decode("utf-8", "replace"))[-600:]
        raise Unavailable(
            f"the server in pod {pod} made no backup (exit code {code}): {reason}", "correct what it names"
        )


async def read_deployment(client: KubeClient, at: Target) -> Any:
    """Return the deployment of the servers."""
    path = f"/apis/apps/v1/namespaces/{at.namespace}/deployments"
    found = [one for one in await read_list(client, path, labelSelector=at.selector) if name_of(one) == at.name]
    if not found:
        message = f"there is no deployment {at.name} in namespace {at.namespace}"
        raise BadConfiguration(message, "create it with: pai cluster up")
    return found[0]


async def _secrets(client: KubeClient, at: Target, deployment: Any) -> dict[str, Any]:
    """Return the secret with the key that seals secrets. That of the database stays: another one has its own."""
    from openpai.kube.objects.kinds import SECRETS

    container = deployment["spec"]["template"]["spec"]["containers"][0]
    found = {}
    for variable in container.get("env", ()):
        if variable["name"] == "PAI_SECRET_KEY":
            reference = variable["valueFrom"]["secretKeyRef"]
            secret = await client.get(SECRETS, reference["name"], at.namespace)
            found = {"name": reference["name"], "key": reference["key"], "value": secret.data[reference["key"]]}
    return found


def _pack(target: Path, inner: Path, about: dict[str, Any]) -> None:
    with tarfile.open(target, "w") as tar:
        text = json_module.dumps(about, indent=1).encode()
        member = tarfile.TarInfo(ABOUT)
        member.size, member.mode = len(text), 0o600
        tar.addfile(member, io.BytesIO(text))
        tar.add(inner, PLATFORM)


def _recipient(text: str) -> Any:
    """Return a key to encrypt for. Raises Refused for what is none."""
    try:
        import pyrage
    except ModuleNotFoundError as error:
        raise BadConfiguration(f"encryption needs {error.name}", "pip install 'openpai[kubernetes]'") from error
    file = Path(text).expanduser()
    with suppress(OSError):
        text = file.read_text("utf-8").strip() if file.is_file() else text
    try:
        kind = pyrage.ssh if text.startswith("ssh-") else pyrage.x25519
        return kind.Recipient.from_str(text)
    except pyrage.RecipientError as error:
        message = f"--recipient {text[:60]!r} is neither a public key of age nor of SSH: {error}"
        raise BadConfiguration(message, "give age1..., ssh-ed25519 ..., ssh-rsa ..., or a file with one") from error


def _encrypted(whole: Path, keys: Sequence[Any]) -> Path:
    import pyrage

    sealed = whole.with_name("sealed")
    with whole.open("rb") as plain, sealed.open("xb") as made:
        pyrage.encrypt_io(plain, made, list(keys))
    return sealed
