"""The platform as a Python library: log in, submit a job file, watch it, read its logs, stop it.

    from openpai.client import Client

    with Client.from_environment() as pai:
        job = pai.submit(Path("hello.yaml").read_bytes())
        print(pai.wait(job.full_name).state)

Jobs are named `user~job`, or just `job` for one's own. Every error is a Refused, an Unavailable or a Broken of
`openpai.protocol.errors`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import httpx

from openpai.client import credentials as kept
from openpai.client.calls.alert_channels import AlertChannels
from openpai.client.calls.alert_rules import AlertRules
from openpai.client.calls.alerts import Alerts
from openpai.client.calls.announcements import Announcements
from openpai.client.calls.applications import Applications
from openpai.client.calls.audit import Audit
from openpai.client.calls.budgets import Budgets
from openpai.client.calls.code import Code
from openpai.client.calls.exit_specs import ExitSpecs
from openpai.client.calls.groups import Groups
from openpai.client.calls.job_changes import JobChanges
from openpai.client.calls.job_events import JobEvents
from openpai.client.calls.jobs import Jobs
from openpai.client.calls.market import Market
from openpai.client.calls.metrics import Metrics
from openpai.client.calls.nodes import Nodes
from openpai.client.calls.plugin_pages import PluginPages
from openpai.client.calls.quotas import Quotas
from openpai.client.calls.reports import Reports
from openpai.client.calls.scheduler import Scheduler
from openpai.client.calls.settings import Settings
from openpai.client.calls.ssh_keys import SshKeys
from openpai.client.calls.storages import Storages
from openpai.client.calls.sweeps import Sweeps
from openpai.client.calls.tokens import Tokens
from openpai.client.calls.users import Users
from openpai.client.calls.virtual_clusters import VirtualClusters
from openpai.client.calls.what_if import WhatIfs
from openpai.client.calls_core import Call, finished
from openpai.client.connection import Connection
from openpai.client.retry import TIMEOUT_S, options

if TYPE_CHECKING:
    from openpai.client.files import StorageFiles
    from openpai.client.logs import AttemptLogs


T = TypeVar("T")
Http = TypeVar("Http", httpx.BaseTransport, httpx.AsyncBaseTransport)


class Connected(
    Jobs, JobChanges, JobEvents, Applications, Tokens, Users, Groups, Nodes, VirtualClusters, Scheduler, WhatIfs,
    Storages, Quotas, Budgets, Reports, Audit, Alerts, AlertRules, AlertChannels, ExitSpecs, Code, SshKeys, Sweeps,
    Metrics, Market, Settings, Announcements, PluginPages,
    Generic[Http],
):  # fmt: skip
    """What both clients are: the methods of all nouns over a connection to one platform for one user.

    A new noun is a class whose methods are marked as `client.calls_core` says; it is added to the bases here.
    """

    _http: ClassVar[Callable[..., httpx.Client | httpx.AsyncClient]]
    _sleep: ClassVar[Any]

    def __init__(
        self,
        url: str = kept.URL_DEFAULT,
        token: str | None = None,
        *,
        user: str | None = None,
        timeout_s: float = TIMEOUT_S,
        transport: Http | None = None,
        sleep: Callable[[float], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = kept.normal_url(url)
        self.user = user
        self.clock = clock
        http = self._http(**options(self.url, token, timeout_s), transport=transport)
        self.wire = Connection(self.url, http, sleep or self._sleep, clock)

    @classmethod
    def from_environment(cls, url: str | None = None, *, timeout_s: float = TIMEOUT_S) -> Self:
        """Return a client with the credentials of the latest `pai login`, or of `PAI_URL` and `PAI_TOKEN`."""
        found = kept.load(url)
        return cls(found.url, found.token, user=found.user, timeout_s=timeout_s)


class Client(Connected[httpx.BaseTransport]):
    """A connection to one platform for one user. Close it, or use it in a `with`."""

    is_blocking = True
    _http = httpx.Client
    _sleep = staticmethod(time.sleep)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        finished(self.wire.close())

    def ask(self, call: Call[T]) -> T:
        """Send one request and return its answer; for an operation without a method here, create a `Call`."""
        return finished(self.wire.ask(call))

    def files(self, storage: str) -> StorageFiles:
        """Return the files of a storage, to be uploaded and downloaded."""
        from openpai.client.files import StorageFiles

        return StorageFiles(self.wire, storage)

    def logs(
        self, name: str, role: str, index: int, *, attempt: int | None = None, job_attempt: int | None = None
    ) -> AttemptLogs:
        """Return the logs of a task attempt, the newest unless one is named; raise NoTaskLogError if it never began."""
        from openpai.client.logs import AttemptLogs

        return AttemptLogs(self.wire, finished(self.log_places(name, role, index, attempt, job_attempt)))
