"""A new key for all secrets, however often that is cut off: nothing is lost, and the old key opens nothing."""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet, InvalidToken

from openpai.app.datadir import open_data_dir, visit_data_dir
from openpai.app.keys import rotate_key
from openpai.ports.store import Sealed
from openpai.store.database import Database
from openpai.store.opening import migrate
from openpai.store.schema import job_details, jobs, storages
from openpai.store.vault import Vault, key_from, keys_in
from tests.outcome import Outcome, run_pai

from .server import Server, environment, until

JOBS = 5
CUT_OFF_MAX = 60
_TOKEN = re.compile(rb"gAAAA[\w-]+={0,2}")

# Reads "STEP DIRECTORY" lines. For each it runs the command in a fork, which is killed, as the machine's failing would,
# before or after the given thing that it makes durable; and prints how that ended. What is imported once stays.
CUT_OFF = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
import openpai.app.keys
import openpai.store.resealing as resealing
from openpai.app.main import run
resealing.ROWS_AT_ONCE = 2
replace, fsync = Path.replace, os.fsync
def step(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
def replacing(self, target):
    step()
    done = replace(self, target)
    step()
    return done
def syncing(file):
    step()
    fsync(file)
for line in sys.stdin:
    at, _, data = line.rstrip().partition(" ")
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.dup2(2, 1)
    left = int(at)
    event.listen(Engine, "commit", step)
    Path.replace, os.fsync = replacing, syncing
    sys.argv = ["pai", "admin", "rotate-key", "--data-dir", data]
    try:
        run()
    except SystemExit as ended:
        os._exit(ended.code or 0)
"""


def planted(number: int) -> dict[str, str]:
    return {"token": f"s3cret-{number}"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with secrets of jobs and of a storage."""
    root = tmp_path / "data"
    held = open_data_dir(root)
    vault = Vault(key_from(held.key_file))
    database = Database(held.database_url, inline=True)
    migrate(database)
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        for number in range(JOBS):
            add_job(connection, number, vault.seal(planted(number)))
        add_job(connection, JOBS, None)
        sealed = vault.seal(planted(99))
        assert sealed is not None
        row = {"kind": "s3", "data": "{}", "is_read_only": False, "is_shared": True, "description": ""}
        connection.execute(storages.insert(), {**row, "name": "data", "sealed": sealed.data, "created_at_ms": 0})
    database.close()
    held.close()
    return root


def add_job(connection: sa.Connection, number: int, sealed: Sealed | None) -> None:
    numbers = ("version", "priority", "attempt", "retries_counted", "retries_free", "submitted_at_ms", "gpus_total")
    row = {
        "id": f"{number:032x}", "owner": "ann", "name": f"job-{number}", "phase": "succeeded",
        "virtual_cluster": "default", "is_stop_requested": False, "tasks_total": 1, "roles_total": 1,
    }  # fmt: skip
    connection.execute(jobs.insert(), {**row, **dict.fromkeys(numbers, 1)})
    files = {"plan": "x", "spec": "x", "config": "x", "sealed": sealed.data if sealed else None}
    connection.execute(job_details.insert(), {**files, "job": row["id"]})


def all_sealed(data: Path, database_url: str | None = None) -> dict[str, bytes]:
    """Return every sealed secret, by the name of its owner."""
    database = Database(database_url or f"sqlite:///{data / 'openpai.db'}", inline=True)
    with database.engine.connect() as connection:
        of_jobs = sa.select(jobs.c.name, job_details.c.sealed).join(job_details, job_details.c.job == jobs.c.id)
        of_jobs = of_jobs.where(job_details.c.sealed.is_not(None))
        found = {row.name: bytes(row.sealed) for row in connection.execute(of_jobs)}
        found |= {row.name: bytes(row.sealed) for row in connection.execute(storages.select())}
    database.close()
    return found


def check_everything_opens(data: Path, keys: str) -> None:
    vault = Vault(keys)
    found = {name: vault.open(Sealed(sealed)) for name, sealed in all_sealed(data).items()}
    assert found == {f"job-{number}": planted(number) for number in range(JOBS)} | {"data": planted(99)}


def check_the_old_key_opens_nothing(data: Path, old: str) -> None:
    fernet = Fernet(old)
    tried = 0
    for path in data.iterdir():
        for token in _TOKEN.findall(path.read_bytes()) if path.is_file() else ():
            tried += 1
            with pytest.raises(InvalidToken):
                fernet.decrypt(token)
    assert tried > JOBS


def rotate(data: Path, *options: str, **settings: str) -> Outcome:
    """Run the command to its end."""
    with patch.dict(os.environ, environment(**settings), clear=True):
        return run_pai("admin", "rotate-key", "--data-dir", str(data), *options)


def test_a_new_key_opens_everything_and_the_old_one_nothing(data: Path) -> None:
    old = key_from(data / "secret.key")
    message = rotate(data)
    assert message.code == 0, message.err
    assert f"{JOBS + 1} secrets are sealed with the new key" in message.out
    new = key_from(data / "secret.key")
    assert len(keys_in(new)) == 1
    assert new != old
    assert (data / "secret.key").stat().st_mode & 0o777 == 0o600
    check_everything_opens(data, new)
    check_the_old_key_opens_nothing(data, old)


@pytest.fixture
def cut_off() -> Iterator[Callable[[Path, int], int]]:
    """Run the command until the given thing it makes durable; return how it ended."""
    command = [sys.executable, "-c", CUT_OFF]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        say, answers = forks.stdin, forks.stdout

        def ended(data: Path, at: int) -> int:
            say.write(f"{at} {data}\n")
            say.flush()
            return int(answers.readline())

        yield ended


def test_it_may_be_cut_off_anywhere(
    data: Path, cut_off: Callable[[Path, int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PAI_SECRET_KEY", raising=False)
    old = key_from(data / "secret.key")
    seen = set()
    for at in range(1, CUT_OFF_MAX):
        work = data.with_name(f"cut-{at}")
        shutil.copytree(data, work)
        code = cut_off(work, at)
        keys = key_from(work / "secret.key")
        check_everything_opens(work, keys)
        seen.add(len(keys_in(keys)))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        rotate_key(work, json=True)
        new = key_from(work / "secret.key")
        assert len(keys_in(new)) == 1
        assert new != old
        check_everything_opens(work, new)
        check_the_old_key_opens_nothing(work, old)
        shutil.rmtree(work)
    else:
        pytest.fail(f"it did not end within {CUT_OFF_MAX} steps")
    assert seen == {1, 2}
    assert at > 12


def test_a_key_from_the_environment_is_not_ours_to_change(data: Path) -> None:
    old = key_from(data / "secret.key")
    message = rotate(data, PAI_SECRET_KEY=old)
    assert message.code != 0
    assert "PAI_SECRET_KEY=NEW,OLD" in message.err
    check_everything_opens(data, old)
    new = base64.urlsafe_b64encode(b"n" * 32).decode()
    message = rotate(data, PAI_SECRET_KEY=f"{new},{old}")
    assert message.code == 0, message.err
    assert "to the first key alone" in " ".join(message.out.split())
    check_everything_opens(data, new)
    assert key_from(data / "secret.key") == old


def test_secrets_that_no_key_opens_are_named_and_left_alone(data: Path) -> None:
    strange = Vault(Fernet.generate_key().decode()).seal(planted(7))
    database = Database(f"sqlite:///{data / 'openpai.db'}", inline=True)
    with database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        add_job(connection, 7, strange)
    database.close()
    message = rotate(data)
    assert message.code == 0
    assert f"{7:032x}" in message.out
    assert strange is not None
    assert all_sealed(data)["job-7"] == strange.data


def test_a_key_of_something_else_is_refused_and_nothing_changes(data: Path) -> None:
    sealed, file = all_sealed(data), data / "secret.key"
    strange = Fernet.generate_key().decode()
    file.write_text(strange)
    message = rotate(data)
    assert (message.code, key_from(file)) == (2, strange)
    assert f"opens none of the {JOBS + 1} secrets" in message.err
    for content, fault in ((b"", "is empty"), (b"\xff\xfe", "is not a text"), (b"x", "is not a key")):
        file.write_bytes(content)
        message = rotate(data)
        assert (message.code, file.read_bytes()) == (2, content), message
        assert fault in message.err
    file.unlink()
    message = rotate(data)
    assert (message.code, file.exists()) == (2, False)
    assert "is missing" in message.err
    assert all_sealed(data) == sealed


def test_a_link_leads_to_the_new_key_and_the_old_one_is_gone(data: Path, tmp_path: Path) -> None:
    kept, file = tmp_path / "kept.key", data / "secret.key"
    old = key_from(file)
    file.rename(kept)
    file.symlink_to(kept)
    assert rotate(data).code == 0
    assert file.is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert key_from(kept) != old
    check_everything_opens(data, key_from(kept))


def test_the_key_of_another_database_is_not_dropped(data: Path) -> None:
    old, database = key_from(data / "secret.key"), data / "openpai.db"
    message = rotate(data, "--database-url", "postgresql://pai:hush@127.0.0.1:1/elsewhere")
    assert "belongs to the database sqlite:///" in message.err
    database.rename(data / "away")
    message = rotate(data)
    assert "there is no database" in message.err
    (data / "away").rename(database)
    held = open_data_dir(data)
    held.remember_database("postgresql://pai:hush@db.example.org/openpai?sslmode=require&host=/run")
    held.close()
    message = rotate(data)
    assert message.code == 2
    assert "belongs to the database postgresql://db.example.org/openpai" in message.err
    assert "hush" not in message.err + (data / "database").read_text()
    assert key_from(data / "secret.key") == old


def test_it_does_not_wait_and_names_the_process_in_the_way(data: Path, tmp_path: Path) -> None:
    held = open_data_dir(data)
    message = rotate(data)
    assert message.code != 0
    assert "uses the data directory" in message.err
    held.close()

    visitor = visit_data_dir(data)
    message = rotate(data)
    assert message.code != 0
    assert "--api-only" in message.err
    visitor.close()

    message = rotate(tmp_path / "nothing")
    assert "is not the data directory of a server" in message.err
    assert len(keys_in(key_from(data / "secret.key"))) == 1


def test_a_job_still_has_its_secrets_after_the_key_was_changed(tmp_path: Path) -> None:
    server = Server.start(tmp_path / "server")
    try:
        compares = 'test "<% $secrets.token %>" = "s3cret-$(echo of-a-job)"'
        assert server.submit("uses", compares, secrets={"token": "s3cret-of-a-job"}).status_code == 202
        assert server.ended("uses") == "SUCCEEDED"
        assert rotate(server.data_dir / "data").code != 0
        assert server.end() == 0
        message = rotate(server.data_dir / "data", "--json")
        assert message.code == 0, message.err
        server = server.again()
        assert server.http.put("/jobs/uses/executionType", json={"value": "START"}).is_success
        until(lambda: server.state("uses") == "SUCCEEDED" and server.get("/jobs/uses")["restarts"], "it ran again")
    finally:
        server.end(signal.SIGKILL)
