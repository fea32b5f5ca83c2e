"""The requests of the client about quotas, reports and the audit log."""

from __future__ import annotations

import json

import httpx
import pytest

from openpai.protocol.errors import Refused

REPORT = httpx.Response(200, json={"rows": [], "total": {}})
ENTRIES = httpx.Response(200, json={"entries": [], "next": 7})
LAST = httpx.Response(200, json={"entries": [], "next": None})


def test_a_report_may_be_by_one_word_and_for_several_people(scripted):
    server = scripted(REPORT)
    pai = server.client()
    pai.report(by="user", users="ann")
    pai.report(by=["user", "vc"], users=["ann", "bob"], virtual_clusters=["vision"])
    pai.report_csv(by="vc", users=["ann", "bob"], virtual_clusters="vision")
    first, second, table = (dict(request.url.params) for request in server.requests)
    assert first == {"by": "user", "user": "ann"}
    assert second == {"by": "user,vc", "user": "ann,bob", "vc": "vision"}
    assert table == {"by": "vc", "user": "ann,bob", "vc": "vision", "format": "csv"}


def test_every_page_of_the_audit_log_is_asked_for_with_the_same_filters(scripted):
    server = scripted(ENTRIES, LAST)
    assert list(server.client().all_audit(page=5, actor="ann", from_="2026-01-01")) == []
    first, second = (dict(request.url.params) for request in server.requests)
    assert first == {"actor": "ann", "from": "2026-01-01", "limit": "5"}
    assert second == first | {"before": "7"}


def test_a_change_of_a_quota_names_only_what_changes(scripted):
    server = scripted(httpx.Response(201, json={}))
    pai = server.client()
    pai.change_quota("vision", "ann", gpus_running=8, gpu_hours_per_month=None)
    (request,) = server.requests
    assert (request.method, json.loads(request.content)) == (
        "PUT",
        {"patch": True, "virtualCluster": "vision", "user": "ann", "gpusRunning": 8, "gpuHoursPerMonth": None},
    )


def test_an_unknown_filter_is_refused(scripted):
    server = scripted(LAST)
    with pytest.raises(Refused, match="is not a filter of the audit log"):
        list(server.client().all_audit(user="ann"))
    assert server.requests == []
