"""Operations: what every route says about itself. None exists without a role, or openly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duebook.api.parameters import Signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.access import Role

    Handler = TypeVar("Handler", bound=Callable[..., Any])

__all__ = ["Operation", "Operations"]

V1: Final = "/api/v1"


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    handler: Callable[..., Any]
    role: Role | None
    """the least that it needs; None: it is open to everybody"""
    everywhere: bool
    """whether it concerns all namespaces, and needs a token for all of them"""
    tag: str
    status: int
    answer: Any
    """the shape of its JSON; None: it has none"""
    media: tuple[str, ...]
    """other kinds of content that it may answer with"""
    body: Any
    """the shape of the JSON that it takes"""
    errors: tuple[int, ...]
    """statuses of refusals besides those that every operation has"""
    also: tuple[int, ...]
    """other statuses with the same shape"""
    bulk: bool
    """whether it takes many things at once, and so a larger body than others"""

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.handler, self.path)

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def any_host(self) -> bool:
        """Whether it answers whatever the Host: probes and scrapers use addresses and names that
        nobody configures, and it tells strangers nothing."""
        return self.tag == "health"

    @property
    def documented(self) -> bool:
        """Whether programs read about it; pages are for people."""
        return self.tag != "pages"

    @property
    def summary(self) -> str:
        return self._words()[0]

    @property
    def description(self) -> str:
        return self._words()[1]

    @property
    def name(self) -> str:
        return self.handler.__name__

    def _words(self) -> tuple[str, str]:
        """The first sentence of the handler's docstring, and the rest of it."""
        first, _, rest = (self.handler.__doc__ or "").strip().partition("\n\n")
        return " ".join(first.split()), "\n".join(line.strip() for line in rest.splitlines())


class Operations:
    """The operations of one resource, collected by decorators."""

    def __init__(self, prefix: str, tag: str) -> None:
        self._prefix = prefix
        self._tag = tag
        self.all: list[Operation] = []

    def __call__(
        self,
        method: str,
        path: str,
        role: Role | None,
        answer: Any,
        *,
        body: Any = None,
        status: int = 200,
        media: tuple[str, ...] = (),
        errors: tuple[int, ...] = (),
        also: tuple[int, ...] = (),
        everywhere: bool = False,
        bulk: bool = False,
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self.all.append(
                Operation(
                    method,
                    self._prefix + path,
                    handler,
                    role,
                    everywhere,
                    self._tag,
                    status,
                    answer,
                    media,
                    body,
                    errors,
                    also,
                    bulk,
                )
            )
            return handler

        return add
