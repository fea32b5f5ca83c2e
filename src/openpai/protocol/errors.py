"""The three families of errors, shared by every room.

A caller needs to know only the family: `Refused` (a repetition will not help), `Unavailable` (it may work
later) and `Broken` (a bug of the platform). HTTP status, exit code and retry behaviour follow from the family and the
code, never from the place that raised it. The codes are OpenPAI's error names where it has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from openpai.protocol.wording import harmless_line, plural

# OpenPAI's error names with their HTTP status, such as 409 for a duplicate name.
STATUS_OF: Final[dict[str, int]] = {
    "BadConfigurationError": 400,
    "InvalidParametersError": 400,
    "InvalidProtocolError": 400,
    "IncorrectPasswordError": 400,
    "NoEnoughQuotaError": 400,
    "UnauthorizedUserError": 401,
    "ForbiddenUserError": 403,
    "RemoveAdminError": 403,
    "ReadOnlyVcError": 403,
    "ReadOnlyStorageError": 403,
    "ReadOnlyJobError": 403,
    "ReadOnlyGroupError": 403,
    "NoApiError": 404,
    "NoJobError": 404,
    "NoApplicationError": 404,
    "NoJobConfigError": 404,
    "NoJobSshInfoError": 404,
    "NoTaskLogError": 404,
    "NoMetricError": 404,
    "NoTagError": 404,
    "NoTokenError": 404,
    "NoUserError": 404,
    "NoVirtualClusterError": 404,
    "NoGroupError": 404,
    "NoCodeError": 404,
    "NoStorageError": 404,
    "NoFileError": 404,
    "NoQuotaError": 404,
    "NoBudgetError": 404,
    "NoSettingError": 404,
    "NoExitSpecError": 404,
    "NoAlertError": 404,
    "NoAlertRuleError": 404,
    "NoAnnouncementError": 404,
    "NoSilenceError": 404,
    "NoChannelError": 404,
    "NoSshKeyError": 404,
    "NoMarketItemError": 404,
    "NoNodeError": 404,
    "MethodNotAllowedError": 405,
    "ConflictJobError": 409,
    "FinishedJobError": 409,
    "NoRunningTaskError": 409,
    "ConflictUserError": 409,
    "ConflictGroupError": 409,
    "ConflictVcError": 409,
    "ConflictTokenError": 409,
    "ConflictSshKeyError": 409,
    "ConflictStorageError": 409,
    "ConflictSettingError": 409,
    "ConflictMarketItemError": 409,
    "RemoveRunningVcError": 409,
    "RequestTooLargeError": 413,
    "TooManyRequestsError": 429,
    "UnknownError": 500,
    "NotImplementedError": 501,
    "UnavailableError": 503,
}


class PaiError(Exception):
    """What went wrong, which thing, and what to do next."""

    code: str
    message: str
    advice: str
    faults: tuple[Fault, ...] = ()
    """Each place of a file, or field of a request, that is wrong."""

    def __init__(self, code: str, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.advice = advice

    @property
    def sentence(self) -> str:
        """Return the message with what to do next."""
        return f"{self.message}; {self.advice}" if self.advice else self.message

    @property
    def status(self) -> int:
        """Return the HTTP status that belongs to the error's code."""
        return STATUS_OF.get(self.code, 500)

    def as_dict(self) -> dict[str, Any]:
        """Return the body OpenPAI's clients expect: `code`, `message`, and our `advice` when there is one."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.advice:
            body["advice"] = self.advice
        if self.faults:
            body["faults"] = [fault.as_dict() for fault in self.faults]
        return body


class Refused(PaiError):
    """The request can never succeed as it is."""


class InvalidParameters(Refused):
    """A value of a request or of a command line is wrong; `faults` names the fields, where several may be wrong."""

    def __init__(self, message: str, advice: str = "", faults: tuple[Fault, ...] = ()) -> None:
        super().__init__("InvalidParametersError", message, advice)
        self.faults = faults


class BadConfiguration(Refused):
    """A setting, a file or the machine of the server is not as the platform needs it."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__("BadConfigurationError", message, advice)


class Unavailable(PaiError):
    """The request may succeed later."""

    def __init__(self, message: str, advice: str = "try again in a moment") -> None:
        super().__init__("UnavailableError", message, advice)


class Broken(PaiError):
    """The platform broke a promise: a bug, to be reported."""

    def __init__(self, message: str) -> None:
        super().__init__("UnknownError", message, "this is a bug in openpai; please report it with the server's log")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a file: its place, what is wrong, what is allowed, and what was probably meant."""

    path: str
    """Dotted path in the file, as in `taskRoles.worker.instances`; empty for the file itself."""
    message: str
    line: int | None = None
    """Line in the file, counted from 1; for a missing key, of the section that lacks it; None for the whole file."""
    allowed: str = ""
    suggestion: str = ""
    """The nearest legal spelling, if one is near enough."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fault as an object of an error's body."""
        return {
            "path": self.path,
            "line": self.line,
            "message": self.message,
            "allowed": self.allowed,
            "suggestion": self.suggestion,
        }

    def describe(self) -> str:
        """Return the fault as one line."""
        where = f"line {self.line}: " if self.line else ""
        path = f"{self.path}: " if self.path else ""
        allowed = f" (allowed: {self.allowed})" if self.allowed else ""
        meant = f"; did you mean {self.suggestion!r}?" if self.suggestion else ""
        return harmless_line(f"{where}{path}{self.message}{allowed}{meant}")


class InvalidProtocol(Refused):
    """A job file has faults; all of them are in `faults`."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        count = plural(len(faults), "fault")
        super().__init__(
            "InvalidProtocolError",
            f"the job file has {count}:\n" + "\n".join(fault.describe() for fault in faults),
            "fix the lines named above; `pai job check FILE` checks a file without submitting it",
        )
        self.faults = faults
