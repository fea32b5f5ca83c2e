"""A decision of a server, as the measured server notes it and the measure reads it."""

from __future__ import annotations

import json
from typing import NamedTuple

from openpai.backends.kubernetes.seals import IDENTITY
from openpai.kube.objects.pods import Pod

Device = tuple[str, int]
"""A node, and the number of a device."""


class Decision(NamedTuple):
    """A decision that had to wait until some devices were free. Times are of the monotonic clock."""

    devices: list[Device]
    arrived_at: float
    """When the last event that it needed was received from the socket."""
    turn_at: float
    """When the turn began that made it."""
    made_at: float
    own_s: float
    """What the loop's thread computed since the event was received: neighbours on the machine do not change that."""


def devices_of(pod: Pod) -> list[Device]:
    """Return the devices that a pod of ours was given."""
    identity = pod.metadata.annotation(IDENTITY)
    return [(pod.spec.node_name, device) for device in json.loads(identity)["devices"]] if identity else []
