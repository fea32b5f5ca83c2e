"""Reads the pod template of a task role, and says what in it the platform cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from openpai.client.reading import as_text
from openpai.kube.quantities import milli, whole

CPUS_DEFAULT: Final = 1
MEMORY_DEFAULT_MB: Final = 1024
_MIB: Final = 2**20
_GPU: Final = re.compile(r"(?:nvidia|amd)\.com/gpu\Z")
_NAME: Final = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_ANY: Final = object()
_POD: Final[Mapping[str, Any]] = {
    "restartPolicy": "Never",
    "schedulerName": "default-scheduler",
    "dnsPolicy": "ClusterFirst",
    "hostNetwork": False,
    "terminationGracePeriodSeconds": 30,
    "automountServiceAccountToken": False,
    "enableServiceLinks": _ANY,
    "securityContext": {},
}
"""Keys of a pod that change nothing, at these values."""
_CONTAINER: Final[Mapping[str, Any]] = {
    "name": _ANY,
    "imagePullPolicy": _ANY,
    "terminationMessagePath": _ANY,
    "terminationMessagePolicy": _ANY,
    "securityContext": {},
}


@dataclass(slots=True)
class Container:
    """What each task of a role runs."""

    image: str = ""
    command: tuple[str, ...] = ()
    env: list[tuple[str, str]] = field(default_factory=list)
    directory: str = ""
    cpus: int = CPUS_DEFAULT
    memory_mb: int = MEMORY_DEFAULT_MB
    gpus: int = 0


def read_pod(pod: Mapping[str, Any], path: str, faults: list[str]) -> Container:
    """Return the container of a pod template; add what is wrong with it, or cannot be done, to `faults`."""
    faults += (f"{path}.{key} is not supported" for key in pod.keys() - {"spec", "metadata"})
    metadata, spec = pod.get("metadata") or {}, pod.get("spec")
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        faults.append(f"{path} needs a spec with one container")
        return Container()
    faults += (f"{path}.metadata.{key} is not supported" for key, value in metadata.items() if value)
    faults += _unsupported(spec, f"{path}.spec", {"containers"}, _POD)
    if spec.get("restartPolicy") != "Never":
        faults.append(f"{path}.spec.restartPolicy is {spec.get('restartPolicy', 'Always')!r}; write Never")
    containers = spec.get("containers")
    if not isinstance(containers, list) or len(containers) != 1 or not isinstance(containers[0], Mapping):
        faults.append(f"{path}.spec.containers must hold exactly one container")
        return Container()
    return _container(containers[0], f"{path}.spec.containers[0]", faults)


def _container(given: Mapping[str, Any], path: str, faults: list[str]) -> Container:
    known = {"image", "command", "args", "env", "workingDir", "resources", "ports"}
    faults += _unsupported(given, path, known, _CONTAINER)
    found = Container(image=as_text(given.get("image")), directory=as_text(given.get("workingDir")))
    if not found.image or any(letter.isspace() for letter in found.image):
        faults.append(f"{path}.image is not the name of an image")
    command = _texts(given.get("command"), f"{path}.command", faults)
    if not command:
        faults.append(f"{path}.command is missing; the image's own entrypoint is not run, so write the command")
    found.command = (*command, *_texts(given.get("args"), f"{path}.args", faults))
    ports = given.get("ports")
    for number, port in enumerate(ports if isinstance(ports, list) else ()):
        if isinstance(port, Mapping) and (port.get("hostPort") or port.get("hostIP")):
            faults.append(f"{path}.ports[{number}].hostPort is not supported; tasks read their ports from variables")
    _read_env(given.get("env") or (), f"{path}.env", found, faults)
    _read_resources(given.get("resources") or {}, f"{path}.resources", found, faults)
    return found


def _read_env(given: Any, path: str, found: Container, faults: list[str]) -> None:
    for number, entry in enumerate(given if isinstance(given, list | tuple) else [given]):
        place = f"{path}[{number}]"
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not _NAME.match(name):
            faults.append(f"{place}.name is not a name of letters, digits and underscores")
        elif entry.get("valueFrom"):
            faults.append(f"{place}.valueFrom is not supported; write a value")
        else:
            found.env.append((name, as_text(entry.get("value"))))


def _read_resources(given: Any, path: str, found: Container, faults: list[str]) -> None:
    """Read the larger of requests and limits, since the platform limits a task to what it asks for."""
    requested: dict[str, str | float] = {}
    if not isinstance(given, Mapping):
        faults.append(f"{path} is not a mapping")
        return
    faults += (f"{path}.{key} is not supported" for key in given.keys() - {"requests", "limits"})
    for part in ("requests", "limits"):
        amounts = given.get(part) or {}
        if not isinstance(amounts, Mapping):
            faults.append(f"{path}.{part} is not a mapping")
            continue
        for name, value in amounts.items():
            try:
                amount = milli(value)
                if amount < 0:
                    raise ValueError(f"{value} is negative")
                if name not in requested or amount > milli(requested[name]):
                    requested[name] = value
            except (ValueError, ArithmeticError) as error:
                faults.append(f"{path}.{part}.{name}: {error}")
    for name, value in requested.items():
        if name == "cpu":
            found.cpus = max(1, whole(value))
        elif name == "memory":
            found.memory_mb = max(1, -(-whole(value) // _MIB))
        elif _GPU.match(name):
            found.gpus += whole(value)
        else:
            faults.append(f"{path}: resource {name} is not supported; there are cpu, memory, nvidia.com/gpu")


def _unsupported(given: Mapping[str, Any], path: str, known: set[str], harmless: Mapping[str, Any]) -> Iterator[str]:
    for key, value in given.items():
        if key in known or key == "restartPolicy" or value in (None, [], {}):
            continue
        if key not in harmless:
            yield f"{path}.{key} is not supported{_ADVICE.get(key, '')}"
        elif harmless[key] is not _ANY and value != harmless[key]:
            yield f"{path}.{key} is not supported at this value"


_ADVICE: Final = {
    "initContainers": "; a barrier is not needed, since the tasks of a job start together",
    "volumes": "; storages of the platform are for job files only",
    "volumeMounts": "; storages of the platform are for job files only",
    "nodeSelector": "; the platform's scheduler chooses the nodes",
    "affinity": "; the platform's scheduler chooses the nodes",
}


def _texts(value: Any, path: str, faults: list[str]) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        faults.append(f"{path} is not a list")
        return ()
    return tuple(map(as_text, value))
