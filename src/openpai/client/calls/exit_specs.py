"""Exit specs: causes of failures, and the rules that find them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openpai.client import model
from openpai.client.calls.naming import segment
from openpai.client.calls_core import Call, asks, given, listed, nothing, query_of, whole


def _path(name: str) -> str:
    return f"/exit-specs/{segment(name, 'an exit spec')}"


class ExitSpecs:
    """Exit specs, which administrators may change while the platform runs."""

    @asks
    def exit_specs(self) -> Call[tuple[model.ExitSpec, ...]]:
        """Return every exit spec without its rules, by name."""
        return Call("GET", "/exit-specs", listed(model.ExitSpec.read))

    @asks
    def exit_spec(self, name: str) -> Call[model.ExitSpec]:
        """Return an exit spec with its rules."""
        return Call("GET", _path(name), whole(model.ExitSpec.read))

    @asks
    def exit_spec_history(self, name: str = "") -> Call[tuple[model.ExitSpecChange, ...]]:
        """Return the changes of all exit specs, or of one, the newest first."""
        return Call("GET", "/exit-specs/history", listed(model.ExitSpecChange.read), query_of(name=name))

    @asks
    def set_exit_spec(
        self,
        name: str,
        spec: Mapping[str, Any],
        *,
        reason: str = "",
        is_forced: bool = False,
        revision: int | None = None,
    ) -> Call[model.ExitSpec]:
        """Replace or add an exit spec, or disable one by `{"disabled": True}`; it holds from the next diagnosis on."""
        body = given(spec=dict(spec), reason=reason, force=is_forced, revision=revision)
        return Call("PUT", _path(name), whole(model.ExitSpec.read), json=body)

    @asks
    def revert_exit_spec(self, name: str, reason: str = "") -> Call[None]:
        """Return to the bundled exit spec, or remove one that was added."""
        return Call("DELETE", _path(name), nothing, query_of(reason=reason))

    @asks
    def check_exit_spec(
        self,
        name: str = "",
        spec: Mapping[str, Any] | None = None,
        *,
        text: str = "",
        exit_code: int = 1,
        jobs: int = 0,
    ) -> Call[model.ExitSpecTest]:
        """Return what an edit would find in the end of a log, and which of the newest failed jobs it would change."""
        edit = None if spec is None else dict(spec)
        body = given(name=name, spec=edit, text=text, exitCode=exit_code, jobs=jobs)
        return Call("POST", "/exit-specs/test", whole(model.ExitSpecTest.read), json=body)
