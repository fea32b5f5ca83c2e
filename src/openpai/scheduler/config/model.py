"""The values of a HiveD cluster configuration, and the parser of its text.

The format is HiveD's own. What HiveD crashes on or silently ignores is refused here: all faults at once, each with its
key and how to correct it. What is odd but harmless is a warning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import Any, Final

import yaml

from openpai.protocol.errors import Fault, Refused
from openpai.protocol.syntax import TOO_DEEP
from openpai.protocol.wording import plural
from openpai.scheduler.model import Order


@dataclass(frozen=True, slots=True)
class PinnedSpec:
    """A physical cell that a virtual cluster may ask for by name."""

    id: str
    chain: str
    level: int
    index: int
    """Which of the chain's cells of that level, counted from 0 in the order of the file."""


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """All physical cells with the same top cell type. Levels count from 1, the leaf cell (one device)."""

    name: str
    types: tuple[str, ...]
    """Cell types, leaf first: `types[level - 1]`."""
    children: tuple[int, ...]
    """How many cells of the level below one cell of a level holds: `children[level - 1]`; 0 for leaf cells."""
    node_level: int
    tops: int
    nodes: tuple[str, ...]
    """Names of the nodes, in the order of the tree."""
    devices: tuple[tuple[int, ...], ...]
    """Device numbers of each node, in the order of the tree."""
    inner: tuple[tuple[tuple[str, ...], ...], ...]
    """Own addresses of the cells inside each node, by level from the leaf up to below the node."""
    upper: tuple[tuple[str, ...], ...]
    """Full addresses of the cells from node level up to the top."""
    _leaves: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Count once what every look at a cell asks for."""
        object.__setattr__(self, "_leaves", (1, *accumulate(self.children[1:], mul, initial=1)))

    @property
    def leaf_type(self) -> str:
        """Return the type of the chain's devices."""
        return self.types[0]

    @property
    def top(self) -> int:
        """Return the level of the top cells."""
        return len(self.types)

    def leaves(self, level: int) -> int:
        """Return how many devices a cell of that level has."""
        return self._leaves[level]

    def count(self, level: int) -> int:
        """Return how many cells of that level the chain has."""
        return self.tops * self.leaves(self.top) // self.leaves(level)


@dataclass(frozen=True, slots=True)
class QuotaSpec:
    """Cells of one type promised to a virtual cluster."""

    chain: str
    level: int
    number: int


@dataclass(frozen=True, slots=True)
class VirtualSpec:
    """The cells promised to a virtual cluster."""

    name: str
    quota: tuple[QuotaSpec, ...] = ()
    pinned: tuple[str, ...] = ()
    order: Order | None = None
    """The order of its queue, if the configuration says."""
    is_interruptible: bool = False
    """Whether its jobs may be interrupted unless they say otherwise."""
    moves_jobs: bool = False
    """Whether its interruptible jobs may be moved to make whole cells for its other jobs."""


@dataclass(frozen=True, slots=True)
class SkuSpec:
    """One device with its share of the node: the unit in which jobs are sized."""

    gpus: int
    cpus: int
    memory_mb: int


@dataclass(frozen=True)
class HivedConfig:
    """A configuration without faults."""

    chains: Mapping[str, ChainSpec]
    virtual_clusters: Mapping[str, VirtualSpec]
    pinned: Mapping[str, PinnedSpec] = field(default_factory=dict)
    skus: Mapping[str, SkuSpec] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    source: str | Mapping[str, Any] = field(default="", repr=False)
    """The text it was read from, or the document that was planned."""

    @cached_property
    def text(self) -> str:
        """Return it as text in HiveD's format; a planned one becomes text only when somebody asks."""
        if isinstance(self.source, str):
            return self.source
        # A thousand nodes take the C library a tenth of the time.
        dumper = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper
        return yaml.dump(self.source, Dumper=dumper, sort_keys=False)

    def has_cells_of(self, other: HivedConfig) -> bool:
        """Return whether cells and promises are those of another configuration; only SKUs may differ then."""
        mine, others = (self.chains, self.virtual_clusters), (other.chains, other.virtual_clusters)
        return mine == others and self.pinned == other.pinned


class InvalidConfig(Refused):
    """A cluster configuration has faults; all of them are in `faults`."""

    faults: tuple[Fault, ...]

    def __init__(self, faults: Sequence[Fault]) -> None:
        count = plural(len(faults), "fault")
        message = "\n".join(fault.describe() for fault in faults)
        super().__init__(
            "BadConfigurationError",
            f"the cluster configuration has {count}:\n{message}",
            "correct the keys named above; nothing was changed",
        )
        self.faults = tuple(faults)


SETTINGS: Final = (
    "kubeApiServerAddress",
    "kubeConfigFilePath",
    "webServerAddress",
    "forcePodBindThreshold",
    "waitingPodSchedulingBlockMilliSec",
)
"""HiveD's settings for Kubernetes; accepted and ignored."""
_DEPTH_MAX: Final = 200
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]')
_TOO_DEEP: Final = "this is nested too deeply to be a configuration; correct its brackets and dashes"


class _TextLoader(yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader):  # type: ignore[misc]
    """Reads every scalar as text, so that an address such as 10.20 stays what was written."""


def _pairs(items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in items:
        if not isinstance(key, str):
            raise InvalidConfig((Fault("", "a list or a mapping is used as a key; keys are words"),))
        if key in found:
            message = f"the key {key!r} is given twice in one place; remove one of the two"
            raise InvalidConfig((Fault("", message),))
        found[key] = value
    return found


def _mapping(loader: Any, node: Any) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    own = []
    for key, value in node.value:
        name, built = loader.construct_object(key, True), loader.construct_object(value, True)
        if name == "<<":
            for piece in built if isinstance(built, list) else [built]:
                if not isinstance(piece, dict):
                    message = "<< takes a mapping, or a list of mappings; give it one"
                    raise InvalidConfig((Fault("", message, node.start_mark.line + 1),))
                merged = {**piece, **merged}
        else:
            own.append((name, built))
    return {**merged, **_pairs(own)}


_TextLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def is_too_deep(text: str) -> bool:
    """Return whether YAML is nested too deeply to be loaded: the C library would overflow the stack of the process."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_TextLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _DEPTH_MAX:
                    return True
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError as error:
        return getattr(error, "problem", None) == TOO_DEEP  # loading it says what else is wrong, and goes no deeper
    return False


def _depth(text: str) -> int:
    """Return how deep the brackets outside quotes are nested; which parser notices that first differs by Python."""
    depth = deepest = 0
    for found in _BRACKETS.finditer(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        deepest = max(deepest, depth)
    return deepest


def parse_text(text: str) -> object:
    """Return the document in `text` (YAML, or JSON, which is read faster); raise InvalidConfig if it is neither."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_pairs)
        except ValueError:  # a YAML flow mapping may begin the same way
            if _depth(text) > _DEPTH_MAX:
                raise InvalidConfig((Fault("", _TOO_DEEP),)) from None
        except RecursionError:
            raise InvalidConfig((Fault("", _TOO_DEEP),)) from None
    if is_too_deep(text):
        raise InvalidConfig((Fault("", _TOO_DEEP),))
    try:
        return yaml.load(text, Loader=_TextLoader)  # noqa: S506  it builds plain text only
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        problem = getattr(error, "problem", None) or "cannot be read"
        fault = Fault("", f"this is not YAML: {problem}; correct the text there", None if line is None else line + 1)
        raise InvalidConfig((fault,)) from error
    except RecursionError:
        raise InvalidConfig((Fault("", _TOO_DEEP),)) from None
