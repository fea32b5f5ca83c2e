"""Reads the definition of a storage, kind by kind: reports every fault in its keys and splits credentials off."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from openpai.protocol.errors import Fault, InvalidParameters
from openpai.protocol.wording import validation_message

_SMB_ADDRESS: Final = re.compile(r"//([^/\\]+)/([^/\\]+)(/.*)?")


class _Definition(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, alias_generator=to_camel, populate_by_name=False
    )


def _plain(text: str) -> str:
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise ValueError("must be one line of text without control characters")
    return text


def _no_way_up(path: str) -> str:
    if ".." in _plain(path).split("/"):
        raise ValueError("must not contain '..'")
    return path


def _is_absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("must be an absolute path, beginning with '/'")
    return _no_way_up(path)


def _is_url(url: str) -> str:
    found = urlsplit(_plain(url))
    if url and (found.scheme not in ("http", "https") or not found.hostname):
        raise ValueError("must be the address of a server, like https://minio.example.org:9000")
    # Each of these may hold a token, and addresses are shown to all users.
    if found.username or found.password or found.query or found.fragment:
        raise ValueError("must not hold credentials: they belong into fields of their own, which are encrypted")
    return url


_HOST: Final = Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9._:\[\]-]+$")
_NAME: Final = Field(min_length=1, max_length=255, pattern=r"^[^/\\\x00-\x1f]+$")
_PATH: Final = Field("", max_length=1024)
_TEXT: Final = Field("", max_length=255)
_SECRET: Final = Field(SecretStr(""), max_length=4096)
_MOUNTED_AT: Final = Field("", max_length=1024, description="Where the machines have it mounted already.")
_DNS_NAME: Final = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_CLAIM: Final = Field(
    "",
    max_length=253,
    pattern=rf"^({_DNS_NAME})?$",
    description="The PersistentVolumeClaim by which pods of Kubernetes mount it, in the namespace of the tasks.",
)


class Local(_Definition):
    """A directory of the nodes."""

    path: str = Field(min_length=1, max_length=1024)

    _path = field_validator("path")(_is_absolute)


class Nfs(_Definition):
    """An export of an NFS server."""

    server: str = _HOST
    path: str = Field(min_length=1, max_length=1024)
    mount_options: str = Field("", max_length=255, pattern=r"^[\w=.,:/-]*$")
    mounted_at: str = _MOUNTED_AT
    claim: str = _CLAIM

    _path = field_validator("path")(_is_absolute)
    _mounted_at = field_validator("mounted_at")(lambda path: _is_absolute(path) if path else path)


class Smb(_Definition):
    """A share of an SMB server: Samba, Windows, Azure Files."""

    server: str = _HOST
    share: str = _NAME
    path: str = _PATH
    username: str = Field("", max_length=255, pattern=r"^[^,\x00-\x1f]*$")
    domain: str = Field("", max_length=255, pattern=r"^[^,\x00-\x1f]*$")
    port: int = Field(445, ge=1, le=65535)
    password: SecretStr = _SECRET
    mounted_at: str = _MOUNTED_AT
    claim: str = _CLAIM

    _path = field_validator("path")(_no_way_up)
    _mounted_at = field_validator("mounted_at")(lambda path: _is_absolute(path) if path else path)

    @model_validator(mode="after")
    def _whose_password(self) -> Self:
        if self.password.get_secret_value() and not self.username:
            raise ValueError("a password needs a username")
        return self

    @model_validator(mode="before")
    @classmethod
    def _from_address(cls, values: Any) -> Any:
        """Split OpenPAI's `address`, as in //server/share/path."""
        if not isinstance(values, Mapping) or "address" not in values:
            return values
        found = _SMB_ADDRESS.fullmatch(str(values["address"]).replace("\\", "/"))
        if found is None:
            raise ValueError("address must be written like //server/share")
        rest = {name: value for name, value in values.items() if name != "address"}
        return {"server": found[1], "share": found[2], "path": (found[3] or "").strip("/"), **rest}


class Claim(_Definition):
    """A volume of a Kubernetes cluster that has no address of its own: Ceph, Longhorn, Lustre, a disk."""

    claim: str = Field(min_length=1, max_length=253, pattern=rf"^{_DNS_NAME}$")
    mounted_at: str = _MOUNTED_AT

    _mounted_at = field_validator("mounted_at")(lambda path: _is_absolute(path) if path else path)


class S3(_Definition):
    """A bucket of S3 or of a compatible server: MinIO, Ceph, SeaweedFS."""

    bucket: str = Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9._-]+$")
    prefix: str = _PATH
    endpoint: str = _TEXT
    region: str = Field("", max_length=64, pattern=r"^[A-Za-z0-9-]*$")
    access_key_id: str = Field("", max_length=255, pattern=r"^[\x21-\x7e]*$")
    secret_access_key: SecretStr = _SECRET
    session_token: SecretStr = _SECRET
    claim: str = _CLAIM

    _prefix = field_validator("prefix")(_no_way_up)
    _endpoint = field_validator("endpoint")(_is_url)

    @model_validator(mode="after")
    def _whose_key(self) -> Self:
        # Without an id there is no login, so the secret would be unused.
        if (self.secret_access_key.get_secret_value() or self.session_token.get_secret_value()) and (
            not self.access_key_id
        ):
            raise ValueError("secretAccessKey and sessionToken need an accessKeyId")
        if self.session_token.get_secret_value() and not self.secret_access_key.get_secret_value():
            raise ValueError("a sessionToken needs its secretAccessKey")
        return self


class AzureBlob(_Definition):
    """A container of Azure Blob Storage."""

    container_name: str = Field(min_length=1, max_length=63, pattern=r"^[$a-z0-9][a-z0-9-]*$")
    account_name: str = Field(min_length=1, max_length=64, pattern=r"^[a-z0-9]+$")
    prefix: str = _PATH
    endpoint: str = _TEXT
    account_key: SecretStr = _SECRET
    account_sas_token: SecretStr = Field(SecretStr(""), max_length=4096, alias="accountSASToken")
    claim: str = _CLAIM

    _prefix = field_validator("prefix")(_no_way_up)
    _endpoint = field_validator("endpoint")(_is_url)

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.account_key.get_secret_value() and self.account_sas_token.get_secret_value():
            raise ValueError("give accountKey or accountSASToken, not both")
        return self


class WebHdfs(_Definition):
    """A directory of HDFS, through WebHDFS or HttpFS."""

    server: str = _HOST
    port: int = Field(9870, ge=1, le=65535)
    path: str = Field("/", max_length=1024)
    user: str = Field("", max_length=255, pattern=r"^[^\x00-\x1f]*$")
    use_https: bool = False
    password: SecretStr = _SECRET
    delegation_token: SecretStr = _SECRET
    claim: str = _CLAIM

    _path = field_validator("path")(_is_absolute)

    @model_validator(mode="after")
    def _who(self) -> Self:
        if self.delegation_token.get_secret_value() and (self.user or self.password.get_secret_value()):
            raise ValueError("a delegationToken identifies its user: remove user and password")
        if self.password.get_secret_value() and not self.user:
            raise ValueError("a password needs a user")
        return self


MODELS: Final[Mapping[str, type[_Definition]]] = {
    "local": Local,
    "nfs": Nfs,
    "smb": Smb,
    "claim": Claim,
    "s3": S3,
    "azureBlob": AzureBlob,
    "webhdfs": WebHdfs,
}
_ALSO_CALLED: Final = {"samba": "smb"}


class Head(_Definition):
    """The keys of every storage."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
    type: Literal["local", "nfs", "smb", "samba", "claim", "s3", "azureBlob", "webhdfs"]
    read_only: bool = False
    share: bool = Field(True, description="False: each user sees a folder of their own name.")
    description: str = Field("", max_length=1024, pattern=r"^[^\x00]*$")
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Draft:
    """A storage as it was described, with its credentials apart from what may be shown."""

    name: str
    kind: str
    data: Mapping[str, Any]
    secrets: Mapping[str, str] = field(repr=False)
    is_read_only: bool
    is_shared: bool
    description: str

    @property
    def logs_in(self) -> bool:
        """Whether it uses credentials: directories and anonymous access do not."""
        names = {"local": "", "nfs": "", "claim": "", "smb": "username", "s3": "accessKeyId"}
        return self.kind not in names or bool(self.data.get(names[self.kind]))


def read(document: Mapping[str, Any]) -> Draft:
    """Return the storage that a document describes; raise InvalidParametersError with every fault in it."""
    faults: list[Fault] = []
    head = _checked(Head, document, "", faults)
    kind = str(document.get("type"))
    kind = _ALSO_CALLED.get(kind, kind)
    place = None
    if kind in MODELS and isinstance(document.get("data"), Mapping):
        place = _checked(MODELS[kind], document["data"], "data.", faults)
    if not isinstance(head, Head) or place is None:
        message = "; ".join(f"{fault.path or 'storage'}: {fault.message}" for fault in faults)
        raise InvalidParameters(message, "docs/storages.md lists the keys of each type", tuple(faults))
    values = place.model_dump(by_alias=True)
    secrets = {name: value.get_secret_value() for name, value in values.items() if isinstance(value, SecretStr)}
    data = {name: value for name, value in values.items() if not isinstance(value, SecretStr) and value != ""}
    kept = {name: value for name, value in secrets.items() if value}
    return Draft(head.name, kind, data, kept, head.read_only, head.share, head.description)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a document, one alternative for each kind."""
    head = Head.model_json_schema(by_alias=True)
    alternatives = []
    for kind, model in MODELS.items():
        properties = head["properties"] | {"type": {"const": kind}, "data": model.model_json_schema(by_alias=True)}
        alternatives.append({**head, "title": f"{kind} storage", "properties": properties})
    return {"oneOf": alternatives}


def _checked(model: type[_Definition], values: Any, where: str, faults: list[Fault]) -> _Definition | None:
    try:
        # Validated as JSON, where a number is no string and a string is no flag, while text may still become a secret.
        return model.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        faults.extend(
            _read_fault(model, where, fault) for fault in error.errors(include_url=False, include_input=False)
        )
        return None


def _read_fault(model: type[_Definition], where: str, fault: Mapping[str, Any]) -> Fault:
    place = where + ".".join(str(part) for part in fault["loc"])
    message = validation_message(fault)
    if fault["type"] == "extra_forbidden":
        known = [field.alias or name for name, field in model.model_fields.items()]
        message = f"is not known here; known are {', '.join(known)}"
    return Fault(place.rstrip("."), message)
