"""What handlers read of a request, declared in their signatures: parts of the path and the query,
headers, and values that other functions compute from the request.

    def list_runs(ask: Here, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Response: ...

A signature is read when its handler is first called, so that a server starts quickly.
"""

from __future__ import annotations

import inspect
import re
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
)

from starlette.requests import Request

from duebook.api.problems import InvalidParameters
from duebook.client.arguments import Given
from duebook.errors import Invalid, quoted
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Depends", "Header", "Parameter", "Query", "Signature"]

_FLAGS: Final = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
_DIGITS: Final = 20
"""Maximum length of an integer that is parsed."""


class Query(Given):
    """A parameter in the query."""

    __slots__ = ()


class Header(Given):
    """A header."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Depends:
    """A value that a function computes from the request; it has a signature of its own."""

    provide: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A text in a request, and its requirements."""

    name: str
    place: Literal["path", "query", "header"]
    kind: Any
    """str, int, bool, list[str] or a Literal"""
    asked: Given
    default: Any = inspect.Parameter.empty
    nullable: bool = False

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def read(self, request: Request) -> Any:
        """Raises Invalid that names it, its value and what would be right."""
        if self.place == "path":
            return request.path_params[self.name]
        given = request.query_params if self.place == "query" else request.headers
        texts = given.getlist(self.name)
        if texts:
            return self._list(texts) if self.kind == list[str] else self._value(texts[-1])
        if self.required:
            raise Invalid(f"{self.name} is missing")
        return self.default

    def _list(self, texts: list[str]) -> list[str]:
        most = self.asked.max_length
        if most is not None and len(texts) > most:
            raise Invalid(f"{self.name} is given {len(texts)} times; at most {most} are allowed")
        return texts

    def _value(self, text: str) -> Any:
        if self.kind is int:
            return self._whole(text)
        if self.kind is bool:
            if text.lower() not in _FLAGS:
                raise Invalid(f"{self.name} {quoted(text)} is not true or false")
            return _FLAGS[text.lower()]
        if get_origin(self.kind) is Literal:
            if text not in (allowed := get_args(self.kind)):
                raise Invalid(f"{self.name} {quoted(text)} is not one of {', '.join(allowed)}")
            return text
        return self._text(text)

    def _whole(self, text: str) -> int:
        asked = self.asked
        if len(text) <= _DIGITS and re.fullmatch(r"[+-]?[0-9]+", text):
            number = int(text)
            low = asked.ge is not None and number < asked.ge
            if not low and not (asked.le is not None and number > asked.le):
                return number
        least = "" if asked.ge is None else f" from {asked.ge:,}"
        most = "" if asked.le is None else f" to {asked.le:,}"
        raise Invalid(f"{self.name} {quoted(text)} is not a whole number{least}{most}")

    def _text(self, text: str) -> str:
        asked = self.asked
        if asked.max_length is not None and len(text) > asked.max_length:
            told = f"has {len(text):,} characters; at most {asked.max_length:,} are allowed"
            raise Invalid(f"{self.name} {told}")
        if asked.pattern is not None and not re.search(asked.pattern, text):
            raise Invalid(f"{self.name} {quoted(text)} does not match {asked.pattern}")
        return text


class Signature:
    """The arguments of a handler, and the source of each."""

    def __init__(self, handler: Callable[..., Any], path: str) -> None:
        self._handler = handler
        self._is_async = inspect.iscoroutinefunction(handler)
        self._parameters: dict[str, Parameter] = {}
        self._provided: dict[str, Signature] = {}
        self._request: str | None = None
        for name, argument in inspect.signature(handler, eval_str=True).parameters.items():
            self._add(name, argument.annotation, argument.default, path)

    def _add(self, name: str, hint: Any, default: Any, path: str) -> None:
        said = hint.__metadata__[0] if get_origin(hint) is Annotated else None
        if hint is Request:
            self._request = name
        elif isinstance(said, Depends):
            self._provided[name] = Signature(said.provide, path)
        elif isinstance(said, Query | Header):
            kind, nullable = _without_none(get_args(hint)[0])
            place: Literal["query", "header"] = "query" if isinstance(said, Query) else "header"
            parameter = Parameter(said.alias or name, place, kind, said, default, nullable)
            self._parameters[name] = parameter
        elif f"{{{name}}}" in path or f"{{{name}:" in path:
            self._parameters[name] = Parameter(name, "path", str, Given())
        elif default is not inspect.Parameter.empty:
            kind, nullable = _without_none(hint)
            parameter = Parameter(name, "query", kind, Query(), default, nullable)
            self._parameters[name] = parameter
        else:
            raise TypeError(f"{self._handler}: where does {name} come from?")

    def parameters(self) -> Iterator[Parameter]:
        """Those of the handler and of everything it depends on."""
        yield from self._parameters.values()
        for inner in self._provided.values():
            yield from inner.parameters()

    async def call(self, request: Request, run: Callable[..., Any]) -> Any:
        """Call the handler, through `run` if it is not asynchronous, and return its result.

        Raises InvalidParameters with all problems of the request.
        """
        values = self._read(request)
        for name, inner in self._provided.items():
            values[name] = await inner.call(request, run)
        if self._request is not None:
            values[self._request] = request
        if self._is_async:
            return await self._handler(**values)
        return await run(self._handler, **values)

    def _read(self, request: Request) -> dict[str, Any]:
        values: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for name, parameter in self._parameters.items():
            try:
                values[name] = parameter.read(request)
            except Invalid as error:
                problems[parameter.name] = str(error)
        if problems:
            raise InvalidParameters(problems)
        return values


def _without_none(hint: Any) -> tuple[Any, bool]:
    """A type without None, and whether it included None."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    kinds: Sequence[Any] = [kind for kind in get_args(hint) if kind is not NoneType]
    if len(kinds) != 1:
        raise TypeError(f"{hint} is not one type, or None")
    return kinds[0], True
