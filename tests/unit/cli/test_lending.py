"""What commands print of lent and borrowed resources."""

from __future__ import annotations

import pytest

from tests.unit.cli.test_sharing import EMPTY, VISION, resources, wait

JOB = """
protocolVersion: 2
name: train
type: job
prerequisites: [{type: dockerimage, name: image, uri: python}]
taskRoles:
  worker: {dockerImage: image, resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 1}, commands: [run]}
defaults: {virtualCluster: vision}
"""


def test_what_is_lent_and_borrowed_is_shown_in_eighty_columns(pai, platform):
    lends = VISION | {"lentTo": {"speech": resources(1, 2)}, "interruptible": True}
    platform.on("GET", "/virtual-clusters", {"vision" * 10: lends, "default": EMPTY})
    rows = pai("vc", "list").out.splitlines()
    assert max(map(len, rows)) <= 80
    heads, row = rows[0].split(), next(row.split() for row in rows if "8/16/24" in row)
    assert heads[heads.index("BORROWED") : heads.index("RUNNING")] == ["BORROWED", "LENT"]
    assert row[row.index("16/32/48") + 1 :][:4] == ["2", "1", "3", "1"]
    platform.on("GET", "/virtual-clusters/vision", lends)
    platform.on("GET", "/cluster/sku-types", {})
    message = pai("vc", "show", "vision").out
    assert "lent: 1 GPU to speech" in message
    assert "interruptible" in message


def test_why_names_what_is_lent_its_users_and_when_it_comes_back(pai, platform):
    lent = [{"virtualCluster": "speech", "gpu": 8, "cpu": 64}, {"virtualCluster": "[nlp]", "gpu": 0, "cpu": 1}]
    shown_text = wait(lent=lent, lentBackSeconds=30, interruptible=True)
    platform.on("GET", "/jobs/ann~train/why", {"waits": [shown_text]})
    out = " ".join(pai("job", "why", "train").out.split())
    assert "8 GPUs to speech, 1 CPU to [nlp]; returned within 30s" in out
    assert "interruptible" in out
    platform.on("GET", "/jobs/ann~train/why", {"waits": [wait()]})
    assert "lent" not in pai("job", "why", "train").out


def test_why_says_what_a_running_job_borrows(pai, platform):
    def shown_for(borrowed, priority="prod"):
        status = {"username": "ann", "state": "RUNNING", "virtualCluster": "vision"}
        platform.on("GET", "/jobs/ann~train", {"name": "train", "jobPriority": priority, "jobStatus": status})
        platform.on("GET", "/jobs/ann~train/why", {"waits": [], "borrowed": borrowed})
        return " ".join(pai("job", "why", "train").out.split())

    line = "It borrows 4 GPUs, until a job with a guarantee needs them"
    assert f"{line}, and gets a guarantee once vision has room for it." in shown_for(resources(4, 8))
    assert f"{line}." in shown_for(resources(4, 8), "oppo")
    assert "borrows 8 CPUs" in shown_for(resources(0, 8))
    assert "borrows" not in shown_for(resources(0, 0))
    assert pai("job", "why", "train", "--json").json()["borrowed"] == {"gpu": 0, "cpu": 0}


def test_show_says_that_a_job_may_be_interrupted(pai, platform):
    status = {"username": "ann", "state": "RUNNING", "virtualCluster": "vision"}
    platform.on("GET", "/jobs/ann~train", {"name": "train", "interruptible": True, "jobStatus": status})
    platform.on("GET", "/jobs/ann~train/why", {"waits": [], "borrowed": resources(1, 8)})
    shown = " ".join(pai("job", "show", "train").out.split())
    assert "interruptible" in shown
    assert "borrows 1 GPU, until a job with a guarantee needs it, and gets a guarantee once vision" in shown
    platform.on("GET", "/jobs/ann~train/why", {"waits": [], "borrowed": resources(0, 0)})
    assert "borrows" not in pai("job", "show", "train").out
    platform.on("GET", "/jobs/ann~train", {"name": "train", "interruptible": False, "jobStatus": status})
    assert "interruptible" not in pai("job", "show", "train").out


def test_check_asks_the_platform_about_interruption_only_when_it_is_to(pai, platform, tmp_path):
    platform.on("GET", "/virtual-clusters/vision", VISION | {"interruptible": True})
    platform.on("POST", "/jobs/check", {"name": "train", "virtualCluster": "vision", "waits": []})
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert "borrow" not in pai("job", "check", str(file)).out
    assert pai("job", "check", str(file), "--json").json()["interruptible"] is None
    assert platform.asked == []
    assert "as all jobs of virtual cluster vision" in " ".join(pai("job", "check", str(file), "--online").out.split())
    assert pai("job", "check", str(file), "--online", "--json").json()["interruptible"] is True
    file.write_text(JOB + "extras: {hivedScheduler: {interruptible: false}}\n")
    assert pai("job", "check", str(file), "--online", "--json").json()["interruptible"] is False
    file.write_text(JOB + "extras: {hivedScheduler: {interruptible: true}}\n")
    assert "may borrow" in pai("job", "check", str(file)).out


@pytest.mark.parametrize(
    ("waits", "expected"),
    [([], "It would start now."), ([wait()], "It would wait: vision has 0 of 24"), (None, "is not known")],
)
def test_check_says_whether_the_job_would_start_now(pai, platform, tmp_path, waits, expected):
    platform.on("GET", "/virtual-clusters/vision", VISION)
    platform.on("POST", "/jobs/check", {"name": "train", "virtualCluster": "vision", "waits": waits})
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert expected in " ".join(pai("job", "check", str(file), "--online").out.split())
    assert pai("job", "check", str(file), "--online", "--json").json()["waits"] == waits
    assert "waits" not in pai("job", "check", str(file), "--json").json()


def test_how_good_guesses_were_is_said_with_the_virtual_cluster_and_the_estimate(pai, platform):
    accuracy = {
        "starts": 40,
        "startsWithinRange": 34,
        "runTimes": 3,
        "runTimesWithinFactor2": 1,
        "runTimeErrorFactor": 4,
    }
    platform.on("GET", "/virtual-clusters/vision", VISION | {"accuracy": accuracy})
    platform.on("GET", "/cluster/sku-types", {})
    message = pai("vc", "show", "vision").out
    assert "of the last 40 estimated starts, 85 % came within the range" in message
    assert "of the last 3 run times, 33 % were guessed within a factor of 2; the median is off by 4.0x" in message
    platform.on("GET", "/virtual-clusters/vision", VISION)
    assert "guessed" not in pai("vc", "show", "vision").out
    estimate = {"earliestTime": 1, "latestTime": 2, "basis": "limits", "judged": 40, "within": 34}
    platform.on("GET", "/jobs/ann~train/why", {"waits": [wait(estimate=estimate)]})
    assert "(limits; 85 % of the last 40 came true)" in " ".join(pai("job", "why", "train").out.split())


def test_jobs_that_moved_are_shown_with_the_virtual_cluster_where_there_were_any(pai, platform):
    moves = {"jobs": 2, "gpuHoursLost": 0.504}
    platform.on("GET", "/virtual-clusters/vision", VISION | {"moves": moves})
    platform.on("GET", "/cluster/sku-types", {})
    message = "2 jobs moved to make whole nodes for others; 0.50 GPU hours of their work were lost"
    assert message in " ".join(pai("vc", "show", "vision").out.split())
    assert pai("vc", "show", "vision", "--json").json()["moves"] == moves
    platform.on("GET", "/virtual-clusters/vision", VISION | {"moves": {"jobs": 0, "gpuHoursLost": 0}})
    assert "moved" not in pai("vc", "show", "vision").out


def test_a_report_shows_lent_and_borrowed_hours_where_there_are_any(pai, platform):
    used = {"gpuHours": 1234.5, "cpuHours": 2000, "memoryGbHours": 3000, "taskAttempts": 7}
    row = {"day": "2026-11-22", "user": "ann", "virtualCluster": "vision", **used}
    lent = {"gpuHoursBorrowed": 12.5, "gpuHoursLent": 3}
    report = {"from": 0, "to": 1, "by": ["day", "user", "vc"], "rows": [row | lent], "total": used | lent}
    platform.on("GET", "/reports/use", report)
    rows = pai("report", "--by", "day,user,vc").out.splitlines()
    assert max(map(len, rows)) <= 80
    assert rows[0].split()[-2:] == ["BORROWED", "LENT"]
    assert rows[1].split()[-2:] == ["12.50", "3.00"]
    platform.on("GET", "/reports/use", report | {"rows": [row], "total": used})
    assert "BORROWED" not in pai("report", "--by", "day,user,vc").out


def test_a_report_shows_wasted_hours_and_why_where_there_are_any(pai, platform):
    used = {"gpuHours": 30, "cpuHours": 20, "memoryGbHours": 30, "taskAttempts": 7}
    wasted = {"gpuHoursIdle": 2, "gpuHoursFailed": 1, "gpuHoursPreempted": 0.5, "gpuHoursWasted": 3.5}
    report = {"from": 0, "to": 1, "by": ["user"], "rows": [{"user": "ann", **used, **wasted}], "total": used | wasted}
    platform.on("GET", "/reports/use", report)
    shown = pai("report").out
    assert [line.split()[-1] for line in shown.splitlines()[:3]] == ["WASTED", "3.50", "3.50"]
    assert "2.00 idle, 1.00 lost by failures of the platform, 0.50 lost by preemption" in " ".join(shown.split())
    platform.on("GET", "/reports/use", report | {"rows": [{"user": "ann", **used}], "total": used})
    assert "WASTED" not in pai("report").out


def test_a_report_says_how_many_jobs_moved_if_any_did(pai, platform):
    used = {"gpuHours": 3, "cpuHours": 2, "memoryGbHours": 3, "taskAttempts": 7}
    row = {"user": "ann", **used}
    report = {"from": 0, "to": 1, "by": ["user"], "rows": [row], "total": used}
    platform.on("GET", "/reports/use", report | {"total": used | {"jobsMoved": 2, "gpuHoursMoved": 0.5}})
    message = "2 jobs moved to make whole nodes for others; 0.50 GPU hours of their work were done again"
    assert message in " ".join(pai("report").out.split())
    platform.on("GET", "/reports/use", report)
    assert "moved" not in pai("report").out


def test_the_weekly_report_is_shown_as_it_would_be_sent(pai, platform):
    platform.on(
        "GET", "/reports/weekly", {"subject": "GPU hours of vision", "text": "Virtual cluster vision\n  used 1.0"}
    )
    shown = pai("report", "--weekly").out
    assert "GPU hours of vision" in shown
    assert "  used 1.0" in shown
    assert pai("report", "--weekly", "--by", "vc").code == 2
