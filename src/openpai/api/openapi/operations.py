"""How the API tells what it answers: models of documents, and for each operation a name, a summary and its errors.

The models describe answers and never make them: shapes do that, quickly, and the tests hold every answer of theirs
against the model here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

BINARY: Final = {"type": "string", "format": "binary"}


class Answer(BaseModel):
    """A document that is answered; it has no other keys than those that are told."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Ms = Annotated[int, Field(description="milliseconds since 1970", examples=[1_767_225_600_000])]
UserName = Annotated[str, Field(examples=["ann"])]
JobName = Annotated[str, Field(examples=["train"])]
JobId = Annotated[str, Field(description="names the job for ever", examples=["0d7c2a52c1f64e2f8d1b6a1f6d8b3c11"])]
VcName = Annotated[str, Field(examples=["vision"])]
RoleName = Annotated[str, Field(examples=["worker"])]
NodeName = Annotated[str, Field(examples=["node-17"])]
GroupName = Annotated[str, Field(examples=["team-vision"])]
StorageName = Annotated[str, Field(examples=["datasets"])]
Sentence = Annotated[str, Field(description="for people", examples=["this is done"])]


class Done(Answer):
    """What was wished for is done, or will be."""

    status: int = Field(description="the HTTP status", examples=[200])
    message: Sentence


class Message(Answer):
    """What was wished for is done."""

    message: Sentence


class Fault(Answer):
    """One thing wrong with a job file."""

    path: str = Field(description="where in the file", examples=["taskRoles.worker.instances"])
    line: int | None = Field(examples=[7])
    message: str = Field(examples=["0 is less than 1"])
    allowed: str = Field(examples=["1 to 10,000"])
    suggestion: str = Field(description="the nearest legal spelling", examples=[""])


class Error(Answer):
    """What every error looks like: a name for programs, a sentence for people, and what to do next."""

    code: str = Field(examples=["NoJobError"])
    message: str = Field(description="for people", examples=["there is no job 'ann~train'"])
    advice: str = Field("", description="what to do next", examples=["ask an administrator"])
    faults: list[Fault] = Field([], description="of a job file, every one", examples=[[]])


@dataclass(frozen=True, slots=True)
class Operation:
    """What is told of one operation beyond its parameters, which its function tells."""

    id: str
    summary: str
    answer: Any = None
    """The model of the document that is answered; None where that is no JSON, or nothing."""
    errors: str = ""
    """Names of the errors it may end with, besides those that follow from what it takes."""
    media: Mapping[str, Any] = field(default_factory=dict)
    """Other content types it may answer with, each with an example."""
    request: Any = None
    """A body that could be sent, where the fields' own examples do not make one."""
    statuses: Mapping[str, str] = field(default_factory=dict)
    """Other statuses it may answer with, each with what that means."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of its answer, each with what that means."""
