"""How request bodies are read: JSON or a form, checked against a model, every fault in one answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError

from openpai.protocol.errors import InvalidParameters, Refused
from openpai.protocol.syntax import unfit_texts
from openpai.protocol.wording import validation_message

FIELDS_MAX: Final = 100
WHOLE_MAX: Final = 2**53


class Body(BaseModel):
    """A request body; an unknown key is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    example: ClassVar[Any] = None
    """Shown in the API's description, if the examples of the fields do not make one."""
    is_required: ClassVar[bool] = True

    def __init_subclass__(cls, *, example: Any = None, is_required: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.example, cls.is_required = example, is_required


B = TypeVar("B", bound=Body)


async def read_body(request: Request, model: type[B]) -> B:
    """Return the body as `model`; raise InvalidParametersError naming every fault. Any content type may hold JSON."""
    content = await request.body()
    is_form = request.headers.get("content-type", "").lower().startswith("application/x-www-form-urlencoded")
    # `curl -d` labels every body as a form; JSON read as a form would be an empty body.
    is_form = is_form and not content.lstrip().startswith((b"{", b"["))
    try:
        # Every value of a form is text; JSON has types, and a value of the wrong type is a fault.
        read = model.model_validate(_form(content)) if is_form else _strictly(content, model)
    except ValidationError as error:
        raise invalid(describe(error.errors(include_url=False, include_input=False))) from None
    request.state.asked = read
    return read


def _strictly(content: bytes, model: type[B]) -> B:
    try:
        values = json.loads(content.decode(), parse_float=_number, parse_constant=_no_number)
        _refuse_unfit(values)
        # Only Pydantic's JSON mode is strict about numbers and still accepts objects for models.
        written = json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise invalid("the body is not valid JSON") from None
    return model.model_validate_json(written, strict=True)


def _refuse_unfit(values: Any) -> None:
    for path, wrong in unfit_texts(values):
        place = ".".join(str(part) for part in path)
        raise invalid(f"{place}: {wrong}" if place else f"the body {wrong}")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("too large a number")
    # JSON has one type of number: 60.0 is the whole number 60.
    return int(number) if number.is_integer() and abs(number) < WHOLE_MAX else number


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def _form(content: bytes) -> dict[str, str]:
    try:
        fields = dict(parse_qsl(content.decode(), max_num_fields=FIELDS_MAX))
    except ValueError:
        raise invalid("the body is not a valid form") from None
    _refuse_unfit(fields)
    return fields


def invalid(message: str) -> Refused:
    """Return the error for a malformed request."""
    return InvalidParameters(message, "see /docs for what this request may contain")


def describe(faults: Sequence[Mapping[str, Any]]) -> str:
    """Return Pydantic's faults as one sentence for a person."""
    return "; ".join(f"{_place(fault)}{validation_message(fault)}" for fault in faults)


def _place(fault: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in fault["loc"] if part not in ("query", "path", "body", "header"))
    return f"{place}: " if place else ""


def taken(model: type[Body]) -> dict[str, Any]:
    """Return the part of the API's description for a body read by `read_body`."""
    schema = model.model_json_schema()
    # A reference is read from the root of the whole description, where a body's own definitions are not.
    whole = _inlined(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": model.is_required, "content": {"application/json": {"schema": whole}}}}


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if reference := schema.get("$ref"):
        return _inlined(definitions[reference.removeprefix("#/$defs/")], definitions)
    return {key: _inlined(part, definitions) for key, part in schema.items()}
