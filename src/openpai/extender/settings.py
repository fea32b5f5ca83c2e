"""HiveD's settings for the extender, in the same file as the cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from openpai.protocol.errors import Refused
from openpai.scheduler.config.model import HivedConfig, parse_text
from openpai.scheduler.config.reading import config_of

ADDRESS_DEFAULT: Final = ":9096"
FORCE_BIND_DEFAULT: Final = 3
BLOCK_MAX_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """A configuration file of HiveD."""

    cells: HivedConfig
    api_server: str = ""
    """The API server's URL, instead of the one in the kubeconfig."""
    kubeconfig: str = ""
    address: str = ADDRESS_DEFAULT
    """`HOST:PORT` to listen on; without a host on every address."""
    force_bind_threshold: int = FORCE_BIND_DEFAULT
    block_ms: int = 0
    """How long other questions wait after a pod was sent to wait."""

    @property
    def listen(self) -> tuple[str, int]:
        """Return host and port to listen on."""
        return host_and_port(self.address)


def read_settings(text: str) -> ExtenderSettings:
    """Return the settings in a text; raise Refused with every fault of the cells, or with one of the settings."""
    document = parse_text(text)
    cells = config_of(document, text)
    keys = document if isinstance(document, Mapping) else {}
    found = ExtenderSettings(
        cells,
        str(keys.get("kubeApiServerAddress") or ""),
        str(keys.get("kubeConfigFilePath") or ""),
        str(keys.get("webServerAddress") or ADDRESS_DEFAULT),
        _number(keys, "forcePodBindThreshold", FORCE_BIND_DEFAULT),
        min(_number(keys, "waitingPodSchedulingBlockMilliSec", 0), BLOCK_MAX_MS),
    )
    host_and_port(found.address)
    return found


def host_and_port(address: str) -> tuple[str, int]:
    """Return the parts of `HOST:PORT`, `[ADDRESS]:PORT` or `:PORT`; refuse anything else."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        message = f"{address!r} is no address to listen on"
        raise Refused("BadConfigurationError", message, "write HOST:PORT, or :9096 for every address")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  HiveD listens so; the page names the network policy


def _number(keys: Mapping[str, Any], name: str, default: int) -> int:
    value = str(keys.get(name) or default)
    if not value.isascii() or not value.isdigit():
        raise Refused("BadConfigurationError", f"{name}: {value[:40]!r} is not a whole number from 0 on", "correct it")
    return int(value)
