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
