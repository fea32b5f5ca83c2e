"""What an administrator says of devices, storages and credentials reaches the pods, on a real API server."""

from __future__ import annotations

import contextlib
from pathlib import Path
from secrets import token_hex

from openpai.app.backend import _kubernetes
from openpai.app.clock import SystemClock
from openpai.app.datadir import DataDir
from openpai.app.settings import Settings
from openpai.backends.kubernetes.volumes import SMB_DRIVER
from openpai.kube.client import KubeClient
from openpai.kube.errors import KubeError
from openpai.kube.objects import PODS, RESOURCE_SLICES
from openpai.kube.objects.kinds import CSI_DRIVERS, kind
from openpai.lifecycle.model import AttemptKey
from openpai.ports.backend import LaunchTask, Mount
from tests.contracts.seen import Watch
from tests.kube.fake_nodes import FakeNodes

WHOLE_PODS = kind(PODS.api_version, PODS.name, PODS.plural)


async def test_devices_of_any_maker_drivers_of_storages_and_site_credentials_are_used(
    kube_api: Path, kube: KubeClient, kube_namespace: str, kube_nodes: FakeNodes, tmp_path: Path
) -> None:
    (node,) = await kube_nodes.add(gpus=0, resources={"habana.ai/gaudi": "2", "example.com/nic": "4"})
    (intel,) = await kube_nodes.add(gpus=0)
    pool = {"name": intel, "generation": 1, "resourceSliceCount": 1}
    slices = {"driver": "gpu.intel.com", "nodeName": intel, "pool": pool, "devices": [{"name": "card-0"}]}
    await kube.create(RESOURCE_SLICES, {"metadata": {"name": intel}, "spec": slices})
    with contextlib.suppress(KubeError):  # it is there already
        await kube.create(CSI_DRIVERS, {"metadata": {"name": SMB_DRIVER}, "spec": {"attachRequired": False}})
    settings = Settings(
        backend="kubernetes", kubeconfig=kube_api, kube_namespace=kube_namespace, node_selector=kube_nodes.label,
        kube_gpus="habana.ai/*,gpu.intel.com=gpu.intel.com", kube_pull_secrets="site, other",
    )  # fmt: skip
    backend = _kubernetes(settings, DataDir(tmp_path, None), SystemClock(), token_hex(8).encode())
    await backend.open()
    try:
        assert {seen.name: seen.gpus for seen in await backend.nodes()} == {node: 2, intel: 1}
        share = Mount("share", "//files/team", "/mnt/share", filesystem="cifs", options="addr=files,rw,port=445,guest")
        bucket = Mount("bucket", "", "/mnt/bucket", claim="bucket")
        key = AttemptKey("devices", 0, "worker", 0, 0)
        launch = LaunchTask(key, 1, node, (0, 1), 1, 128, "image", "true", mounts=(share, bucket))
        await backend.apply([launch])
        await Watch(backend).until_running(key)
        (pod,) = await kube.list(WHOLE_PODS, kube_namespace)
        spec = pod.spec
        assert spec["containers"][0]["resources"]["limits"]["habana.ai/gaudi"] == "2"
        assert spec["imagePullSecrets"] == [{"name": "site"}, {"name": "other"}]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert volumes["storage-0"]["csi"]["driver"] == SMB_DRIVER
        assert volumes["storage-1"]["persistentVolumeClaim"] == {"claimName": "bucket"}
    finally:
        await backend.close()
