"""What helm says of values that a chart refuses, without what only authors of charts understand."""

from __future__ import annotations

import pytest

from openpai.app.cluster.helm import _failed

SCHEMA = """Error: values don't meet the specifications of the schema(s) in the following chart(s):
openpai:
- (root): Additional property replica is not allowed
- storage.size: Invalid type. Expected: string, given: integer

"""
NEW = """Error: execution error at (openpai/templates/server.yaml:17:28): 2 replicas need PostgreSQL: set it

Use --debug flag to render out invalid YAML
"""
OLD = """Error: template: openpai/templates/server.yaml:17:28: at <fail "y">: error calling fail: 2 replicas need it
"""


@pytest.mark.parametrize(
    ("printed", "refusal"),
    [
        (
            SCHEMA,
            "Additional property replica is not allowed; storage.size: Invalid type. Expected: string, given: integer",
        ),
        (NEW, "2 replicas need PostgreSQL: set it"),
        (OLD, "2 replicas need it"),
        ("Error: UPGRADE FAILED: context deadline exceeded", "context deadline exceeded"),
        ("", "it failed without a message"),
    ],
)
def test_what_a_chart_refuses_is_shown_alone(printed: str, refusal: str) -> None:
    assert _failed("template", printed).message == f"helm template: {refusal}"
