"""How many random examples tests try, and which.

The same ones in each run, so that it fails for what was changed and not by chance; and no shrinking, which takes
minutes for a history: the profile `search` tries other examples each time and shrinks what fails.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers


def use_same_examples() -> None:
    """Set up the profiles, of which `quick` is the one that is used."""
    # Time limits and complaints about slow examples would depend on how busy the machine is.
    settings.register_profile(
        "quick",
        max_examples=25,
        deadline=None,
        derandomize=True,
        print_blob=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("full", settings.get_profile("quick"), max_examples=200)
    settings.register_profile("search", settings.get_profile("full"), derandomize=False, phases=tuple(Phase))
    settings.load_profile("quick")
    _leave_constants_alone()


def _leave_constants_alone() -> None:
    """Draw no constants of the code under test, unless other examples are wanted each time.

    Which ones there are would depend on what a process has imported before, and on the directory of the project. Each
    process of a run would read all modules for them, too, which takes seconds in a fresh clone.
    """
    collect = providers._get_local_constants

    def constants() -> Any:
        return providers._local_constants if settings.get_current_profile_name() != "search" else collect()

    pytest.MonkeyPatch().setattr(providers, "_get_local_constants", constants)
