"""Servers that hold files, one of each kind: a real one where there is a program for it, else a reason to skip."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port

from .webhdfs_server import TOKEN, webhdfs

SECRET = "s3cret,with/odd+signs"
# This key is public: the emulator has no other.
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
READY_WITHIN_S = 60

Said = tuple[dict[str, Any], str]
"""What to say of the storage, and the name of the field that holds its secret."""


@contextlib.contextmanager
def local(directory: Path) -> Iterator[Said]:
    """A directory."""
    yield {"type": "local", "data": {"path": str(directory)}}, ""


@contextlib.contextmanager
def s3(directory: Path) -> Iterator[Said]:
    """moto's server, with a bucket."""
    _need("moto", "s3fs")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        login = {"aws_access_key_id": "key", "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=url, **login).create_bucket(Bucket="bucket")
        data = {"bucket": "bucket", "prefix": "team/a", "endpoint": url, "accessKeyId": "key"}
        yield {"type": "s3", "data": {**data, "secretAccessKey": SECRET}}, "secretAccessKey"
    finally:
        server.stop()


@contextlib.contextmanager
def smb(directory: Path) -> Iterator[Said]:
    """Samba's server, with a share."""
    _need("smbprotocol")
    if shutil.which("smbd") is None or shutil.which("smbpasswd") is None:
        pytest.skip("there is no smbd here (Debian: apt install samba)")
    if os.geteuid() != 0:
        pytest.skip("smbd lets other users in only when root starts it")
    state, share, port = directory / "state", directory / "share", free_port()
    state.mkdir()
    (share / "below").mkdir(parents=True)
    (directory / "open").mkdir()
    places = ("private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir")
    config = directory / "smb.conf"
    config.write_text(
        "[global]\nserver role = standalone server\ndisable netbios = yes\nload printers = no\n"
        "map to guest = bad user\n"
        f"interfaces = lo\nbind interfaces only = yes\nsmb ports = {port}\nlog file = {directory}/log\n"
        f"passdb backend = smbpasswd:{state}/smbpasswd\n"
        + "".join(f"{place} = {state}\n" for place in places)
        + f"[data]\npath = {share}\nread only = no\n"
        + f"[open]\npath = {directory / 'open'}\nread only = no\nguest ok = yes\nforce user = root\n"
    )
    command = ["smbpasswd", "-c", str(config), "-a", "-s", "root"]
    subprocess.run(command, input=f"{SECRET}\n{SECRET}\n", text=True, check=True, capture_output=True)
    with _running(["smbd", "-F", "-s", str(config), "--no-process-group"], port, directory):
        data = {"address": "//127.0.0.1/data/below", "port": port, "username": "root", "password": SECRET}
        yield {"type": "smb", "data": data}, "password"


@contextlib.contextmanager
def hdfs(directory: Path) -> Iterator[Said]:
    """A small WebHDFS."""
    _need("requests", "fsspec")
    (directory / "team").mkdir()
    with webhdfs(directory) as port:
        data = {"server": "127.0.0.1", "port": port, "path": "/team", "delegationToken": TOKEN}
        yield {"type": "webhdfs", "data": data}, "delegationToken"


@contextlib.contextmanager
def azure(directory: Path) -> Iterator[Said]:
    """Azurite, with a container."""
    _need("adlfs")
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("there is no azurite-blob here (npm install -g azurite)")
    port = free_port()
    command = [program, "--blobPort", str(port), "--location", str(directory), "--silent", "--skipApiVersionCheck"]
    with _running(command, port, directory):
        from azure.storage.blob import ContainerClient

        url = f"http://127.0.0.1:{port}"
        client = ContainerClient(f"{url}/devstoreaccount1", "container", credential=AZURITE_KEY)
        client.create_container()
        client.close()
        data = {"accountName": "devstoreaccount1", "containerName": "container", "prefix": "team", "endpoint": url}
        yield {"type": "azureBlob", "data": {**data, "accountKey": AZURITE_KEY}}, "accountKey"


KINDS = {"local": local, "s3": s3, "smb": smb, "webhdfs": hdfs, "azureBlob": azure}


def _need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed")


@contextlib.contextmanager
def _running(command: list[str], port: int, directory: Path) -> Iterator[None]:
    with (directory / "output").open("wb") as output:
        # smbd ends its whole process group on SIGTERM: that must not be ours.
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{command[0]} did not start:\n{(directory / 'output').read_text()}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(60)
