"""The keys of a version 1 job file with their types and bounds; unknown ones are allowed, with a warning."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from openpai.protocol.job import TASKS_MAX
from openpai.protocol.schema import COUNT_MAX, CPUS_MAX, IMAGE_PATTERN, LABELS_MAX, PORTS_MAX, SECTIONS_MAX

Minimum = Annotated[int, Field(ge=1, le=COUNT_MAX)]
Memory = Annotated[int, Field(ge=1, le=COUNT_MAX)]


class _Open(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel)


class PortV1(_Open):
    """Ports under one label."""

    label: str = Field(min_length=1)
    begin_at: int | None = None
    port_number: Annotated[int, Field(ge=1, le=PORTS_MAX)] | None = None


class TaskRoleV1(_Open):
    """One kind of task."""

    name: str = Field(min_length=1, max_length=100)
    command: str = Field(min_length=1)
    task_number: Annotated[int, Field(ge=1, le=TASKS_MAX)] | None = None
    cpu_number: Annotated[int, Field(ge=1, le=CPUS_MAX)] | None = None
    memory_mb: Memory | None = Field(default=None, alias="memoryMB")
    shm_mb: Memory | None = Field(default=None, alias="shmMB")
    gpu_number: Annotated[int, Field(ge=0, le=CPUS_MAX)] | None = None
    port_list: Annotated[list[PortV1], Field(max_length=LABELS_MAX)] | None = None
    min_failed_task_count: Minimum | None = None
    min_succeeded_task_count: Minimum | None = None


class JobV1(_Open):
    """A whole file of version 1."""

    job_name: str = Field(min_length=1, max_length=250)
    image: str = Field(pattern=IMAGE_PATTERN)
    task_roles: list[TaskRoleV1] = Field(min_length=1, max_length=SECTIONS_MAX)
    auth_file: str | None = None
    data_dir: str | None = None
    output_dir: str | None = None
    code_dir: str | None = None
    virtual_cluster: str | None = None
    gpu_type: str | None = None
    retry_count: Annotated[int, Field(ge=-2, le=COUNT_MAX)] | None = None
    kill_all_on_completed_task_number: int | None = None
    job_envs: dict[str, Any] | None = None
    extras: dict[str, Any] | None = None
