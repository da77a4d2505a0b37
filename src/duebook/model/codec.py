"""Converts values to and from JSON. A class declares its fields once, with their types; their JSON
form, how a client reads it back, and the shapes in the OpenAPI document are derived from that.

A field is shown under its name unless it is marked `NEVER_SHOWN`. A property is shown if its return
type carries a `Shown`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from duebook.lazy_dataclasses import dataclass
from duebook.model.secret import is_secret
from duebook.timetext import format_instant, parse_instant

__all__ = [
    "NEVER_SHOWN",
    "Id",
    "Name",
    "Part",
    "Shown",
    "alternatives",
    "decode",
    "encode",
    "encoder",
    "noted",
    "parts_of",
    "shown",
    "shown_as",
]

T = TypeVar("T")
Form = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """The notes on a field, besides its type, for its form in JSON."""

    help: str = ""
    example: Any = None
    examples: tuple[Any, ...] = ()
    """if one is not enough"""
    key: str = ""
    """its name in JSON, if different"""
    of: Callable[[Any], Any] | None = None
    """computes what is shown from the whole value, such as text without secrets"""
    write: Callable[[Any], Any] | None = None
    """converts a field whose type the codec does not know to JSON"""
    read: Callable[[Any], Any] | None = None
    """the inverse of `write`"""
    json: Any = None
    """its type in JSON, if more specific or different"""
    sparse: bool = False
    """whether it is omitted when empty"""
    spread: bool = False
    """whether its own fields are placed beside the others, rather than under its name"""
    default: Any = None
    """for what may be omitted from a request"""
    least: float | None = None
    most: float | None = None
    """of a number, of characters, or of items"""
    pattern: str = ""
    format: str = ""


class _NeverShown:
    """Marks an internal field."""


NEVER_SHOWN: Final = _NeverShown()

Id = Annotated[str, Shown(format="uuid", example="01a1de90-53bb-7c3e-8d5f-0123456789ab")]
Name = Annotated[str, Shown(pattern="^[a-z0-9][a-z0-9._-]{0,127}$", example="nightly-backup")]


class Part(NamedTuple):
    """A field, or a property, that is shown."""

    name: str
    key: str
    hint: Any
    note: Shown


class _Given(NamedTuple):
    """A field with which a value is created."""

    name: str
    hint: Any
    default: Callable[[], Any] | None
    """None: it has none"""


def shown(name: str = "", partial: bool = False) -> Callable[[type[T]], type[T]]:
    """Mark a class whose values are shown as JSON objects, under a name in the OpenAPI document. A
    `partial` class may also be sent there without some of its fields.

    Its annotations are read at run time. A static method `read_shown(form)` returns the fields that
    are not read by their names.
    """

    def mark(kind: type[T]) -> type[T]:
        kind.__shown__ = name or kind.__name__  # type: ignore[attr-defined]
        kind.__partial__ = partial  # type: ignore[attr-defined]
        return kind

    return mark


def shown_as(kind: Any) -> str | None:
    """The name of a class in the OpenAPI document; None for types that are not shown."""
    return vars(kind).get("__shown__") if isinstance(kind, type) else None


def encode(value: Any) -> dict[str, Any]:
    """The JSON object of a value, without its secrets."""
    kind: Any = type(value)
    return encoder(kind)(value)


def decode(kind: type[T], form: Form, **given: Any) -> T:
    """The value that a server shows as `form`, except for the fields in `given`.

    Unknown fields come from a newer server and are ignored; missing ones get their defaults.
    """
    if (special := getattr(kind, "read_shown", None)) is not None:
        given = special(form) | given
    hashable: Any = kind
    made: T = _decoder(hashable, tuple(given))(form, given)
    return made


@cache
def parts_of(kind: Any) -> tuple[Part, ...]:
    """The shown parts of a class, fields before properties."""
    hints = {field.name: field.hint for field in _given(kind)}
    for base in reversed(kind.__mro__):
        for name, found in vars(base).items():
            if isinstance(found, property) and "Shown(" in _returned(found):
                hints[name] = get_type_hints(found.fget, include_extras=True)["return"]
    parts = []
    for name, hint in hints.items():
        bare, notes = noted(hint)
        if any(isinstance(note, _NeverShown) for note in notes):
            continue
        if not notes and is_secret(name):
            raise TypeError(f"{kind.__name__}.{name} sounds secret: Shown() or NEVER_SHOWN?")
        note = _merged(notes)
        parts.append(Part(name, note.key or name, hint, note))
        if note.of is None and note.write is None:
            _writer(alternatives(bare)[0], f"{kind.__name__}.{name}")
    return tuple(parts)


def _returned(found: property) -> str:
    return str(getattr(found.fget, "__annotations__", {}).get("return", ""))


def noted(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type, and the notes on it."""
    if get_origin(hint) is Annotated:
        bare, *notes = get_args(hint)
        return bare, tuple(note for note in notes if isinstance(note, Shown | _NeverShown))
    return hint, ()


def _merged(notes: Sequence[Shown]) -> Shown:
    """All notes as one; later notes override earlier ones."""
    plain = Shown()
    said: dict[str, Any] = {}
    for note in notes:
        every = {field.name: getattr(note, field.name) for field in fields(Shown)}
        said |= {name: value for name, value in every.items() if value != getattr(plain, name)}
    return Shown(**said)


def alternatives(hint: Any) -> tuple[Any, bool]:
    """A type without None, and whether None was in it."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    some = tuple(one for one in get_args(hint) if one is not NoneType)
    return Union[some], len(some) < len(get_args(hint))  # noqa: UP007 - as many as there are


@cache
def _given(kind: Any) -> tuple[_Given, ...]:
    names = vars(sys.modules[kind.__module__])  # functions that annotations use later
    hints = get_type_hints(kind, names, {}, include_extras=True)
    if not is_dataclass(kind):
        defaults = getattr(kind, "_field_defaults", {})
        return tuple(
            _Given(name, hints[name], _constant(defaults[name]) if name in defaults else None)
            for name in getattr(kind, "_fields", ())
        )
    return tuple(
        _Given(
            field.name,
            hints[field.name],
            field.default_factory
            if field.default_factory is not MISSING
            else None
            if field.default is MISSING
            else _constant(field.default),
        )
        for field in fields(kind)
        if field.init
    )


def _constant(value: T) -> Callable[[], T]:
    return lambda: value


@cache
def encoder(kind: Any) -> Callable[[Any], dict[str, Any]]:
    """Creates the encoder of a class as one expression, as dataclasses create their __init__."""
    known: dict[str, Any] = {}
    plain, last = [], []
    for number, part in enumerate(parts_of(kind)):
        note, source = part.note, f"value.{part.name}"
        written = _written(part, source, known, number)
        if note.spread:
            last.append(f"**({written} or none{number})")
            known[f"none{number}"] = dict.fromkeys(_spread_keys(part))
        elif note.sparse:
            last.append(f"**({{{part.key!r}: {written}}} if {source} else {{}})")
        else:
            plain.append(f"{part.key!r}: {written}")
    text = f"lambda value: {{{', '.join(plain + last)}}}"
    made: Callable[[Any], dict[str, Any]] = eval(text, known)  # noqa: S307 - names of fields alone
    return made


def _spread_keys(part: Part) -> list[str]:
    """The keys that are null if a spread field has no value: those of a shown class."""
    kind = alternatives(noted(part.hint)[0])[0]
    return [inner.key for inner in parts_of(kind)] if shown_as(kind) else []


def _written(part: Part, source: str, known: dict[str, Any], number: int) -> str:
    """The expression for a field; adds the functions that it calls to `known`."""
    if part.note.of is not None:
        known[f"write{number}"] = part.note.of
        return f"write{number}(value)"
    bare, nullable = alternatives(noted(part.hint)[0])
    write = part.note.write or _writer(bare, part.name)
    if write is None:
        return source
    known[f"write{number}"] = write
    if nullable:
        return f"(None if (found := {source}) is None else write{number}(found))"
    return f"write{number}({source})"


def _writer(hint: Any, where: str) -> Callable[[Any], Any] | None:
    """Converts a type to JSON; None for one that is JSON already."""
    hint, _ = noted(hint)
    origin, args = get_origin(hint), get_args(hint)
    if hint in (str, int, float, bool, Any) or origin in (Literal, dict, Mapping):
        return None
    if origin in (tuple, list, Sequence):
        item = _writer(args[0], where)
        return list if item is None else lambda items: [item(one) for one in items]
    if shown_as(hint) is not None:
        return encoder(hint)
    if isinstance(hint, type):
        if issubclass(hint, datetime):
            return format_instant
        if issubclass(hint, timedelta):
            return timedelta.total_seconds
        if issubclass(hint, Enum):
            return attrgetter("value")
    raise TypeError(f"{where}: {hint} has no JSON; say what it is, or mark it NEVER_SHOWN")


@cache
def _decoder(kind: Any, given: tuple[str, ...]) -> Callable[[Form, Form], Any]:
    known: dict[str, Any] = {"kind": kind}
    shown_parts = {part.name: part for part in parts_of(kind)}
    arguments = [f"{name}=given[{name!r}]" for name in given]
    for number, field in enumerate(_given(kind)):
        if field.name in shown_parts and field.name not in given:
            read = _read(shown_parts[field.name], field, known, number)
            arguments.append(f"{field.name}={read}")
    text = f"lambda form, given: kind({', '.join(arguments)})"
    made: Callable[[Form, Form], Any] = eval(text, known)  # noqa: S307 - names of fields alone
    return made


def _read(part: Part, field: _Given, known: dict[str, Any], number: int) -> str:
    """The expression for an argument; adds what it uses to `known`."""
    bare, nullable = alternatives(noted(field.hint)[0])
    read = part.note.read or _reader(bare)
    found = f"form[{part.key!r}]"
    if read is not None:
        known[f"read{number}"] = read
        whole = f"None if (found := {found}) is None else read{number}(found)"
        found = f"({whole})" if nullable else f"read{number}({found})"
    if part.note.spread:
        there = f"read{number}(form)"
        first = next(iter(_spread_keys(part)), None)
        return f"({there} if form.get({first!r}) is not None else None)" if nullable else there
    if field.default is None:
        return found
    known[f"default{number}"] = field.default
    return f"({found} if {part.key!r} in form else default{number}())"


def _reader(hint: Any) -> Callable[[Any], Any] | None:
    hint, _ = noted(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (tuple, list, Sequence):
        item, many = _reader(args[0]), tuple if origin is tuple else list
        return many if item is None else lambda items: many(map(item, items))
    if shown_as(hint) is not None:
        return partial(decode, hint)
    if isinstance(hint, type):
        if issubclass(hint, datetime):
            return parse_instant
        if issubclass(hint, timedelta):
            return lambda seconds: timedelta(seconds=seconds)
        if issubclass(hint, Enum):
            return hint
    return None
