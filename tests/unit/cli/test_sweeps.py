"""What `pai job check` says of a sweep, offline."""

from __future__ import annotations

from tests.unit.cli.test_lending import JOB

SWEEP = JOB + "parameters: {lr: 1}\nextras: {sweep: {matrix: {lr: [1, 0.5, 0.25]}}}\n"


def test_a_sweep_is_checked_with_its_matrix(pai, platform, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(SWEEP)
    assert "a sweep of 3 jobs: train-1 to train-3" in " ".join(pai("job", "check", str(file)).out.split())
    assert pai("job", "check", str(file), "--json").json()["jobs"] == ["train-1", "train-2", "train-3"]
    file.write_text(SWEEP.replace("{lr: [", "{rl: ["))
    found = pai("job", "check", str(file))
    assert found.code != 0
    assert "extras.sweep.matrix.rl: is no parameter of the job" in found.err
    # A misspelled key does not make a single job of it.
    file.write_text(SWEEP.replace("matrix", "matrx"))
    assert "extras.sweep: has no matrix" in pai("job", "check", str(file)).err
    assert found.err.count("line ") == 1
    assert platform.asked == []


def test_sweeps_are_listed_once_each_with_the_states_of_their_jobs(pai, platform):
    platform.on("GET", "/jobs", {"totalCount": 0, "data": []})
    assert "You have no sweeps." in pai("sweep", "list").out
    jobs = [{"name": name, "username": "bob", "tags": tags} for name, tags in (("a-1", ["sweep:a"]), ("b", ["mine"]))]
    platform.on("GET", "/jobs", {"totalCount": 2, "data": jobs})
    platform.on("GET", "/sweeps/bob~a", {"user": "bob", "name": "a", "states": {"RUNNING": 1, "FAILED": 2}, "jobs": []})
    listed = pai("sweep", "list", "--all").out.split()
    assert listed[:3] == ["SWEEP", "JOBS", "STATES"]
    assert listed[3:9] == ["bob~a", "0", "2", "failed,", "1", "running"]
    assert platform.requests[-2].url.params["tagsNotContain"] == "sweep-job"
    assert [one["name"] for one in pai("sweep", "list", "--json").json()["sweeps"]] == ["a"]
