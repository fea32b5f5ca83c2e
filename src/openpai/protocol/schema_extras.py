"""The keys of `extras` that the platform uses; every other key is kept as it is."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from openpai.protocol.applications import APPLICATIONS_MAX, IDLE_MAX_S, NAME_PATTERN, PATH_PATTERN
from openpai.protocol.code import DIGEST
from openpai.protocol.job import PLUGIN_PREFIX
from openpai.protocol.outputs import OUTPUT_LENGTH_MAX, OUTPUTS_MAX
from openpai.protocol.progress_pattern import PATTERN_MAX
from openpai.protocol.sweeps import SWEEP_JOBS_MAX

MINUTES_MAX: Final = 60 * 24 * 3650
GRACE_MAX_S: Final = 600
"""A job that is preempted keeps others waiting this long at most."""
AFTER_MAX: Final = 100
SweepValue = Annotated[str, Field(max_length=1000)] | bool | int | Annotated[float, Field(allow_inf_nan=False)]
OutputPath = Annotated[str, Field(min_length=1, max_length=OUTPUT_LENGTH_MAX)]
AfterName = Annotated[str, Field(min_length=1)]
PriorityClass = Literal["crit", "prod", "test", "oppo"]


def optional(description: str, *examples: Any, alias: str | None = None) -> Any:
    """Return a key that may be left out."""
    return Field(default=None, alias=alias, description=description, examples=list(examples))


class OpenSection(BaseModel):
    """A mapping in a job file that keeps keys it does not know."""

    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel)


class StorageEntry(OpenSection):
    """A storage to mount."""

    name: str | None = optional("Name of the storage.", "confignfs")
    mount_path: str | None = optional("Where tasks see it; /mnt/<name> unless given.", "/data")


class Notifications(OpenSection):
    """Changes of the job to notify its owner of."""

    running: bool | None = optional("Notify when the job starts to run.", True)
    succeeded: bool | None = optional("Notify when the job succeeded.", True)
    failed: bool | None = optional("Notify when the job failed.", True)
    stopped: bool | None = optional("Notify when the job was stopped.", True)
    retried: bool | None = optional("Notify when the job is tried again.", False)


class HivedRole(OpenSection):
    """Which hardware a task role wants."""

    sku_type: str | None = optional("Kind of SKU, as the cluster names it.", "V100-GPU")
    pinned_cell_id: str | None = optional("A cell that is pinned for the virtual cluster; not with skuType.", "rack-7")
    affinity_group_name: str | None = optional("Roles of the same group are placed together.", "training")
    cell_type: str | None = optional("Each task stays inside one cell of this type.", "V100-SWITCH")
    sku_num: Annotated[int, Field(ge=0)] | None = optional("SKUs for each task; worked out by the platform.", 1)
    sku_number: Annotated[int, Field(ge=0)] | None = optional("Another spelling of skuNum.", 1)


class TopologyRequest(OpenSection):
    """How close together the tasks of a job run."""

    cell_type: str = Field(
        description="Stay inside one cell of this type, as the cluster's configuration names it.",
        examples=["V100-NODE", "RACK"],
        min_length=1,
    )
    required: bool | None = optional("Rather wait than run apart; false unless given.", True)


class AffinityGroup(OpenSection):
    """How close together the tasks of one group of roles are placed."""

    cell_type: str | None = optional("All tasks of the group stay inside one cell of this type.", "V100-NODE")


class HivedScheduler(OpenSection):
    """Settings for the scheduler."""

    job_priority_class: PriorityClass | None = optional("How urgent the job is; test unless given.", "prod")
    task_roles: dict[str, HivedRole | None] | None = optional(
        "Settings of each task role.", {"worker": {"skuType": "V100-GPU"}}
    )
    affinity_groups: dict[str, AffinityGroup | None] | None = optional(
        "Settings of the groups that roles name as affinityGroupName.", {"training": {"cellType": "V100-NODE"}}
    )
    topology: TopologyRequest | None = optional(
        "Keep the job's tasks together.", {"cellType": "RACK", "required": True}
    )
    interruptible: bool | None = optional(
        "Whether the job may borrow idle resources of other virtual clusters, and be preempted, until its own "
        "guarantee has room. The default is the setting of its virtual cluster.",
        True,
    )
    checkpoint_minutes: Annotated[float, Field(gt=0, le=MINUTES_MAX, allow_inf_nan=False)] | None = optional(
        "How often the job saves its work, in minutes: at most this counts as lost when the scheduler chooses what to "
        "preempt or move. Without it, all work since the start or since `pai job checkpoint` counts.",
        30,
    )
    gang_release_enable: bool | None = optional("Whether resources are returned all at once.", False)
    lazy_preemption_enable: bool | None = optional("Whether preempted tasks stay while there is room.", True)
    ignore_k8s_suggested_nodes: bool | None = optional("Kept for older files.", True, alias="ignoreK8sSuggestedNodes")


class AfterEntry(OpenSection):
    """A job that must have ended before this one is queued."""

    job: str = Field(
        description="Name of a job of the same user, or user~name.", examples=["prepare", "bob~prepare"], min_length=1
    )
    until: Literal["succeeded", "failed", "ended"] | None = optional(
        "How that job has to end; succeeded unless given.", "ended"
    )


class KueueRequest(OpenSection):
    """The queue of Kueue that admits the job."""

    queue: Annotated[str, Field(min_length=1)] | None = optional(
        "The LocalQueue of the job's virtual cluster, which is used also if the file does not name it.", "team-a"
    )


class SweepRequest(OpenSection):
    """A job for each combination of values; in a job of a sweep, what it is in the sweep."""

    matrix: (
        Annotated[
            dict[str, Annotated[list[SweepValue], Field(min_length=1, max_length=SWEEP_JOBS_MAX)]],
            Field(min_length=1, max_length=20),
        ]
        | None
    ) = optional("Values of each parameter; every combination is a job.", {"lr": [0.1, 0.01], "seed": [1, 2, 3]})
    max_running: Annotated[int, Field(ge=1, le=SWEEP_JOBS_MAX)] | None = optional(
        "How many jobs of the sweep may be queued or run at a time; the others are held. No limit unless given.", 4
    )


class RuntimePlugin(OpenSection):
    """A plugin that prepares or accompanies tasks: one of those in every server, or one that an administrator added."""

    plugin: str = Field(description="Name of the plugin.", examples=["ssh", "git", "cmd", "tensorboard"])
    parameters: dict[str, Any] | None = optional("Parameters of the plugin.", {"jobssh": True})
    failure_policy: Literal["fail", "ignore"] | None = optional(
        "Whether the task fails when the plugin does; fail unless given.", "ignore"
    )
    taskroles: list[str] | None = optional("Task roles it is for; all unless given.", ["worker"])


class HangDetectionRequest(OpenSection):
    """When the job counts as one that hangs."""

    minutes: float = Field(
        ge=0,
        le=MINUTES_MAX,
        allow_inf_nan=False,
        description="How long its tasks may run without output, progress, and use of processors and GPUs; 6 seconds "
        "count as the least, and with 0 the job is not watched.",
        examples=[15, 0.5],
    )
    restarts: Annotated[int, Field(ge=0, le=100)] | None = optional(
        "How many attempts of the job may end like this; 0 unless given: a hang is only reported.",
        2,
    )


class ProgressRequest(OpenSection):
    """How the progress of the job is found in its log."""

    pattern: str = Field(
        min_length=1,
        max_length=PATTERN_MAX,
        description="An expression of RE2 that is searched for in the last lines of stdout and stderr: its groups step "
        "and total are how far a task is, and groups with other names are metrics.",
        examples=[r"step (?P<step>\d+)/(?P<total>\d+) loss=(?P<loss>[\d.]+)"],
    )


class ApplicationRequest(OpenSection):
    """A server in a task of the job that browsers reach through the platform."""

    name: str = Field(
        description="Its name in addresses: lower case letters, digits and -, at most 20.",
        examples=["lab"],
        pattern=NAME_PATTERN,
    )
    task_role: str | None = optional("Task role in which it runs; may be left out if the job has only one.", "worker")
    task_index: Annotated[int, Field(ge=0)] | None = optional("Index of the task in which it runs; 0 unless given.", 0)
    port: Annotated[int, Field(ge=1, le=65535)] | Annotated[str, Field(min_length=1, max_length=64)] | None = optional(
        "The port it listens on, or the label of a port of the task role; the port labelled http unless given.",
        8888,
        "http",
    )
    title: Annotated[str, Field(min_length=1, max_length=100)] | None = optional("Its name for people.", "JupyterLab")
    path: Annotated[str, Field(pattern=PATH_PATTERN, max_length=1000)] | None = optional(
        "What a browser opens first; / unless given.", "/lab"
    )
    health_path: Annotated[str, Field(pattern=PATH_PATTERN, max_length=1000)] | None = optional(
        "What answers as soon as it is ready; its path unless given.", "/api/status"
    )
    kind: Literal["web", "jupyter"] | None = optional(
        "With jupyter, kernels and terminals that work count as use, and what the page asks by itself does not; web "
        "unless given.",
        "jupyter",
    )
    idle_seconds: Annotated[float, Field(ge=0, le=IDLE_MAX_S, allow_inf_nan=False)] | None = optional(
        "After how many seconds without use the job is stopped, with a warning before; 0 for never. Without it the "
        "operator's default applies to applications that own their job, and no other is stopped.",
        7200,
    )
    owns_job: bool | None = optional("Whether the job exists for this application alone; false unless given.", True)


class Extras(OpenSection):
    """Settings outside the protocol."""

    gang_allocation: bool | None = optional("Whether all tasks start together or not at all; true unless given.", False)
    submit_from: str | None = optional("The page the job was made with.", "hello-world")
    storages: list[StorageEntry] | None = optional("Storages to mount.", [{"name": "confignfs"}])
    job_status_change_notification: Notifications | None = optional(
        "Changes of the job to notify its owner of, by mail.", {"failed": True}
    )
    hived_scheduler: HivedScheduler | None = optional("Settings for the scheduler.", {"jobPriorityClass": "prod"})
    after: Annotated[list[AfterName | AfterEntry], Field(max_length=AFTER_MAX)] | None = optional(
        "Jobs that must have ended before this one is queued, by name or with the end that is wanted.",
        ["prepare", {"job": "bob~prepare", "until": "ended"}],
    )
    kueue: KueueRequest | None = optional(
        "The queue of Kueue that admits the job in place of the platform's own; only where an administrator gave the "
        "virtual cluster one.",
        {"queue": "team-a"},
    )
    time_limit_minutes: Annotated[float, Field(gt=0, le=MINUTES_MAX, allow_inf_nan=False)] | None = optional(
        "Minutes after which an attempt is ended; a job with a limit can start in gaps between other jobs.", 120, 0.5
    )
    grace_period_seconds: Annotated[float, Field(ge=1, le=GRACE_MAX_S, allow_inf_nan=False)] | None = optional(
        "How long a task may run on after SIGTERM, to save its work when it is preempted, drained, stopped or reaches "
        "its time limit; 30 unless given.",
        120,
    )
    hang_detection: HangDetectionRequest | None = optional(
        "Report and restart the job when it hangs; without this, the default of its virtual cluster applies.",
        {"minutes": 15, "restarts": 2},
    )
    progress: ProgressRequest | None = optional(
        "How the progress of the job is found in its log, for programs that do not report it.",
        {"pattern": r"step (?P<step>\d+)/(?P<total>\d+)"},
    )
    unique_tasks: bool | None = optional(
        "Whether no task may ever run twice at a time: one whose node does not answer starts again elsewhere only once "
        "it is certain that it does not run any more; false unless given.",
        True,
    )
    code: Annotated[str, Field(pattern=DIGEST)] | None = optional(
        "The code that was sent along, which each task finds in the directory it starts in; `pai job submit --code` "
        "sends it and sets this.",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    )
    outputs: Annotated[list[OutputPath], Field(max_length=OUTPUTS_MAX)] | None = optional(
        "The results among the files in a task's working directory: paths and patterns (`*`, `?`, `**`). "
        "`pai job fetch` brings these, and all files of jobs that name none.",
        ["model", "logs/**/*.json"],
    )
    applications: Annotated[list[ApplicationRequest], Field(max_length=APPLICATIONS_MAX)] | None = optional(
        "Servers in the job's tasks, such as Jupyter, that browsers reach through the platform.",
        [{"name": "lab", "port": "http", "path": "/lab", "kind": "jupyter"}],
    )
    sweep: SweepRequest | None = optional(
        "Makes the file a sweep: a job for each combination of parameters. `pai job submit --matrix` sets this.",
        {"matrix": {"lr": [0.1, 0.01]}, "maxRunning": 4},
    )
    private: bool | None = optional("Whether others may not read the job file; false unless given.", True)
    runtime_plugins: list[RuntimePlugin] | None = optional(
        "Plugins, in the order in which they prepare a task.", [{"plugin": "ssh"}], alias=PLUGIN_PREFIX
    )
