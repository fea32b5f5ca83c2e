"""All operations of both clients, from the files of `calls`.

A new noun is a class whose methods are marked as `client.calls_core` says; it is added to the bases here.
"""

from __future__ import annotations

from openpai.client.calls.alerts import Alerts
from openpai.client.calls.audit import Audit
from openpai.client.calls.clusters import Clusters
from openpai.client.calls.groups import Groups
from openpai.client.calls.job_changes import JobChanges
from openpai.client.calls.job_events import JobEvents
from openpai.client.calls.jobs import Jobs
from openpai.client.calls.nodes import Nodes
from openpai.client.calls.quotas import Quotas
from openpai.client.calls.reports import Reports
from openpai.client.calls.scheduler import Scheduler
from openpai.client.calls.storages import Storages
from openpai.client.calls.tokens import Tokens
from openpai.client.calls.users import Users


class Nouns(
    Jobs, JobChanges, JobEvents, Tokens, Users, Groups, Nodes, Clusters, Scheduler,
    Storages, Quotas, Reports, Audit, Alerts,
):  # fmt: skip
    """The methods of a client, a class per noun."""
