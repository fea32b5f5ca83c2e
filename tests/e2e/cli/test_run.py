"""A command run as a job, its code with it."""

from __future__ import annotations


def test_a_command_runs_with_its_code(pai, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/said.txt").write_text("said from afar\n")
    (tmp_path / "go.sh").write_text('cat sub/said.txt; echo "$WORD $1"; ls; exit 3\n')
    (tmp_path / ".paiignore").write_text("*.secret\n")
    (tmp_path / "key.secret").write_text("x")
    message = pai("run", "--dir", str(tmp_path), "--name", "afar", "--env", "WORD=a 'word'", "sh", "go.sh", "one two")
    assert message.code == 1, message.err
    log = pai("job", "logs", "afar").out
    assert "said from afar\na 'word' one two\n" in log
    assert "key.secret" not in log


def test_a_command_works_in_the_directory_itself_where_it_may(pai, tmp_path):
    message = pai("run", "--dir", str(tmp_path), "--in-place", "--name", "here", "echo kept > result.txt")
    assert message.code == 0, message.err
    assert (tmp_path / "result.txt").read_text() == "kept\n"
