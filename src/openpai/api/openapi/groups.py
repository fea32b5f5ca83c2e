"""Operations on groups."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import answers, groups

_G: Final = "/api/v2/groups"
_GROUP: Final = "NoGroupError"
_ACLS: Final = "NoVirtualClusterError NoStorageError RemoveAdminError ReadOnlyGroupError"
_GRANTS: Final = {"acls": {"virtualClusters": ["vision"], "storageConfigs": ["datasets"]}}
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_G}": Operation("listGroups", "List groups", list[groups.Group]),
    f"POST {_G}": Operation(
        "createGroup",
        "Add a group",
        answers.Message,
        f"{_ACLS} ConflictGroupError",
        request={"groupname": "team-vision", "extension": _GRANTS},
    ),
    f"PUT {_G}": Operation(
        "changeGroup",
        "Change a group",
        answers.Message,
        f"{_GROUP} {_ACLS}",
        request={"patch": True, "data": {"groupname": "team-vision", "extension": _GRANTS}},
    ),
    f"GET {_G}/{{groupname}}": Operation("getGroup", "Show a group", groups.Group, _GROUP),
    f"DELETE {_G}/{{groupname}}": Operation(
        "deleteGroup", "Remove a group", answers.Message, f"{_GROUP} ReadOnlyGroupError RemoveAdminError"
    ),
    f"GET {_G}/{{groupname}}/userlist": Operation(
        "listMembers", "List the members of a group", list[groups.Member], _GROUP
    ),
    f"PUT {_G}/{{groupname}}/extension": Operation(
        "setGroupExtension",
        "Change what a group grants",
        answers.Message,
        f"{_GROUP} {_ACLS}",
        request={"extension": _GRANTS},
    ),
    f"PUT {_G}/{{groupname}}/extension/{{path}}": Operation(
        "setGroupValue",
        "Change one value of a group's extension",
        answers.Message,
        f"{_GROUP} {_ACLS}",
        request={"data": ["vision"]},
    ),
    f"PUT {_G}/{{groupname}}/description": Operation(
        "setGroupDescription",
        "Change the description of a group",
        answers.Message,
        _GROUP,
        request={"description": "pictures"},
    ),
    f"PUT {_G}/{{groupname}}/externalname": Operation(
        "setGroupExternalName",
        "Change the name of a group at a provider",
        answers.Message,
        _GROUP,
        request={"externalName": "vision@example.org"},
    ),
}
