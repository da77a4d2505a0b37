"""One use case in the table: all that servers, remote clients, the command line, the permission
matrix and the docs need to know. Methods of the Protocols declare theirs with `operation`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

from duebook.client.arguments import NOT_SENT, Given
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import Role
from duebook.model.listing import Listing

__all__ = ["V1", "Argument", "UseCase", "declared", "needs_database", "operation", "part_of"]

V1: Final = "/api/v1"
Place = Literal["path", "query", "body", "rest", "version", "here"]
"""Where a request has an argument; `rest`: the other fields of the body, `here`: it is not sent."""
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a use case, and where a request has it."""

    name: str
    place: Place
    hint: Any
    """its type, without annotations"""
    given: Given
    default: Any = inspect.Parameter.empty

    @property
    def key(self) -> str:
        """Its name in the request."""
        return self.given.alias or self.name

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def nullable(self) -> bool:
        return NoneType in get_args(self.hint)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that it may have, except None."""
        if get_origin(self.hint) not in (Union, UnionType):
            return (self.hint,)
        return tuple(kind for kind in get_args(self.hint) if kind is not NoneType)

    @property
    def kind(self) -> Any:
        """Its type in a query: str, int, bool, list[str] or a Literal."""
        kinds = self.kinds
        if any(get_origin(kind) is Sequence for kind in kinds):
            return list[str]
        plain = kinds[0] in (int, bool) or get_origin(kinds[0]) is Literal
        return kinds[0] if plain else str


@dataclass(frozen=True)
class UseCase:
    """One method of one path; by default, one within a namespace."""

    name: str
    """its id in the OpenAPI document"""
    method: str
    path: str
    role: Role | None
    """the lowest role that may use it; None: anyone may"""
    cli: tuple[str, ...] = ()
    """the commands for it"""
    no_cli: str = ""
    """why there is no command for it"""
    everywhere: bool = False
    """whether it covers all namespaces, and needs a token for all of them"""
    shared: bool = False
    """whether it concerns things that all namespaces share, and has no namespace"""
    tag: str = ""
    status: int = 200
    errors: tuple[int, ...] = ()
    """error statuses besides those that every operation has"""
    also: tuple[int, ...] = ()
    """other success statuses with the same body"""
    media: tuple[str, ...] = ()
    """other content types of the response"""
    bulk: bool = False
    """whether it takes many items at once, and so allows a larger body"""
    reads: bool = False
    """whether it changes nothing although it is not a GET"""
    keyless: bool = False
    """whether it rejects an Idempotency-Key: every request is executed"""
    computes: bool = False
    """whether it computes due times, and so is limited in parallel use"""
    result: str | tuple[str, ...] = ""
    """the member of the response that contains the result; several are a tuple"""
    call: Callable[..., Any] | None = None
    """the method of the Protocol that declares it"""
    part: str = ""
    """the part of a book that has the method, such as `schedules`"""
    doc: str = ""

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def audited(self) -> bool:
        """Whether it changes something, and so is recorded in the audit log."""
        return self.writes and not self.reads

    @property
    def keyed(self) -> bool:
        """Whether an Idempotency-Key makes it safe to repeat."""
        return self.method == "POST" and self.audited and not self.keyless

    @cached_property
    def takes_body(self) -> bool:
        return self.call is not None and any(
            argument.place in ("body", "rest") for argument in self.arguments
        )

    @property
    def summary(self) -> str:
        return self._words[0]

    @property
    def description(self) -> str:
        return self._words[1]

    @cached_property
    def _words(self) -> tuple[str, str]:
        """The first paragraph of the docstring, and the rest of it."""
        first, _, rest = self.doc.strip().partition("\n\n")
        return " ".join(first.split()), "\n".join(line.strip() for line in rest.splitlines())

    @cached_property
    def _signature(self) -> inspect.Signature:
        assert self.call is not None, self.name  # noqa: S101 - nobody asks otherwise
        return inspect.signature(self.call, eval_str=True)

    @property
    def returns(self) -> Any:
        """The type of its result."""
        return self._signature.return_annotation

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        found = list(self._signature.parameters.values())
        return tuple(self._argument(parameter) for parameter in found[1:])

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its arguments, except the fields of a definition."""
        return frozenset(one.name for one in self.arguments if one.place != "rest")

    def _argument(self, parameter: inspect.Parameter) -> Argument:
        hint, given = parameter.annotation, Given()
        if get_origin(hint) is Annotated:
            hint, given = get_args(hint)
        is_asked = self.method in ("GET", "DELETE") or given.in_query
        place: Place = "query" if is_asked else "body"
        if f"{{{parameter.name}}}" in self.path:
            place = "path"
        elif given is NOT_SENT:
            place = "here"
        elif parameter.name == "version":
            place = "version"
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD and given.alias is None:
            place = "rest"
        return Argument(parameter.name, place, hint, given, parameter.default)

    def unknown(self, given: Collection[str]) -> list[str]:
        """The given filters that a list does not have."""
        if get_origin(self.returns) is not Listing:
            return []
        return [name for name in given if name not in self._signature.parameters]

    def bind(self, *values: Any, **named: Any) -> dict[str, Any]:
        """The arguments of a call by name; raises TypeError as the call would."""
        every = self._signature.parameters.values()
        none: dict[str, Any] = {one.name: {} for one in every if one.kind is one.VAR_KEYWORD}
        try:
            return none | self._signature.bind(None, *values, **named).arguments
        except TypeError as error:
            called = getattr(self.call, "__qualname__", self.name)
            raise TypeError(f"{called}(): {error}") from None


def operation(
    name: str, method: str, path: str, role: Role, *cli: str, **more: Any
) -> Callable[[F], F]:
    """Declare the operation of a Protocol's method; `more` are fields of UseCase."""

    def declare(function: F) -> F:
        found = UseCase(name, method, V1 + path, role, cli, doc=function.__doc__ or "", **more)
        tag = found.tag or path.split("/")[1]
        vars(function)["use_case"] = replace(found, tag=tag, call=function)
        return function

    return declare


def part_of(name: str, result: str, **asked: Any) -> Callable[[F], F]:
    """Declare that a method uses another method's operation, with the arguments `asked`."""

    def declare(function: F) -> F:
        vars(function)["part_of"] = (name, result, asked)
        return function

    return declare


def needs_database(what: str) -> Callable[[F], F]:
    """Declare that a method of a Protocol works on the database itself, not through a server."""

    def declare(function: F) -> F:
        vars(function)["needs_database"] = what
        return function

    return declare


def declared(part: str, kind: type[Any]) -> Iterator[UseCase]:
    """The use cases that the methods of a Protocol declare, in order."""
    for base in reversed(kind.__mro__):
        for value in vars(base).values():
            found = getattr(value, "use_case", None)
            if isinstance(found, UseCase):
                yield replace(found, part=part)
