"""Task attempts as pods: what a task gets, what it may not do, and names that no other attempt has."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import Any

import msgspec
import pytest

from openpai.backends.kubernetes.bundles import SECRET_BYTES_MAX, Bundles
from openpai.backends.kubernetes.devices import DeviceRequest
from openpai.backends.kubernetes.names import host_name, is_dns_label, label_value, people_labels, pod_name
from openpai.backends.kubernetes.pod_bodies import PodBodies
from openpai.backends.kubernetes.pods import (
    Parts,
    Placement,
    PodOptions,
    fence_pod,
    network_service,
    task_pod,
)
from openpai.backends.kubernetes.seals import Identity, Seals
from openpai.kube.objects.kinds import PODS
from openpai.kube.objects.pods import Pod
from openpai.kube.objects.protobuf import pod_of as pod_read
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import LaunchTask, Mount, RegistryAuth
from tests.contracts.seen import a_key

SEALS = Seals(b"secret", "jobs")
PEERS = "Worker_A 0 10.0.0.1 ssh=15000\nWorker_A 1 10.0.0.2 ssh=15000\n"


def a_launch(**changes: Any) -> LaunchTask:
    fields: dict[str, Any] = {
        "key": a_key(),
        "grant": 7,
        "node": "n1",
        "devices": (0, 1),
        "cpus": 2,
        "memory_mb": 1024,
        "image": "registry.example/team/image:1",
        "commands": "python train.py --token hidden",
        **changes,
    }
    return LaunchTask(**fields)


def bundles(seals: Seals = SEALS) -> Bundles:
    return Bundles(seals.scope, seals.fingerprint)


def a_pod(launch: LaunchTask, options: PodOptions | None = None, **parts: Any) -> dict[str, Any]:
    return task_pod(launch, options or PodOptions(), SEALS, Parts(bundles().of(launch), **parts))


def the_container(pod: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    return dict(container)


def environment(pod: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in the_container(pod)["env"]}


def pod_of(body: dict[str, Any]) -> Pod:
    return PODS.decoder.decode(json.dumps({**body, "metadata": {**body["metadata"], "namespace": "jobs"}}))


def test_a_pod_has_no_more_rights_than_a_container_of_docker() -> None:
    pod = a_pod(a_launch())
    security = the_container(pod)["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"]["drop"] == ["ALL"]
    assert not {"SYS_ADMIN", "NET_RAW", "SYS_PTRACE", "MKNOD", "IPC_LOCK"} & set(security["capabilities"]["add"])
    spec = pod["spec"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert (spec["restartPolicy"], spec.get("hostNetwork"), spec.get("serviceAccountName")) == ("Never", None, None)


def test_no_secret_of_a_job_is_in_its_pod() -> None:
    launch = a_launch(auth=RegistryAuth("ann", "hidden-password"), shared_env={"PAI_JOB_NAME": "x"})
    text = json.dumps(a_pod(launch))
    assert "hidden" not in text
    assert "hidden" not in repr(bundles().of(launch))


def test_the_commands_are_in_a_secret_that_all_tasks_of_the_role_share() -> None:
    commands, variables, made = "echo shared", {"PAI_JOB_NAME": "x"}, bundles()
    first, second = (made.of(a_launch(key=a_key(index), commands=commands, shared_env=variables)) for index in (0, 1))
    assert first is second
    (body,) = first.bodies.values()
    assert b"echo shared" in b64decode(json.loads(body)["data"]["user.sh"])
    other = made.of(a_launch(commands="echo other"))
    assert set(other.files).isdisjoint(first.files)
    # The name follows from the content, and from the platform's secret, so that it does not give the content away.
    assert bundles().of(a_launch(commands="echo shared")).files == first.files
    assert bundles(Seals(b"other", "jobs")).of(a_launch(commands="echo shared")).files != first.files


def test_a_megabyte_of_variables_and_as_many_hosts_fit_into_objects_of_a_megabyte() -> None:
    shared = {f"PAI_HOST_IP_worker_{index}": "x" * 1000 for index in range(700)}
    launch = a_launch(shared_env=shared, hosts="y" * 900_000, commands="z" * 800_000)
    bundle = bundles().of(launch)
    sizes = [sum(len(b64decode(text)) for text in json.loads(body)["data"].values()) for body in bundle.bodies.values()]
    assert max(sizes) <= SECRET_BYTES_MAX
    assert len(bundle.files) == 3
    pod = a_pod(launch)
    assert len(json.dumps(pod)) < 20_000
    assert len([source for source in pod["spec"]["volumes"][1]["projected"]["sources"] if "secret" in source]) == 3


def test_what_fits_in_no_secret_is_refused_with_both_sizes() -> None:
    with pytest.raises(ValueError, match=r"user\.sh has 2,\d+,\d+ bytes, and a Secret of Kubernetes holds 1,048,576"):
        bundles().of(a_launch(commands="z" * (1 << 21)))


def test_pods_that_are_encoded_together_are_those_that_are_made_one_by_one() -> None:
    devices = [DeviceRequest({"nvidia.com/gpu": count}, {"CUDA_VISIBLE_DEVICES": str(count)}) for count in (1, 2)]
    launches = [
        a_launch(key=a_key(index), env={"PAI_TASK_INDEX": str(index)}, ports=ports, hosts=PEERS, labels={"index": "i"})
        for index, ports in enumerate([(), (15000,), (15001, 15002)])
    ]
    for options in (
        PodOptions(),
        PodOptions(host_network=True, checkpoint_claim="kept", priority_class="high", fetch_mb_max=1),
    ):
        made, bodies, binary = bundles(), PodBodies(options, SEALS), PodBodies(options, SEALS)
        bodies.only_json = True
        for launch in launches:
            for request in devices:
                parts = Parts(made.of(launch), request)
                body = bodies.of(launch, parts)
                assert json.loads(body.content) == task_pod(launch, options, SEALS, parts)
                assert body.identity == SEALS.identity(pod_of(json.loads(body.content)))
                read = PODS.decoder.decode(body.content)
                assert pod_read(binary.of(launch, parts).content) == msgspec.structs.replace(
                    read, api_version="", kind=""
                )


def test_a_pod_with_a_field_that_protobuf_has_no_place_for_here_is_sent_in_json() -> None:
    odd = PodOptions(tolerations=[{"key": "gpu", "newer": "field"}])
    parts = Parts(bundles().of(a_launch()))
    body = PodBodies(odd, SEALS).of(a_launch(), parts)
    assert not body.is_binary
    assert json.loads(body.content) == task_pod(a_launch(), odd, SEALS, parts)
    assert PodBodies(PodOptions(), SEALS).of(a_launch(), parts).is_binary


def test_a_created_pod_whose_seal_was_changed_is_not_taken_for_what_was_sent() -> None:
    bodies = PodBodies(PodOptions(), SEALS)
    bodies.only_json = True
    body = bodies.of(a_launch(), Parts(bundles().of(a_launch())))
    pod = json.loads(body.content)
    assert body.identity_of(pod_of(pod)) == body.identity
    pod["metadata"]["annotations"]["openpai/identity"] = "{}"
    assert body.identity_of(pod_of(pod)) is None


def test_a_variable_reaches_the_task_as_it_is() -> None:
    pod = a_pod(a_launch(env={"PAI_ODD": "$(HOME) $$ `x` $HOME"}))
    # Kubernetes reads `$$` as `$`, and replaces `$(NAME)`.
    assert environment(pod)["PAI_ODD"] == "$$(HOME) $$$$ `x` $$HOME"


def test_devices_come_with_what_their_node_needs() -> None:
    launch = a_launch(env={"NVIDIA_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"})
    request = DeviceRequest(
        {"nvidia.com/gpu": 2}, {"CUDA_VISIBLE_DEVICES": "0,1"}, frozenset({"NVIDIA_VISIBLE_DEVICES"})
    )
    pod = a_pod(launch, devices=request, claims=[{"name": "devices", "resourceClaimName": "c"}])
    resources = the_container(pod)["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "2", "memory": "1024Mi", "nvidia.com/gpu": "2"}
    assert resources["claims"] == [{"name": "devices"}]
    assert pod["spec"]["resourceClaims"] == [{"name": "devices", "resourceClaimName": "c"}]
    assert "NVIDIA_VISIBLE_DEVICES" not in environment(pod)


def test_a_pod_names_its_node_or_leaves_it_to_kube_scheduler() -> None:
    assert a_pod(a_launch())["spec"]["nodeName"] == "n1"
    polite = a_pod(a_launch(), PodOptions(placement=Placement.POLITE))["spec"]
    assert "nodeName" not in polite
    assert '"metadata.name", "operator": "In", "values": ["n1"]' in json.dumps(polite["affinity"])


def test_ports_are_those_of_the_node_in_both_networks() -> None:
    launch = a_launch(ports=(15000, 15001))
    assert the_container(a_pod(launch))["ports"] == [
        {"containerPort": 15000, "hostPort": 15000},
        {"containerPort": 15001, "hostPort": 15001},
    ]
    on_host = a_pod(launch, PodOptions(host_network=True))
    assert (on_host["spec"]["hostNetwork"], on_host["spec"]["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    container = the_container(on_host)
    assert "ports" not in container
    # Nothing but the task itself can find out whether another program listens there.
    assert "15000:3A98 15001:3A99" in container["command"]
    assert "NET_BIND_SERVICE" not in container["securityContext"]["capabilities"]["add"]


def test_tasks_of_a_job_have_names_in_dns() -> None:
    launch = a_launch(hosts=PEERS)
    spec, service = a_pod(launch)["spec"], network_service(launch, SEALS.scope)
    assert (spec["hostname"], spec["subdomain"]) == (host_name(launch.key), service["metadata"]["name"])
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert service["spec"]["selector"].items() <= a_pod(launch)["metadata"]["labels"].items()
    assert "subdomain" not in a_pod(a_launch(hosts="Worker_A 0 10.0.0.1\n"))["spec"]


def test_options_of_the_cluster_reach_the_pod() -> None:
    options = PodOptions(
        setuid=True,
        infiniband="rdma/hca",
        priority_class="jobs",
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        pull_secrets=["site"],
        work_mb_max=100,
    )
    pod = a_pod(a_launch(infiniband=True, shm_mb=64, grace_s=0.0, auth=RegistryAuth("a", "b")), options)
    spec, container = pod["spec"], the_container(pod)
    assert container["securityContext"]["allowPrivilegeEscalation"] is True
    assert "IPC_LOCK" in container["securityContext"]["capabilities"]["add"]
    assert container["resources"]["limits"].items() >= {"rdma/hca": "1", "ephemeral-storage": "100Mi"}.items()
    assert spec["priorityClassName"] == "jobs"
    assert {"key": "gpu", "operator": "Exists"} in spec["tolerations"]
    assert spec["imagePullSecrets"][0] == {"name": "site"}
    assert len(spec["imagePullSecrets"]) == 2
    assert spec["volumes"][2]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Mi"}
    # 0 would remove the pod from the API without waiting for its container.
    assert spec["terminationGracePeriodSeconds"] == 1


@pytest.mark.parametrize(
    ("image", "named", "registry"),
    [
        ("registry.example/team/image:1", "", "registry.example"),
        ("localhost:5000/image", "", "localhost:5000"),
        ("team/image", "", "https://index.docker.io/v1/"),
        ("image", "", "https://index.docker.io/v1/"),
        ("image", "registry.example", "registry.example"),
    ],
)
def test_credentials_are_for_the_registry_of_the_image(image: str, named: str, registry: str) -> None:
    bundle = bundles().of(a_launch(image=image, auth=RegistryAuth("ann", "hidden", named)))
    secret = json.loads(bundle.bodies[bundle.registry])
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert list(json.loads(b64decode(secret["data"][".dockerconfigjson"]))["auths"]) == [registry]


def test_names_are_dns_labels_that_no_other_attempt_has() -> None:
    job = "0123456789abcdef" * 2
    keys = [
        AttemptKey(job, job_attempt, role, index, attempt)
        for job_attempt in (0, 1)
        for role in ("worker", "Worker", "WORKER_", "w" * 200, "worker-1", "工人")
        for index in (0, 1, 11)
        for attempt in (0, 1)
    ]
    names = {pod_name(SEALS.scope, key) for key in keys}
    assert len(names) == len(keys)
    assert all(re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) and len(name) <= 253 for name in names)
    hosts = {(key.role, key.index): host_name(key) for key in keys}
    assert len(set(hosts.values())) == len(hosts)
    assert all(map(is_dns_label, hosts.values()))
    # A task has the same host in another attempt.
    assert len({host_name(key) for key in keys}) == len(hosts)
    assert pod_name("other", keys[0]) not in names


def test_labels_for_people_are_always_legal() -> None:
    labels = people_labels({"user": "ann@example.org", "job": "-" + "x" * 100 + "-", "role": "工人", "other": "y"})
    assert all(re.fullmatch(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", value) for value in labels.values())
    assert all(len(value) <= 63 for value in labels.values())
    assert "y" not in labels.values()
    assert label_value("vision_1.2") == "vision_1.2"


def as_read(body: dict[str, Any], **changes: Any) -> Any:
    body = {**body, "metadata": {**body["metadata"], "namespace": "jobs", **changes.pop("metadata", {})}, **changes}
    return PODS.decoder.decode(json.dumps(body).encode())


def test_a_pod_is_what_its_seal_says() -> None:
    launch = a_launch()
    identity = SEALS.identity(as_read(a_pod(launch)))
    assert identity == Identity(launch.key, 7, "n1", (0, 1))
    report = ExitReport(143, ExitReason.ABSENT, "there was no task to kill", ended_at_ms=5)
    fence = SEALS.identity(as_read(fence_pod(Identity(launch.key, 7, "n1"), "", report, SEALS)))
    assert fence is not None
    assert fence.fence == report


@pytest.mark.parametrize(
    "forgery",
    [
        {"metadata": {"name": "pai-other"}},
        {"metadata": {"namespace": "elsewhere"}},
        {"metadata": {"annotations": {}}},
        {"metadata": {"annotations": {"openpai/seal": "0" * 64}}},
        {"spec": {"nodeName": "another-node"}},
    ],
)
def test_a_forged_pod_is_nothing(forgery: dict[str, Any]) -> None:
    body = a_pod(a_launch())
    assert SEALS.identity(as_read(body)) is not None
    changed = {**forgery, "metadata": {**forgery.get("metadata", {})}}
    if forgery.get("metadata", {}).get("annotations"):
        changed["metadata"]["annotations"] = {**body["metadata"]["annotations"], **forgery["metadata"]["annotations"]}
    assert SEALS.identity(as_read(body, **changed)) is None


def test_a_changed_grant_breaks_the_seal_and_another_platform_cannot_make_one() -> None:
    body = a_pod(a_launch())
    sealed = dict(body["metadata"]["annotations"])
    sealed["openpai/identity"] = json.dumps({**json.loads(sealed["openpai/identity"]), "grant": 8})
    assert SEALS.identity(as_read(body, metadata={"annotations": sealed})) is None
    assert Seals(b"other", "jobs").identity(as_read(body)) is None


def test_what_is_remembered_is_sealed_under_its_name() -> None:
    text = SEALS.close("memory n1", "{}")
    assert SEALS.open("memory n1", text) == "{}"
    assert SEALS.open("memory n2", text) is None
    assert SEALS.open("memory n1", text + " ") is None


def test_a_storage_has_its_variable() -> None:
    pod = a_pod(a_launch(mounts=(Mount("team-data", "/srv", "/mnt/data"),)))
    assert environment(pod)["PAI_STORAGE_TEAM_DATA"] == "/mnt/data"


def test_checkpoints_are_on_the_claim_else_on_a_storage_the_job_may_write_to_else_nowhere() -> None:
    read_only = Mount("data", ":/x", "/mnt/data", filesystem="nfs", options="addr=h", is_read_only=True)
    shared = Mount("team", ":/y", "/mnt/team", filesystem="nfs", options="addr=h")
    place = f"{a_key().job}/Worker_A.0"
    claimed = a_pod(a_launch(mounts=(shared,)), PodOptions(checkpoint_claim="pai-checkpoints"))
    assert {"name": "pai-checkpoints", "persistentVolumeClaim": {"claimName": "pai-checkpoints"}} in claimed["spec"][
        "volumes"
    ]
    (mount,) = [one for one in the_container(claimed)["volumeMounts"] if one["name"] == "pai-checkpoints"]
    assert mount == {"name": "pai-checkpoints", "mountPath": "/usr/local/pai-checkpoints", "subPath": place}
    assert environment(claimed)["PAI_CHECKPOINT_DIR"] == "/usr/local/pai-checkpoints"
    on_storage = environment(a_pod(a_launch(mounts=(read_only, shared))))
    assert on_storage["PAI_CHECKPOINT_DIR"] == f"/mnt/team/.pai-checkpoints/{place}"
    nowhere = environment(a_pod(a_launch(mounts=(read_only,))))
    assert "PAI_CHECKPOINT_DIR" not in nowhere
    assert "--kube-checkpoint-claim" in nowhere["PAI_CHECKPOINT_MESSAGE"]


def test_a_task_reads_the_annotation_with_the_reason_of_its_end_as_a_file() -> None:
    pod = a_pod(a_launch())
    (files,) = [one["projected"] for one in pod["spec"]["volumes"] if "projected" in one]
    (annotation,) = [item for one in files["sources"] if "downwardAPI" in one for item in one["downwardAPI"]["items"]]
    assert annotation == {"path": "notice", "fieldRef": {"fieldPath": "metadata.annotations['openpai/end-notice']"}}
    assert environment(pod)["PAI_PREEMPTION_NOTICE"] == "/usr/local/pai/notice.json"
