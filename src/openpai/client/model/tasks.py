"""Tasks of a job as the server tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from openpai.client.model.reading import Document, amount, exit_phrase, number, text

SUCCEEDED: Final = "SUCCEEDED"
FINAL_STATES: Final = frozenset({SUCCEEDED, "FAILED", "STOPPED"})


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task in its newest attempt."""

    role: str
    index: int
    state: str
    attempt: int | None
    """Number of its newest attempt; None while it never had one."""
    retries: int
    node: str
    address: str
    ports: Mapping[str, str]
    started_at_ms: int | None
    ended_at_ms: int | None
    exit_code: int | None
    exit_phrase: str
    exit_diagnostics: str
    document: Document = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Return `role-index`, as people call it."""
        return f"{self.role}-{self.index}"

    @property
    def is_final(self) -> bool:
        """Return whether the task is over."""
        return self.state in FINAL_STATES

    @classmethod
    def read(cls, role: str, document: Document) -> TaskView:
        """Return one task of a job's detail."""
        return cls(
            role=role,
            index=amount(document.get("taskIndex")),
            state=text(document.get("taskState")),
            attempt=number(document.get("attemptId")),
            retries=amount(document.get("retries")),
            node=text(document.get("containerNodeName")),
            address=text(document.get("containerIp")),
            ports=dict(document.get("containerPorts") or {}),
            started_at_ms=number(document.get("launchedTime")),
            ended_at_ms=number(document.get("completedTime")),
            exit_code=number(document.get("containerExitCode")),
            exit_phrase=exit_phrase(document.get("containerExitSpec")),
            exit_diagnostics=text(document.get("containerExitDiagnostics")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class SshTask:
    """How to reach a running task by SSH."""

    role: str
    index: int
    host: str
    port: int
    command: str
    document: Document = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Return `role-index`, as people call it."""
        return f"{self.role}-{self.index}"

    @classmethod
    def read(cls, document: Document) -> SshTask:
        """Return one task of the server's list."""
        return cls(
            role=text(document.get("taskRoleName")),
            index=amount(document.get("taskIndex")),
            host=text(document["sshIp"]),
            port=int(document["sshPort"]),
            command=text(document.get("command")),
            document=document,
        )
