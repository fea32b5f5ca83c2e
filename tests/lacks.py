"""What a machine lacks for the tests that were skipped, and how to get it: one line at the end of a test run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

# A part of the reason for a skip, what is missing, and the command that installs it.
LACKS: Final = (
    (r"PostgreSQL", "no PostgreSQL", "apt-get install postgresql"),
    (r"dockerd to start|only root can start one", "no dockerd that root may start", "apt-get install docker.io"),
    (
        r"KUBEBUILDER_ASSETS",
        "no Kubernetes binaries",
        "KUBEBUILDER_ASSETS=/path/to/them, as setup-envtest downloads them",
    ),
    (r"slapd", "no slapd", "apt-get install slapd"),
    (r"no smbd", "no smbd", "apt-get install samba"),
    (r"chromium", "no Chromium", "apt-get install chromium-headless-shell"),
    (r"portal is not built", "no built portal", "make portal"),
    (r"victoria-metrics", "no VictoriaMetrics", "put victoria-metrics on the PATH"),
    (r"azurite", "no azurite-blob", "npm install -g azurite"),
    (r"flock", "no flock", "apt-get install util-linux"),
    (r"setpriv", "no setpriv for root", "apt-get install util-linux"),
    (r"\bgit\b", "no git", "apt-get install git"),
    (r"(bash|dash|busybox|zsh|fish|mksh) is not installed", "no {0}", "apt-get install {0}"),
    (r"openapi-python-client", "no openapi-python-client", "make .venv/generator/.installed"),
    (r"PyTorch", "no PyTorch", "PAI_TEST_TORCH_PYTHON=/path/to/python3 make test-full"),
    (r"libyaml", "no libyaml in PyYAML", "pip install --force-reinstall PyYAML"),
    (r"package '?([\w.-]+)'?,? ", "no package {0}", "pip install --group dev"),
    (r"(schemathesis|mypy|import-linter) is not installed", "no {0}", "pip install --group dev"),
    (r"command pai is not installed", "no command pai", "pip install -e ."),
    (r"no sample", "no sample files", "put them into ../shared/samples"),
    (r"cgroup", "no cgroup v2 that limits memory", "run as root on a machine with cgroup v2"),
    (r"namespaces", "no namespaces", "sysctl kernel.unprivileged_userns_clone=1"),
    (r"root|administrator|rights to mount", "not root", "run as root"),
)
ELSEWHERE: Final = (
    r"SQLite|runs no shell|does not measure|no directories for checkpoints|no node that could|the node of .* processors"
    r"|nobody asks for a secret|moto lets|this kind has none|only SMB has guests|brings its own"
)
"""Skips that no machine changes: a rule that does not apply to one of the kinds it is tried with."""


def missing(reason: str) -> str | None:
    """Return what the reason of a skip says is missing, with the command; None where nothing can be installed."""
    if re.search(ELSEWHERE, reason):
        return None
    for pattern, what, command in LACKS:
        if found := re.search(pattern, reason):
            return f"{what} ({command})".format(*found.groups())
    return f"other reasons ({reason.removeprefix('Skipped: ')})"


def summary(reasons: Iterable[str]) -> str:
    """Return the line about these skips; empty where the machine lacks nothing."""
    counts = Counter(found for reason in reasons if (found := missing(reason)))
    return "; ".join(f"{count} skipped: {what}" for what, count in counts.most_common())
