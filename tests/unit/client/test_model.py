"""The client's model reads keys that the documents of the API have, and values of the kinds that they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib import import_module
from pkgutil import iter_modules
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from typing_extensions import is_typeddict

from openpai.client import model
from openpai.client.model import reading
from openpai.client.model.reading import SOURCE, Answer, Source
from openpai.wire import (
    alert_channels,
    alert_rules,
    alerts,
    announcements,
    applications,
    audit,
    budgets,
    exit_specs,
    exits,
    groups,
    job_events,
    jobs,
    market,
    metrics,
    nodes,
    plugin_pages,
    quotas,
    reports,
    revisions,
    ssh_keys,
    storages,
    sweeps,
    tasks,
    tokens,
    users,
    virtual_clusters,
    what_if,
)

DOCUMENTS = {
    "After": jobs.JobAfter,
    "Alert": alerts.Alert,
    "Amount": nodes.Capacity,
    "Application": applications.JobApplication,
    "ApplicationTicket": applications.ApplicationTicket,
    "AuditEntry": audit.AuditEntry,
    "AuditPage": audit.AuditPage,
    "Cause": exits.FirstCause,
    "Checked": tokens.TokenInfo,
    "ClusterConfig": virtual_clusters.ClusterConfig,
    "Estimate": job_events.Estimate,
    "Event": job_events.Event,
    "FilePage": storages.FileList,
    "FileView": storages.FileEntry,
    "AlertChannel": alert_channels.AlertChannel,
    "AlertRule": alert_rules.AlertRule,
    "AlertRuleChange": alert_rules.AlertRuleChange,
    "AlertRuleTest": alert_rules.AlertRuleTest,
    "PastAlert": alert_rules.PastAlert,
    "PastAction": alert_rules.PastAction,
    "AlertAction": alerts.AlertAction,
    "AlertMessage": alerts.AlertMessage,
    "Silence": alerts.Silence,
    "Subscription": alerts.Subscription,
    "ExitSpec": exit_specs.ExitSpecDetail,
    "ExitSpecChange": exit_specs.ExitSpecChange,
    "ExitSpecTest": exit_specs.ExitSpecTest,
    "PastFailure": exit_specs.PastFailure,
    "Group": groups.Group,
    "MarketCategory": market.MarketCategory,
    "MarketDetail": market.MarketDetail,
    "MarketEdit": market.MarketEdit,
    "MarketItem": market.MarketItem,
    "MarketPage": market.MarketPage,
    "MarketParameter": market.MarketParameter,
    "MarketRevision": market.MarketRevision,
    "MarketRun": market.MarketRun,
    "MarketSettings": market.MarketSettings,
    "Held": nodes.Holdings,
    "JobChanges": job_events.JobChanges,
    "Holding": nodes.Holding,
    "JobDetail": jobs.JobDetail,
    "JobEfficiency": metrics.JobEfficiency,
    "JobSummary": jobs.JobSummary,
    "Login": tokens.Login,
    "MetricChart": metrics.MetricChart,
    "MetricInfo": metrics.MetricInfo,
    "MetricSeries": metrics.MetricSeries,
    "NewToken": tokens.NewToken,
    "NodeDetail": nodes.NodeDetail,
    "NodeCheck": nodes.NodeCheck,
    "NodeView": nodes.Node,
    "Budget": budgets.Budget,
    "ResourceEfficiency": metrics.ResourceEfficiency,
    "RoleEfficiency": metrics.RoleEfficiency,
    "Quota": quotas.OwnQuota,
    "Report": reports.UsageReport,
    "WeeklyReport": reports.WeeklyReport,
    "WhatIf": what_if.WhatIf,
    "PluginPage": plugin_pages.PluginPage,
    "Announcement": announcements.Announcement,
    "PromisePreview": virtual_clusters.PromisePreview,
    "Share": virtual_clusters.Share,
    "Replayed": what_if.Replayed,
    "ReplayedVc": what_if.ReplayedVc,
    "Resources": virtual_clusters.Resources,
    "Accuracy": virtual_clusters.Accuracy,
    "Moves": virtual_clusters.Moves,
    "Restart": jobs.Restart,
    "Result": jobs.BulkResult,
    "Results": jobs.BulkResults,
    "SshGatewayTask": job_events.SshGatewayAddress,
    "SshKey": ssh_keys.SshKey,
    "SshTask": job_events.SshAddress,
    "LogHit": tasks.LogSearchHit,
    "TaskUse": tasks.TaskUse,
    "TaskProgress": tasks.TaskProgress,
    "GpuUse": tasks.GpuUse,
    "StorageTest": storages.StorageTest,
    "Revised": revisions.Revised,
    "Revision": exit_specs.ExitSpecChange,
    "StorageView": storages.StorageDetail,
    "CheckedJob": jobs.CheckedJob,
    "Submitted": jobs.Submitted,
    "SubmittedSweep": sweeps.SubmittedSweep,
    "Sweep": sweeps.Sweep,
    "SweepJob": sweeps.SweepJob,
    "TaskView": tasks.TaskStatus,
    "TokenView": tokens.Token,
    "Use": reports.UsageRow,
    "User": users.User,
    "VcQueue": virtual_clusters.VcQueue,
    "QueuedJob": virtual_clusters.QueuedJob,
    "VirtualCluster": virtual_clusters.VirtualCluster,
    "Wait": job_events.Wait,
    "Lent": job_events.Lent,
    "WorkKept": tasks.KeptTaskFiles,
}
# Only OpenPAI's own servers send this one.
OF_OTHERS = {("Alert", ("annotations", "description"))}
KINDS = {
    reading.as_text: {str},
    reading.as_text_if_any: {str},
    reading.as_moment: {str},
    reading.as_number: {int},
    reading.as_amount: {int, float},
    reading.as_real: {int, float},
    reading.as_real_if_any: {int, float},
    reading.as_texts: {list},
    bool: {bool},
}


def kinds(hint: Any) -> Iterable[Any]:
    """Return the plain types that a value of an annotated type may have."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return [kind for part in get_args(hint) for kind in kinds(part)]
    if origin is Literal:
        return [type(value) for value in get_args(hint)]
    if hint is NoneType:
        return []
    if origin is not None:
        return [dict if issubclass(origin, Mapping) else list]
    return [hint]


def found(document: Any, path: tuple[str, ...]) -> Any:
    """Return the type of what is at a path; raise KeyError where the document has no such key."""
    for key in path:
        if not is_typeddict(document):
            # What is free to have any keys cannot be checked further.
            assert get_origin(document) is not None, path
            assert issubclass(get_origin(document), Mapping), path
            return get_args(document)[1]
        hint = get_type_hints(document)[key]
        documents = [kind for kind in kinds(hint) if is_typeddict(kind)]
        document = documents[0] if documents else hint
    return document


def sources(kind: type) -> list[Source]:
    return [each.metadata[SOURCE] for each in fields(kind) if SOURCE in each.metadata]


ANSWERS = {
    found.__name__: found
    for module in iter_modules(model.__path__)
    for found in vars(import_module(f"{model.__name__}.{module.name}")).values()
    if isinstance(found, type) and issubclass(found, Answer) and found is not Answer
}


def test_each_class_of_the_model_has_its_document():
    assert ANSWERS.keys() == DOCUMENTS.keys()


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_each_key_that_is_read_is_one_of_the_document(name):
    for source in sources(ANSWERS[name]):
        for path in source.paths:
            if (name, path) not in OF_OTHERS:
                hint = found(DOCUMENTS[name], path)
                expected = KINDS.get(source.convert)
                assert expected is None or set(kinds(hint)) & expected, (path, hint)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_an_inner_value_is_read_from_the_document_that_is_there(name):
    for source in sources(ANSWERS[name]):
        if isinstance(source.kind, type) and source.paths:
            inner = [kind for kind in inner_kinds(found(DOCUMENTS[name], source.paths[0])) if is_typeddict(kind)]
            # The total of a report is a row that is not about anybody.
            is_total = (name, source.paths) == ("Report", (("total",),))
            expected = reports.UsageTotal if is_total else DOCUMENTS[source.kind.__name__]
            assert inner == [expected], source.paths


def inner_kinds(hint: Any) -> list[Any]:
    return [hint, *(kind for part in get_args(hint) for kind in inner_kinds(part))]


def test_a_key_that_no_document_has_would_be_found():
    with pytest.raises(KeyError):
        found(jobs.JobDetail, ("jobStatus", "virtualClutser"))
    assert list(kinds(found(jobs.JobDetail, ("jobStatus", "attemptId")))) == [int]


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_what_an_empty_document_lacks_is_empty_or_refused(name):
    given = {each.name: "a" for each in fields(ANSWERS[name]) if SOURCE not in each.metadata}
    if any(source.is_needed for source in sources(ANSWERS[name])):
        with pytest.raises(KeyError):
            ANSWERS[name].read({}, **given)
    else:
        ANSWERS[name].read({}, **given)
