"""Use cases as requests: the table defines what goes into the path, the query and the body; the
type of the result defines how the response is decoded."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, get_origin

from duebook.client import TABLE
from duebook.client.use_cases import V1
from duebook.errors import Invalid, quoted
from duebook.model.listing import Listing
from duebook.remote.needs import needs_database
from duebook.remote.readings import read_result, read_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from duebook.client.use_cases import Argument, UseCase
    from duebook.remote.server import Server

__all__ = ["Part", "ask", "send"]

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Part:
    """A part of a remote client. Subclasses name its Protocol and get its methods; they implement
    only those that take more than one request."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __init_subclass__(cls) -> None:
        own = vars(cls).keys()
        for base in cls.__mro__[1:]:
            for name, function in vars(base).items():
                if name not in own and (made := _method(function)) is not None:
                    setattr(cls, name, made)

    @classmethod
    def of(cls, server: Server) -> Self:
        """Like a plain call, which mypy rejects because it does not see the generated methods."""
        return cls(server)

    def ask(self, operation: str, **given: Any) -> Any:
        """Send the arguments of a use case; returns the response as JSON."""
        return send(self._server, TABLE[operation], given)


def _method(function: Any) -> Callable[..., Any] | None:
    """The implementation that a Protocol's method declares; None if it declares none."""
    said: dict[str, Any] = getattr(function, "__dict__", {})
    if "needs_database" in said:
        return wraps(function)(_refusal(said["needs_database"]))
    case, asked = said.get("use_case"), {}
    if "part_of" in said:
        name, result, asked = said["part_of"]
        case = replace(TABLE[name], result=result, call=function)
    if case is None:
        return None

    @wraps(function)
    def method(self: Part, *values: Any, **named: Any) -> Any:
        others = {key: named.pop(key) for key in case.unknown(named)}
        return ask(self._server, case, case.bind(*values, **named) | asked, others)

    return method


def ask(
    server: Server, case: UseCase, given: Mapping[str, Any], others: Mapping[str, Any] = NOTHING
) -> Any:
    """The result of a use case with these arguments; the server rejects `others`."""
    about = {"namespace": server.namespace, **given}
    if get_origin(case.returns) is Listing:
        return _pages(server, case, given, about, others)
    return read_result(case, send(server, case, given), about)


def send(server: Server, case: UseCase, given: Mapping[str, Any]) -> Any:
    """Send a request, and return the JSON of the response."""
    path, query, body = _path(case, given), _sent(case, given, "query"), None
    here = not (case.shared or case.everywhere)
    if case.method == "GET":
        return server.get(*path, namespaced=here, **query)
    if case.takes_body:
        body = _sent(case, given, "body") | _rest(case, given)
    if case.method == "POST" and here and not case.keyless:
        return server.post(*path, body=body)
    version = given.get("version")
    return server.send(case.method, *path, body=body, version=version, namespaced=here, **query)


def _pages(
    server: Server,
    case: UseCase,
    given: Mapping[str, Any],
    about: Mapping[str, Any],
    others: Mapping[str, Any],
) -> Any:
    query = {**_sent(case, given, "query"), **others}
    default = next(one.default for one in case.arguments if one.name == "limit")
    (kind,) = case.returns.__args__
    read = partial(read_value, kind, about=about)
    limit = query.pop("limit", default)
    if not isinstance(limit, int):
        raise Invalid(f"limit {quoted(limit)} is not a whole number")
    return server.pages(read, limit, *_path(case, given), **query)


def _path(case: UseCase, given: Mapping[str, Any]) -> list[str]:
    values = {
        f"{{{one.name}}}": _checked(one, given.get(one.name, one.default))
        for one in case.arguments
        if one.place == "path"
    }
    return [values.get(part, part) for part in case.path.removeprefix(f"{V1}/").split("/")]


def _sent(case: UseCase, given: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The given arguments, by their names in the request; None counts as not given."""
    found = {
        one.key: _checked(one, given[one.name])
        for one in case.arguments
        if one.place == place and one.name in given
    }
    return {key: value for key, value in found.items() if value is not None}


def _checked(argument: Argument, value: Any) -> Any:
    if argument.given.send is None or (value is None and argument.nullable):
        return value
    return argument.given.send(value)


def _rest(case: UseCase, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a definition, in which None is a value."""
    names = [one.name for one in case.arguments if one.place == "rest"]
    return {key: value for name in names for key, value in given.get(name, {}).items()}


def _refusal(what: str) -> Callable[..., NoReturn]:
    """A function instead of a `partial`: Python 3.13 warns about those in a class."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise needs_database(what)

    return refuse
