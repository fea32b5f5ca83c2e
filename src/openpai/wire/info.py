"""The document about the server itself."""

from __future__ import annotations

from typing import Annotated, Literal

from openpai.wire.doc import Doc, Document


class ServerInfo(Document):
    """The name and version of this server, and how to log in."""

    name: Literal["PAI RESTful API"]
    version: Annotated[str, Doc(example="0.2.0")]
    launcherType: Literal["k8s"]
    authnMethod: Literal["basic", "OIDC"]
