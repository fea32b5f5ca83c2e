"""Reads what can be read of an object that does not fit its type.

An API server newer than this program may write a value that a field of ours does not take. The object is there all the
same: a pod that cannot be read in full still occupies its node. So only that value is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

S = TypeVar("S", bound=msgspec.Struct)
_SEQUENCES: Final = (list, tuple)


def salvage(wanted: type[S], content: bytes | msgspec.Raw) -> S:
    """Return an object without the values that do not fit. Raises DecodeError if the content is no JSON object."""
    found: S = _fitting(wanted, msgspec.json.decode(content))
    return found


def _fitting(wanted: Any, value: Any) -> Any:
    """Return the part of a value that fits a type. Raises ValidationError if there is none."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        parts = get_args(wanted)
        if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct) and isinstance(value, Mapping):
            return wanted(**_fields(wanted, value))
        if (kind := get_origin(wanted)) in _SEQUENCES and isinstance(value, list):
            return kind([part for each in value for part in _if_any(parts[0], each)])
        if get_origin(wanted) is dict and isinstance(value, Mapping):
            return {name: part for name, each in value.items() for part in _if_any(parts[1], each)}
        for option in parts if get_origin(wanted) not in (*_SEQUENCES, dict) else ():
            with suppress(msgspec.ValidationError):
                return _fitting(option, value)
        raise


def _fields(wanted: type[msgspec.Struct], value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        field.name: part
        for field in msgspec.structs.fields(wanted)
        if field.encode_name in value
        for part in _if_any(field.type, value[field.encode_name])
    }


def _if_any(wanted: Any, value: Any) -> list[Any]:
    try:
        return [_fitting(wanted, value)]
    except msgspec.ValidationError:
        return []
