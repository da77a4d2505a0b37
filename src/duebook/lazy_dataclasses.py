"""Dataclasses whose methods are compiled at first use: a process needs few of the hundreds of
classes that it imports, and compiling all of them took half of its start. Knows only Python."""

from __future__ import annotations

import dataclasses
import sys
from reprlib import recursive_repr
from textwrap import indent
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, order=False):
        """Like `dataclasses.dataclass`, but without InitVar and slots for weak references."""

        def decorate(kind):
            return _built(kind, frozen, slots, eq, order)

        return decorate if cls is None else decorate(cls)


__all__ = ["dataclass"]

Fields = tuple[dataclasses.Field[Any], ...]

_SIGNS: Final = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


class _LeftOut:
    """The default of a field whose value is created for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_LEFT_OUT: Final = _LeftOut()


class _Later:
    """Compiles a method when it is first looked up, then replaces itself with it in the class."""

    def __init__(self, owner: type, name: str, compiled: Callable[[type], Any]) -> None:
        self._owner, self._name, self._compiled = owner, name, compiled

    def __get__(self, instance: object, kind: type) -> Any:
        method = self._compiled(self._owner)
        method.__name__ = self._name
        method.__qualname__ = f"{self._owner.__qualname__}.{self._name}"
        method.__module__ = self._owner.__module__
        if vars(self._owner).get(self._name) is self:  # else it has been replaced meanwhile
            setattr(self._owner, self._name, method)
        return method.__get__(instance, kind)


def _built(kind: type, frozen: bool, slots: bool, eq: bool, order: bool) -> type:
    own = {*vars(kind)}
    if vars(kind).get("__hash__", _LEFT_OUT) is None and "__eq__" in own:
        own.remove("__hash__")  # set by Python, not by the author
    kind.__doc__ = kind.__doc__ or kind.__name__  # dataclasses would compile a signature for it
    built: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(kind)
    methods: dict[str, Any] = {"__init__": _frozen_init if frozen else _init, "__repr__": _repr}
    if eq:
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if order:
        methods |= {name: _comparison(sign) for name, sign in _SIGNS.items()}
    for name, compiled in methods.items():
        if name not in own:
            setattr(built, name, _Later(built, name, compiled) if compiled else None)
    if frozen:
        _freeze(built, own, slots)
    return built


# ------------------------------------------------------------ generated methods


def _compile(owner: type, text: str, names: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Compile a method that sees these names and those of its class's module, as type checkers
    expect."""
    around, made = vars(sys.modules.get(owner.__module__, dataclasses)), dict[str, Any]()
    text = f"def made({', '.join(names)}):\n{indent(text, ' ')}\n return method"
    exec(text, around, made)  # noqa: S102 - of our own classes, as dataclasses does
    return made["made"](**names)


def _init(owner: type) -> Any:
    return _init_by(owner, "self.{0} = {1}")


def _frozen_init(owner: type) -> Any:
    return _init_by(owner, "_set(self, {0!r}, {1})")


def _init_by(owner: type, assignment: str) -> Any:
    fields, names = _fields(owner), {"_set": object.__setattr__, "_LEFT_OUT": _LEFT_OUT}
    first, only_named, body = ["self"], list[str](), list[str]()
    for field in fields:
        parameter, value = _parameter(field, names)
        if field.init:
            (only_named if field.kw_only else first).append(parameter)
        if value:
            body.append(assignment.format(field.name, value))
    if hasattr(owner, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*first, *(["*", *only_named] if only_named else [])])
    method = _compile(owner, f"def method({parameters}):\n " + "\n ".join(body or ["pass"]), names)
    types = {field.name: field.type for field in fields if field.init}
    method.__annotations__ = {**types, "return": None}
    return method


def _parameter(field: dataclasses.Field[Any], names: dict[str, Any]) -> tuple[str, str]:
    """A field as a parameter, and the expression for its value."""
    name, default = field.name, f"_{field.name}_default"
    if field.default_factory is not dataclasses.MISSING:
        names[default] = field.default_factory
        made = f"{default}()"
        given = f"{name} if {name} is not _LEFT_OUT else {made}"
        return f"{name}=_LEFT_OUT", given if field.init else made
    if field.default is not dataclasses.MISSING:
        names[default] = field.default
        return f"{name}={default}", name if field.init else default
    return name, name if field.init else ""


def _repr(owner: type) -> Any:
    shown = ", ".join(f"{f.name}={{self.{f.name}!r}}" for f in _fields(owner) if f.repr)
    text = f'def method(self):\n return self.__class__.__qualname__ + f"({shown})"'
    return recursive_repr()(_compile(owner, text))


def _eq(owner: type) -> Any:
    return _comparison("==")(owner)


def _comparison(sign: str) -> Callable[[type], Any]:
    def compiled(owner: type) -> Any:
        compared = [field.name for field in _fields(owner) if field.compare]
        ours, theirs = _values("self", compared), _values("other", compared)
        return _compile(
            owner,
            "def method(self, other):\n"
            f" if other.__class__ is self.__class__:\n  return {ours} {sign} {theirs}\n"
            " return NotImplemented",
        )

    return compiled


def _hash(owner: type) -> Any:
    hashed = [f.name for f in _fields(owner) if (f.compare if f.hash is None else f.hash)]
    return _compile(owner, f"def method(self):\n return hash({_values('self', hashed)})")


def _fields(owner: Any) -> Fields:
    return dataclasses.fields(owner)


def _values(of: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


# ------------------------------------------------------------ frozen instances


def _freeze(built: Any, own: set[str], slots: bool) -> None:
    names = frozenset(field.name for field in _fields(built))

    def refuse_to_set(self: object, name: str, value: object) -> None:
        if type(self) is built or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(built, self).__setattr__(name, value)

    def refuse_to_delete(self: object, name: str) -> None:
        if type(self) is built or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(built, self).__delattr__(name)

    methods = {"__setattr__": refuse_to_set, "__delattr__": refuse_to_delete}
    if slots:
        methods |= {"__getstate__": _getstate, "__setstate__": _setstate}  # for copies and pickles
    for name, method in methods.items():
        if name not in own:
            setattr(built, name, method)


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
