"""`pai admin doctor` on installations with faults, and `pai admin bundle` with secrets in every place."""

from __future__ import annotations

import base64
import json
import os
import socket
import sqlite3
import tarfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from openpai.app.datadir import note_address, open_data_dir
from openpai.app.support_bundle import Hiding
from openpai.store.database import Database
from openpai.store.vault import key_from
from tests.newest import fill
from tests.outcome import Outcome, run_pai
from tests.ports import free_port

SECRET = "hunter2"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory whose server is stopped, and a machine without settings."""
    for name in ("PAI_CONFIG", "PAI_DATA_DIR", "PAI_DATABASE_URL", "DOCKER_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PAI_PORT", str(free_port()))
    data = open_data_dir(tmp_path / "data")
    database = Database(data.database_url)
    fill(database)
    database.close()
    key_from(data.key_file)
    data.close()
    return data.root


def examined(*arguments: str | Path) -> dict[str, tuple[str, str]]:
    """Return what the doctor found: the state and the message of each."""
    done = run_pai("admin", "doctor", "--json", *map(str, arguments))
    found = {one["what"]: (one["state"], f"{one['message']}; {one['advice']}") for one in done.json()["findings"]}
    assert done.code == any(state == "fault" for state, _ in found.values())
    return found


def test_a_whole_installation_has_no_fault(root: Path) -> None:
    found = examined("--data-dir", root)
    assert not [one for one in found.items() if one[1][0] == "fault"]
    assert found["settings"][0] == found["database"][0] == found["secrets"][0] == "ok"
    assert found["database"][1].startswith("SQLite 3.")
    [port] = [message for what, message in found.items() if what.startswith("port")]
    assert port == ("warning", "no server runs; the port is free; start it: pai up")
    assert "openpai 0." in found["versions"][1]


def test_what_goes_wrong_first_does_not_hide_the_rest(root: Path, tmp_path: Path) -> None:
    config = tmp_path / "pai.yaml"
    config.write_text("prot: 1\n")
    (root / "openpai.db").write_bytes(b"no database" * 1000)
    found = examined("--config", config, "--data-dir", root)
    assert found["settings"][0] == "fault"
    assert "line 1: prot: there is no such setting" in found["settings"][1]
    assert found["database"][0] == "fault"
    assert found["versions"][0] == "ok"


def test_virtual_clusters_that_a_server_would_refuse_are_a_fault(root: Path, tmp_path: Path) -> None:
    config = tmp_path / "pai.yaml"
    config.write_text("backend: kubernetes\nshare: 'vision: 2 nodes'\nkueue-queues: visoin=team-v\n")
    state, message = examined("--config", config, "--data-dir", root)["settings"]
    assert state == "fault"
    assert message.endswith(
        "there is no such virtual cluster; did you mean 'vision'?; name one of --share: default, vision"
    )


def test_settings_come_from_the_file_and_the_environment(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "pai.yaml"
    config.write_text(f"data-dir: {root}\nbackend: docker\ndocker-url: unix://{tmp_path}/engine.sock\nport: 1\n")
    found = examined("--config", config)
    assert found["container Engine"][0] == "fault"
    assert "port 1" not in found
    monkeypatch.setenv("PAI_PORT", "80a")
    assert "PAI_PORT must be a whole number" in examined("--config", config)["settings"][1]


@pytest.fixture
def other_program() -> Iterator[int]:
    """The port of a web server that is not ours."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *output: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_port_of_another_program_is_named(root: Path, other_program: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAI_PORT", str(other_program))
    state, message = examined("--data-dir", root)[f"port {other_program}"]
    assert (state, "another program" in message) == ("fault", True)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PAI_PORT", str(bound.getsockname()[1]))
        state, message = examined("--data-dir", root)[f"port {bound.getsockname()[1]}"]
        assert (state, "could listen there" in message) == ("fault", True)


def test_a_running_server_is_looked_for_where_it_listens(root: Path, other_program: int) -> None:
    with (root / "lock").open("a") as lock:
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
    note_address(root, f"http://127.0.0.1:{other_program}")
    found = examined("--data-dir", root)
    configured = os.environ["PAI_PORT"]
    assert "another program" in found[f"port {other_program}"][1]
    assert f"port {configured}" not in found
    assert f"these settings say {configured}" in found["settings of the server"][1]
    # One that was killed does not matter any more.
    (root / "lock").write_text(f"{2**22 + 1}\nhttp://127.0.0.1:{other_program}\n")
    assert examined("--data-dir", root)[f"port {configured}"][0] == "warning"


def test_the_age_of_the_last_backup_counts(root: Path, tmp_path: Path) -> None:
    assert examined("--data-dir", root)["backups"][0] == "warning"
    assert run_pai("admin", "backup", str(tmp_path / "b.tar.gz"), "--data-dir", str(root)).code == 0
    state, message = examined("--data-dir", root)["backups"]
    assert (state, "b.tar.gz" in message) == ("ok", True)
    note = root / "last-backup"
    note.write_text(json.dumps({"time": time.time() - 8 * 86_400, "file": "x"}))
    assert examined("--data-dir", root)["backups"][0] == "warning"
    note.write_text("[")
    assert "none was made" in examined("--data-dir", root)["backups"][1]


@pytest.mark.parametrize(("days", "state"), [(-1, "fault"), (5, "warning"), (300, "ok")])
def test_the_end_of_certificates_is_seen(root: Path, tmp_path: Path, days: int, state: str) -> None:
    identity = tmp_path / "identity.yaml"
    identity.write_text(
        f"ldap:\n  url: ldaps://ldap.example.org\n  userBase: dc=example\n  caFile: {certificate(tmp_path, days)}\n"
    )
    config = tmp_path / "pai.yaml"
    config.write_text(f"identity: {identity}\n")
    assert examined("--config", config, "--data-dir", root)["certificate of the directory"][0] == state


@pytest.mark.parametrize(("days", "state"), [(-1, "fault"), (5, "warning"), (300, "ok")])
def test_the_end_of_the_certificates_of_a_kubeconfig_is_seen(root: Path, tmp_path: Path, days: int, state: str) -> None:
    pem = certificate(tmp_path, days).read_bytes()
    data = base64.b64encode(pem).decode()
    kubeconfig = tmp_path / "kube"
    access = {
        "clusters": [{"name": "c", "cluster": {"server": "https://k", "certificate-authority-data": data}}],
        "users": [{"name": "u", "user": {"client-certificate-data": data, "client-key-data": data}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig.write_text(json.dumps(access))
    config = tmp_path / "pai.yaml"
    config.write_text(f"backend: kubernetes\nkubeconfig: {kubeconfig}\n")
    found = examined("--config", config, "--data-dir", root)
    assert found["Kubernetes"][0] == "ok"
    assert found["Kubernetes certificate of the user"][0] == found["Kubernetes certificate authority"][0] == state
    kubeconfig.write_text("[")
    assert examined("--config", config, "--data-dir", root)["Kubernetes"][0] == "fault"


def certificate(where: Path, days: int) -> Path:
    """Return the file of a certificate that ends in so many days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now - timedelta(9)).not_valid_after(now + timedelta(days))
    file = where / "ca.pem"
    file.write_bytes(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return file


def test_the_bundle_holds_no_secret_that_is_anywhere(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_in_database(root / "openpai.db")
    planted = plant_elsewhere(root, tmp_path, monkeypatch)
    bundle = tmp_path / "bundle.tar.gz"
    done = run_pai("admin", "bundle", str(bundle), "--data-dir", str(root), "--log", str(tmp_path / "server.log"))
    assert done.code == 0, done.err
    assert bundle.stat().st_mode & 0o777 == 0o600
    texts = members(bundle)
    assert set(texts) == {"versions.json", "settings.json", "findings.json", "data.json", "log.json"}
    for name, text in texts.items():
        for word in (SECRET, *planted):
            assert word not in text, name
    assert json.loads(texts["data.json"])["rows"]["jobs"] == 1
    log = json.loads(texts["log.json"])
    assert [line.get("event") for line in log["lines"]] == ["a request failed", None]
    assert log["lines"][0]["errors"] == ["openpai.protocol.errors.Refused"]
    assert log["lines"][0]["frames"] == ["openpai/api/gate.py 105 _pass"]
    assert log["linesLeftOut"] == 1
    assert json.loads(texts["settings.json"])["metrics_url"] == "https://metrics.example.org/p"
    assert "exists already" in run_pai("admin", "bundle", str(bundle), "--data-dir", str(root)).err


def plant_in_database(file: Path) -> None:
    """Add a row to each table, with a secret in every column that is text or bytes and no name of the row."""
    from openpai.store.schema import metadata

    with sqlite3.connect(file) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        for table in metadata.sorted_tables:
            database.execute(f"DELETE FROM {table.name}")
            columns = list(table.columns)
            values = [_planted(column.type.python_type, is_key=column.primary_key) for column in columns]
            marks = ", ".join("?" * len(columns))
            database.execute(
                f"INSERT INTO {table.name} ({', '.join(c.name for c in columns)}) VALUES ({marks})", values
            )
    database.close()


def _planted(kind: type, *, is_key: bool) -> Any:
    if kind is bytes:
        return SECRET.encode()
    return (f"k-{SECRET}" if not is_key else "name") if kind is str else 1


def plant_elsewhere(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put secrets into the files, the environment, the settings and the log; return those of another form."""
    for place in (root / "logs" / SECRET / "stdout.log", root / "tasks" / SECRET / "code", root / SECRET):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(SECRET)
    identity = tmp_path / "identity.yaml"
    identity.write_text(
        f"ldap:\n  url: ldaps://ldap.example.org\n  userBase: dc=example\n  bindDN: cn=x\n  bindPassword: {SECRET}\n"
        f"  bindPasswordEnv: {SECRET}\n"
    )
    identity.chmod(0o600)
    monkeypatch.setenv("PAI_IDENTITY", str(identity))
    monkeypatch.setenv("PAI_METRICS_URL", f"https://pai:{SECRET}@metrics.example.org/p?token={SECRET}")
    monkeypatch.setenv("PAI_ADMIN_PASSWORD", SECRET)
    monkeypatch.setenv("PAI_TOKEN", SECRET)
    trace = (
        f'Traceback:\n  File "/x/openpai/api/gate.py", line 105, in _pass\n    {SECRET}\n'
        f"openpai.protocol.errors.Refused: {SECRET}\n"
    )
    lines = [
        {"event": "a request failed", "path": f"/{SECRET}", "error": SECRET, "exception": trace, "request_id": SECRET},
        {"event": SECRET, "logger": "uvicorn.error", SECRET: SECRET},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "server.log").write_text(f"first start: user admin, password {SECRET}\n{text}")
    return [(root / "secret.key").read_text().strip()]


def members(bundle: Path) -> dict[str, str]:
    """Return the parts of a bundle."""
    with tarfile.open(bundle) as packed:
        return {one.name.rpartition("/")[2]: packed.extractfile(one).read().decode() for one in packed.getmembers()}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://pai:a-b@db/pai refused",
        "Authorization: Bearer abcdef",
        "https://x/ eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.abc",
        "the known word rosebud",
    ],
)
def test_what_looks_like_a_secret_is_hidden_in_free_text(text: str) -> None:
    hidden = Hiding(["rosebud"]).text(text)
    assert "***" in hidden
    for word in ("a-b", "abcdef", "eyJ", "rosebud"):
        assert word not in hidden


def test_a_bundle_is_made_of_an_installation_that_is_broken(root: Path, tmp_path: Path) -> None:
    (root / "openpai.db").write_bytes(b"x" * 9000)
    done: Outcome = run_pai("admin", "bundle", str(tmp_path / "b.tgz"), "--data-dir", str(root), "--json")
    assert done.code == 0, done.err
    data = json.loads(members(tmp_path / "b.tgz")["data.json"])
    assert data["rows"] == {"isReadable": False}
    other = run_pai("admin", "bundle", str(tmp_path / "c.tgz"), "--data-dir", str(tmp_path / "none"))
    assert other.code == 0
    assert json.loads(members(tmp_path / "c.tgz")["data.json"]) == {"exists": False}
