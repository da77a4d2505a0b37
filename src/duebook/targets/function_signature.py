"""Reads the signature of a function: the names and JSON types of its payload; calls nothing.

A signature has a JSON form, so that a process without the function can check payloads, too.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from duebook.errors import Invalid, quoted, shorten
from duebook.targets.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

__all__ = ["FunctionSignature", "fits"]

_LISTS: Final = (list, Sequence, Iterable)
_OBJECTS: Final = (dict, Mapping)
_SAMPLES: Final[tuple[Any, ...]] = (None, True, 1, 1.5, "", [], {})
"""One of each kind of JSON value."""
_KINDS: Final = {type(sample): type(sample).__name__ for sample in _SAMPLES}
Shape = dict[str, Any]
"""The values of a type, as JSON: {"kinds": names of Python's types}, {"list": Shape of an item},
{"dict": Shape of a value}, {"any": Shapes} or {"one": values}."""
_ANYTHING: Final[Shape] = {"kinds": list(_KINDS.values())}
_INSTEAD: Final = "a str, number, bool, list or dict"


class FunctionSignature:
    """The parameters that a payload may fill; the first one is the context if it is named `ctx` or
    has that type.

    Raises Invalid for functions that no payload could call.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._hints = _hints_of(function)
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_context = bool(parameters) and self._is_context(parameters[0])
        if self.takes_context:
            del parameters[0]
        self._open = any(p.kind is p.VAR_KEYWORD for p in parameters)
        named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        for parameter in named:
            self._refuse(parameter)
        self.names = tuple(p.name for p in named)
        self._required = tuple(p.name for p in named if p.default is p.empty)
        self._known = frozenset(self.names)
        self._types = {
            name: (_name(hint), _shape_of(hint))
            for name, hint in self._hints.items()
            if name in self._known
        }

    def to_json(self) -> dict[str, Any]:
        """Everything that `check` needs; `load` reads it."""
        return {
            "context": self.takes_context,
            "open": self._open,
            "names": self.names,
            "required": self._required,
            "types": self._types,
        }

    @classmethod
    def load(cls, form: Mapping[str, Any]) -> Self:
        """The signature of a function in another process."""
        found = cls(lambda: None)
        found.takes_context, found._open = form["context"], form["open"]
        found.names, found._required = tuple(form["names"]), tuple(form["required"])
        found._known = frozenset(found.names)
        found._types = {name: (told, shape) for name, (told, shape) in form["types"].items()}
        return found

    def _is_context(self, parameter: inspect.Parameter) -> bool:
        hint = self._hints.get(parameter.name, parameter.annotation)
        return parameter.name == "ctx" or hint in (Context, "Context") or Context in get_args(hint)

    def _refuse(self, parameter: inspect.Parameter) -> None:
        name, hint = parameter.name, self._hints.get(parameter.name, Any)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise Invalid(
                f"parameter {name} is positional-only, so no payload can set it; remove the /"
            )
        if self._is_context(parameter):
            raise Invalid(f"parameter {name} is the context and must come first")
        if name in ("self", "cls"):
            raise Invalid(
                f"parameter {name} belongs to a method, but a task is a function; move it out of "
                "its class, or put @staticmethod above @book.task"
            )
        if parameter.default is parameter.empty and not _is_in_json(hint):
            raise Invalid(
                f"parameter {name} has type {_name(hint)}, which JSON cannot represent; accept "
                f"{_INSTEAD}, and convert it"
            )

    def check(
        self, payload: Mapping[str, Any], is_open: Callable[[Any], bool] | None = None
    ) -> None:
        """Raises Invalid that names what is missing, unknown or of another type.

        Of values that are still `is_open`, only the name is checked.
        """
        for name in self._required:
            if name not in payload:
                raise Invalid(f'payload has no "{name}"; {self._told()}')
        for name, value in payload.items():
            if name not in self._known:
                if not self._open:
                    raise Invalid(f'payload has "{shorten(name)}", but {self._told()}')
            elif is_open is not None and is_open(value):
                continue
            elif name in self._types and not _has(self._types[name][1], value):
                kind = self._types[name][0]
                raise Invalid(f"payload {name} {quoted(value)} is not of type {kind}")

    def _told(self) -> str:
        if not self.names:
            return "the task takes no arguments"
        words = (name if name in self._required else f"{name} (optional)" for name in self.names)
        return f"the task takes {', '.join(words)}"


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of parameters, except names that only a type checker knows."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:
        found: dict[str, Any] = {}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    for name, hint in getattr(function, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: hint})
        with suppress(Exception):
            found |= get_type_hints(alone, names, include_extras=True)
    return found


def _is_in_json(hint: Any) -> bool:
    """Whether any JSON value is of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _is_in_json(arguments[0])
    if origin in (Union, types.UnionType):
        return any(map(_is_in_json, arguments))
    return origin is Literal or any(fits(value, hint) for value in _SAMPLES)


def _name(hint: Any) -> str:
    plain = isinstance(hint, type) and get_origin(hint) is None
    return shorten(hint.__name__ if plain else str(hint).replace("typing.", ""))


def fits(value: Any, hint: Any) -> bool:
    """Whether a value of JSON is of a type; True for what is no type, such as a TypeVar.

    >>> fits([1, 2], list[int]), fits("3", int | None), fits(True, int), fits(2, float)
    (True, False, False, True)
    >>> from datetime import date
    >>> fits("2026-03-29", date)
    False
    """
    return _has(_shape_of(hint), value)


def _has(shape: Shape, value: Any) -> bool:
    """Whether a JSON value has a shape."""
    ((word, told),) = shape.items()
    match word:
        case "list":
            return isinstance(value, list) and all(_has(told, item) for item in value)
        case "dict":
            return isinstance(value, dict) and all(_has(told, item) for item in value.values())
        case "any":
            return any(_has(one, value) for one in told)
        case "one":
            return any(value == one and type(value) is type(one) for one in told)
        case _:
            kind = _kind_of(value)
            return kind in told if kind else len(told) == len(_KINDS)


def _kind_of(value: Any) -> str | None:
    """The kind of a value in JSON; None if JSON cannot hold it."""
    if (kind := _KINDS.get(type(value))) is not None:
        return kind
    return next((name for known, name in _KINDS.items() if isinstance(value, known)), None)


def _shape_of(hint: Any) -> Shape:
    hint = getattr(hint, "__supertype__", hint)  # of a NewType
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _shape_of(arguments[0])
    if origin in (Union, types.UnionType):
        return {"any": [_shape_of(argument) for argument in arguments]}
    if origin is Literal:
        return {"one": [word for word in arguments if type(word) in _KINDS]}
    kind = origin or hint
    if kind in _LISTS:
        return {"list": _shape_of(arguments[0]) if arguments else _ANYTHING}
    if kind in _OBJECTS:
        return {"dict": _shape_of(arguments[1]) if arguments else _ANYTHING}
    return {"kinds": [_KINDS[type(one)] for one in _SAMPLES if _fits_plainly(one, kind)]}


def _fits_plainly(value: Any, kind: Any) -> bool:
    if kind is None or kind is type(None):
        return value is None
    if kind in (int, float):
        allowed = int if kind is int else int | float
        return isinstance(value, allowed) and not isinstance(value, bool)
    if is_typeddict(kind):
        return isinstance(value, dict)
    try:
        return isinstance(value, kind) if isinstance(kind, type) else True
    except TypeError:  # a protocol that does not support isinstance
        return True
