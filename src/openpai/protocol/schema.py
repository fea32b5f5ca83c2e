"""The schema of a job file, key by key: types, bounds, and a description with an example for each.

The models check the plain values of a parsed file and describe themselves as JSON Schema for editors. Each checks
one key; `references` checks across keys. A key without a value counts as absent.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from openpai.protocol.job import TASKS_MAX
from openpai.protocol.schema_extras import Extras, OpenSection, optional

NAME_PATTERN: Final = r"^[A-Za-z0-9_-]+$"
WORD_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
IMAGE_PATTERN: Final = r"^\S+$"
NAME_MAX: Final = 255
WORD_MAX: Final = 128
SECTIONS_MAX: Final = 500
"""How many task roles, prerequisites or deployments a job may have: far beyond any real one."""
PORTS_MAX: Final = 1_000
LABELS_MAX: Final = 100
COUNT_MAX: Final = 2**31 - 1
CPUS_MAX: Final = 100_000


def _text_or_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise PydanticCustomError("text_or_number", "must be text or a number")
    return value


Version = Annotated[Any, AfterValidator(_text_or_number), WithJsonSchema({"type": ["string", "number"]})]
ProtocolVersion = Literal[2, "2"]
Word = Annotated[str, Field(pattern=WORD_PATTERN, max_length=WORD_MAX)]
Minimum = Annotated[int, Field(ge=-1, le=COUNT_MAX)]
PortCount = Annotated[int, Field(ge=1, le=PORTS_MAX)]
Texts = list[str]


def _required(description: str, *examples: Any, alias: str | None = None, **bounds: Any) -> Any:
    return Field(alias=alias, description=description, examples=list(examples), **bounds)


class Section(BaseModel):
    """A mapping in a job file that takes the keys named here and no other."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


class AuthSection(Section):
    """Credentials of a private registry."""

    username: str | None = optional("User name at the registry.", "alice")
    password: str | None = optional("Password, best as a reference to a secret.", "<% $secrets.registry_password %>")
    registry_uri: str | None = optional(
        "Address of the registry; Docker Hub unless given.", "https://index.docker.io/v1/", alias="registryuri"
    )


class DockerImageSection(Section):
    """An image that task roles run in."""

    type: Literal["dockerimage"] = _required("What kind of prerequisite this is.", "dockerimage")
    name: str = _required("The name by which task roles refer to it.", "image", min_length=1)
    uri: str = _required("The image, with its registry and tag.", "python:3.12", pattern=IMAGE_PATTERN)
    auth: AuthSection | None = optional("Credentials, when the registry wants some.", {"username": "alice"})
    protocol_version: ProtocolVersion | None = optional("Version of the protocol: 2.", 2)
    version: Version | None = optional("Version of the prerequisite, for people.", "1.0")
    contributor: str | None = optional("Who made it.", "Alice")
    description: str | None = optional("What it is for.", "Python with the usual libraries")


class PartSection(OpenSection):
    """What data, script and output prerequisites have in common; other keys are kept as they are."""

    name: str = _required("The name by which task roles refer to it.", "cifar10", min_length=1)
    plugin: str | None = optional("The runtime plugin that provides it.", "com.microsoft.pai.runtimeplugin.cmd")
    require: Texts | None = optional("Names of other prerequisites that it needs.", ["image"])
    protocol_version: ProtocolVersion | None = optional("Version of the protocol: 2.", 2)
    version: Version | None = optional("Version of the prerequisite, for people.", "1.0")
    contributor: str | None = optional("Who made it.", "Alice")
    description: str | None = optional("What it is for.", "Ten classes of small pictures")


class DataSection(PartSection):
    """Data that tasks read."""

    type: Literal["data"] = _required("What kind of prerequisite this is.", "data")
    uri: Texts | None = optional(
        "Where the data is; a list, used as <% $data.uri[0] %>.", ["https://example.com/data.tgz"]
    )


class ScriptSection(PartSection):
    """Code that tasks run."""

    type: Literal["script"] = _required("What kind of prerequisite this is.", "script")
    uri: str | None = optional("Where the code is, used as <% $script.uri %>.", "https://example.com/code.git")


class OutputSection(PartSection):
    """A place that tasks write to."""

    type: Literal["output"] = _required("What kind of prerequisite this is.", "output")
    uri: str | None = optional("Where results go, used as <% $output.uri %>.", "/mnt/results")


PrerequisiteSection = Annotated[
    DockerImageSection | DataSection | ScriptSection | OutputSection, Field(discriminator="type")
]


class CompletionSection(Section):
    """When a task role ends the job."""

    min_failed_instances: Minimum | None = optional(
        "How many failed tasks fail the job; 1 unless given, -1 for never.", 1
    )
    min_succeeded_instances: Minimum | None = optional(
        "How many succeeded tasks complete the job; all instances unless given, -1 for never by this rule.", -1
    )


class ResourcesSection(Section):
    """What each task of a role gets."""

    cpu: int = _required("CPU cores for each task.", 4, ge=1, le=CPUS_MAX)
    memory_mb: int = _required("Memory for each task, in MiB.", 8192, alias="memoryMB", ge=1, le=COUNT_MAX)
    gpu: int = _required("GPUs for each task; 0 for none.", 1, ge=0, le=CPUS_MAX)
    ports: Annotated[dict[Word, PortCount], Field(max_length=LABELS_MAX)] | None = optional(
        "How many ports each task gets under each label; their numbers come in environment variables.", {"http": 1}
    )


class ContainerOptionsSection(Section):
    """Settings of the container a task runs in."""

    shm_mb: Annotated[int, Field(ge=1, le=COUNT_MAX)] | None = optional(
        "Size of /dev/shm in MiB; 512 unless given.", 1024, alias="shmMB"
    )
    infiniband: bool | None = optional("Whether tasks use InfiniBand.", True)


class TaskRoleSection(Section):
    """One kind of task."""

    docker_image: str = _required("Name of the dockerimage prerequisite the tasks run in.", "image")
    resource_per_instance: ResourcesSection = _required("What each task gets.", {"cpu": 4, "memoryMB": 8192, "gpu": 1})
    commands: Texts = _required("Shell commands, run one after the other.", ["python train.py"], min_length=1)
    instances: Annotated[int, Field(ge=1, le=TASKS_MAX)] | None = optional("How many tasks; 1 unless given.", 4)
    completion: CompletionSection | None = optional("When this role ends the job.", {"minSucceededInstances": 1})
    task_retry_count: Annotated[int, Field(ge=0, le=COUNT_MAX)] | None = optional(
        "How often a failed task is tried again by itself; 0 unless given.", 2
    )
    prerequisites: Texts | None = optional("Names of further prerequisites this role needs.", ["load-data"])
    data: str | None = optional("Name of the data prerequisite behind $data.", "cifar10")
    output: str | None = optional("Name of the output prerequisite behind $output.", "results")
    script: str | None = optional("Name of the script prerequisite behind $script.", "trainer")
    extra_container_options: ContainerOptionsSection | None = optional("Settings of the container.", {"shmMB": 1024})
    protocol_version: ProtocolVersion | None = optional("Version of the protocol: 2.", 2)


class RoleCommandsSection(Section):
    """What a deployment runs around a task role's own commands."""

    pre_commands: Texts | None = optional("Commands that run before the role's own.", ["pip install -e ."])
    post_commands: Texts | None = optional("Commands that run after the role's own.", ["rm -rf /tmp/cache"])


class DeploymentSection(Section):
    """Commands to put around the task roles' own in one environment."""

    name: str = _required("The name that defaults.deployment refers to.", "staging", min_length=1)
    task_roles: dict[str, RoleCommandsSection] = _required(
        "Commands for each task role.", {"worker": {"preCommands": ["nvidia-smi"]}}
    )
    protocol_version: ProtocolVersion | None = optional("Version of the protocol: 2.", 2)


class DefaultsSection(OpenSection):
    """Settings of this submission; other keys are kept as they are."""

    virtual_cluster: str | None = optional("The virtual cluster to run in.", "default")
    deployment: str | None = optional("The deployment to use; none unless given.", "staging")


class JobSection(Section):
    """A whole job file."""

    model_config = ConfigDict(title="OpenPAI job, protocol version 2")

    protocol_version: ProtocolVersion = _required("Version of the protocol: 2.", 2)
    name: str = _required("The job's name.", "train-resnet", pattern=NAME_PATTERN, max_length=NAME_MAX)
    type: Literal["job"] = _required("What the file is: a job.", "job")
    task_roles: dict[Word, TaskRoleSection] = _required(
        "The kinds of tasks, by name.",
        {"worker": {"dockerImage": "image", "commands": ["python train.py"]}},
        min_length=1,
        max_length=SECTIONS_MAX,
    )
    version: Version | None = optional("Version of the job, for people.", "1.0")
    contributor: str | None = optional("Who made it.", "Alice")
    description: str | None = optional("What the job does.", "Trains a network on small pictures")
    prerequisites: Annotated[list[PrerequisiteSection], Field(max_length=SECTIONS_MAX)] | None = optional(
        "Images, data, scripts and outputs that task roles refer to.",
        [{"type": "dockerimage", "name": "image", "uri": "python:3.12"}],
    )
    parameters: dict[str, Any] | None = optional("Values for <% $parameters.key %> in commands.", {"epochs": 10})
    secrets: dict[str, Any] | None = optional(
        "Values for <% $secrets.key %>; kept encrypted and never shown.", {"registry_password": "..."}
    )
    job_retry_count: Annotated[int, Field(ge=0, le=COUNT_MAX)] | None = optional(
        "How often a failed job is tried again; 0 unless given.", 1
    )
    deployments: Annotated[list[DeploymentSection], Field(max_length=SECTIONS_MAX)] | None = optional(
        "Sets of commands around the roles' own.", [{"name": "staging", "taskRoles": {}}]
    )
    defaults: DefaultsSection | None = optional("Settings of this submission.", {"virtualCluster": "default"})
    extras: Extras | None = optional("Settings outside the protocol; unknown keys are kept.", {"gangAllocation": False})


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a job file, for editors: every key with a description and an example."""
    schema = JobSection.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
