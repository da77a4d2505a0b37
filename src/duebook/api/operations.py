"""Operations: the use cases of the table and the pages, each with its handler. Every one has a
role or is explicitly open."""

from __future__ import annotations

from dataclasses import field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from duebook.api.calls import Call
from duebook.api.parameters import Signature
from duebook.client import TABLE
from duebook.client.use_cases import UseCase
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from duebook.model.access import Role

    Handler = TypeVar("Handler", bound=Callable[..., Any])

__all__ = ["Handlers", "Operation", "Operations", "bind"]


@dataclass(frozen=True)
class Operation(UseCase):
    """One method of one path, and the handler of its requests."""

    handler: Callable[..., Any] = field(kw_only=True)

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.handler, self.path)

    @property
    def any_host(self) -> bool:
        """Whether any Host is accepted: probes and scrapers use addresses and names that are not
        configured, and these responses reveal nothing."""
        return self.tag == "health"

    @property
    def may_revoke(self) -> bool:
        """Whether it may have revoked a token."""
        return self.method != "GET" and "/tokens/" in self.path

    @property
    def documented(self) -> bool:
        """Whether it is documented for programs; pages are for people."""
        return self.tag != "pages"

    @property
    def answer(self) -> Any:
        """The shape of the JSON response; None if there is none."""
        from duebook.api.operation_shapes import answer_of  # built on first use

        return answer_of(self)

    @property
    def body(self) -> Any:
        """The shape of the JSON body that it takes."""
        from duebook.api.operation_shapes import body_of

        return body_of(self)


class Operations:
    """The pages of one part of the site, collected by decorators."""

    def __init__(self, prefix: str, tag: str) -> None:
        self._prefix = prefix
        self._tag = tag
        self.all: list[Operation] = []

    def __call__(
        self, method: str, path: str, role: Role | None, **more: Any
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            name, doc = handler.__name__, handler.__doc__ or ""
            place = self._prefix + path
            about: dict[str, Any] = {"tag": self._tag, "doc": doc, "handler": handler, **more}
            self.all.append(Operation(name, method, place, role, **about))
            return handler

        return add


class Handlers:
    """The handlers of a part of the API that do more than pass a request on to the client; each has
    the name of its operation."""

    def __init__(self) -> None:
        self.all: dict[str, Callable[..., Any]] = {}

    def __call__(self, handler: Handler) -> Handler:
        self.all[handler.__name__] = handler
        return handler


def bind(handlers: Iterable[Handlers], table: Mapping[str, UseCase] = TABLE) -> Iterable[Operation]:
    """Every use case with its handler; raises LookupError for a use case without a handler, and for
    a handler without a use case."""
    found = {name: handler for some in handlers for name, handler in some.all.items()}
    if unknown := found.keys() - table.keys():
        raise LookupError(f"no use case is called {', '.join(sorted(unknown))}")
    for name, case in table.items():
        handler = found.get(name)
        if case.call is not None:
            handler = Call(case, handler)
        if handler is None:
            raise LookupError(f"no handler is declared for {name}")
        about = {known.name: getattr(case, known.name) for known in fields(UseCase)}
        yield Operation(**about, handler=handler)
