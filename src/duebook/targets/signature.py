"""Which payloads a function takes: names, and types as far as JSON has them; calls nothing."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
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
)

from duebook.errors import Invalid, quoted, shorten
from duebook.targets.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Signature", "fits"]

_LISTS: Final = (list, Sequence, Iterable)
_OBJECTS: Final = (dict, Mapping)


class Signature:
    """The parameters that a payload may fill; the first one is the context when it is named
    `ctx` or has that type."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            self._hints = get_type_hints(function, include_extras=True)
        except Exception:  # names that only a type checker knows: then nothing is known of types
            self._hints = {}
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_context = bool(parameters) and self._is_context(parameters[0])
        if self.takes_context:
            del parameters[0]
        self._open = any(p.kind is p.VAR_KEYWORD for p in parameters)
        named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        if unnamed := [p.name for p in named if p.kind is p.POSITIONAL_ONLY]:
            raise Invalid(
                f"parameter {unnamed[0]} has no name that a payload could use; remove the /"
            )
        self.names: Final = tuple(p.name for p in named)
        self._required = tuple(p.name for p in named if p.default is p.empty)
        self._known = frozenset(self.names)
        self._plain = {name: hint for name, hint in self._hints.items() if name in self._known}

    def _is_context(self, parameter: inspect.Parameter) -> bool:
        return parameter.name == "ctx" or self._hints.get(parameter.name) is Context

    def check(
        self, payload: Mapping[str, Any], is_open: Callable[[Any], bool] | None = None
    ) -> None:
        """Raises Invalid that names what is missing, unknown or of another type.

        Of values that are still `is_open` only the name is judged.
        """
        for name in self._required:
            if name not in payload:
                raise Invalid(f'payload lacks "{name}"; {self._told()}')
        for name, value in payload.items():
            if name not in self._known:
                if not self._open:
                    raise Invalid(f'payload has "{shorten(name)}", and {self._told()}')
            elif is_open is not None and is_open(value):
                continue
            elif name in self._plain and not fits(value, self._plain[name]):
                hint = self._plain[name]
                text = hint.__name__ if isinstance(hint, type) else str(hint)
                raise Invalid(f"payload {name} {quoted(value)} is no {shorten(text)}")

    def _told(self) -> str:
        if not self.names:
            return "the task takes no arguments"
        words = (name if name in self._required else f"{name} (optional)" for name in self.names)
        return f"the task takes {', '.join(words)}"


def fits(value: Any, hint: Any) -> bool:
    """Whether a value of JSON is of a type; True for types that JSON does not know.

    >>> fits([1, 2], list[int]), fits("3", int | None), fits(True, int), fits(2, float)
    (True, False, False, True)
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return fits(value, arguments[0])
    if origin in (Union, types.UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is Literal:
        return any(value == word and type(value) is type(word) for word in arguments)
    kind = origin or hint
    if kind in _LISTS:
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value if origin)
    if kind in _OBJECTS:
        return isinstance(value, dict) and all(
            fits(v, arguments[1]) for v in value.values() if origin
        )
    return _fits_plainly(value, kind)


def _fits_plainly(value: Any, kind: Any) -> bool:
    if kind is None or kind is type(None):
        return value is None
    if kind in (int, float):
        allowed = int if kind is int else int | float
        return isinstance(value, allowed) and not isinstance(value, bool)
    return isinstance(value, kind) if kind in (str, bool) else True
