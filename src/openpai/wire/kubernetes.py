"""Lists in the shape of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from openpai.wire.doc import Doc, Document


class KubernetesList(Document):
    """A list in the shape of Kubernetes."""

    kind: Literal["NodeList", "PodList"]
    apiVersion: Literal["v1"]
    metadata: Annotated[Mapping[str, Any], Doc(example={})]
    items: Annotated[Sequence[Mapping[str, Any]], Doc(example=[])]
