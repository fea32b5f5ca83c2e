"""`pai admin backup`, `restore` and `check`, as a person at a terminal would use them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import openpai.app.main  # noqa: F401  # has `pai admin`
from openpai.app.archive import unpack
from openpai.app.datadir import open_data_dir
from openpai.protocol.errors import PaiError
from openpai.store.database import Database
from openpai.store.opening import migrate
from openpai.store.revisions import newest_schema
from openpai.store.schema import job_details
from openpai.store.vault import Vault, key_from, new_key
from tests.newest import fill
from tests.outcome import Outcome, run_pai

JOBS = 300
UIDS = '{"person": "ann", "uid": 200001}\n'
Pai = Callable[..., Outcome]


@pytest.fixture
def pai(monkeypatch: pytest.MonkeyPatch) -> Pai:
    monkeypatch.delenv("PAI_SECRET_KEY", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *words: run_pai("admin", *map(str, words))


@pytest.fixture
def kept_url(database_kind: str, request: pytest.FixtureRequest) -> str | None:
    """The URL of a PostgreSQL database, None where the database lies in the data directory."""
    return None if database_kind == "sqlite" else str(request.getfixturevalue("database_url"))


def platform(root: Path, url: str | None = None) -> None:
    """Make a platform with jobs, secrets, user numbers, a log and code."""
    data = open_data_dir(root)
    database = Database(url or data.database_url, inline=True)
    if url is None:
        fill(database)
    else:
        migrate(database)
        data.remember_database(url)
    vault = Vault(key_from(data.key_file))
    details = {"plan": "{}", "spec": "{}", "config": "c" * 400}
    sealed = [vault.seal({"token": f"s3cret-{number}"}) for number in range(JOBS)]
    rows = [{**details, "job": f"job-{at}", "sealed": each.data} for at, each in enumerate(sealed) if each]
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(job_details.insert(), rows)
    database.close()
    data.task_uids.write_text(UIDS)
    (data.logs / "a.1.worker.0.1").mkdir()
    (data.logs / "a.1.worker.0.1" / "stdout.log").write_text("hello\n")
    (data.code / "packs").mkdir()
    (data.code / "packs" / "a.tar.gz").write_bytes(b"packed")
    data.close()


def secrets_of(root: Path, url: str | None = None) -> dict[str, str]:
    """Return the secrets of all jobs, opened with the key of the directory."""
    vault = Vault((root / "secret.key").read_text())
    database = Database(url or f"sqlite:///{root / 'openpai.db'}", inline=True)
    with database.engine.connect() as connection:
        rows = connection.execute(sa.select(job_details.c.job, job_details.c.sealed)).all()
    database.close()
    return {job: json.loads(vault._fernet.decrypt(bytes(sealed)))["token"] for job, sealed in rows}


EXPECTED = {f"job-{number}": f"s3cret-{number}" for number in range(JOBS)}


@pytest.fixture
def made(tmp_path: Path, pai: Pai) -> Path:
    """A backup of a SQLite platform with its logs."""
    platform(tmp_path / "data")
    file = tmp_path / "made.tar.gz"
    message = pai("backup", file, "--data-dir", tmp_path / "data", "--logs", "--json")
    assert message.code == 0, message.err
    return file


def test_what_was_backed_up_is_restored(tmp_path: Path, pai: Pai, kept_url: str | None, request: Any) -> None:
    root, again, file = tmp_path / "data", tmp_path / "again", tmp_path / "b.tar.gz"
    platform(root, kept_url)
    given = ("--database-url", kept_url) if kept_url else ()
    (tmp_path / "pai.yaml").write_text("data-dir: data\nlog-format: json\n")
    message = pai("backup", file, "--config", tmp_path / "pai.yaml", *given, "--logs", "--json")
    assert message.code == 0, message.err
    found = message.json()
    assert found["hasKey"]
    assert found["schema"] == newest_schema()
    assert found["size"] == file.stat().st_size
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if "b.tar" in path.name) == ["b.tar.gz"]
    target = request.getfixturevalue("empty_url") if kept_url else None
    given = ("--database-url", target) if target else ()
    message = pai("restore", file, "--data-dir", again, *given, "--json")
    assert message.code == 0, message.err
    assert secrets_of(again, target) == EXPECTED
    assert (again / "task-uids").read_text() == UIDS
    assert (again / "logs" / "a.1.worker.0.1" / "stdout.log").read_text() == "hello\n"
    assert (again / "code" / "packs" / "a.tar.gz").read_bytes() == b"packed"
    assert (again / "secret.key").stat().st_mode & 0o777 == 0o600
    assert not (again / "restoring").exists()
    assert all(path.stat().st_mode & 0o077 == 0 for path in (again, *again.rglob("*")))
    message = pai("check", "--data-dir", again, *given, "--json")
    assert message.code == 0, message.out
    states = {finding["what"]: finding["state"] for finding in message.json()["findings"]}
    whole = {"directory", "key", "user numbers", "space", "database", "schema", "secrets", "logs"}
    assert states == dict.fromkeys({*whole, "accounting", "metrics"}, "ok")


def test_a_backup_during_writes_is_of_one_moment(tmp_path: Path, pai: Pai, monkeypatch: pytest.MonkeyPatch) -> None:
    root, file = tmp_path / "data", tmp_path / "b.tar.gz"
    platform(root)
    monkeypatch.setattr("openpai.store.copying.PAGES_AT_ONCE", 1)
    is_over, written = threading.Event(), [0]

    def write() -> None:
        connection = sqlite3.connect(root / "openpai.db", timeout=10, isolation_level=None)
        row = "INSERT INTO tags (job, tag) VALUES (?, ?)"
        while not is_over.is_set():
            # Both or neither.
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(row, [(f"j{written[0]}", "one"), (f"j{written[0]}", "two")])
            connection.execute("COMMIT")
            written[0] += 1
        connection.close()

    writing = threading.Thread(target=write)
    writing.start()
    try:
        while not written[0]:
            time.sleep(0.001)
        message = pai("backup", file, "--data-dir", root)
    finally:
        is_over.set()
        writing.join(60)
    assert message.code == 0, message.err
    assert pai("restore", file, "--data-dir", tmp_path / "again").code == 0
    copy = sqlite3.connect(tmp_path / "again" / "openpai.db")
    ones, twos = (
        copy.execute("SELECT count(*) FROM tags WHERE tag = ?", (tag,)).fetchone()[0] for tag in ("one", "two")
    )
    copy.close()
    assert 0 < ones == twos <= written[0]


def test_a_file_that_is_cut_off_or_changed_is_refused(tmp_path: Path, made: Path, pai: Pai) -> None:
    whole, bad, again = made.read_bytes(), tmp_path / "bad.tar.gz", tmp_path / "again"
    size = len(whole)
    wrong = [whole[:at] for at in (0, 5, size // 3, size - 9, size - 1)]
    # Behind the header of gzip, which says nothing of what is packed.
    wrong += [whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in (11, size // 2, size - 30, size - 6)]
    for content in wrong:
        bad.write_bytes(content)
        message = pai("restore", bad, "--data-dir", again)
        assert message.code != 0
        assert "damaged or incomplete" in message.err
        assert "Traceback" not in message.err
        assert sorted(path.name for path in again.iterdir()) == ["code", "lock", "logs", "tasks", "visitors"]
    assert pai("restore", made, "--data-dir", again).code == 0
    assert secrets_of(again) == EXPECTED


def packed(file: Path, *members: tuple[tarfile.TarInfo, bytes], **output: Any) -> Path:
    """Write an archive with a manifest that agrees with its members."""
    files = {one.name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for one, data in members}
    manifest = json.dumps({"format": 1, "schema": newest_schema(), "time": 0, "files": files, **output}).encode()
    end = tarfile.TarInfo("manifest.json")
    with tarfile.open(file, "w:gz") as tar:
        for one, data in (*members, (end, manifest)):
            one.size = len(data)
            tar.addfile(one, io.BytesIO(data))
    return file


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@pytest.mark.parametrize(
    "hostile",
    [
        member("/tmp/evil"),
        member("../evil"),
        member("logs/../../evil"),
        member("logs/a/.."),
        member("logs//evil"),
        member("evil"),
        member("lock"),
        member("secret.key", tarfile.SYMTYPE, "/etc/passwd"),
        member("openpai.db", tarfile.LNKTYPE, "/etc/passwd"),
        member("logs/a", tarfile.SYMTYPE, "/tmp"),
        member("logs/fifo", tarfile.FIFOTYPE),
        member("logs/null", tarfile.CHRTYPE),
        member("logs", tarfile.DIRTYPE),
    ],
    ids=lambda one: f"{one.name}-{one.type.decode()}",
)
def test_members_that_lead_elsewhere_are_refused(tmp_path: Path, pai: Pai, hostile: tarfile.TarInfo) -> None:
    file = packed(tmp_path / "evil.tar.gz", (hostile, b""))
    message = pai("restore", file, "--data-dir", tmp_path / "deep" / "again")
    assert message.code != 0
    assert "is not a backup of openpai" in message.err
    assert not list(tmp_path.rglob("evil"))
    assert not (tmp_path / "deep" / "again" / "restoring").exists()


def test_what_is_newer_is_refused_in_a_sentence(tmp_path: Path, pai: Pai) -> None:
    for output, words in (({"schema": "9999"}, "newer openpai (schema 9999)"), ({"format": 2}, "newer openpai")):
        file = packed(tmp_path / "new.tar.gz", (member("openpai.db"), b"x"), **output)
        message = pai("restore", file, "--data-dir", tmp_path / "again")
        assert message.code != 0
        assert words in message.err
        assert len(message.err.splitlines()) == 2


def test_a_directory_that_is_not_empty_is_moved_aside_and_only_on_request(tmp_path: Path, made: Path, pai: Pai) -> None:
    root = tmp_path / "data"
    (root / "openpai.db").write_bytes(b"broken " * 1000)
    before = (root / "openpai.db").read_bytes()
    assert pai("restore", made, "--data-dir", root).code != 0
    other = tmp_path / "other"
    (other / "precious").mkdir(parents=True)
    assert "is not the data directory" in pai("restore", made, "--data-dir", other, "--force").err
    assert [path.name for path in other.iterdir()] == ["precious"]
    message = pai("restore", made, "--data-dir", root, "--force", "--json")
    assert message.code == 0, message.err
    aside = Path(message.json()["movedAside"])
    assert (aside / "openpai.db").read_bytes() == before
    assert not (aside / "restoring").exists()
    assert secrets_of(root) == EXPECTED


def test_a_directory_that_a_server_holds_is_left_alone(tmp_path: Path, made: Path, pai: Pai) -> None:
    server = open_data_dir(tmp_path / "data")
    message = pai("restore", made, "--data-dir", tmp_path / "data", "--force")
    assert message.code != 0
    assert "another server" in message.err
    assert pai("backup", tmp_path / "two.tar.gz", "--data-dir", tmp_path / "data").code == 0
    assert pai("check", "--data-dir", tmp_path / "data").code == 0
    server.close()


def test_a_backup_goes_nowhere_it_would_do_harm(tmp_path: Path, made: Path, pai: Pai) -> None:
    root, before = tmp_path / "data", made.read_bytes()
    assert "exists already" in pai("backup", made, "--data-dir", root).err
    assert made.read_bytes() == before
    assert "in the data directory" in pai("backup", root / "b.tar.gz", "--data-dir", root).err
    assert "no directory" in pai("backup", tmp_path / "no" / "b.tar.gz", "--data-dir", root).err
    assert pai("backup", made, "--data-dir", root, "--force").code == 0
    assert made.read_bytes() != before


def test_without_the_key_nothing_opens_the_secrets(tmp_path: Path, made: Path, pai: Pai) -> None:
    file, again = tmp_path / "b.tar.gz", tmp_path / "again"
    message = pai("backup", file, "--data-dir", tmp_path / "data", "--without-key")
    assert message.code == 0
    assert "without the key" in message.err
    key = (tmp_path / "data" / "secret.key").read_bytes()
    assert key not in gzip.decompress(file.read_bytes())
    assert key in gzip.decompress(made.read_bytes())
    message = pai("restore", file, "--data-dir", again)
    assert message.code == 0
    assert "without the key" in message.err
    assert pai("check", "--data-dir", again).code == 1


def test_check_finds_what_is_wrong(tmp_path: Path, made: Path, pai: Pai) -> None:
    root = tmp_path / "data"

    def found(what: str) -> tuple[int, str]:
        message = pai("check", "--data-dir", root, "--json")
        return message.code, next(each["state"] for each in message.json()["findings"] if each["what"] == what)

    assert found("secrets") == (0, "ok")
    right = (root / "secret.key").read_text()
    (root / "secret.key").write_text(new_key())
    assert found("secrets") == (1, "fault")
    (root / "secret.key").write_text(right)
    (root / "secret.key").chmod(0o644)
    assert found("key") == (1, "fault")
    (root / "secret.key").chmod(0o640)
    assert found("key") == (0, "warning")
    (root / "secret.key").chmod(0o600)
    (root / "task-uids").write_text(UIDS + '{"person": "ben", "uid": 200001}\n')
    assert found("user numbers") == (1, "fault")
    (root / "task-uids").write_text(UIDS)
    root.chmod(0o777)
    assert found("directory") == (1, "fault")
    root.chmod(0o700)
    (root / "secret.key").rename(root / "elsewhere")
    assert found("key") == (1, "fault")
    (root / "elsewhere").rename(root / "secret.key")
    assert found("metrics") == found("accounting") == (0, "ok")
    (root / "metrics.db").write_bytes(b"no database" * 1000)
    assert found("metrics") == (0, "warning")
    connection = sqlite3.connect(root / "openpai.db")
    connection.execute("INSERT INTO past_use VALUES (1, 'ann', 'default', -1, 0, 0, 1)")
    connection.commit()
    assert found("accounting") == (1, "fault")
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    assert found("schema") == (1, "fault")
    damage(root / "openpai.db")
    assert found("database") == (1, "fault")


def damage(file: Path) -> None:
    """Overwrite the middle of a database."""
    with file.open("r+b") as database:
        database.seek(file.stat().st_size // 8 * 5)
        database.write(os.urandom(20_000))


def test_a_damaged_database_gives_no_backup(tmp_path: Path, made: Path, pai: Pai) -> None:
    damage(tmp_path / "data" / "openpai.db")
    message = pai("backup", tmp_path / "b.tar.gz", "--data-dir", tmp_path / "data")
    assert message.code != 0
    assert "damaged" in message.err
    assert not [path for path in tmp_path.iterdir() if "b.tar" in path.name]


SLOW = """
import os, sys, time
import openpai.app.backup as backup
def stop(*_, **__):
    print("here", flush=True)
    time.sleep(60)
backup._add_files = stop
from openpai.app.main import run
run()
"""


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_a_backup_that_is_killed_leaves_no_half_file(tmp_path: Path, pai: Pai, signal: str) -> None:
    root, file = tmp_path / "data", tmp_path / "b.tar.gz"
    platform(root)
    words = [sys.executable, "-c", SLOW, "admin", "backup", str(file), "--data-dir", str(root)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout
        assert running.stdout.readline() == "here\n"
        assert "another backup" in pai("backup", file, "--data-dir", root).err
        subprocess.run(["kill", f"-{signal}", str(running.pid)], check=True)
        running.wait(60)
    left = [path.name for path in tmp_path.iterdir() if "b.tar" in path.name]
    assert left == ([] if signal == "TERM" else [".b.tar.gz.part"])
    assert pai("backup", file, "--data-dir", root).code == 0
    assert [path.name for path in tmp_path.iterdir() if "b.tar" in path.name] == ["b.tar.gz"]


def test_links_among_the_logs_are_not_followed(tmp_path: Path, pai: Pai) -> None:
    root, file = tmp_path / "data", tmp_path / "b.tar.gz"
    platform(root)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "private").write_text("private words")
    (root / "logs" / "a.1.worker.0.1" / "link").symlink_to(tmp_path / "foreign" / "private")
    (root / "logs" / "linked").symlink_to(tmp_path / "foreign")
    os.mkfifo(root / "logs" / "a.1.worker.0.1" / "fifo")
    message = pai("backup", file, "--data-dir", root, "--logs", "--json")
    assert [name for name in message.json()["files"] if "logs" in name] == ["logs/a.1.worker.0.1/stdout.log"]
    assert b"private words" not in gzip.decompress(file.read_bytes())


def test_no_damage_to_what_is_packed_ends_in_a_traceback(tmp_path: Path, pai: Pai, made: Path) -> None:
    whole, rest = bytearray(gzip.decompress(made.read_bytes())), tmp_path / "bad.tar.gz"
    places = [at for at in range(len(whole)) if at % 512 in (0, 100, 124, 156, 257)]
    for at in [*places[:5], *places[-120:]]:
        changed = bytearray(whole)
        changed[at] ^= 0x41
        rest.write_bytes(gzip.compress(changed, 1))
        target = tmp_path / f"unpacked-{at}"
        target.mkdir()
        # Any other exception fails the test.
        with suppress(PaiError):
            unpack(rest, target)
