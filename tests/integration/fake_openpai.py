"""An OpenPAI's REST server for tests: answers in the shapes that its version 1.8 gives to administrators."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "admin.of.openpai"
RESOURCES = {"cpu": 32, "memory": 204800, "gpu": 8, "vCores": 32, "GPUs": 8}


def vc(gpus: int = 8) -> dict[str, Any]:
    blocks = {key: {**RESOURCES, "gpu": gpus} for key in ("resourcesUsed", "resourcesGuaranteed", "resourcesTotal")}
    return {"capacity": 50, "maxCapacity": 50, "usedCapacity": 0, "dedicated": False, **blocks}


def group(
    name: str, *, admin: bool = False, vcs: tuple[str, ...] = (), storages: tuple[str, ...] = ()
) -> dict[str, Any]:
    acls = {"admin": admin, "virtualClusters": list(vcs), "storageConfigs": list(storages)}
    return {"groupname": name, "description": f"group {name}", "externalName": "", "extension": {"acls": acls}}


def user(name: str, *groups: str, admin: bool = False, **extension: Any) -> dict[str, Any]:
    return {
        "username": name,
        "email": f"{name}@example.org".lstrip("."),
        "grouplist": ["default", *groups],
        "extension": extension,
        "admin": admin,
        "virtualCluster": ["default"],
        "storageConfig": [],
    }


def storage(name: str, kind: str, *, share: bool = True, read_only: bool = False, **data: Any) -> dict[str, Any]:
    listed = {"name": name, "share": share, "volumeName": f"{name}-pv", "default": False}
    return {**listed, "type": kind, "data": data, "readOnly": read_only, "secretName": f"{name}-secret"}


def answers() -> dict[str, Any]:
    """Return what each path answers."""
    storages = [
        storage("nfs-data", "nfs", server="10.0.0.5", path="/data"),
        storage("homes", "samba", share=False, address="//10.0.0.6/homes", username="smb", password="smb-secret"),
        storage("files", "azureFile", shareName="files", accountName="acct", accountKey="a2V5"),
        storage("blobs", "azureBlob", read_only=True, containerName="c", accountName="acct", accountKey="a2V5"),
        storage("odd", "other"),
    ]
    groups = [
        group("default", vcs=("default",)),
        group("admingroup", admin=True, vcs=("default", "vision"), storages=("nfs-data",)),
        group("vision", vcs=("vision",), storages=("homes", "nfs-data", "odd", "hidden")),
    ]
    users = [
        user("boss", "admingroup", admin=True),
        user("ann", "vision", sshKeys=[{"title": "laptop", "value": "ssh-ed25519 AAAA", "time": 1}]),
        user("bob", "gone", jobSSH={"key": "-----BEGIN RSA PRIVATE KEY-----", "pubKey": "ssh-rsa AAAA"}),
        user(".ghost"),
    ]
    return {
        "/info": {"name": "PAI RESTful API", "version": "v1.8.1", "launcherType": "k8s", "authnMethod": "basic"},
        "/users": users,
        "/groups": groups,
        "/storages": {
            "storages": [{k: one[k] for k in ("name", "share", "volumeName", "default")} for one in storages]
        },
        "/virtual-clusters": {"default": vc(), "vision": vc(4)},
        **{f"/storages/{one['name']}": one for one in storages},
    }


JOB = {
    "protocolVersion": 2,
    "name": "train",
    "type": "job",
    "prerequisites": [
        {"type": "dockerimage", "name": "image", "uri": "python", "auth": {"username": "u", "password": "******"}}
    ],
    "secrets": "******",
    "taskRoles": {
        "Work_er": {
            "instances": 2,
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 4, "memoryMB": 8192, "gpu": 2},
            "commands": ["python train.py --key <% $secrets.key %>"],
        }
    },
    "defaults": {"virtualCluster": "vision"},
}
DAY = 1_600_000_000_000


def job(user: str, name: str, state: str = "SUCCEEDED", code: int | None = 0, **config: Any) -> dict[str, Any]:
    """Return the answers about a job: its line in the list, its details and its file."""
    summary = {
        "debugId": hashlib.md5(f"{user}~{name}".encode()).hexdigest(),
        "name": name,
        "username": user,
        "state": state,
        "subState": "Completed",
        "executionType": "START",
        "tags": [],
        "retries": 1,
        "retryDetails": {"user": 1, "platform": 0, "resource": 0},
        "retryDelayTime": None,
        "submissionTime": DAY,
        "createdTime": DAY + 1_000,
        "launchedTime": DAY + 5_000,
        "completedTime": None if code is None else DAY + 65_000,
        "appExitCode": code,
        "virtualCluster": "vision",
        "totalGpuNumber": 4,
        "totalTaskNumber": 2,
        "totalTaskRoleNumber": 1,
        "jobPriority": "prod",
    }
    status = {
        **summary,
        "attemptId": 1,
        "appCreatedTime": DAY + 1_000,
        "appLaunchedTime": DAY + 5_000,
        "appCompletedTime": summary["completedTime"],
        "appExitTriggerMessage": "FailedTaskCount 1 has reached MinFailedTaskCount 1." if code else None,
        "appExitTriggerTaskRoleName": "worker" if code else None,
        "appExitTriggerTaskIndex": 1 if code else None,
    }
    tasks = [
        {
            "taskIndex": index,
            "taskState": state,
            "containerIp": f"10.0.0.{index}",
            "containerNodeName": f"gpu-{index}",
            "containerPorts": {"ssh": "1"},
            "containerExitCode": code,
            "retries": 0,
            "accountableRetries": 0,
            "createdTime": DAY + 1_000,
            "launchedTime": DAY + 5_000,
            "completedTime": summary["completedTime"],
            "attemptId": 0,
        }
        for index in range(2)
    ]
    roles = {"worker": {"taskRoleStatus": {"name": "worker"}, "taskStatuses": tasks}}
    path = f"/jobs/{user}~{name}"
    return {
        "summary": summary,
        path: {"debugId": summary["debugId"], "name": name, "jobStatus": status, "taskRoles": roles},
        f"{path}/config": {**JOB, "name": name, **config},
    }


def with_jobs(*found: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of an OpenPAI that has these jobs."""
    listed = {"/jobs": [one["summary"] for one in found]}
    return {**answers(), **listed, **{path: one[path] for one in found for path in one if path != "summary"}}


@contextmanager
def open_openpai(found: dict[str, Any], prefix: str = "/rest-server/api/v2") -> Iterator[str]:
    """Serve an OpenPAI; yield its address. It refuses the first `busy` requests as too many."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            document = found.get(path.removeprefix(prefix)) if path.startswith(prefix) else None
            status = 200
            if found.get("busy") and not path.endswith("/info"):
                found["busy"] -= 1
                status, document = 429, "Too many requests, please try again later."
            elif document is None:
                status, document = 404, {"code": "NoApiError", "message": f"API {path} is not found."}
            elif not path.endswith("/info") and self.headers["Authorization"] != f"Bearer {TOKEN}":
                status, document = 401, {"code": "UnauthorizedUserError", "message": "Your token is invalid."}
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
