"""The answers of the platform as frozen values.

Names are in snake case and times are milliseconds since the epoch. Fields that a newer server adds are in
`document`, the unchanged answer, which `--json` prints.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from openpai.client.model.alerts import Alert as Alert
    from openpai.client.model.audit import AuditEntry as AuditEntry
    from openpai.client.model.audit import AuditPage as AuditPage
    from openpai.client.model.clusters import ClusterConfig as ClusterConfig
    from openpai.client.model.clusters import Resources as Resources
    from openpai.client.model.clusters import VirtualCluster as VirtualCluster
    from openpai.client.model.groups import Group as Group
    from openpai.client.model.job_events import Estimate as Estimate
    from openpai.client.model.job_events import Event as Event
    from openpai.client.model.job_events import Wait as Wait
    from openpai.client.model.jobs import JobDetail as JobDetail
    from openpai.client.model.jobs import JobPage as JobPage
    from openpai.client.model.jobs import JobSummary as JobSummary
    from openpai.client.model.jobs import Result as Result
    from openpai.client.model.jobs import Results as Results
    from openpai.client.model.jobs import Submitted as Submitted
    from openpai.client.model.logs import LogPiece as LogPiece
    from openpai.client.model.nodes import Amount as Amount
    from openpai.client.model.nodes import Held as Held
    from openpai.client.model.nodes import Holding as Holding
    from openpai.client.model.nodes import NodeDetail as NodeDetail
    from openpai.client.model.nodes import NodeView as NodeView
    from openpai.client.model.quotas import Quota as Quota
    from openpai.client.model.reports import Report as Report
    from openpai.client.model.reports import Use as Use
    from openpai.client.model.storages import FilePage as FilePage
    from openpai.client.model.storages import FileView as FileView
    from openpai.client.model.storages import StorageTest as StorageTest
    from openpai.client.model.storages import StorageView as StorageView
    from openpai.client.model.tasks import FINAL_STATES as FINAL_STATES
    from openpai.client.model.tasks import SUCCEEDED as SUCCEEDED
    from openpai.client.model.tasks import SshTask as SshTask
    from openpai.client.model.tasks import TaskView as TaskView
    from openpai.client.model.tokens import Checked as Checked
    from openpai.client.model.tokens import Login as Login
    from openpai.client.model.tokens import NewToken as NewToken
    from openpai.client.model.tokens import TokenView as TokenView
    from openpai.client.model.users import User as User

# Creating a data class takes half a millisecond, and each command of the terminal needs only a few of them.
_PLACE: Final = {
    "alerts": "Alert",
    "audit": "AuditEntry AuditPage",
    "clusters": "ClusterConfig Resources VirtualCluster",
    "groups": "Group",
    "job_events": "Estimate Event Wait",
    "jobs": "JobDetail JobPage JobSummary Result Results Submitted",
    "logs": "LogPiece",
    "nodes": "Amount Held Holding NodeDetail NodeView",
    "quotas": "Quota",
    "reports": "Report Use",
    "storages": "FilePage FileView StorageTest StorageView",
    "tasks": "FINAL_STATES SUCCEEDED SshTask TaskView",
    "tokens": "Checked Login NewToken TokenView",
    "users": "User",
}


def __getattr__(name: str) -> Any:
    for place, names in _PLACE.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{place}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
