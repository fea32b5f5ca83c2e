"""The identity file: the OpenID provider and the directory that log users in, as an administrator writes it.

A YAML document. It contains secrets, or better names environment variables that do. All faults are reported together.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from openpai.api.services import SignOn
from openpai.app.config_file import refuse_readable
from openpai.cli.text_file import read_text
from openpai.identity.directory import GROUP_FILTER, Directory, LdapSettings, is_this_machine
from openpai.ports.clock import Clock
from openpai.ports.identity import Sealer
from openpai.protocol.errors import BadConfiguration, Refused
from openpai.protocol.wording import validation_message

if TYPE_CHECKING:
    from openpai.identity.oidc import OidcSettings
    from openpai.identity.provider import Provider

_ORIGIN = r"^https?://[^/\s?#@]+/?$"
Text = Annotated[str, Field(min_length=1, max_length=2048)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, strict=True)


class OidcPart(_Part):
    """The section of an OpenID provider."""

    issuer: Annotated[str, Field(pattern=r"^https?://\S+$")]
    client_id: Text
    client_secret: str = Field(default="", repr=False)
    client_secret_env: str = ""
    scopes: list[Text] = ["openid", "profile", "email"]
    name_claim: str = ""
    groups_claim: Text = "groups"
    label: Text = "single sign-on"

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        found = urlsplit(self.issuer)
        if found.scheme == "http" and not is_this_machine(found.hostname or ""):
            # Another machine on the way could log in as any user.
            raise ValueError(f"{self.issuer} would send keys and secrets unencrypted; use https://")
        _secret("clientSecret", self.client_secret, self.client_secret_env)
        return self

    def settings(self) -> OidcSettings:
        """Return the configuration for the provider's adapter."""
        from openpai.identity.oidc import OidcSettings

        return OidcSettings(
            issuer=self.issuer,
            client_id=self.client_id,
            client_secret=_secret("clientSecret", self.client_secret, self.client_secret_env),
            scopes=tuple(dict.fromkeys(("openid", *self.scopes))),
            name_claim=self.name_claim,
            groups_claim=self.groups_claim,
            label=self.label,
        )


class LdapPart(_Part):
    """The section of a directory."""

    url: Text
    user_base: Text
    user_filter: Text = "(uid={name})"
    bind_dn: str = ""
    bind_password: str = Field(default="", repr=False)
    bind_password_env: str = ""
    start_tls: bool = Field(default=False, alias="startTLS")
    ca_file: str = ""
    name_attribute: Text = "uid"
    email_attribute: Text = "mail"
    group_base: str = ""
    group_filter: Text = GROUP_FILTER
    group_attribute: Text = "cn"

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if self.ca_file and not Path(self.ca_file).is_file():
            raise ValueError(f"there is no file {self.ca_file}, named for caFile")
        try:
            self.settings().check()
        except Refused as error:
            raise ValueError(f"{error.message}; {error.advice}") from error
        return self

    def settings(self) -> LdapSettings:
        """Return the configuration for the directory's adapter."""
        plain = self.model_dump(exclude={"bind_password", "bind_password_env"})
        return LdapSettings(**plain, bind_password=_secret("bindPassword", self.bind_password, self.bind_password_env))


class IdentityFile(_Part):
    """The whole file."""

    public_url: Annotated[str, Field(pattern=_ORIGIN)] | None = None
    origins: list[Annotated[str, Field(pattern=_ORIGIN)]] = []
    require_group: bool = False
    oidc: OidcPart | None = None
    ldap: LdapPart | None = None


def read_identity(path: Path) -> IdentityFile:
    """Return the content of an identity file with its secrets. Raises Refused with every fault in it."""
    text = read_text(path, "an identity file", code="BadConfigurationError")
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # The rest of the error quotes the file, which may contain a secret.
        raise _refused(path, f"is not YAML: see line {mark.line + 1}" if mark else "is not YAML") from error
    try:
        identity = IdentityFile.model_validate(document if document is not None else {})
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, each['loc'])) or 'the file'}: {validation_message(each)}" for each in error.errors()
        ]
        raise _refused(path, "has faults:\n" + "\n".join(faults)) from error
    if (identity.oidc and identity.oidc.client_secret) or (identity.ldap and identity.ldap.bind_password):
        refuse_readable(path, "the identity file holds a secret, and", 0o007)
    return identity


def open_sign_on(identity: IdentityFile, sealer: Sealer, clock: Clock) -> tuple[SignOn, Provider | None]:
    """Return the identity providers, and the one to close at the end, without connecting to them."""
    provider, sso, directory = None, None, None
    if identity.oidc is not None:
        # Most servers have none, and 50 modules less.
        from openpai.identity.oidc import Oidc
        from openpai.identity.provider import Provider

        provider = Provider(identity.oidc.issuer, clock)
        sso = Oidc(identity.oidc.settings(), sealer, clock, provider)
    if identity.ldap is not None:
        directory = Directory(identity.ldap.settings())
    origins = tuple(origin.rstrip("/") for origin in identity.origins)
    return SignOn(sso, directory, identity.public_url or "", origins, identity.require_group), provider


def _secret(key: str, written: str, variable: str) -> str:
    if written and variable:
        raise ValueError(f"both {key} and {key}Env are given; keep one of the two")
    if variable and variable not in os.environ:
        raise ValueError(f"the environment variable {variable}, named for {key}, is not set")
    return os.environ[variable] if variable else written


def _refused(path: Path, message: str) -> Refused:
    return BadConfiguration(f"the identity file {path} {message}", "docs/sign-on.md describes its keys")
