"""The environment of a task's container, and the places in its file tree that the variables name.

What is the same for all tasks of a job attempt lies in a file of a Secret if it is large; the pod itself has only the
rest. A Secret whose keys are the variables would cost the API server as much as two pods: it notes for each key who
wrote it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from openpai.backends.host.mounts import variable
from openpai.backends.kubernetes.devices import DeviceRequest
from openpai.ports.backend import LaunchTask
from openpai.runtime.notice import CHECKPOINT_VARIABLE, NO_CHECKPOINTS_VARIABLE, NOTICE_FILE, NOTICE_VARIABLE
from openpai.runtime.outputs import HAND_OVER_VARIABLE, OUTPUTS_VARIABLE, find_words
from openpai.runtime.progress import PROGRESS_FILE, PROGRESS_VARIABLE
from openpai.runtime.script import HOSTS_FILE
from openpai.runtime.unpacking import CODE_FILE, CODE_VARIABLE

TASK: Final = "/usr/local/pai"
"""Where the wrapper keeps its ticket and its report."""
WORK: Final = f"{TASK}/work"
"""Where tasks with code start, since an image's own directory may be closed to its user."""
PROGRESS: Final = f"{TASK}/{PROGRESS_FILE}"
FILES: Final = "/usr/local/pai-files"
VARIABLES_FILE: Final = "variables.sh"
OWN_VARIABLES: Final = "PAI_OWN_VARIABLES"
"""The names of the variables that are in that file, too, and that a pod has with another value."""
_LOAD: Final = '[ ! -r "$0" ] || . "$0"; exec "$@"'
_EXPORT: Final = f'give() {{ case " ${{{OWN_VARIABLES}-}} " in *" $1 "*) ;; *) export "$1=$2" ;; esac; }}\n'
_EXPORTED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CHECKPOINTS: Final = "/usr/local/pai-checkpoints"
STORAGE_FOLDER: Final = ".pai-checkpoints"
"""Where checkpoints are on a storage that the job mounts."""
HAND_OVER_S: Final = (120, 900)
"""How long a container whose task has ended waits for the server to begin to fetch its files, and to end that."""
_NO_PLACE: Final = (
    "no place for checkpoints is shared by the nodes: mount a storage that the job may write to, or ask the "
    "administrator for one (pai up --kube-checkpoint-claim)"
)


def job_variables(launch: LaunchTask, *, has_claim: bool, is_fetched: bool) -> dict[str, str]:
    """Return what the containers of all tasks of a job attempt have, beside `shared_env`.

    `has_claim` is whether checkpoints have a PersistentVolumeClaim, `is_fetched` whether a task waits until what it
    leaves was fetched.
    """
    found = {variable(mount): mount.mount_path for mount in launch.mounts}
    found |= {NOTICE_VARIABLE: f"{TASK}/{NOTICE_FILE}", PROGRESS_VARIABLE: PROGRESS}
    if has_claim:
        found[CHECKPOINT_VARIABLE] = CHECKPOINTS
    elif not checkpoint_variable(launch, has_claim=has_claim):
        found[NO_CHECKPOINTS_VARIABLE] = _NO_PLACE
    if launch.code:
        found |= {CODE_VARIABLE: f"{FILES}/{CODE_FILE}", "PAI_WORK_DIR": WORK}
    if is_fetched:
        waits_s = f"{HAND_OVER_S[0]} {HAND_OVER_S[1]}"
        found |= {"PAI_WORK_DIR": WORK, HAND_OVER_VARIABLE: waits_s, OUTPUTS_VARIABLE: find_words(launch.outputs)}
    if launch.hosts:
        found["PAI_HOSTS_FILE"] = f"{FILES}/{HOSTS_FILE}"
    return found


def checkpoint_variable(launch: LaunchTask, *, has_claim: bool) -> dict[str, str]:
    """Return the variable with a task's own directory for checkpoints on a storage of the job, if it has one."""
    shared = None if has_claim else next((mount for mount in launch.mounts if not mount.is_read_only), None)
    if shared is None:
        return {}
    return {CHECKPOINT_VARIABLE: f"{shared.mount_path.rstrip('/')}/{STORAGE_FOLDER}/{checkpoint_path(launch)}"}


def checkpoint_path(launch: LaunchTask) -> str:
    """Return the directory of a task among those of all checkpoints."""
    return f"{launch.key.job}/{launch.key.role}.{launch.key.index}"


def loading(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs another one with the variables of `VARIABLES_FILE`, if the task has that file."""
    return ("/bin/sh", "-c", _LOAD, f"{FILES}/{VARIABLES_FILE}", *words)


def can_be_exported(name: str) -> bool:
    """Return whether a shell can export a variable of this name: roles may have a minus in theirs."""
    return _EXPORTED.fullmatch(name) is not None


def exports(variables: Mapping[str, str]) -> str:
    """Return the content of `VARIABLES_FILE`."""
    lines = [f"give {name} {shlex.quote(text)}\n" for name, text in variables.items()]
    return _EXPORT + "".join(lines)


def environment(
    launch: LaunchTask, of_job: Mapping[str, str], in_secret: Mapping[str, str] | None, devices: DeviceRequest
) -> dict[str, str]:
    """Return the variables that the pod of a task has itself.

    `of_job` are those of `job_variables`, with the task's own directory for checkpoints. If `shared_env` is in a
    Secret, `in_secret` has what else is there; what the task finds there with the same value is left out, and what it
    finds there with another value is named.
    """
    shared = launch.shared_env
    # By their items: what is no dictionary would be asked for each name.
    found = {**(shared if in_secret is None else {}), **dict(launch.env.items()), **of_job}
    for name in devices.unset:
        found.pop(name, None)
    found |= devices.env
    if in_secret is None:
        return found
    own = {
        name: text
        for name, text in found.items()
        if (in_secret[name] if name in in_secret else shared.get(name)) != text
    }
    if differing := [name for name in own if name in in_secret or name in shared]:
        own[OWN_VARIABLES] = " ".join(differing)
    return own
