"""A request as its handler sees it: the caller, the namespace and the body."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from duebook.api.answers import Answer
from duebook.api.bodies import parse_body, refuse_media_type
from duebook.api.computing import Computing
from duebook.api.gate import CALLER
from duebook.api.own_positions import OwnPositions
from duebook.api.parameters import Depends, Header, Query
from duebook.api.permissions import Caller, choose_namespace, refuse_role
from duebook.api.problems import Malformed
from duebook.book import Book
from duebook.book.idempotency import IdempotencyKey, perform_once
from duebook.client.arguments import CURSOR, LIMIT
from duebook.errors import NotFound, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.responses import Response

    from duebook.api.operations import Operation
    from duebook.budget import Budget
    from duebook.store.base import Store

__all__ = [
    "AT_ONCE",
    "Admission",
    "Ask",
    "Cursor",
    "Everywhere",
    "Here",
    "Limit",
    "Services",
    "Version",
    "Writing",
]

LONGEST_PART: Final = 200
"""Characters of a name or id in a path; none that exists is longer."""
AT_ONCE: Final = 4_096
"""Bytes of a body that are parsed faster than a thread starts."""


@dataclass(frozen=True, slots=True)
class Services:
    """What all requests share."""

    store: Store
    tasks: Tasks
    computing: Computing = field(default_factory=Computing)
    positions: OwnPositions = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", OwnPositions(self.store))


class Admission:
    """The checks of every request of an operation, before anything else reads it."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @cached_property
    def _known(self) -> frozenset[str] | None:
        """The known query parameters; None: they are not checked."""
        if not self._operation.documented:
            return None
        parameters = self._operation.signature.parameters()
        return frozenset(found.name for found in parameters if found.place == "query")

    async def __call__(self, request: Request) -> None:
        operation = self._operation
        if operation.role is not None:
            refuse_role(request.scope[CALLER], operation.role, operation.everywhere)
        self._refuse_query(request)
        for part in request.path_params.values():
            if len(part) > LONGEST_PART or not part.isprintable():
                raise NotFound(f'"{shorten(part)}" does not exist')
        if operation.takes_body:
            content = await request.body()
            if content:
                refuse_media_type(request.headers.get("content-type"))
            if len(content) <= AT_ONCE:
                request.state.body = parse_body(content)
            else:  # in a thread, so that others are served meanwhile
                request.state.body = await run_in_threadpool(parse_body, content)

    def _refuse_query(self, request: Request) -> None:
        """Raises Malformed: a misspelt filter would silently match everything."""
        for name, value in request.query_params.multi_items():
            if self._known is not None and name not in self._known:
                known = ", ".join(sorted(self._known)) or "none"
                raise Malformed(f'"{shorten(name)}" is not a parameter here; use one of {known}')
            if "\0" in value or not _is_unicode(value):
                raise Malformed(f"{name} contains a character that cannot be stored")


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that was let in."""

    request: Request
    caller: Caller
    services: Services
    namespace: str
    key: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = self.request.state.body
        return found

    @property
    def book(self) -> Book:
        return self.book_on(self.services.store)

    def book_on(self, store: Store, budget: Budget | None = None) -> Book:
        """The caller's book on a store, such as one inside a transaction."""
        asks = self.caller
        mine = asks.by, budget, asks.seen, asks.role
        return Book(store, self.namespace, self.services.tasks, *mine)

    def shown(self, position: int) -> int:
        """The position in the event log that the caller may see: that of the last event of its
        namespace, unless it sees all namespaces."""
        if self.caller.everywhere:
            return position
        return self.services.positions.last(self.namespace, position)

    @contextmanager
    def computing(self) -> Iterator[Book]:
        """For previews and explanations: wait for a turn, and yield a book whose processor time is
        bounded. Raises Busy; the book's methods raise OverBudget."""
        with self.services.computing.turn(self.caller.id) as budget:
            yield self.book_on(self.services.store, budget)

    def write(self, work: Callable[[Book], Answer]) -> Response:
        """Execute the request; with an Idempotency-Key, once, and store its response in the same
        transaction."""
        if self.key is None:
            return work(self.book).response()
        kept, again = perform_once(
            self.services.store,
            self._idempotency_key(self.key),
            lambda store: work(self.book_on(store)).kept(),
        )
        headers = kept["headers"] | ({"Idempotency-Replayed": "true"} if again else {})
        return Answer(kept["body"], kept["status"], headers).response()

    def refuse_key(self) -> None:
        """For operations without a single transaction to store the response in: raises Malformed if
        there is a key, because its sender would repeat the request."""
        if "idempotency-key" in self.request.headers:
            raise Malformed("this operation does not support an Idempotency-Key; leave it out")

    def _idempotency_key(self, key: str) -> IdempotencyKey:
        """The key is scoped to this token, method, namespace and path; the body is its
        fingerprint."""
        body = json.dumps(getattr(self.request.state, "body", {}), sort_keys=True)
        where = f"{self.namespace} {self.request.url.path}"
        scope = f"{self.caller.id} {self.request.method} {where}"
        return IdempotencyKey(scope, key, hashlib.sha256(body.encode()).hexdigest())


async def _everywhere(request: Request) -> Ask:
    return Ask(request, request.scope[CALLER], request.app.state.services, "default")


async def _here(
    request: Request,
    namespace: Annotated[
        str | None,
        Query(description="The default is `default`, or the token's first namespace."),
    ] = None,
) -> Ask:
    caller: Caller = request.scope[CALLER]
    chosen = choose_namespace(caller, namespace)
    return Ask(request, caller, request.app.state.services, chosen)


Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Requests with the same key and body within a day are processed only once.",
        max_length=255,
        pattern="^[!-~]+$",
    ),
]


async def _writing(ask: Annotated[Ask, Depends(_here)], idempotency_key: Key = None) -> Ask:
    return Ask(ask.request, ask.caller, ask.services, ask.namespace, idempotency_key)


async def _version(
    request: Request,
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            description='The version to change, such as `"3"`: the ETag of the schedule.',
        ),
    ] = None,
) -> int | None:
    """From the header If-Match, or the body's `version`; raises Malformed."""
    given = getattr(request.state, "body", {}).pop("version", None)
    if if_match is not None and if_match.strip() != "*":
        digits = if_match.strip().removeprefix("W/").strip('"')
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
            raise Malformed(f'If-Match {shorten(if_match)} is not a version such as "3"')
        if given is not None and given != int(digits):
            raise Malformed(f"version {shorten(given)} and If-Match {digits} differ")
        return int(digits)
    if given is not None and (isinstance(given, bool) or not isinstance(given, int)):
        raise Malformed(f"version {shorten(given)} is not a whole number")
    return given


Cursor = Annotated[str | None, Query(CURSOR.description)]
Limit = Annotated[int, Query(LIMIT.description, ge=LIMIT.ge, le=LIMIT.le)]
Here = Annotated[Ask, Depends(_here)]
"""A request about one namespace."""
Writing = Annotated[Ask, Depends(_writing)]
"""A request that may have an Idempotency-Key."""
Everywhere = Annotated[Ask, Depends(_everywhere)]
"""A request about all namespaces."""
Version = Annotated[int | None, Depends(_version)]
"""The version that a request wants to change, if it names one."""
