"""What `pai cluster` shows of a release: changes between revisions, problems of parts, and what belongs in a file."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from openpai.app.cluster import bundle, images, manifests, parts
from openpai.protocol.errors import PaiError

SERVER = {"app.kubernetes.io/component": "server"}


def a_manifest(**fields: Any) -> str:
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "openpai", "labels": {}},
        "spec": {"replicas": 1, **fields},
    }
    return json.dumps(deployment)


def test_a_plan_names_each_field_and_never_a_secret() -> None:
    secret = '---\n{"kind": "Secret", "metadata": {"name": "key"}, "data": {"secret-key": "%s"}}\n'
    old = f"{a_manifest()}\n{secret % 'aaaa'}---\n{json.dumps({'kind': 'Service', 'metadata': {'name': 'gone'}})}"
    new = f"{a_manifest(replicas=2)}\n{secret % 'bbbb'}"
    lines = list(manifests.lines(manifests.changes(old, new)))
    assert lines == [
        "change  Deployment openpai",
        "          spec.replicas: 1 -> 2",
        "change  Secret key",
        "          data.secret-key: a new value",
        "remove  Service gone",
    ]
    assert manifests.summary(manifests.changes(old, old)) == "no object changes"
    assert manifests.summary(manifests.changes("", new)) == "objects: 2 created"


def test_what_the_chart_keeps_is_not_called_removed_and_its_version_is_no_change() -> None:
    kept = {"kind": "Namespace", "metadata": {"name": "jobs", "annotations": {"helm.sh/resource-policy": "keep"}}}
    assert [one.what for one in manifests.changes(json.dumps(kept), "")] == ["keep"]
    first, second = ({"kind": "Service", "metadata": {"name": "a", "labels": {"helm.sh/chart": v}}} for v in ("1", "2"))
    assert manifests.changes(json.dumps(first), json.dumps(second)) == []


def a_pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "labels": SERVER}, "spec": {"nodeName": "n"}, "status": status}


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"image": "r/x:1", "ready": False, "restartCount": 3, **state}]}


@pytest.mark.parametrize(
    ("pod", "message", "advice"),
    [
        (a_pod(**container(state={"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}})),
         "the image r/x:1 cannot be had: no such host", "--bundle"),
        (a_pod(**container(state={"waiting": {"reason": "CrashLoop"}}, lastState={"terminated": {"exitCode": 2}})),
         "its program ended with exit code 2, and was restarted 3 times", "kubectl logs p --previous"),
        (a_pod(**container(state={}, lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
         "exit code 137, OOMKilled", "kubectl logs"),
        (a_pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes: Insufficient cpu"}]),
         "no node takes it: 0/3 nodes: Insufficient cpu", "resources.requests"),
        (a_pod(**container(state={"waiting": {"reason": "CreateContainerConfigError", "message": "no secret x"}})),
         "cannot start: no secret x", "create what it names"),
    ],
)  # fmt: skip
def test_a_problem_says_what_and_what_to_do(pod: dict[str, Any], message: str, advice: str) -> None:
    found = parts.problems(parts.Snapshot(pods=[pod]))
    assert len(found) == 1
    assert message in found[0].message
    assert advice in found[0].advice


def test_a_volume_that_waits_for_its_pod_is_no_problem_and_one_without_a_class_is() -> None:
    claim = {"metadata": {"name": "v"}, "spec": {}, "status": {"phase": "Pending"}}

    def event(output: str) -> dict[str, Any]:
        return {"involvedObject": {"kind": "PersistentVolumeClaim", "name": "v"}, "message": output}

    waits = parts.Snapshot(claims=[claim], events=[event("waiting for first consumer to be created before binding")])
    assert parts.problems(waits) == []
    lacks = parts.problems(parts.Snapshot(claims=[claim], events=[event("no persistent volumes available")]))
    assert "no default storage class: no persistent volumes" in lacks[0].message
    assert "storage.storageClassName" in lacks[0].advice


def test_a_deployment_is_ready_only_in_its_newest_form() -> None:
    status = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
    one: dict[str, Any] = {"metadata": {"name": "d", "generation": 2}, "spec": {"replicas": 1}, "status": status}
    assert parts.Snapshot(deployments=[one]).is_ready
    assert not parts.Snapshot().is_ready
    for change in ({"observedGeneration": 1}, {"updatedReplicas": 0}, {"readyReplicas": 0}, {"replicas": 2}):
        assert not parts.Snapshot(deployments=[{**one, "status": {**status, **change}}]).is_ready


def an_image(path: Path, name: str = "registry.test/ai/openpai:1") -> Path:
    parts_ = {"c.json": b"{}", "l/layer.tar": b"layer"}
    manifest = [{"Config": "c.json", "RepoTags": [name], "Layers": ["l/layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        for member, data in {**parts_, "manifest.json": json.dumps(manifest).encode()}.items():
            about = tarfile.TarInfo(member)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    return path


def a_bundle(tmp_path: Path) -> Path:
    file = tmp_path / "b.tar"
    bundle.bundle(file, [str(an_image(tmp_path / "i.tar"))], json=True)
    return file


def test_a_bundle_gives_back_what_it_was_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = a_bundle(tmp_path)
    assert json.loads(capsys.readouterr().out)["images"] == {"images/0.tar": "registry.test/ai/openpai:1"}
    with bundle.opened(file) as found:
        assert (found.chart / "Chart.yaml").is_file()
        assert found.images[0].read_bytes() == (tmp_path / "i.tar").read_bytes()
        assert (found.chart.parent / "crds/framework.yaml").is_file()
        assert bundle.image_values(found, "r.test:5000/x") == ["image.repository=r.test:5000/x/openpai", "image.tag=1"]
        assert bundle.image_values(found, None) == ["image.repository=registry.test/ai/openpai", "image.tag=1"]
        work = found.chart.parent
    assert not work.exists()


@pytest.mark.parametrize(
    ("works", "has_image", "advice"),
    [(False, False, "start docker"), (True, False, "pull or build"), (True, True, "correct that")],
)
def test_an_image_that_is_not_saved_is_not_pulled_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool, has_image: bool, advice: str
) -> None:
    engine = tmp_path / "bin" / "docker"
    engine.parent.mkdir()
    engine.write_text(
        f"#!/bin/sh\ncase $1 in version) exit {int(not works)};; image) exit {int(not has_image)};; "
        "*) echo no room >&2; exit 1;; esac\n"
    )
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engine.parent}:/usr/bin:/bin")
    with pytest.raises(PaiError) as caught:
        bundle.bundle(tmp_path / "b.tar", ["openpai:1"])
    assert caught.value.advice.startswith(advice)


def test_a_bundle_that_is_cut_off_or_changed_is_refused(tmp_path: Path) -> None:
    data = a_bundle(tmp_path).read_bytes()
    at = data.index(b"layer", data.index(b"l/layer.tar"))
    for number, bad in enumerate((data[: len(data) // 2], data[:at] + b"LAYER" + data[at + 5 :], b"no tar")):
        file = tmp_path / f"bad{number}.tar"
        file.write_bytes(bad)
        with pytest.raises(PaiError, match="damaged or incomplete"), bundle.opened(file):
            pass


def test_a_member_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hostile.tar"
    with tarfile.open(file, "w") as tar:
        tar.addfile(tarfile.TarInfo("../outside"))
    with pytest.raises(PaiError, match="does not belong there"), bundle.opened(file):
        pass
    assert not (tmp_path.parent / "outside").exists()


@pytest.mark.parametrize("text", ["", "a b/c", "https://", "host/UPPER"])
def test_a_registry_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PaiError, match="--registry"):
        images.place(text)


def test_an_archive_without_a_name_or_an_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PaiError, match="has no name"), images.read_archive(an_image(tmp_path / "i.tar", "")):
        pass
    (tmp_path / "x").write_text("no image")
    with pytest.raises(PaiError, match="cannot be read as an archive"), images.read_archive(tmp_path / "x"):
        pass
