"""The variables of tasks: those of all in a file that the shell of each reads, or in the pods where they are few."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from openpai.backends.kubernetes.bundles import Bundle, Bundles
from openpai.backends.kubernetes.pods import Parts, PodOptions, task_pod, variables_of_job
from openpai.backends.kubernetes.variables import FILES
from tests.unit.backends.test_kubernetes_pods import (
    PEERS,
    SEALS,
    a_launch,
    a_pod,
    bundles,
    environment,
    the_container,
)


def files_of(bundle: Bundle) -> dict[str, str]:
    bodies = [json.loads(bundle.bodies[name])["data"] for name in bundle.files]
    return {name: b64decode(text).decode() for data in bodies for name, text in data.items()}


def started(pod: dict[str, Any], bundle: Bundle, folder: Path, of_image: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the first script of a container finds."""
    for name, text in files_of(bundle).items():
        (folder / name).write_text(text)
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    (folder / "wrapper.sh").write_text(f"exec '{sys.executable}' -c '{show}'")
    command = [word.replace(FILES, str(folder)) for word in the_container(pod)["command"]]
    # As the kubelet reads it.
    given = {name: text.replace("$$", "$") for name, text in environment(pod).items()}
    ran = subprocess.run(command, env={**of_image, **given}, capture_output=True, check=True, text=True)
    return dict(json.loads(ran.stdout))


def test_a_task_has_the_variables_of_its_job_whose_pod_has_only_its_own(tmp_path: Path) -> None:
    shared = {f"PAI_HOST_IP_worker_{index}": f"10.0.0.{index}" for index in range(600)}
    shared["PAI_ODD"] = "a 'b'\n$HOME `c` \\"
    own = {"PAI_HOST_IP_worker_7": "10.0.0.7", "PAI_HOST_IP_worker_8": "10.9.9.9", "PAI_TASK_INDEX": "7"}
    launch, options = a_launch(shared_env=shared, env=own, hosts=PEERS), PodOptions(fetch_mb_max=1)
    bundle = Bundles(SEALS.scope, SEALS.fingerprint, partial(variables_of_job, options=options)).of(launch)
    whole = environment(task_pod(launch, options, SEALS, Parts(Bundle(bundle.files))))
    pod = task_pod(launch, options, SEALS, Parts(bundle))
    assert environment(pod) == {
        "PAI_HOST_IP_worker_8": "10.9.9.9",
        "PAI_TASK_INDEX": "7",
        "PAI_OWN_VARIABLES": "PAI_HOST_IP_worker_8",
    }
    # What an image that was made of another task has left of it does not count.
    found = started(pod, bundle, tmp_path, {"PAI_HOST_IP_worker_9": "10.8.8.8", "OF_IMAGE": "kept"})
    assert found.items() >= {**whole, "PAI_ODD": shared["PAI_ODD"], "OF_IMAGE": "kept"}.items()


def test_variables_that_no_shell_exports_come_from_a_secret_of_their_own() -> None:
    shared = {f"PAI_HOST_IP_{role}_{index}": "10.0.0.1" for role in ("work-er", "worker") for index in range(300)}
    launch = a_launch(shared_env=shared, hosts=PEERS)
    bundle, pod = bundles().of(launch), a_pod(launch)
    names = json.loads(bundle.bodies[bundle.env])["data"].keys()
    assert names == {name for name in shared if "-" in name}
    assert not any(name in files_of(bundle)["variables.sh"] for name in names)
    assert the_container(pod)["envFrom"] == [{"secretRef": {"name": bundle.env}}]
    assert not shared.keys() & environment(pod).keys()


def test_few_variables_are_written_into_few_pods_and_into_a_secret_for_many() -> None:
    shared = {f"PAI_HOST_IP_worker_{index}": f"10.0.0.{index}" for index in range(8)}
    hosts = [f"worker {index} 10.0.0.{index}\n" for index in range(200)]
    few = a_launch(shared_env=shared, hosts="".join(hosts[:8]))
    many = a_launch(shared_env=shared, hosts="".join(hosts))
    assert not bundles().of(few).has_variables
    assert shared.items() <= environment(a_pod(few)).items()
    assert bundles().of(many).has_variables
    assert not shared.keys() & environment(a_pod(many)).keys()
