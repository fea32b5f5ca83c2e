"""What the commands about sharing print, ask for, and refuse."""

from __future__ import annotations

import json

import pytest

from openpai.cli.cluster_tables import BAD, BORROWED, FREE, RESERVED, USED, bar, cell_lines


def resources(gpu, cpu=0):
    return {"cpu": cpu, "memory": 1024 * cpu, "gpu": gpu, "vCores": cpu, "GPUs": gpu}


VISION = {
    "resourcesUsed": resources(8, 16),
    "resourcesGuaranteed": resources(16, 32),
    "resourcesTotal": resources(24, 48),
    "resourcesBorrowed": resources(2, 4),
    "resourcesLent": resources(1, 2),
    "skus": {"A100": 24},
    "runningGangs": 3,
    "waitingGangs": 1,
    "order": "fair",
    "interruptible": False,
    "moveJobs": False,
}
EMPTY = {key: resources(0) for key in VISION if key.startswith("resources")} | {
    "skus": {},
    "runningGangs": 0,
    "waitingGangs": 0,
    "order": "fifo",
    "interruptible": True,
    "moveJobs": False,
}
NODE = {
    "name": "gpu-01",
    "healthy": True,
    "gpus": {"total": 8, "used": 3},
    "cpus": {"total": 64, "used": 6},
    "memoryMB": {"total": 65536, "used": 1024},
    "tasks": 2,
    "drained": False,
    "badDevices": [],
}
CONFIG = {"promises": "vision: 3 nodes", "hived": "virtualClusters: {}\n", "version": 4, "problems": [], "demoted": []}


def leaf(state, priority=-2, health="Healthy", **more):
    return {"cellType": "A100", "cellState": state, "cellPriority": priority, "cellHealthiness": health, **more}


@pytest.mark.parametrize(
    ("used", "good", "total", "drawn"),
    [
        (0, 10, 10, FREE * 10),
        (5, 10, 10, USED * 5 + FREE * 5),
        (1, 1000, 1000, USED + FREE * 9),
        (10, 8, 10, USED * 8 + BAD * 2),
        (0, 0, 10, BAD * 10),
        (0, 0, 0, " " * 10),
    ],
)
def test_a_bar_is_as_wide_as_promised_and_shows_whatever_is_not_nothing(used, good, total, drawn):
    assert bar(used, good, total) == drawn


def test_virtual_clusters_fit_eighty_columns_and_say_used_healthy_and_promised(pai, platform):
    platform.on("GET", "/virtual-clusters", {"vision" * 10: VISION, "default": EMPTY})
    message = pai("vc", "list")
    rows = message.out.splitlines()
    assert max(map(len, rows)) <= 80
    assert any("8/16/24" in row and "16/32/48" in row for row in rows)
    assert any(USED * 3 + FREE * 4 + BAD * 3 in row for row in rows)
    assert pai("vc", "list", "--json").json()["default"]["skus"] == {}


def test_without_gpus_processors_are_drawn(pai, platform):
    small = EMPTY | {"resourcesUsed": resources(0, 4), "resourcesGuaranteed": resources(0, 8)}
    platform.on("GET", "/virtual-clusters", {"default": small | {"resourcesTotal": resources(0, 8)}})
    message = pai("vc", "list").out
    assert f"{USED * 5}{FREE * 5}  4/8/8" in message
    assert "GPUS" not in message


def test_a_cluster_without_virtual_clusters_says_how_to_share_it(pai, platform):
    platform.on("GET", "/virtual-clusters", {"default": VISION})
    assert "pai vc set" in pai("vc", "list").out


def test_one_virtual_cluster_is_shown_a_resource_a_line(pai, platform):
    platform.on("GET", "/virtual-clusters/vision", VISION)
    platform.on("GET", "/cluster/sku-types", {"A100": {"cpu": 2, "memory": 2048, "gpu": 1}})
    message = pai("vc", "show", "vision").out
    assert "3 jobs running, 1 waiting" in message
    assert "SKU A100: 24, each 2 CPUs, 2 GB, 1 GPU" in message
    platform.on("GET", "/cluster/sku-types", {"A100": {"cpu": 1, "memory": 2048, "gpu": 0}})
    assert "each 1 CPU, 2 GB, 0 GPUs" in pai("vc", "show", "vision").out
    gpus = next(line for line in message.splitlines() if line.startswith("GPUs"))
    assert gpus.split()[-5:] == ["8", "16", "24", "2", "1"]


def test_a_virtual_cluster_without_a_promise_says_what_runs_in_it(pai, platform):
    platform.on("GET", "/virtual-clusters/team", EMPTY)
    message = pai("vc", "show", "team").out
    assert "opportunistic" in message
    assert 'pai vc set team "1 node"' in message


def test_a_promise_is_sent_and_its_problems_are_shown(pai, platform):
    changed = CONFIG | {"problems": ["node gpu-9 is away"], "demoted": ["ann~train"]}
    platform.on("PUT", "/virtual-clusters/vision", changed, status=201)
    message = pai("vc", "set", "vision", "3 nodes")
    assert message.code == 0
    assert json.loads(platform.requests[0].content) == {"promise": "3 nodes"}
    assert "gpu-9 is away" in message.err
    assert "ann~train" in message.err


def test_a_group_that_is_granted_a_misspelt_virtual_cluster_is_reported(pai, platform):
    platform.on("PUT", "/groups", {}, status=201)
    platform.on("GET", "/groups/seers", {"groupname": "seers", "description": "", "externalName": "", "extension": {}})
    platform.on("GET", "/virtual-clusters", {"vision": VISION})
    message = pai("group", "set", "seers", "--vc", "vision,visoin", "--manage", "visoin")
    assert (message.code, message.err) == (0, "warning: virtual cluster 'visoin' does not exist yet\n")
    platform.on("GET", "/virtual-clusters", {"code": "UnavailableError", "message": "no server leads"}, status=503)
    assert pai("group", "set", "seers", "--vc", "visoin").code == 0


def test_a_virtual_cluster_in_use_is_not_removed(pai, platform):
    refusal = {"code": "RemoveRunningVcError", "message": "2 jobs use vision", "advice": "stop them"}
    platform.on("DELETE", "/virtual-clusters/vision", refusal, status=409)
    message = pai("vc", "remove", "vision")
    assert (message.code, message.out) == (5, "")
    assert "2 jobs use vision" in message.err


def test_the_configuration_is_printed_as_it_can_be_applied_again(pai, platform, tmp_path):
    platform.on("GET", "/cluster/config", CONFIG)
    platform.on("PUT", "/cluster/config", CONFIG)
    assert pai("vc", "config").out == CONFIG["hived"]
    file = tmp_path / "cluster.yaml"
    assert pai("vc", "config", "-o", str(file)).code == 0
    assert pai("vc", "apply", str(file), "--if-version", "4").code == 0
    assert json.loads(platform.requests[-1].content) == {"hived": CONFIG["hived"], "version": 4}
    assert pai("vc", "apply", "--promises", "vision: 3 nodes").code == 0
    assert json.loads(platform.requests[-1].content) == {"promises": "vision: 3 nodes"}


@pytest.mark.parametrize("arguments", [[], ["nowhere.yaml"], ["f.yaml", "--promises", "x: 1 node"]])
def test_apply_needs_one_thing_that_can_be_read(pai, platform, arguments):
    message = pai("vc", "apply", *arguments)
    assert (message.code, platform.requests) == (2, [])


def test_cells_are_drawn_down_to_the_machine_with_a_letter_for_each_device():
    node = {
        "cellType": "A100-NODE",
        "cellAddress": "0/gpu-01",
        "isNodeLevel": True,
        "cellHealthiness": "Bad",
        "cellChildren": [
            {"cellType": "A100-2", "vc": "vision", "cellChildren": [leaf("Used", 10), leaf("Used", -1)]},
            {"cellType": "A100-2", "vc": "speech", "cellChildren": [leaf("Reserved", 10), leaf("Free")]},
            leaf("Free", health="Bad"),
        ],
    }
    top = {"cellType": "A100-POOL", "cellAddress": "0", "cellHealthiness": "Healthy", "cellChildren": [node]}
    upper, lower = cell_lines([top])
    assert upper.startswith("0 ")
    assert USED + BORROWED + RESERVED + FREE + BAD in lower
    assert lower.index("vision") < lower.index("speech") < lower.index("bad")


def test_inspection_without_cells_says_what_to_do(pai, platform):
    platform.on("GET", "/scheduler/inspect/clusterstatus/virtualclusters/team", [])
    assert "pai vc set team" in pai("vc", "inspect", "team").out


def test_nodes_show_which_are_drained_and_count_only_usable_devices(pai, platform):
    drained = NODE | {"name": "gpu-02", "drained": True, "drainedBecause": "new fan"}
    broken = NODE | {"name": "gpu-03", "badDevices": [7], "badBecause": "dust"}
    platform.on("GET", "/nodes", [NODE, drained, broken])
    message = pai("node", "list").out
    assert max(map(len, message.splitlines())) <= 80
    assert "drained: new fan" in message
    assert "bad GPUs 7: dust" in message
    assert "free: 116 CPUs, 9 GPUs" in message


def test_a_node_is_drained_given_back_and_its_devices_marked(pai, platform):
    platform.on("PUT", "/nodes/gpu-01", NODE | {"drained": True}, NODE, NODE | {"badDevices": [0, 3]}, NODE)
    assert "2 tasks keep running there until they end" in pai("node", "drain", "gpu-01", "--reason", "new fan").out
    assert pai("node", "undrain", "gpu-01").code == 0
    assert "0, 3" in pai("node", "mark-bad", "gpu-01", "3,0", "--reason", "dust").out
    assert "All GPUs" in pai("node", "mark-bad", "gpu-01", "none").out
    sent = [json.loads(request.content) for request in platform.requests]
    assert sent == [
        {"drained": True, "reason": "new fan"},
        {"drained": False, "reason": ""},
        {"badDevices": [0, 3], "reason": "dust"},
        {"badDevices": [], "reason": ""},
    ]


@pytest.mark.parametrize("devices", ["", "a", "1,-2", "1;2"])
def test_device_numbers_are_checked_before_anything_is_sent(pai, platform, devices):
    assert pai("node", "mark-bad", "gpu-01", "--", devices).code == 2
    assert platform.requests == []


def test_forgetting_a_node_is_one_request(pai, platform):
    platform.on("DELETE", "/nodes/gpu-01", {"status": 200})
    assert pai("node", "forget", "gpu-01").code == 0
    assert platform.asked == [("DELETE", "/api/v2/nodes/gpu-01")]


def wait(**more):
    return {
        "code": "NOT_ENOUGH_FREE",
        "message": "vision has 0 of 24 GPUs free",
        "unblock": "a job of vision ends",
        "ahead": ["bob~big", "eve~next"],
        "position": 3,
        **more,
    }


@pytest.mark.parametrize(
    ("earliest", "latest", "basis", "message"),
    [
        (1_060_000, 8_200_000, "time limits", "in 1m 00s to 2h 00m (time limits)"),
        (1_060_000, 1_060_000, "time limits", "in 1m 00s (time limits)"),
        (1_060_000, None, "run times", "in 1m 00s at the earliest (run times)"),
        (1_000, 1_060_000, "run times", "within 1m 00s (run times)"),
        (1_000, 2_000, "run times", "at any moment (run times)"),
        (None, None, "nothing ended yet", "may start: unknown: nothing ended yet"),
    ],
)
def test_why_shows_the_jobs_ahead_what_would_change_it_and_when(
    pai, platform, monkeypatch, earliest, latest, basis, message
):
    estimate = {"earliestTime": earliest, "latestTime": latest, "basis": basis}
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    platform.on("GET", "/jobs/ann~train/why", {"waits": [wait(estimate=estimate)]})
    out = " ".join(pai("job", "why", "train").out.split())
    for expected in ("vision has 0 of 24", "a job of vision ends", "queue: 3; ahead of it: bob~big, eve~next", message):
        assert expected in out


def test_why_shows_a_reason_once_however_many_tasks_have_it(pai, platform):
    platform.on("GET", "/jobs/ann~train/why", {"waits": [wait()] * 500})
    message = pai("job", "why", "train").out
    assert message.count("vision has 0 of 24") == 1
    assert "the same for 499 more" in message


@pytest.mark.parametrize(
    ("arguments", "value"), [(["--front"], "front"), (["--back"], "back"), (["--rank", "7"], 7), (["--rank=-7"], -7)]
)
def test_a_job_is_moved_to_the_front_the_back_or_a_rank(pai, platform, arguments, value):
    platform.on("PUT", "/jobs/ann~train/rank", {"status": 200})
    assert pai("job", "move", "train", *arguments).code == 0
    assert json.loads(platform.requests[0].content) == {"value": value}


@pytest.mark.parametrize("word", ["before", "after"])
def test_a_job_is_put_beside_another(pai, platform, word):
    platform.on("PUT", "/jobs/ann~train/rank", {"status": 200})
    assert f"goes {word} bob~big" in pai("job", "move", "train", f"--{word}", "bob~big").out
    assert json.loads(platform.requests[0].content) == {word: "bob~big"}


def test_a_queue_is_listed_in_order_with_what_can_be_done(pai, platform):
    first = {
        "position": 1, "job": "bob~big", "priorityClass": "test", "priority": 10, "rank": 1000, "tasks": 2, "gpu": 16,
        "cpu": 8, "submittedTime": 0, "code": "NOT_ENOUGH_FREE", "message": "vision uses all", "unblock": "",
        "mayMove": True,
    }  # fmt: skip
    second = first | {"position": 2, "job": "eve~next", "rank": 0}
    hidden = first | {"position": 3, "job": None, "message": "", "mayMove": False}
    found = {"order": "fifo", "totalCount": 9, "jobs": [first, second, hidden]}
    platform.on("GET", "/virtual-clusters/vision/queue", found)
    shown = pai("vc", "queue", "vision")
    for expected in ("bob~big", "vision uses all", "(of others)", "9 jobs", "pai job move eve~next --before bob~big"):
        assert expected in shown.out + shown.err
    assert dict(platform.requests[0].url.params) == {"limit": "50"}


@pytest.mark.parametrize("arguments", [[], ["--front", "--back"], ["--front", "--rank", "0"], ["--back", "--after=x"]])
def test_a_move_says_one_place(pai, platform, arguments):
    assert pai("job", "move", "train", *arguments).code == 2
    assert platform.requests == []


def test_priority_and_checkpoint_are_sent_to_the_platform(pai, platform):
    platform.on("PUT", "/jobs/ann~train/priority", {"status": 200})
    platform.on("POST", "/jobs/ann~train/checkpoint", {"status": 200})
    assert "prod" in pai("job", "priority", "train", "prod").out
    assert pai("job", "checkpoint", "train").code == 0
    assert json.loads(platform.requests[0].content) == {"value": "prod"}
    assert pai("job", "priority", "train", "highest").code == 2


def test_fairness_is_shown_set_and_switched_off(pai, platform):
    platform.on("GET", "/scheduler/fairness", {"halfLifeHours": 24.0})
    platform.on("PUT", "/scheduler/fairness", {"halfLifeHours": 1.5}, {"halfLifeHours": None})
    assert "half-life of 24 hours" in pai("scheduler", "fairness").out
    assert "half-life of 1.5 hours" in pai("scheduler", "fairness", "1.5").out
    assert "Off" in pai("scheduler", "fairness", "off").out
    sent = [json.loads(request.content) for request in platform.requests if request.method == "PUT"]
    assert sent == [{"halfLifeHours": 1.5}, {"halfLifeHours": None}]


def test_who_goes_first_is_shown_and_set_for_one_virtual_cluster(pai, platform):
    orders = {"speech": "fifo"}
    platform.on("GET", "/scheduler/orders", {"orders": orders, "version": 3}, {"orders": orders, "version": 3})
    platform.on("PUT", "/scheduler/orders", {"orders": orders | {"vision": "shortest"}, "version": 4})
    platform.on("GET", "/virtual-clusters/vision", VISION)
    assert "the job with the shortest expected run" in pai("vc", "order", "vision", "shortest").out
    sent = [json.loads(request.content) for request in platform.requests if request.method == "PUT"]
    assert sent == [{"orders": {"speech": "fifo", "vision": "shortest"}, "version": 3}]
    assert pai("vc", "order", "vision", "longest").code == 2


def test_whether_all_jobs_may_be_interrupted_is_set_for_one_virtual_cluster(pai, platform):
    output = {"orders": {"speech": "fifo"}, "interruptible": {"speech": True}, "version": 3}
    platform.on("GET", "/scheduler/orders", output)
    platform.on("PUT", "/scheduler/orders", output)
    platform.on("GET", "/virtual-clusters/vision", VISION)
    assert "may borrow idle resources of others" in pai("vc", "order", "vision", "--interruptible").out
    assert pai("vc", "order", "vision").err.count("interrupt") == 0
    sent = [json.loads(request.content) for request in platform.requests if request.method == "PUT"]
    assert sent == [output | {"interruptible": {"speech": True, "vision": True}}]
    platform.requests.clear()
    assert "may be moved to make whole nodes" in pai("vc", "order", "vision", "--move-jobs").out
    sent = [json.loads(request.content) for request in platform.requests if request.method == "PUT"]
    assert sent == [{"orders": {"speech": "fifo"}, "version": 3, "moveJobs": {"vision": True}}]


def test_the_default_for_hangs_is_set_for_one_virtual_cluster(pai, platform):
    platform.on("GET", "/scheduler/orders", {"orders": {}, "version": 3, "hangMinutes": {"speech": 5}})
    answer = {"orders": {}, "version": 4, "hangMinutes": {"speech": 5, "vision": 30}}
    platform.on("PUT", "/scheduler/orders", answer)
    platform.on("GET", "/virtual-clusters/vision", VISION)
    assert "hanging after 30 quiet minutes" in pai("vc", "order", "vision", "--hang-minutes", "30").out
    sent = [json.loads(request.content) for request in platform.requests if request.method == "PUT"]
    assert sent == [{"orders": {}, "version": 3, "hangMinutes": {"speech": 5, "vision": 30}}]
    assert pai("vc", "order", "vision", "--hang-minutes", "-1").code == 2


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "inf", "soon"])
def test_hours_are_checked_before_anything_is_sent(pai, platform, hours):
    assert pai("scheduler", "fairness", "--", hours).code == 2
    assert platform.requests == []


def test_a_snapshot_goes_where_it_is_wanted(pai, platform, tmp_path):
    platform.on("GET", "/scheduler/snapshot", {"format": 1, "waiting": [{}], "held": []})
    file = tmp_path / "s.json"
    assert "1 waiting, 0 running" in " ".join(pai("scheduler", "snapshot", "-o", str(file)).out.split())
    assert json.loads(file.read_text())["format"] == 1
    assert pai("scheduler", "snapshot").json()["format"] == 1
    assert pai("scheduler", "snapshot", "-o", str(tmp_path / "no" / "s.json")).code == 2


HELD = {
    "jobs": [
        {"job": "bob~big", "tasks": 2, "gpus": 8, "cpus": 16, "startedTime": 400_000, "endsTime": 4_000_000},
        {"job": "eve~next", "tasks": 1, "gpus": 1, "cpus": 1, "devices": [1], "startedTime": None, "endsTime": None},
    ],
    "others": {"jobs": 3, "tasks": 3, "gpus": 2, "cpus": 9},
}


def test_why_names_the_jobs_that_hold_the_room_and_until_when(pai, platform, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    platform.on("GET", "/jobs/ann~train/why", {"waits": [wait()], "held": HELD})
    out = pai("job", "why", "train").out
    assert "bob~big       2     8    16  10m 00s   in 50m 00s at most" in out
    assert "eve~next      1     1     1  starting  no time limit" in out
    assert "3 jobs of other users: 2 GPUs and 9 CPUs" in out


def test_jobs_of_a_node_are_those_of_all_users(pai, platform):
    platform.on("GET", "/jobs", {"totalCount": 0, "data": []})
    pai("job", "list", "--node", "n1")
    params = platform.requests[-1].url.params
    assert params["node"] == "n1"
    assert not params.get("username")


def test_the_audit_log_is_shown_with_what_was_asked(pai, platform):
    entry = {"id": 1, "time": 1, "actor": "root", "action": "node.change", "target": "n1", "via": "login",
             "address": "192.0.2.7", "status": 200, "detail": {"request": "PUT x", "drained": True}}  # fmt: skip
    platform.on("GET", "/audit", {"entries": [entry], "next": None})
    out = pai("audit", "list", "--details").out
    assert "root  node.change  n1  200\n    drained=true; from 192.0.2.7 with login\n" in out
