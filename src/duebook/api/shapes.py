"""The JSON schemas of requests and responses, from the types that declare them.

A shape is a class that the codec shows, a TypedDict, or an `Object` that is derived from something
else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Part, Shown, alternatives, noted, parts_of, shown_as

__all__ = ["Object", "Schemas", "items_of", "keys_of", "many", "requires"]

REFERENCE: Final = "#/components/schemas/"
_INSTANT: Final = {"type": "string", "format": "date-time", "examples": ["2026-03-29T02:10:00Z"]}
_TYPES: Final[dict[Any, dict[str, Any]]] = {
    Any: {},
    NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    datetime: _INSTANT,
    float: {"type": "number"},
    int: {"type": "integer"},
    str: {"type": "string"},
    timedelta: {"type": "number"},
}
_BOUNDS: Final = {
    "array": ("minItems", "maxItems"),
    "string": ("minLength", "maxLength"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """A JSON object by its keys and their types; NotRequired for keys that may be left out."""

    name: str
    keys: Mapping[str, Any]
    help: str = ""


def items_of(name: str, kind: Any, cursor: Any = None, help: str = "", **more: Any) -> Object:  # noqa: A002
    """A list of these; `cursor` is the type of the cursor for the next page, if there are pages."""
    return Object(name, {"items": many(kind), "next_cursor": cursor or NoneType, **more}, help)


def many(kind: Any) -> Any:
    """A list of a shape that may be an Object, which type checkers do not accept as a type."""
    return list.__class_getitem__(kind)


def requires(shape: Any) -> bool:
    """Whether any key is required."""
    return any(get_origin(hint) is not NotRequired for hint in keys_of(shape).values())


NOTHING: Final[Mapping[Any, Object]] = {}


class Schemas:
    """The schemas of shapes by name, each once. `spread` has the shapes of values whose fields are
    shown beside others, and that are not shapes themselves."""

    def __init__(self, spread: Mapping[Any, Object]) -> None:
        self._spread = spread
        self._shapes: dict[str, Any] = {}
        self.named: dict[str, dict[str, Any]] = {}

    def reference(self, shape: Any) -> dict[str, str]:
        name = shape.name if isinstance(shape, Object) else shown_as(shape) or shape.__name__
        if self._shapes.setdefault(name, shape) is not shape:
            raise TypeError(f"two shapes are called {name}")
        if name not in self.named:
            self.named[name] = {}  # a shape may refer to itself
            self.named[name] |= self._object(name, shape)
        return {"$ref": REFERENCE + name}

    def _object(self, name: str, shape: Any) -> dict[str, Any]:
        keys = keys_of(shape, self._spread)
        made: dict[str, Any] = {"title": name, "type": "object", "additionalProperties": False}
        help_ = shape.help if isinstance(shape, Object) else cleandoc(shape.__doc__ or "")
        if help_:
            made["description"] = help_.partition("\n\n")[0].replace("\n", " ")
        made["properties"] = {key: self._property(key, hint) for key, hint in keys.items()}
        needed = [key for key, hint in keys.items() if get_origin(hint) is not NotRequired]
        return made | ({"required": needed} if needed else {})

    def _property(self, key: str, hint: Any) -> dict[str, Any]:
        optional = get_origin(hint) is NotRequired
        made = self.schema(get_args(hint)[0] if optional else hint)
        if optional and _takes_null(made):
            made.setdefault("default", None)
        return made if "$ref" in made else made | {"title": key.replace("_", " ").title()}

    def schema(self, hint: Any) -> dict[str, Any]:
        """The schema of a type, with all its annotations."""
        bare, notes = noted(hint)
        made = self._bare(bare)
        for note in notes:
            made |= _said(note)
            kind = made["anyOf"][0] if "anyOf" in made else made
            kind |= _bounds(note, kind.get("type", ""))
        return made

    def _bare(self, hint: Any) -> dict[str, Any]:
        origin, args = get_origin(hint), get_args(hint)
        if hint in _TYPES:
            return dict(_TYPES[hint])
        if origin in (Union, UnionType):
            return {"anyOf": [self.schema(one) for one in args]}
        if origin is Literal:
            return _choice(args)
        if origin in (dict, Mapping):
            inner = args[1] is Any or self.schema(args[1])
            return {"type": "object", "additionalProperties": inner}
        if origin in (list, tuple, Sequence):
            return {"type": "array", "items": self.schema(args[0])}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return _choice(tuple(one.value for one in hint))
        return dict(self.reference(hint))


def _takes_null(made: dict[str, Any]) -> bool:
    return {"type": "null"} in made.get("anyOf", ()) or not made.keys() & {"type", "anyOf", "$ref"}


def _choice(words: Sequence[str]) -> dict[str, Any]:
    said = {"const": words[0]} if len(words) == 1 else {"enum": list(words)}
    return {"type": "string", **said}


def _said(note: Shown) -> dict[str, Any]:
    examples = list(note.examples) or ([] if note.example is None else [note.example])
    said = {"description": note.help or None, "examples": examples or None, "default": note.default}
    return {name: value for name, value in said.items() if value is not None}


def _bounds(note: Shown, kind: str) -> dict[str, Any]:
    least, most = _BOUNDS.get(kind, ("minimum", "maximum"))
    said = {"pattern": note.pattern, "format": note.format}
    said = {name: value for name, value in said.items() if value}
    bounds = {least: note.least, most: note.most}
    return said | {name: value for name, value in bounds.items() if value is not None}


def keys_of(shape: Any, spread: Mapping[Any, Object] = NOTHING) -> Mapping[str, Any]:
    """The types of an object's members, by key."""
    if isinstance(shape, Object):
        return shape.keys
    if is_typeddict(shape):
        hints = get_type_hints(shape, include_extras=True)
        return {key: _optional(hint, key in shape.__optional_keys__) for key, hint in hints.items()}
    keys: dict[str, Any] = {}
    for part in parts_of(shape):
        keys |= _part(part, getattr(shape, "__partial__", False), spread)
    return keys


def _optional(hint: Any, optional: bool) -> Any:
    return NotRequired[hint] if optional and get_origin(hint) is not NotRequired else hint


def _part(part: Part, partial: bool, spread: Mapping[Any, Object]) -> dict[str, Any]:
    note, hint = part.note, part.hint
    if not note.spread:
        if note.json is not None:
            hint = _annotated(note.json, noted(hint)[1])
        if note.sparse:
            hint = _nullable(hint)
        return {part.key: _optional(hint, partial or note.sparse)}
    kind, nullable = alternatives(noted(hint)[0])
    keys = keys_of(spread.get(kind, kind), spread)
    if not nullable or kind in spread:
        return dict(keys)
    return {key: _nullable(inner) for key, inner in keys.items()}


def _nullable(hint: Any) -> Any:
    """A type or null; annotations of the field apply to both."""
    bare, notes = noted(hint)
    if alternatives(bare)[1]:
        return hint
    bare = _annotated(bare, [note for note in notes if not note.help])
    return _annotated(bare | None, [note for note in notes if note.help])


def _annotated(hint: Any, notes: Sequence[Shown]) -> Any:
    return Annotated[hint, *notes] if notes else hint
