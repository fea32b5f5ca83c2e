"""Documents of the pages of other servers that the portal shows."""

from __future__ import annotations

from typing import Annotated

from openpai.wire.doc import Doc, Document


class PluginPage(Document):
    """A page of another server in the portal's navigation."""

    name: Annotated[str, Doc("the word in its address at the portal, /pages/NAME", example="wiki")]
    title: Annotated[str, Doc("as the navigation has it", example="Wiki")]
    address: Annotated[
        str,
        Doc(
            "`{user}`, `{theme}` and `{language}` in it stand for values", example="https://wiki.example.org/?u={user}"
        ),
    ]
