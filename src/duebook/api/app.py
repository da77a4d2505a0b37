"""Creates the app: every operation behind the gate, with the checks of its requests."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.routing import Route

from duebook.api.asking import Admission, Services
from duebook.api.gate import Gate
from duebook.api.log_stream import Streams
from duebook.api.origins import Hosts
from duebook.api.problems import explain_problem
from duebook.api.routes import OPERATIONS
from duebook.api.watching import Watch
from duebook.errors import DuebookError
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.responses import Response

    from duebook.api.gate import Authenticator
    from duebook.api.operations import Operation, Operations
    from duebook.api.problems import Explain
    from duebook.engine.measures import Measures
    from duebook.store.base import Store

__all__ = ["MAX_BODY", "MAX_BULK", "App", "create_app"]

MAX_BODY: Final = 2 * 1024 * 1024
"""Bytes: enough for the largest payload and everything around it."""
MAX_BULK: Final = 16 * 1024 * 1024
"""Bytes of a body with many items."""


class App(Starlette):
    """Operations behind a gate, and nothing else."""

    def __init__(self, operations: list[Operation]) -> None:
        super().__init__()
        self.operations = operations
        self.router.redirect_slashes = False
        for operation in operations:
            self.router.routes.append(_Route(operation))

    def openapi(self) -> dict[str, Any]:
        """The document of the API."""
        return self._document

    @cached_property
    def _document(self) -> dict[str, Any]:
        from duebook.api.openapi import document  # shapes are built on first use

        return document([operation for operation in self.operations if operation.documented])


class _Route(Route):
    """An operation by its method and path; HEAD must be declared like other methods."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self._admission = Admission(operation)
        super().__init__(operation.path, self._answer, methods=[operation.method])
        self.methods = {operation.method}

    async def _answer(self, request: Request) -> Response:
        request.scope["route"] = self
        await self._admission(request)
        try:
            answer: Response = await self.operation.signature.call(request, run_in_threadpool)
        finally:
            if self.operation.may_revoke:
                request.app.state.authenticator.forget()
        return answer


def create_app(
    store: Store,
    authenticator: Authenticator,
    *,
    tasks: Tasks | None = None,
    hosts: Hosts | None = None,
    measures: Callable[[], Measures | None] | None = None,
    trouble: Callable[[], str | None] | None = None,
    node_pid: int | None = None,
    max_body: int = MAX_BODY,
    max_bulk: int = MAX_BULK,
    pages: Iterable[Operations] = (),
    explain: Explain = explain_problem,
) -> App:
    """The whole API for a database. `tasks` are those of the program, whose payloads it checks;
    `measures` asks the node for its counters. `trouble` returns why that node does not work;
    `node_pid` is its process, if it is another one. `pages` are other operations to serve, and
    `explain` formats errors.
    """
    operations = [*OPERATIONS, *(operation for part in pages for operation in part.all)]
    app = App(operations)
    app.state.services = Services(store, tasks or Tasks())
    app.state.streams = Streams()
    app.state.authenticator = authenticator
    app.state.watch = Watch(store, measures, trouble, node_pid)
    for kind in (DuebookError, HTTPException):
        app.add_exception_handler(kind, _answer_with(explain))
    app.add_middleware(
        Gate,
        authenticator=authenticator,
        hosts=hosts or Hosts(),
        open_paths=_paths(operation for operation in operations if operation.role is None),
        any_host=_paths(operation for operation in operations if operation.any_host),
        max_body=max_body,
        max_bulk=max_bulk,
        bulk_paths=_paths(operation for operation in operations if operation.bulk),
        explain=explain,
    )
    if hosts is not None and hosts.origins:
        _allow_pages(app, hosts)
    return app


def _answer_with(explain: Explain) -> Callable[[Request, Exception], Awaitable[Response]]:
    """The handler of every error that a route raises on purpose."""

    async def answer(request: Request, error: Exception) -> Response:
        return explain(request.scope, error)

    return answer


def _allow_pages(app: App, hosts: Hosts) -> None:
    """Let pages of these origins use the API in browsers; with a token, never a cookie."""
    app.add_middleware(
        CORSMiddleware,
        allow_origins=sorted(hosts.origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-Match"],
        expose_headers=["ETag", "Location", "Idempotency-Replayed"],
    )


def _paths(operations: Iterable[Operation]) -> dict[str, frozenset[str]]:
    """The exact paths of operations, each with its methods."""
    paths: dict[str, set[str]] = {}
    for operation in operations:
        paths.setdefault(operation.path, set()).add(operation.method)
    return {path: frozenset(methods) for path, methods in paths.items()}
