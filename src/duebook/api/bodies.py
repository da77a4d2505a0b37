"""Parses the JSON of a request, and checks which of its fields an action takes."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NoReturn

from duebook.api.problems import InvalidFields, Malformed, WrongMediaType
from duebook.errors import Invalid, json_problem, refuse_keys, shorten
from duebook.model.fields import has_nul

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    Reader = Callable[[str, Any], Any]

__all__ = ["parse_body", "read_definition", "read_fields", "refuse_media_type"]

_ESCAPES: Final = ("\\u0000", "\\ud", "\\uD")
"""Escapes that may become a character that databases cannot store."""


def refuse_media_type(content_type: str | None) -> None:
    """Raises WrongMediaType for anything but JSON: pages of other sites cannot send JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WrongMediaType(f'content type "{shorten(kind)}" is not application/json')


def parse_body(content: bytes) -> dict[str, Any]:
    """The JSON object of a request; an empty one is {}. Raises Malformed."""
    if not content.strip():
        return {}
    try:
        text = content.decode()
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
        if any(escape in text for escape in _ESCAPES):
            _refuse_half_characters(value)
    except Malformed:
        raise
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is not valid JSON: {json_problem(error)}") from None
    if not isinstance(value, dict):
        raise Malformed(f"the body is not a JSON object but {shorten(value)}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        numbers = Counter(name for name, _ in pairs)
        twice = next(name for name, number in numbers.items() if number > 1)
        raise Malformed(f'the body has "{shorten(twice)}" twice in the same object')
    return found


def _no_number(text: str) -> NoReturn:
    raise Malformed(f"the body has {text}, which is not valid JSON")


def _refuse_half_characters(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    if has_nul(text):
        raise Malformed("the body contains a NUL character, which cannot be stored")
    text.encode()  # an unpaired surrogate raises UnicodeEncodeError, a ValueError


def read_fields(
    body: Mapping[str, Any], readers: Mapping[str, Reader], required: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The fields that an action takes; None counts as not given. Raises InvalidFields with all
    problems."""
    known = ", ".join(readers) or "none"
    problems = refuse_keys(
        body, readers, lambda name: f"{name} is not a field here; use one of {known}"
    )
    values: dict[str, Any] = {}
    for name, read in readers.items():
        if body.get(name) is not None:
            try:
                values[name] = read(name, body[name])
            except Invalid as error:
                problems[name] = str(error)
        elif name in required:
            problems[name] = f"{name} is missing"
    if problems:
        raise InvalidFields(problems)
    return values


def read_definition(body: Mapping[str, Any], arguments: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a definition, for the model to validate; raises InvalidFields for those that
    mean something else to the client: `arguments` are the other arguments of its method."""
    reserved = body.keys() & {"by", "name", "self", "version", *arguments}
    if reserved:
        raise InvalidFields({name: f"{name} is not a field of a definition" for name in reserved})
    return dict(body)
