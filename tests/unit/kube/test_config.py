"""Kubeconfig files are read as kubectl reads them, and a pod's service account as client-go does."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import ssl
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml

from openpai.kube import credentials
from openpai.kube.config import cluster_access, service_account
from openpai.kube.credentials import TokenFile
from openpai.protocol.errors import Refused, Unavailable
from tests.kube.certificates import Authority


def kubeconfig(path: Path, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> Path:
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://kube:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def test_a_token_authenticates(tmp_path: Path) -> None:
    access = cluster_access(kubeconfig(tmp_path / "config", {"token": "secret"}))
    assert (access.server, access.namespace) == ("https://kube:6443", "team")
    assert await access.credentials.headers() == {"Authorization": "Bearer secret"}
    assert not await access.credentials.refresh()


async def test_a_password_authenticates(tmp_path: Path) -> None:
    access = cluster_access(kubeconfig(tmp_path / "config", {"username": "ann", "password": "p"}))
    assert await access.credentials.headers() == {"Authorization": "Basic " + base64.b64encode(b"ann:p").decode()}


def test_paths_are_relative_to_their_file_and_data_wins(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("the authority")
    (tmp_path / "ann.crt").write_text("a file")
    user = {
        "client-certificate": "ann.crt",
        "client-certificate-data": base64.b64encode(b"the data").decode(),
        "client-key-data": base64.b64encode(b"the key").decode(),
    }
    access = cluster_access(kubeconfig(tmp_path / "config", user, {"certificate-authority": "ca.crt"}))
    assert access.authority == "the authority"
    assert access.certificate == ("the data", "the key")


def test_the_first_of_several_files_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kubeconfig(tmp_path / "first", cluster={"server": "https://first"})
    second = kubeconfig(tmp_path / "second", cluster={"server": "https://second"})
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (tmp_path / "none", first, second))))
    assert cluster_access().server == "https://first"


def test_impersonation_is_asked_for(tmp_path: Path) -> None:
    access = cluster_access(kubeconfig(tmp_path / "config", {"as": "ann", "as-groups": ["a", "b"]}))
    assert access.headers == (("Impersonate-User", "ann"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no current-context"),
        ("[]", "is no kubeconfig"),
        ("{a: [", "is no YAML in line 1: "),
        ("current-context: x", "names context 'x'; there are: none"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", "names cluster 'c'; there are: none"),
    ],
)
def test_a_faulty_file_is_named_with_its_fault(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(Refused) as refused:
        cluster_access(path)
    assert message in refused.value.message
    assert str(path) in refused.value.message


def test_a_file_that_cannot_be_read_is_not_to_be_corrected(tmp_path: Path) -> None:
    with pytest.raises(Refused) as directory:
        cluster_access(tmp_path)
    assert directory.value.message == f"cannot read {tmp_path}: Is a directory"
    assert directory.value.advice == "make it readable, or name another kubeconfig with --kubeconfig or KUBECONFIG"
    (tmp_path / "config").write_bytes(b"\xff\xfe")
    with pytest.raises(Refused) as binary:
        cluster_access(tmp_path / "config")
    assert binary.value.message == f"cannot read {tmp_path / 'config'}: it is no text"


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider 'gcp'"),
        ({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, {}, "v1alpha1"),
        ({"client-certificate-data": "%%%"}, {}, "no base64"),
        ({"token": ["x"]}, {}, "Expected `str`"),
        ({}, {"server": "ftp://x"}, "no server with https"),
        ({}, {"certificate-authority": "missing"}, "cannot read"),
    ],
)
def test_a_faulty_entry_is_refused(tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused) as refused:
        cluster_access(kubeconfig(tmp_path / "config", user, cluster))
    assert message in refused.value.message


def test_no_kubeconfig_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no kubeconfig"):
        cluster_access(tmp_path / "none")


async def test_a_service_account_follows_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("token", "one\n"), ("ca.crt", "ca"), ("namespace", "team\n")):
        (tmp_path / name).write_text(content)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    access = service_account(tmp_path)
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "team")
    assert await access.credentials.headers() == {"Authorization": "Bearer one"}
    (tmp_path / "token").write_text("two")
    assert await access.credentials.headers() == {"Authorization": "Bearer one"}
    assert await access.credentials.refresh()
    assert await access.credentials.headers() == {"Authorization": "Bearer two"}


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "FILE_AGE_S", -1.0)
    file = tmp_path / "token"
    file.write_text("one")
    token = TokenFile(file)
    await token.headers()
    file.write_text("two")
    assert await token.headers() == {"Authorization": "Bearer two"}
    # While the file is being replaced, the last one is used on.
    file.unlink()
    assert await token.headers() == {"Authorization": "Bearer two"}


def program(path: Path, script: str) -> dict[str, Any]:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"command": f"./{path.name}", "apiVersion": version, "env": [{"name": "WHO", "value": "ann"}]}}


async def test_a_program_issues_a_token_until_it_expires(tmp_path: Path) -> None:
    status = {"token": "$WHO-$(wc -l < count)", "expirationTimestamp": "2000-01-01T00:00:00Z"}
    answer = json.dumps({"status": status}).replace('"', '\\"')
    user = program(tmp_path / "plugin", f'cd "$(dirname "$0")"; echo >> count; echo "{answer}"')
    access = cluster_access(kubeconfig(tmp_path / "config", user))
    assert await access.credentials.headers() == {"Authorization": "Bearer ann-1"}
    assert await access.credentials.headers() == {"Authorization": "Bearer ann-2"}


async def test_a_program_is_told_about_the_cluster_and_asked_once(tmp_path: Path) -> None:
    script = 'cd "$(dirname "$0")"; echo "$KUBERNETES_EXEC_INFO" >> info; echo \'{"status": {"token": "t"}}\''
    user = program(tmp_path / "plugin", script)
    user["exec"]["provideClusterInfo"] = True
    access = cluster_access(kubeconfig(tmp_path / "config", user))
    for _ in range(3):
        assert await access.credentials.headers() == {"Authorization": "Bearer t"}
    [line] = (tmp_path / "info").read_text().splitlines()
    assert json.loads(line)["spec"] == {"interactive": False, "cluster": {"server": "https://kube:6443/"}}
    assert await access.credentials.refresh()
    await access.credentials.headers()
    assert len((tmp_path / "info").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo no login >&2; exit 3", "exit code 3: no login"),
        ("echo text", "answered no ExecCredential"),
        ("echo '{\"status\": {}}'", "neither a token nor a certificate"),
    ],
)
async def test_a_program_that_fails_is_named(tmp_path: Path, script: str, message: str) -> None:
    access = cluster_access(kubeconfig(tmp_path / "config", program(tmp_path / "plugin", script)))
    with pytest.raises(Unavailable) as failed:
        await access.credentials.headers()
    assert message in failed.value.message


async def test_a_missing_program_names_how_to_get_it(tmp_path: Path) -> None:
    user = {"exec": {"command": "no-such-program-here", "installHint": "apt install it"}}
    access = cluster_access(kubeconfig(tmp_path / "config", user))
    with pytest.raises(Unavailable) as failed:
        await access.credentials.headers()
    assert failed.value.advice == "apt install it"


def test_a_read_of_a_connection_takes_no_more_memory_than_a_record(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", "kube", hosts=("kube",))
    access = cluster_access(
        kubeconfig(tmp_path / "config", cluster={"certificate-authority": str(authority.path.with_suffix(".crt"))})
    )
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    there.load_cert_chain(f"{pair}.crt", f"{pair}.key")
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = access.tls().wrap_bio(to_client, to_server, server_hostname="kube")
    server = there.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    sent = os.urandom(100_000)
    server.write(sent)
    found: list[bytes] = []
    tracemalloc.start()
    try:
        with contextlib.suppress(ssl.SSLWantReadError):
            while True:
                # As the event loop asks.
                found.append(client.read(256 << 10))
        assert tracemalloc.get_traced_memory()[1] < 150_000
    finally:
        tracemalloc.stop()
    assert b"".join(found) == sent
    server.write(sent)
    into = bytearray(1 << 20)
    count = int(client.read(len(into), into))
    assert sent.startswith(into[:count])
