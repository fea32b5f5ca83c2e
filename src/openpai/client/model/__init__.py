"""The answers of the platform as frozen values.

Names are in snake case and times are milliseconds since the epoch. Fields that a newer server adds are in
`document`, the unchanged answer, which `--json` prints.
"""

# ruff: noqa: F403 - type checkers read all names; at run time each is loaded when it is asked for
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from openpai.client.model.alert_channels import *
    from openpai.client.model.alert_rules import *
    from openpai.client.model.alerts import *
    from openpai.client.model.announcements import *
    from openpai.client.model.applications import *
    from openpai.client.model.audit import *
    from openpai.client.model.budgets import *
    from openpai.client.model.exit_specs import *
    from openpai.client.model.groups import *
    from openpai.client.model.job_events import *
    from openpai.client.model.jobs import *
    from openpai.client.model.market import *
    from openpai.client.model.metrics import *
    from openpai.client.model.nodes import *
    from openpai.client.model.plugin_pages import *
    from openpai.client.model.quotas import *
    from openpai.client.model.reports import *
    from openpai.client.model.ssh_keys import *
    from openpai.client.model.storages import *
    from openpai.client.model.sweeps import *
    from openpai.client.model.tasks import *
    from openpai.client.model.tokens import *
    from openpai.client.model.users import *
    from openpai.client.model.virtual_clusters import *
    from openpai.client.model.what_if import *

# Creating a data class takes half a millisecond, and each command of the terminal needs only a few of them.
_PLACE: Final = {
    "alert_channels": "AlertChannel",
    "alert_rules": "AlertRule AlertRuleChange AlertRuleTest",
    "alerts": "Alert AlertAction AlertMessage Silence Subscription",
    "announcements": "Announcement",
    "applications": "Application ApplicationTicket",
    "audit": "AuditEntry AuditPage",
    "virtual_clusters": "ClusterConfig PromisePreview QueuedJob Resources Share VcQueue VirtualCluster",
    "exit_specs": "ExitSpec ExitSpecChange ExitSpecTest",
    "groups": "Group",
    "job_events": "Estimate Event JobChanges Wait",
    "jobs": "CheckedJob JobDetail JobPage JobSummary Result Results Submitted",
    "market": "MarketCategory MarketDetail MarketEdit MarketItem MarketPage MarketRevision MarketRun MarketSettings",
    "metrics": "JobEfficiency MetricChart MetricInfo MetricSeries ResourceEfficiency RoleEfficiency",
    "nodes": "Amount Held Holding NodeCheck NodeDetail NodeView",
    "plugin_pages": "PluginPage",
    "budgets": "Budget",
    "quotas": "Quota",
    "reports": "Report Use WeeklyReport",
    "ssh_keys": "SshKey",
    "storages": "FilePage FileView StorageTest StorageView",
    "sweeps": "SubmittedSweep Sweep SweepJob",
    "tasks": "Cause FINAL_STATES GpuUse LogHit LogPiece SUCCEEDED SshGatewayTask SshTask TaskProgress TaskUse TaskView",
    "tokens": "Checked Login NewToken TokenView",
    "users": "User",
    "what_if": "Replayed ReplayedVc WhatIf",
}


def __getattr__(name: str) -> Any:
    for place, names in _PLACE.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{place}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
