"""The document about the server itself."""

from __future__ import annotations

from typing import Annotated, Literal

from openpai.wire.doc import Doc, Document


class ServerInfo(Document):
    """What this server is."""

    name: Literal["PAI RESTful API"]
    version: Annotated[str, Doc(example="0.2.0")]
    launcherType: Literal["k8s"]
    authnMethod: Literal["basic", "OIDC"]
