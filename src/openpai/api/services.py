"""The ports that the API uses, and its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from openpai.api.plugin_pages import PluginPage
from openpai.lifecycle.model import AttemptKey
from openpai.ports.accounts import AccountStore
from openpai.ports.alerts import AlertStore, MessageSender
from openpai.ports.applications import Applications
from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import SettingsStore
from openpai.ports.code import CodeStore
from openpai.ports.identity import PasswordDirectory, Sealer, SingleSignOn
from openpai.ports.kept_work import KeptWork
from openpai.ports.logs import LogReader
from openpai.ports.market import Market
from openpai.ports.metrics import Metrics
from openpai.ports.platform import Platform
from openpai.ports.queries import JobQueries
from openpai.ports.storages import Storages
from openpai.ports.usage import UsageStore


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second, and how many at once after a pause."""

    per_s: float
    burst: int


@dataclass(frozen=True, slots=True)
class SshGateway:
    """What clients need to know of the SSH gateway of this server."""

    port: int
    host_key: str
    """The public host key, as a line of `known_hosts` has it after the name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the API. The rates stop floods; no ordinary client should reach them."""

    version: str
    requests: Rate = field(default=Rate(1_000, 4_000))
    """The requests of one user, or of one address without a login."""
    lists: Rate = field(default=Rate(100, 200))
    """The requests of one user for the list of jobs."""
    login_failures_per_min: int = 5
    """Failed logins per minute for one user name from one address."""
    login_failures_per_min_of_address: int = 60
    login_failures_per_min_of_user: int = 30
    """From addresses that the user has not logged in from, all together."""
    body_max_bytes: int = 1024 * 1024
    upload_max_bytes: int = 1024**4
    """The largest file that may be put into a storage."""
    token_lifetime_s: int = 86_400
    """How long a login lasts without an `expiration`."""
    token_cache_ms: int = 3_000
    """How long a token that another server revoked may still be accepted."""
    logs_requests: bool = False
    """Whether each request leaves a line in the server's log."""
    shells: int = 1_000
    """Open sessions in tasks."""
    shells_per_user: int = 250
    shell_idle_s: float = 4 * 3600.0
    """How long a session in a task may be without a byte in either direction."""
    keep_alive_s: float = 15.0
    """How long a followed log may be silent before a comment is sent to keep the connection alive."""


SettingSource = Literal["option", "environment", "file", "default"]


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """A setting of this server, as administrators may see it."""

    name: str
    environment: str
    value: str | float | bool | None
    default: str | float | bool | None
    source: SettingSource
    file: str
    """The configuration file that has it; empty where another source does."""
    meaning: str
    choices: tuple[str, ...] = ()
    is_hidden: bool = False
    """Whether a part of the value is not shown, since it may be secret."""


@dataclass(frozen=True, slots=True)
class SignOn:
    """Identity providers besides local passwords, and which pages may receive a login."""

    sso: SingleSignOn | None = None
    directory: PasswordDirectory | None = None
    public_url: str = ""
    """Where browsers reach this platform; empty: where the request came to."""
    origins: tuple[str, ...] = ()
    """Other origins, such as https://portal.example.org, to which a login may return."""
    is_group_required: bool = False
    """Whether people who are in no group of the platform are refused."""


def _no_gateway() -> SshGateway | None:
    return None


def _no_applications() -> Applications | None:
    return None


async def _no_complaint() -> None:
    return None


async def _every_log_is_here(key: AttemptKey) -> None:
    """Find nothing elsewhere."""


async def _all_work_is_here() -> None:
    """Find nothing elsewhere."""


async def _nothing_to_check() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Services:
    """What the API uses, each as a port."""

    platform: Platform
    jobs: JobQueries
    users: AccountStore
    logs: LogReader
    clock: Clock
    settings: Settings
    is_ready: Callable[[], bool] = field(default=lambda: True)
    """Whether the server can take requests: false while it starts and while it stops."""
    check_database: Callable[[], Awaitable[None]] = field(default=_no_complaint, kw_only=True)
    """Raises Unavailable while the database does not answer; cheap enough for every request."""
    leads: Callable[[], bool] = field(default=lambda: True, kw_only=True)
    """Whether this server runs the jobs."""
    readiness: Callable[[], Awaitable[Mapping[str, str]]] = field(default=_nothing_to_check, kw_only=True)
    """Returns each part that the platform needs with its current problem, empty for none."""
    cluster_settings: SettingsStore = field(kw_only=True)
    """What administrators set while the platform runs."""
    usage: UsageStore = field(kw_only=True)
    """Quotas, past use, and the audit log."""
    sign_on: SignOn | None = field(default=None, kw_only=True)
    """Other identity providers."""
    storages: Storages = field(kw_only=True)
    market: Market = field(kw_only=True)
    find_log: Callable[[AttemptKey], Awaitable[None]] = field(default=_every_log_is_here, kw_only=True)
    """Raises NotLeading if the leader has the log of an attempt, and this server does not."""
    find_work: Callable[[], Awaitable[None]] = field(default=_all_work_is_here, kw_only=True)
    """Raises NotLeading if the leader has what tasks left, and this server has not."""
    work: KeptWork | None = field(default=None, kw_only=True)
    """What tasks left in their working directories, where that is kept."""
    portal: Path | None = field(default=None, kw_only=True)
    """Where the built web portal is, if it may be there."""
    code: CodeStore | None = field(default=None, kw_only=True)
    """The code that users send along with their jobs."""
    metrics: Metrics | None = field(default=None, kw_only=True)
    """What is measured."""
    ssh: Callable[[], SshGateway | None] = field(default=_no_gateway, kw_only=True)
    """The SSH gateway, if this server has one."""
    applications: Callable[[], Applications | None] = field(default=_no_applications, kw_only=True)
    """The entrance to applications, if this server has one."""
    alerts: AlertStore = field(kw_only=True)
    sender: MessageSender = field(kw_only=True)
    """Sends messages, and says which addresses the webhooks of users may reach."""
    server_settings: tuple[ServerSetting, ...] = field(default=(), kw_only=True)
    """With what this server was started."""
    plugin_pages: tuple[PluginPage, ...] = field(default=(), kw_only=True)
    """The pages of other servers that the portal shows."""
    sealer: Sealer = field(kw_only=True)
    """Encrypts and authenticates state that clients carry for the server."""
