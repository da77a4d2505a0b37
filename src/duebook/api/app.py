"""Makes the app: every operation behind the gate, with what is asked of each request."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from duebook.api.asking import Admission, Services
from duebook.api.gate import Gate
from duebook.api.log_stream import Streams
from duebook.api.openapi import describe, document, query_parameters
from duebook.api.origins import Hosts
from duebook.api.problems import explain_problem
from duebook.api.routes import RESOURCES
from duebook.api.watching import Watch
from duebook.errors import DuebookError
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from duebook.api.gate import Authenticator
    from duebook.api.operations import Operation, Operations
    from duebook.api.problems import Explain
    from duebook.engine.measures import Measures
    from duebook.store.base import Store

__all__ = ["MAX_BODY", "MAX_BULK", "create_app", "operations_of"]

MAX_BODY: Final = 2 * 1024 * 1024
"""Bytes: room for the largest payload, with all that stands beside it."""
MAX_BULK: Final = 16 * 1024 * 1024
"""Bytes of a body with many things."""


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
) -> FastAPI:
    """The whole API on these books. `tasks` are those of the program, whose payloads it checks, and
    `measures` asks its node what it counted. `trouble` says why that node does not work; `node_pid`
    is its process, if it is another one. `pages` are what it serves besides, and `explain` is how
    refusals look.
    """
    operations = [operation for resource in (*RESOURCES, *pages) for operation in resource.all]
    app = FastAPI(
        title="Duebook",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.services = Services(store, tasks or Tasks())
    app.state.streams = Streams()
    app.state.authenticator = authenticator
    app.state.watch = Watch(store, measures, trouble, node_pid)
    app.state.operations = operations
    for operation in operations:
        _add(app, operation)
    documented = [operation for operation in operations if operation.documented]
    app.openapi = cache(partial(document, app, documented))  # type: ignore[method-assign]
    for kind in (DuebookError, RequestValidationError, HTTPException):
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
    operations_of(app)
    return app


def operations_of(app: FastAPI) -> list[Operation]:
    """What the app answers to; raises when it has a route that nobody declared."""
    known: list[Operation] = app.state.operations
    declared = {(operation.method, operation.path) for operation in known}
    for route in app.routes:
        for method in getattr(route, "methods", None) or {"?"}:
            path = getattr(route, "path", "?")
            if (method, path) not in declared:
                raise LookupError(f"{method} {path} is a route that declares no role")
    return known


def _add(app: FastAPI, operation: Operation) -> None:
    admission = Admission(operation)
    app.add_api_route(
        operation.path,
        operation.handler,
        methods=[operation.method],
        status_code=operation.status,
        response_model=None,
        tags=[operation.tag],
        summary=operation.summary,
        description=operation.description,
        operation_id=operation.name,
        include_in_schema=operation.documented,
        dependencies=[Depends(admission)],
        **describe(operation),
    )
    route = app.routes[-1]
    if operation.documented and isinstance(route, APIRoute):
        admission.parameters = query_parameters(route.dependant)


def _answer_with(explain: Explain) -> Callable[[Request, Exception], Awaitable[Response]]:
    """The handler of every error that leaves a route on purpose."""

    async def answer(request: Request, error: Exception) -> Response:
        return explain(request.scope, error)

    return answer


def _allow_pages(app: FastAPI, hosts: Hosts) -> None:
    """Tell browsers that pages of these origins may use the API; with a token, never a cookie."""
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
