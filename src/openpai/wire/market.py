"""Documents of the marketplace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from openpai.wire.answers import JobId, JobName, Ms, NullableMs, UserName
from openpai.wire.doc import Doc, Document

_NAME = Annotated[str, Doc("its name in paths and commands", example="finetune-llama")]
_TITLE = Annotated[str, Doc(example="Fine-tune Llama")]
_SUMMARY = Annotated[str, Doc("one sentence", example="LoRA on one GPU, with your own data")]
_LABELS = Annotated[Sequence[str], Doc(example=["training"])]
_COMMENT = Annotated[str, Doc("what the edit was for", example="newer image")]
_TEXT = Annotated[str, Doc("a job file; secrets in it are `******`, for which each user gives their own", example="")]
_PLACE = Annotated[str, Doc("the storage that has it", example="datasets")]
_PATH = Annotated[str, Doc("its path in the storage", example="/imagenet")]
_ADDRESS = Annotated[str, Doc("its URL, if it is in no storage", example="")]
_VISIBILITY = Annotated[
    Literal["public", "shared", "private"],
    Doc("shared: with members of its groups and users of its virtual clusters", example="public"),
]


class MarketItem(Document):
    """An item of the marketplace, as lists have it."""

    name: _NAME
    kind: Annotated[Literal["template", "dataset", "model"], Doc(example="template")]
    title: _TITLE
    summary: _SUMMARY
    author: UserName
    official: Annotated[bool, Doc("whether it is the administrators'", example=False)]
    categories: _LABELS
    tags: _LABELS
    visibility: _VISIBILITY
    groups: Annotated[Sequence[str], Doc("it is shared with", example=[])]
    virtualClusters: Annotated[Sequence[str], Doc("it is shared with the users of", example=[])]
    status: Annotated[
        Literal["approved", "pending", "rejected"], Doc("others see only what is approved", example="approved")
    ]
    stars: Annotated[int, Doc("users who like it", example=3)]
    starred: Annotated[bool, Doc("whether the caller gave it a star", example=False)]
    uses: Annotated[int, Doc("jobs that were submitted from it", example=17)]
    users: Annotated[int, Doc("users who submitted them", example=5)]
    createdTime: Ms
    changedTime: Ms


class MarketPage(Document):
    """A part of a list of items."""

    total: Annotated[int, Doc("how many match", example=1)]
    items: Sequence[MarketItem]


class MarketParameter(Document):
    """A parameter of an item's job file."""

    name: Annotated[str, Doc(example="lr")]
    value: Annotated[Any, Doc("its value unless the user gives another one", example=0.1)]


class MarketRevision(Document):
    """The content of one revision of an item."""

    revision: Annotated[int, Doc(example=2)]
    time: NullableMs
    user: UserName
    comment: _COMMENT
    title: _TITLE
    summary: _SUMMARY
    description: Annotated[str, Doc("Markdown", example="Needs 24 GB of GPU memory.")]
    protocol: _TEXT
    storage: _PLACE
    path: _PATH
    address: _ADDRESS
    categories: _LABELS
    tags: _LABELS
    visibility: _VISIBILITY
    groups: _LABELS
    virtualClusters: _LABELS


class MarketDetail(MarketItem):
    """An item of the marketplace with its texts."""

    revision: Annotated[int, Doc("of what is shown", example=2)]
    newest: Annotated[int, Doc("the newest revision, which an edit starts from", example=2)]
    changedBy: UserName
    description: Annotated[str, Doc("Markdown", example="Needs 24 GB of GPU memory.")]
    protocol: _TEXT
    parameters: Annotated[Sequence[MarketParameter], Doc("of the job file, with their defaults")]
    secrets: Annotated[Sequence[str], Doc("secrets that whoever runs it gives", example=["token"])]
    storage: _PLACE
    path: _PATH
    address: _ADDRESS
    reason: Annotated[str, Doc("why it, or its newest revision, was rejected", example="")]
    proposed: Annotated[
        MarketRevision | None,
        Doc("its newest revision, if that is not approved; for its author and administrators", example=None),
    ]
    editable: Annotated[bool, Doc("whether the caller may edit and remove it", example=True)]
    usage: Annotated[str, Doc("what a job file needs to use a data set or a model, as YAML", example="")]


class MarketEdit(Document):
    """One edit of an item."""

    revision: Annotated[int, Doc(example=2)]
    time: Ms
    user: UserName
    comment: _COMMENT


class MarketCategory(Document):
    """A category of items."""

    name: Annotated[str, Doc(example="training")]
    items: Annotated[int, Doc("how many the caller sees", example=4)]


class MarketSettings(Document):
    """Settings of the marketplace."""

    approval: Annotated[bool, Doc("whether administrators approve items before others see them", example=False)]


class MarketRun(Document):
    """A job that was submitted from an item."""

    item: _NAME
    revision: Annotated[int, Doc("of the item", example=2)]
    user: UserName
    name: JobName
    id: JobId
    warnings: Annotated[Sequence[str], Doc("what may not have the expected effect", example=[])]
