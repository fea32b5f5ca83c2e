"""Kubernetes objects, with only the fields that are used; other fields are ignored when an object is read.

So an object read here must not be written back with `replace`, which would remove the fields that are not listed: use
a patch. Lists and maps that Kubernetes omits are empty.
"""

from openpai.kube.objects.kinds import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SECRETS,
    SERVICES,
    Kind,
    kind,
)
from openpai.kube.objects.meta import Anything, Condition, Meta, Resource

__all__ = [
    "CONFIG_MAPS",
    "DEVICE_CLASSES",
    "DEVICE_TAINT_RULES",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PERSISTENT_VOLUME_CLAIMS",
    "PODS",
    "RESOURCE_CLAIMS",
    "RESOURCE_SLICES",
    "SECRETS",
    "SERVICES",
    "Anything",
    "Condition",
    "Kind",
    "Meta",
    "Resource",
    "kind",
]
