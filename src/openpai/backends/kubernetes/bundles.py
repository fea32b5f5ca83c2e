"""The Secrets that hold what the tasks of a job attempt read: scripts, hosts, variables, registry credentials.

A Secret is shared by all tasks with the same content and named after it, so each is created once for thousands of
tasks, and creating it again is harmless. An object holds at most a megabyte; what is larger together is spread over
several, which the pod sees as one directory.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from openpai.backends.kubernetes.names import ATTEMPT_LABEL, JOB_LABEL, PART_LABEL, SCOPE_LABEL, label_value
from openpai.backends.kubernetes.variables import VARIABLES_FILE, can_be_exported, exports
from openpai.kube.objects.kinds import SECRETS
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import LaunchTask, RegistryAuth
from openpai.runtime.script import HOSTS_FILE, SCRIPT_FILE, user_script, wrapper
from openpai.runtime.unpacking import CODE_FILE

WRAPPER_FILE: Final = "wrapper.sh"
ENTRY_FILE: Final = "enter.sh"
SECRET_BYTES_MAX: Final = 1 << 20
"""The API's limit on the values of a Secret together."""
CODE_BYTES_MAX: Final = 8 << 20
"""The limit on packed code, since Secrets are kept by the cluster's own database."""
CODE_PART_BYTES: Final = 1_000_000
INLINE_ENV_BYTES: Final = 8 << 10
"""Up to this size in all pods together, the variables of all tasks are written into each.

The API server keeps each variable of a pod twice, once for the field's manager, and sends both with every change.
"""
_CACHED: Final = 64
_HUB: Final = "https://index.docker.io/v1/"

_ENTRY: Final = r"""# Called as `sh enter.sh MESSAGE_FILE PORTS WRAPPER ...`; PORTS are pairs such as 15000:3A98.
message=$1 ports=$2
shift 2
for table in /proc/net/tcp /proc/net/tcp6; do
    { while read -r _ local _ state _; do
        # 0A is the state of a socket that listens.
        [ "$state" = 0A ] || continue
        for port in $ports; do
            if [ "${port#*:}" = "${local##*:}" ]; then
                text="port ${port%:*} is used by a program that is no task of ours"
                printf 'code 253\nreason port_taken\nmessage %s\nend\n' "$text" >"$message"
                echo "[openpai-runtime] $text"
                exit 253
            fi
        done
    done; } 2>/dev/null <"$table"
done
exec /bin/sh "$@"
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The Secrets of one task, by what they are for, and the requests to create them."""

    files: tuple[str, ...]
    """The Secrets whose keys are the files of the task."""
    has_variables: bool = False
    """Whether the variables of all tasks are among these files; else the pod has them itself."""
    env: str = ""
    """The Secret with those of them that a shell cannot export; empty if there are none."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What of them is not of the launch."""
    registry: str = ""
    """The Secret with the credentials of the image's registry."""
    bodies: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """By name, each Secret as it is sent to the API."""


class Bundles:
    """Makes the Secrets of tasks, once for all tasks that share their content."""

    def __init__(
        self,
        scope: str,
        fingerprint: Callable[[bytes], str],
        variables: Callable[[LaunchTask], Mapping[str, str]] = lambda _: {},
    ) -> None:
        """`variables` returns what all tasks of a job attempt have beside `shared_env`."""
        self._scope = scope
        self._fingerprint = fingerprint
        self._variables = variables
        self._made: OrderedDict[tuple[object, ...], tuple[Bundle, tuple[object, ...]]] = OrderedDict()

    def of(self, launch: LaunchTask) -> Bundle:
        """Return the Secrets of a launch. Raises ValueError for a file that fits in no Secret."""
        # The launches of a job share these objects, and what is kept beside the bundle keeps their identities taken.
        shared = (launch.shared_env, launch.commands, launch.hosts, launch.auth, launch.code)
        made_from = (launch.key.job, launch.key.job_attempt, *map(id, shared))
        found = self._made.get(made_from)
        if found is None:
            found = self._made[made_from] = (self._make(launch), shared)
            if len(self._made) > _CACHED:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(made_from)
        return found[0]

    def clear(self) -> None:
        """Keep none: no launch waits for its turn."""
        self._made.clear()

    def _make(self, launch: LaunchTask) -> Bundle:
        files = {
            WRAPPER_FILE: wrapper().encode(),
            ENTRY_FILE: _ENTRY.encode(),
            SCRIPT_FILE: user_script(launch.commands).encode(),
        }
        if launch.hosts:
            files[HOSTS_FILE] = launch.hosts.encode()
        if launch.code:
            files |= _code_files(Path(launch.code))
        bodies: dict[str, bytes] = {}
        env = registry = ""
        variables: Mapping[str, str] = {}
        has_variables = not is_inline(launch)
        if has_variables:
            variables = self._variables(launch)
            found = {**launch.shared_env, **variables}
            odd = {name: found.pop(name).encode() for name in tuple(found) if not can_be_exported(name)}
            files[VARIABLES_FILE] = exports(found).encode()
            env = self._add(bodies, launch.key, "env", odd) if odd else ""
        names = tuple(self._add(bodies, launch.key, "files", part) for part in _parts(files))
        if launch.auth is not None:
            content = {".dockerconfigjson": docker_config(launch.image, launch.auth)}
            registry = self._add(bodies, launch.key, "registry", content, "kubernetes.io/dockerconfigjson")
        return Bundle(names, has_variables, env, variables, registry, bodies)

    def _add(
        self, bodies: dict[str, bytes], key: AttemptKey, part: str, content: Mapping[str, bytes], kind: str = "Opaque"
    ) -> str:
        ordered = sorted(content.items())
        what = "\0".join([f"{name} {len(value)}" for name, value in ordered]).encode()
        pieces = [f"{key.job} {key.job_attempt} {kind} ".encode(), what, *[value for _, value in ordered]]
        name = f"pai-{part}-{self._fingerprint(b''.join(pieces))}"
        bodies[name] = secret_body(self._scope, key, part, name, content, kind)
        return name


def secret_body(
    scope: str, key: AttemptKey, part: str, name: str, content: Mapping[str, bytes], kind: str = "Opaque"
) -> bytes:
    """Return a Secret of a job attempt as it is sent to the API."""
    body: dict[str, Any] = {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.name,
        "metadata": {"name": name, "labels": {**job_labels(scope, key), PART_LABEL: part}},
        "type": kind,
        "immutable": True,
        # Bytes are written in base64.
        "data": content,
    }
    return msgspec.json.encode(body)


def job_labels(scope: str, key: AttemptKey) -> dict[str, str]:
    """Return the labels of every object of a job attempt."""
    return {SCOPE_LABEL: scope, JOB_LABEL: label_value(key.job), ATTEMPT_LABEL: str(key.job_attempt)}


def is_inline(launch: LaunchTask) -> bool:
    """Return whether the variables of all tasks are small enough to be written into each pod."""
    most, size = INLINE_ENV_BYTES // max(1, launch.hosts.count("\n")), 0
    for name, text in launch.shared_env.items():
        size += len(name) + len(text)
        if size > most:
            return False
    return True


def docker_config(image: str, auth: RegistryAuth) -> bytes:
    """Return credentials in the form that the kubelet reads, for the registry they name or that of the image."""
    registry = auth.registry or registry_of(image)
    token = b64encode(f"{auth.username}:{auth.password}".encode()).decode()
    return json.dumps(
        {"auths": {registry: {"username": auth.username, "password": auth.password, "auth": token}}}
    ).encode()


def registry_of(image: str) -> str:
    """Return the registry in the name of an image; that of Docker's hub if it names none."""
    host, slash, _ = image.partition("/")
    return host if slash and ("." in host or ":" in host or host == "localhost") else _HUB


def _code_files(packed: Path) -> Mapping[str, bytes]:
    """Return packed code in parts that fit into Secrets, in the order of their names. Raise ValueError for too much."""
    size = packed.stat().st_size
    if size > CODE_BYTES_MAX:
        message = f"its code has {size:,} bytes when packed, and Kubernetes carries {CODE_BYTES_MAX:,} to a pod"
        raise ValueError(
            f"{message}: name what it does not need in .paiignore, or put data into a storage or the image"
        )
    content = packed.read_bytes()
    starts = range(0, max(1, size), CODE_PART_BYTES)
    return {f"{CODE_FILE}.{at:02}": content[start : start + CODE_PART_BYTES] for at, start in enumerate(starts)}


def _parts(files: Mapping[str, bytes]) -> Sequence[Mapping[str, bytes]]:
    """Spread files over as few Secrets as are needed, the largest first."""
    parts: list[dict[str, bytes]] = []
    for name, content in sorted(files.items(), key=lambda file: -len(file[1])):
        if len(content) > SECRET_BYTES_MAX:
            message = f"{name} has {len(content):,} bytes, and a Secret of Kubernetes holds {SECRET_BYTES_MAX:,}"
            raise ValueError(message)
        for part in parts:
            if sum(map(len, part.values())) + len(content) <= SECRET_BYTES_MAX:
                part[name] = content
                break
        else:
            parts.append({name: content})
    return parts
