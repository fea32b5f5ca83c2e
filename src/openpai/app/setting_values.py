"""The values that each setting may have, and how one that it may not have is refused.

The parsers that use a value say what is wrong with it; they are imported only for the settings that are given.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from openpai.app.connection_limits import networks
from openpai.app.settings import DAYS_MAX, GB_MAX, LOST_AFTER_LEAST
from openpai.protocol.errors import BadConfiguration

PORT_MAX: Final = 65_535
PIDS_MIN: Final = 16
_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class ValueFault(NamedTuple):
    """What is wrong with one value, as the end of a sentence that its option begins, and what to do."""

    message: str
    advice: str


class _Limits(NamedTuple):
    """The values that a number may have, and how the fault of another one is worded."""

    fault: str
    advice: str
    least: float = 0
    most: float = float("inf")
    also: float | None = None

    def has(self, value: float) -> bool:
        return value == self.also or self.least <= value <= self.most


def _kept(most: float, unit: str, zero: str) -> _Limits:
    return _Limits(f"is not a valid {unit}", f"use 0, which {zero}, to {most}", 0, most)


_A_PORT: Final = _Limits("is not a port number", f"use 0 (any free one) to {PORT_MAX}", 0, PORT_MAX)
_LIMITS: Final[Mapping[str, _Limits]] = {
    "port": _A_PORT,
    "ssh_port": _A_PORT,
    "nodes": _Limits("leaves nothing to run on", "use 1 or more", 1),
    "cpus_per_node": _Limits("is too few", "use 1 or more", 1),
    "gpus_per_node": _Limits("is negative", "use 0 or more"),
    "connections_per_address": _Limits("would refuse every connection", "use 1 or more", 1),
    "traces_ratio": _Limits("is not a part of all", "use 0 to 1", 0, 1),
    "pids_per_task": _Limits("is too few for the shells around a task", f"use {PIDS_MIN} or more", PIDS_MIN),
    "lost_after": _Limits(
        "is too short: a healthy node may be silent for some seconds",
        f"use {LOST_AFTER_LEAST:g} or more, or 0 to wait for proof",
        LOST_AFTER_LEAST,
        also=0,
    ),
    "log_max_mb": _Limits(
        "leaves too little of a log to be of use", "use 0, which keeps all of it, or 1 or more", 0, GB_MAX * 1024
    ),
    "work_retention_hours": _kept(DAYS_MAX * 24, "number of hours", "keeps nothing"),
    "checkpoint_retention_days": _kept(DAYS_MAX, "number of days", "keeps them as long as their jobs"),
    "work_max_mb": _kept(GB_MAX * 1024, "size", "sets no limit"),
    "work_fetch_mb": _kept(GB_MAX * 1024, "size", "fetches nothing"),
    "audit_retention_days": _kept(DAYS_MAX, "number of days", "keeps entries for ever"),
    "alert_retention_days": _kept(DAYS_MAX, "number of days", "keeps them for ever"),
    "event_retention_days": _kept(DAYS_MAX, "number of days", "keeps events as long as their jobs"),
    "log_retention_days": _kept(DAYS_MAX, "number of days", "keeps logs until there are too many"),
    "app_idle_hours": _kept(DAYS_MAX * 24, "number of hours", "stops none"),
    "metrics_10s_days": _kept(DAYS_MAX, "number of days", "keeps only coarser values"),
    "metrics_5m_days": _kept(DAYS_MAX, "number of days", "keeps only coarser values"),
    "metrics_1h_days": _kept(DAYS_MAX, "number of days", "keeps only finer values"),
    "log_retention_gb": _kept(GB_MAX, "size", "keeps logs until they are too old"),
    "work_kept_gb": _kept(GB_MAX, "size", "keeps files until they are too old"),
}
_MAY_BE_EMPTY: Final = frozenset({"share", "trusted_proxies"})
"""An empty text promises nothing to any virtual cluster, and trusts no proxy."""


def value_fault(name: str, value: Any) -> ValueFault | None:
    """Return what is wrong with the value of one setting; None if nothing is."""
    if value is None:
        return None
    limits, read = _LIMITS.get(name), _READERS.get(name)
    if isinstance(value, str) and not value.strip():
        return None if name in _MAY_BE_EMPTY else ValueFault("is empty", "leave it out, or give a value")
    if limits is not None and not limits.has(value):
        return ValueFault(f"{value:.12g} {limits.fault}", limits.advice)
    try:
        if read is not None:
            read(value)
    except BadConfiguration as error:
        return ValueFault(error.message, error.advice)
    return None


def namespace_fault(name: str) -> ValueFault | None:
    """Return why Kubernetes would refuse a namespace of this name; None if it would not."""
    from openpai.backends.kubernetes.names import is_dns_label

    if is_dns_label(name):
        return None
    advice = "name one of lower-case letters, digits and hyphens, of at most 63 characters"
    return ValueFault(f"{name!r} cannot be the name of a namespace", advice)


def ports_in(text: str) -> range:
    """Return the ports of `9300-9399`, none for `none`; raise BadConfiguration for anything else."""
    found = _RANGE.fullmatch(text)
    if text == "none":
        return range(0)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= PORT_MAX:
        raise BadConfiguration(f"{text} is not a range of ports", "write it like 9300-9399, or none")
    return range(first, last + 1)


def _read_mounts(text: str) -> None:
    for path in text.split(","):
        if path.strip() and not path.strip().startswith("/"):
            message = f"{path.strip()} is no path from the root of the file system"
            raise BadConfiguration(message, "give directories such as /data,/scratch")


def _read_address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        message = f"{text} is not an IP address"
        raise BadConfiguration(message, "give one such as 192.0.2.7") from None


def _read_subnets(text: str) -> None:
    try:
        ipaddress.IPv4Network(text)
    except ValueError as error:
        message = f"{text} is not a range of addresses: {error}"
        raise BadConfiguration(message, "give one such as 10.213.0.0/16") from None


def _read_proxies(text: str) -> None:
    networks(text.replace(",", " ").split())


def _read_web_address(text: str) -> None:
    scheme, _, rest = text.partition("://")
    if scheme not in ("http", "https") or not rest.strip("/"):
        raise BadConfiguration("is not the address of a server", "use http://... or https://...")


def _read_app_url(text: str) -> None:
    from openpai.applications.origins import DomainOrigins

    DomainOrigins(text)


def _read_uids(text: str) -> None:
    from openpai.backends.process.uids import UidRange

    UidRange.parse(text)


def _read_webhook_networks(text: str) -> None:
    from openpai.app.alerting import read_networks

    read_networks(text)


def _read_plugin_pages(text: str) -> None:
    from openpai.api.plugin_pages import read_plugin_pages

    read_plugin_pages(text)


def _read_labels(text: str) -> None:
    from openpai.app.backend import labels_in

    labels_in(text)


def _read_namespace(text: str) -> None:
    if (fault := namespace_fault(text)) is not None:
        raise BadConfiguration(*fault)


def _read_queues(text: str) -> None:
    from openpai.protocol.admission import queues_in

    queues_in(text)


def _read_gpus(text: str) -> None:
    from openpai.app.backend import gpus_in

    gpus_in(text)


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "required_mounts": _read_mounts,
    "node_address": _read_address,
    "task_subnets": _read_subnets,
    "trusted_proxies": _read_proxies,
    "metrics_url": _read_web_address,
    "remote_write_url": _read_web_address,
    "app_ports": ports_in,
    "app_url": _read_app_url,
    "task_uids": _read_uids,
    "webhook_networks": _read_webhook_networks,
    "plugin_pages": _read_plugin_pages,
    "node_selector": _read_labels,
    "kube_namespace": _read_namespace,
    "kube_gpus": _read_gpus,
    "kueue_queues": _read_queues,
    "traces_url": _read_web_address,
}
