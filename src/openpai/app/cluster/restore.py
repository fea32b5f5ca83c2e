"""`pai cluster restore`: put a backup in the place of what a release has; its servers stop meanwhile.

A pod with the image, the volume and the database of the server does the work (`pai admin restore -`). What was there
before is kept: the content of the volume in a directory `before-TIME`, tables of PostgreSQL in a schema of that name.
"""

from __future__ import annotations

import asyncio
import json as json_module
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from openpai.app.cluster.backup import ABOUT, FORMAT, PLATFORM, read_deployment
from openpai.app.cluster.down import require_name
from openpai.app.cluster.lock import alone
from openpai.app.cluster.records import jobs_namespace, remove_tasks, task_pods
from openpai.app.cluster.target import (
    RELEASE,
    TIMEOUT_S,
    Confirm,
    Context,
    Kubeconfig,
    Namespace,
    Release,
    Target,
    Timeout,
    target,
)
from openpai.app.cluster.watching import await_ready
from openpai.cli.options import argument, option
from openpai.cli.output import Json, as_json, aside, next_step, say
from openpai.protocol.errors import BadConfiguration, PaiError, Unavailable
from openpai.protocol.wording import harmless_line, plural

if TYPE_CHECKING:
    from openpai.kube.client import KubeClient

_AGE: Final = (b"age-encryption.org/", b"-----BEGIN AGE")
_KEY_BYTES_MAX: Final = 1 << 20
_PIECE: Final = 1 << 20
_LOOK_S: Final = 0.5

Identity = Annotated[
    list[Path] | None, option("--identity FILE", "Private key of age or SSH that opens an encrypted backup.")
]


def restore(
    file: Annotated[Path, argument("FILE", "A file that `pai cluster backup` wrote.")],
    kubeconfig: Kubeconfig = None,
    kube_context: Context = None,
    namespace: Namespace = RELEASE,
    release: Release = RELEASE,
    identity: Identity = None,
    confirm: Confirm = None,
    timeout_s: Timeout = TIMEOUT_S,
    json: Json = False,
) -> None:
    """Put a backup in the place of what a release has; asks for the cluster's name first.

    Servers and tasks end meanwhile; jobs that ran at the time of the backup start again. What was there is kept aside.
    """
    at = target(kubeconfig, kube_context, namespace, release)
    with tempfile.TemporaryDirectory(prefix="pai-restore-") as work:
        about, inner = _unpacked(file.expanduser(), identity or (), Path(work))
        deployment, tasks = at.run(lambda client: _look(client, at))
        _refuse_newer(about, deployment, file)
        taken = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(about["time"]))
        if not json:
            say(
                f"restore release {release} of cluster {at.cluster} from {file}, of openpai {about['version']}, {taken}"
            )
            ended = plural(tasks, "task") + (" ends" if tasks == 1 else " end")
            say(f"  its servers stop meanwhile, and {ended}; jobs of that time start again")
        require_name(at, confirm)
        at.run(lambda client: _restore(client, at, about, inner, timeout_s))
    if as_json(json, {**at.about(), "version": about["version"], "time": about["time"], "tasksEnded": tasks}):
        return
    say(f"release {release} is that of {taken}, and ready.")
    next_step("pai cluster status")


def _unpacked(file: Path, identities: Sequence[Path], work: Path) -> tuple[dict[str, Any], Path]:
    """Return what a backup is of, and the platform in it. Raises Refused for anything else."""
    inner = work / PLATFORM
    try:
        with file.open("rb") as source:
            if source.read(64).startswith(_AGE):
                file = _opened(file, identities, work / "opened")
        with tarfile.open(file, "r:") as tar:
            members = {member.name: member for member in tar if member.isreg()}
            found = tar.extractfile(members[ABOUT])
            packed = tar.extractfile(members[PLATFORM])
            assert found is not None  # noqa: S101  # both are regular files
            assert packed is not None  # noqa: S101
            about: dict[str, Any] = json_module.loads(found.read(_PIECE))
            with inner.open("xb") as made:
                while data := packed.read(_PIECE):
                    made.write(data)
        form = int(about["format"])
    except OSError as error:
        raise BadConfiguration(f"{file} cannot be read: {error.strerror or error}", "name another file") from error
    except (tarfile.TarError, KeyError, ValueError, TypeError, EOFError) as error:
        message = f"{file} is not a whole backup of a cluster: {error}"
        raise BadConfiguration(message, "name a file of `pai cluster backup`; nothing was changed") from error
    if form > FORMAT:
        message = f"{file} was written by a newer openpai ({about.get('version', '?')})"
        raise BadConfiguration(message, "use the `pai` of that version; nothing was changed")
    return about, inner


def _opened(file: Path, identities: Sequence[Path], target: Path) -> Path:
    try:
        import pyrage
    except ModuleNotFoundError as error:
        raise BadConfiguration(f"encryption needs {error.name}", "pip install 'openpai[kubernetes]'") from error
    if not identities:
        raise BadConfiguration(f"{file} is encrypted", "give the private key with --identity FILE")
    keys = []
    for path in identities:
        text = _key_text(path)
        lines = [line for line in text.splitlines() if line.startswith("AGE-SECRET-KEY-")]
        try:
            keys += [pyrage.x25519.Identity.from_str(line) for line in lines]
            keys += [] if lines else [pyrage.ssh.Identity.from_buffer(text.encode())]
        except pyrage.IdentityError as error:
            message = f"{path} is no private key of age or SSH: {error}"
            raise BadConfiguration(message, "a key of SSH must have no passphrase here") from error
    try:
        with file.open("rb") as sealed, target.open("xb") as made:
            pyrage.decrypt_io(sealed, made, keys)
    except pyrage.DecryptError as error:
        message = f"{file} cannot be opened with this key: {error}"
        raise BadConfiguration(message, "give the private key of a --recipient of the backup") from error
    return target


def _key_text(path: Path) -> str:
    """Return the content of a file of private keys."""
    advice = "give the private key of a --recipient of the backup; nothing was changed"
    try:
        with path.expanduser().open("rb") as file:
            text = file.read(_KEY_BYTES_MAX + 1)
        if len(text) > _KEY_BYTES_MAX:
            raise BadConfiguration(f"{path} is larger than any file of private keys", advice)
        return text.decode("utf-8")
    except OSError as error:
        raise BadConfiguration(f"identity file {path} cannot be read: {error.strerror or error}", advice) from error
    except (UnicodeDecodeError, RuntimeError) as error:
        # RuntimeError: ~user of a user who does not exist.
        raise BadConfiguration(f"{path} is no private key of age or SSH: {error}", advice) from error


async def _look(client: KubeClient, at: Target) -> tuple[Any, int]:
    deployment = await read_deployment(client, at)
    return deployment, len(await task_pods(client, await jobs_namespace(client, at)))


def _refuse_newer(about: dict[str, Any], deployment: Any, file: Path) -> None:
    """Refuse a backup of a newer version than the release's, whose database its server would not know."""
    running = (deployment["metadata"].get("labels") or {}).get("app.kubernetes.io/version", "")
    if _numbers(str(about["version"])) > _numbers(running):
        message = f"{file} is of openpai {about['version']}, and the release runs {running}, which is older"
        raise BadConfiguration(message, "first: pai cluster upgrade; nothing was changed")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdigit())


async def _restore(client: KubeClient, at: Target, about: dict[str, Any], inner: Path, timeout_s: float) -> None:
    async with alone(client, at):
        place = await jobs_namespace(client, at)
        async with _without_servers(client, at, timeout_s) as deployment:
            await _fill(client, at, deployment, inner, timeout_s)
            await _put_key(client, at, deployment, about.get("keys") or {})
            if place is not None:
                await remove_tasks(client, place)
        await await_ready(client, at, timeout_s)


@asynccontextmanager
async def _without_servers(client: KubeClient, at: Target, timeout_s: float) -> AsyncIterator[Any]:
    """Stop the servers, and start as many again, also after a failure."""
    from openpai.kube.objects.kinds import kind

    deployments = kind("apps/v1", "Deployment", "deployments")
    deployment = await read_deployment(client, at)
    count = int(deployment["spec"].get("replicas", 1)) or 1
    await client.patch(deployments, at.name, {"spec": {"replicas": 0}}, at.namespace)
    try:
        labels = deployment["spec"]["selector"]["matchLabels"].items()

        def are_gone(found: Any) -> bool:
            return not [pod for pod in found.pods if labels <= (pod["metadata"].get("labels") or {}).items()]

        await await_ready(client, at, timeout_s, is_over=are_gone)
        yield deployment
    finally:
        await client.patch(deployments, at.name, {"spec": {"replicas": count}}, at.namespace)


async def _fill(client: KubeClient, at: Target, deployment: Any, inner: Path, timeout_s: float) -> None:
    """Run `pai admin restore` where the server would run."""
    from openpai.kube.objects.kinds import PODS

    name = f"{at.name}-restore"
    with suppress(PaiError):
        await client.delete(PODS, name, at.namespace, grace_s=0)
    await _await_phase(client, at, name, (), timeout_s)
    await client.create(PODS, _pod(deployment, name), at.namespace)
    try:
        await _await_phase(client, at, name, ("Running", "Succeeded", "Failed"), timeout_s)
        aside(f"pod {name}: receives the backup")
        async with await client.attach(name, at.namespace, container="server", stdin=True) as session:
            with inner.open("rb") as packed:
                while data := packed.read(_PIECE):
                    await session.write(data)
            await session.close_stdin()
            with suppress(PaiError):
                await session.collect()
        phase = await _await_phase(client, at, name, ("Succeeded", "Failed"), timeout_s)
        if phase == "Failed":
            log = b"".join([part async for part in client.logs(name, at.namespace, container="server")])
            output = harmless_line(log.decode("utf-8", "replace").strip())
            raise BadConfiguration(f"the backup was not restored: {output[-800:]}", "the servers start again as before")
    finally:
        with suppress(PaiError):
            await client.delete(PODS, name, at.namespace, grace_s=0)


def _pod(deployment: Any, name: str) -> dict[str, Any]:
    """Return the pod of the server, except that it restores a backup from its standard input and ends."""
    template = deployment["spec"]["template"]
    container = {key: value for key, value in template["spec"]["containers"][0].items() if not key.endswith("Probe")}
    container |= {"args": ["admin", "restore", "-", "--force"], "stdin": True, "stdinOnce": True, "name": "server"}
    # It has the server's labels, which let it reach the database where there are network policies. It must not get the
    # server's requests for that: a condition that nothing sets keeps it from being ready.
    gates = [{"conditionType": "openpai/serves"}]
    spec = {**template["spec"], "containers": [container], "restartPolicy": "Never", "readinessGates": gates}
    labels = template["metadata"]["labels"]
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


async def _await_phase(client: KubeClient, at: Target, name: str, phases: Sequence[str], timeout_s: float) -> str:
    """Return the phase of a pod once it is one of these; without any, once the pod is gone."""
    from openpai.kube.objects.kinds import PODS

    limit_s = asyncio.get_running_loop().time() + timeout_s
    while True:
        pod = await client.find(PODS, name, at.namespace)
        if pod is None and not phases:
            return ""
        if pod is not None and pod.status.phase in phases:
            return pod.status.phase
        if asyncio.get_running_loop().time() > limit_s:
            state = pod.status.phase if pod else "gone"
            message = f"pod {name} is {state} after {timeout_s:.0f} s"
            raise Unavailable(message, f"see why: kubectl -n {at.namespace} describe pod {name}")
        await asyncio.sleep(_LOOK_S)


async def _put_key(client: KubeClient, at: Target, deployment: Any, keys: dict[str, Any]) -> None:
    """Give the release the key of the backup; the one that it had is kept beside it."""
    from openpai.kube.objects.kinds import SECRETS

    for variable in deployment["spec"]["template"]["spec"]["containers"][0].get("env", ()):
        if variable["name"] != "PAI_SECRET_KEY" or not keys:
            continue
        reference = variable["valueFrom"]["secretKeyRef"]
        secret = await client.get(SECRETS, reference["name"], at.namespace)
        if secret.data.get(reference["key"]) == keys["value"]:
            return
        old = f"{reference['name']}-before-{time.strftime('%Y%m%d%H%M%S')}"
        await client.create(SECRETS, {"metadata": {"name": old}, "data": dict(secret.data)}, at.namespace)
        await client.patch(SECRETS, reference["name"], {"data": {reference["key"]: keys["value"]}}, at.namespace)
        aside(f"the key of the backup is in secret {reference['name']}, the former one in {old}")
