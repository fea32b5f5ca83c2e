"""Writes pods in protobuf, which the API server reads at less cost than JSON.

A pod is described as in JSON. Two parts of a message written one after the other are one message, so what many pods
have in common is written once. The numbers of fields are those of Kubernetes' `generated.proto` files, which never
change. Only the fields that the platform writes are listed: a pod with another one is sent in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from openpai.kube.objects.meta import PROTOBUF_MARK

_SCHEMA: Final[Mapping[str, str]] = {
    "Meta": "name=1 text, labels=11 texts, annotations=12 texts, finalizers=14 text*",
    "PodSpec": (
        "volumes=1 Volume*, containers=2 Container*, restartPolicy=3 text, terminationGracePeriodSeconds=4 number, "
        "dnsPolicy=6 text, nodeName=10 text, hostNetwork=11 number, securityContext=14 PodSecurity, "
        "imagePullSecrets=15 Named*, hostname=16 text, subdomain=17 text, affinity=18 Affinity, schedulerName=19 text, "
        "automountServiceAccountToken=21 number, tolerations=22 Toleration*, priorityClassName=24 text, "
        "enableServiceLinks=30 number, resourceClaims=39 PodClaim*"
    ),
    "Container": (
        "name=1 text, image=2 text, command=3 text*, ports=6 Port*, resources=8 Resources, "
        "volumeMounts=9 VolumeMount*, readinessProbe=11 Probe, terminationMessagePath=13 text, "
        "securityContext=15 Security, envFrom=19 VariablesFrom*"
    ),
    "Named": "name=1 text",
    "Port": "hostPort=2 number, containerPort=3 number",
    "VariablesFrom": "secretRef=3 SecretReference",
    "SecretReference": "name=1.1 text",
    "Resources": "limits=1 amounts, requests=2 amounts, claims=3 Named*",
    "VolumeMount": "name=1 text, readOnly=2 number, mountPath=3 text, subPath=4 text",
    "Probe": (
        "exec=1.1 Exec, initialDelaySeconds=2 number, timeoutSeconds=3 number, periodSeconds=4 number, "
        "failureThreshold=6 number"
    ),
    "Exec": "command=1 text*",
    "Security": "capabilities=1 Capabilities, allowPrivilegeEscalation=7 number",
    "Capabilities": "add=1 text*, drop=2 text*",
    "PodSecurity": "seccompProfile=10 Seccomp",
    "Seccomp": "type=1 text",
    "Toleration": "key=1 text, operator=2 text, value=3 text, effect=4 text, tolerationSeconds=5 number",
    "PodClaim": "name=1 text, resourceClaimName=3 text",
    "Affinity": "nodeAffinity=1 NodeAffinity",
    "NodeAffinity": "requiredDuringSchedulingIgnoredDuringExecution=1 NodeSelector",
    "NodeSelector": "nodeSelectorTerms=1 NodeTerm*",
    "NodeTerm": "matchFields=2 NodeRequirement*",
    "NodeRequirement": "key=1 text, operator=2 text, values=3 text*",
    "Volume": (
        "name=1 text, hostPath=2.1 HostPath, emptyDir=2.2 EmptyDir, nfs=2.7 Nfs, "
        "persistentVolumeClaim=2.10 VolumeClaim, projected=2.26 Projected, csi=2.28 Csi"
    ),
    "HostPath": "path=1 text, type=2 text",
    "EmptyDir": "medium=1 text, sizeLimit=2 amount",
    "Nfs": "server=1 text, path=2 text, readOnly=3 number",
    "VolumeClaim": "claimName=1 text, readOnly=2 number",
    "Csi": "driver=1 text, readOnly=2 number, volumeAttributes=4 texts",
    "Projected": "sources=1 Source*, defaultMode=2 number",
    "Source": "secret=1 SecretReference, downwardAPI=2 Downward",
    "Downward": "items=1 DownwardFile*",
    "DownwardFile": "path=1 text, fieldRef=2 FieldReference",
    "FieldReference": "fieldPath=2 text",
}
"""The messages and their fields, under their names in JSON. A star is a list, and a place of two numbers a field of a
message that JSON does not have."""


class NotListed(LookupError):
    """A field that is not listed here."""


Write = Callable[[Any], bytes]
_ENV: Final = 7
"""The place of the variables in a container."""
_SIZES: Final = tuple(bytes((size,)) for size in range(128))


def written(message: str, content: Mapping[str, Any]) -> bytes:
    """Return the fields of a message. Raises NotListed."""
    fields = _fields(message)
    try:
        return b"".join([fields[name](value) for name, value in content.items()])
    except KeyError as error:
        raise NotListed(f"{message} has a field that is not written here: {error}") from error


def variables(content: Mapping[str, str]) -> bytes:
    """Return the variables of a container, which are entries of a list in JSON."""
    return _ENTRIES_OF_ENV(content)


def pod(metadata: bytes, spec: bytes, container: bytes) -> bytes:
    """Return a pod of one container as it is sent, of the fields of its three messages."""
    content = _FIRST + _sized(metadata) + _SECOND + _sized(spec + _SECOND + _sized(container))
    return _POD + _SECOND + _sized(content)


def _sized(content: bytes) -> bytes:
    size = len(content)
    return (_SIZES[size] if size < len(_SIZES) else _number(size)) + content


def _part(place: int, content: bytes) -> bytes:
    return _tag(place) + _sized(content)


def _tag(place: int, *, is_number: bool = False) -> bytes:
    return _number(place << 3 | (0 if is_number else 2))


def _number(value: int) -> bytes:
    """Return a number, or whether something is so; a negative number is one of 64 bits."""
    if 0 <= value < 1 << 14:
        return _SIZES[value] if value < len(_SIZES) else bytes((value & 127 | 128, value >> 7))
    left = int(value) & (1 << 64) - 1
    found = bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    found.append(left)
    return bytes(found)


def _amount(value: str) -> bytes:
    return _FIRST + _sized(value.encode())


@lru_cache(maxsize=len(_SCHEMA))
def _fields(message: str) -> Mapping[str, Write]:
    """Return what writes each field, with its number before it."""
    found = {}
    for each in _SCHEMA[message].split(", "):
        place, kind = each.split()
        name, _, numbers = place.partition("=")
        outer, _, inner = numbers.rpartition(".")
        write = _field(int(inner), kind)
        found[name] = _inside(int(outer), write) if outer else write
    return found


def _field(place: int, kind: str) -> Write:
    tag = _tag(place, is_number=kind == "number")
    if kind.endswith("*"):
        each = _field(place, kind[:-1])
        return lambda values: b"".join([each(value) for value in values])
    if kind == "number":
        return lambda value: tag + _number(value)
    if kind == "text":
        return lambda value: tag + _sized(value.encode())
    if kind == "amount":
        return lambda value: tag + _sized(_amount(value))
    if kind in ("texts", "amounts"):
        return _entries(tag, _amount if kind == "amounts" else str.encode)
    return lambda content: tag + _sized(written(kind, content))


def _entries(tag: bytes, write: Callable[[str], bytes]) -> Callable[[Mapping[str, str]], bytes]:
    """Return what writes the entries of a dictionary: messages of a name and a value."""

    # The pods of a job have the same names.
    @lru_cache(maxsize=256)
    def first(name: str) -> bytes:
        return _FIRST + _sized(name.encode()) + _SECOND

    def entries(values: Mapping[str, str]) -> bytes:
        parts: list[bytes] = []
        for name, value in values.items():
            start, content = first(name), write(value)
            size = len(content)
            whole = len(start) + 1 + size
            if whole < len(_SIZES):
                parts += (tag, _SIZES[whole], start, _SIZES[size], content)
            else:
                parts += (tag, _sized(start + _sized(content)))
        return b"".join(parts)

    return entries


def _inside(place: int, write: Write) -> Write:
    return lambda value: _part(place, write(value))


_FIRST: Final = _tag(1)
_SECOND: Final = _tag(2)
_ENTRIES_OF_ENV: Final = _entries(_tag(_ENV), str.encode)
_POD: Final = PROTOBUF_MARK + _part(1, _part(1, b"v1") + _part(2, b"Pod"))
