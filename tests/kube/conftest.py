"""Fixtures of tests that talk to a real API server; other folders get them from `tests.kube.fixtures`."""

from tests.kube.fixtures import kube, kube_namespace, kube_nodes

__all__ = ["kube", "kube_namespace", "kube_nodes"]
