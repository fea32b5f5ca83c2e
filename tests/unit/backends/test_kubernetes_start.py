"""A kubernetes backend whose cluster is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openpai.app.clock import SystemClock
from openpai.backends.kubernetes.backend import KubernetesBackend
from openpai.kube.config import cluster_access
from openpai.protocol.errors import Unavailable


@pytest.mark.slow
async def test_a_cluster_that_does_not_answer_is_reported_at_the_start(tmp_path: Path) -> None:
    config = tmp_path / "config"
    parts = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    config.write_text(json.dumps(parts))
    backend = KubernetesBackend(cluster_access(config), b"secret", SystemClock())
    with pytest.raises(Unavailable, match=r"https://127\.0\.0\.1:1 cannot be used"):
        await backend.open()
