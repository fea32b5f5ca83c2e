"""Documents of the settings of a server, and of what administrators change while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from openpai.wire.answers import Ms
from openpai.wire.doc import Doc, Document


class ServerSetting(Document):
    """A setting with which the server was started; another value needs a restart."""

    name: Annotated[str, Doc("as in the configuration file, and after -- on the command line", example="port")]
    environment: Annotated[str, Doc("the environment variable that sets it", example="PAI_PORT")]
    value: Annotated[str | float | bool | None, Doc("without what may be secret in it; null: none", example=9186)]
    default: Annotated[str | float | bool | None, Doc(example=9186)]
    source: Annotated[Literal["option", "environment", "file", "default"], Doc("where it comes from", example="file")]
    file: Annotated[str, Doc("the configuration file that has it, else empty", example="/etc/openpai/openpai.yaml")]
    meaning: Annotated[str, Doc(example="Port to listen on; 0 takes any free one.")]
    choices: Annotated[Sequence[str], Doc("the only values it may have; empty: any", example=[])]
    hidden: Annotated[bool, Doc("whether a part of the value is not shown, as a password in an address", example=False)]


class LiveSetting(Document):
    """What administrators change while the servers run; it holds at once, for all servers."""

    name: Annotated[str, Doc(example="exit-specs")]
    meaning: Annotated[str, Doc(example="Causes of failures, and the rules that find them.")]
    command: Annotated[str, Doc("shows or changes it", example="pai exit-spec list")]
    changedTime: Annotated[Ms | None, Doc("null: as it was installed", example=None)]
    changedBy: Annotated[str, Doc(example="root")]


class Settings(Document):
    """The settings of the server that answers, and those of the whole platform."""

    server: Annotated[Sequence[ServerSetting], Doc("in the order of the configuration file")]
    live: Sequence[LiveSetting]
