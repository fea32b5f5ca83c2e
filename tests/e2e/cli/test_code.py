"""`pai job submit --code DIR` as a person types it: what is sent, what is not, and what comes back."""

from __future__ import annotations

import tarfile

import pytest


@pytest.mark.slow
def test_code_goes_in_only_what_changed_is_sent_and_results_come_back(pai, job_file, tmp_path):
    code = tmp_path / "code"
    (code / "sub").mkdir(parents=True)
    (code / "main.sh").write_text("mkdir -p out; cat sub/data >out/result; ls >out/names; echo $0 >scratch\n")
    (code / "sub" / "data").write_text("first\n")
    (code / "big.bin").write_text("not sent\n")
    (code / ".paiignore").write_text("*.bin\n")
    extras = {"outputs": ["out"]}
    first = pai("job", "submit", job_file("code-one", "sh main.sh", extras=extras), "--code", str(code))
    assert "Sent the code: 3 files" in first.out + first.err
    assert "3 new contents" in first.out + first.err
    assert pai("job", "wait", "code-one").code == 0
    assert pai("job", "fetch", "code-one", "--to", str(tmp_path / "got")).code == 0
    assert (tmp_path / "got" / "out" / "result").read_text() == "first\n"
    assert (tmp_path / "got" / "out" / "names").read_text().split() == ["main.sh", "out", "sub"]
    assert not (tmp_path / "got" / "scratch").exists()

    (code / "sub" / "data").write_text("second\n")
    second = pai("job", "submit", job_file("code-two", "sh main.sh", extras=extras), "--code", str(code))
    assert "1 new content," in second.out + second.err
    assert pai("job", "wait", "code-two").code == 0
    archive = tmp_path / "two.tar.gz"
    assert pai("job", "fetch", "code-two", "--archive", str(archive)).code == 0
    with tarfile.open(archive) as packed:
        assert sorted(packed.getnames()) == ["out/names", "out/result"]


def test_code_that_is_too_large_or_leads_out_is_refused_before_anything_is_sent(pai, job_file, tmp_path):
    file = job_file("code-no", "true")
    huge = tmp_path / "huge"
    huge.mkdir()
    with (huge / "blob").open("wb") as blob:
        blob.truncate(50 << 30)
    refused = pai("job", "submit", file, "--code", str(huge))
    assert refused.code != 0
    assert "the largest: blob (51200 MiB)" in refused.err

    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "leak").symlink_to("/etc/passwd")
    (linked / "up").symlink_to("../huge/blob")
    refused = pai("job", "submit", file, "--code", str(linked))
    assert refused.code != 0
    assert "is a link to a place outside" in refused.err
    assert pai("job", "show", "code-no").code != 0

    odd = pai("job", "submit", job_file("code-odd", "true", extras={"outputs": ["../up"]}))
    assert odd.code != 0
    assert "leads out of the working directory" in odd.err


def test_code_is_not_sent_for_a_job_file_that_is_refused(pai, job_file, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "main.sh").write_text("true\n")
    file = job_file("code-refused", "sh main.sh", extras={"outputs": ["../up"]})
    refused = pai("job", "submit", file, "--code", str(code))
    assert refused.code != 0
    assert "leads out of the working directory" in refused.err
    assert "nothing was submitted" in refused.err
    assert "Sent the code" not in refused.out + refused.err
