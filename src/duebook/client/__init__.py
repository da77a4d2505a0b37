"""What a client of the books can do, once: the Protocol that the local and the remote one have, and
the table of its use cases. Routes, the remote client, the permission matrix, the OpenAPI document,
and the table in the docs come from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from duebook.book.readiness import GRACE
from duebook.client.access import (
    AuditClient,
    NamespacesClient,
    NodesClient,
    QueuesClient,
    TemplatesClient,
    TokensClient,
)
from duebook.client.arguments import Given
from duebook.client.events import EventsClient
from duebook.client.flows import FlowsClient
from duebook.client.runs import RunsClient
from duebook.client.schedules import SchedulesClient
from duebook.client.use_cases import V1, UseCase, declared, needs_database, operation
from duebook.model.access import Role
from duebook.model.readiness import Readiness
from duebook.model.run import Run
from duebook.timetext import format_duration, parse_duration

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, Unpack

    from duebook.book import Book
    from duebook.model.policies import EnqueuePolicies

__all__ = ["PARTS", "TABLE", "Client"]


class Client(Protocol):
    """A namespace of the books, of a database or of a server."""

    namespace: str

    @property
    def schedules(self) -> SchedulesClient: ...
    @property
    def runs(self) -> RunsClient: ...
    @property
    def flows(self) -> FlowsClient: ...
    @property
    def nodes(self) -> NodesClient: ...
    @property
    def events(self) -> EventsClient: ...
    @property
    def queues(self) -> QueuesClient: ...
    @property
    def templates(self) -> TemplatesClient: ...
    @property
    def audit(self) -> AuditClient: ...
    @property
    def namespaces(self) -> NamespacesClient: ...
    @property
    def tokens(self) -> TokensClient: ...

    @operation("get_status", "GET", "/status", Role.VIEWER, "status", shared=True)
    def readiness(
        self,
        grace: Annotated[
            timedelta | str,
            Given(
                "By how much a schedule may be overdue.",
                send=lambda grace: format_duration(parse_duration(grace)),
            ),
        ] = GRACE,
        namespace: Annotated[
            str | None, Given("Only what is in it; all that the token sees when it is left out.")
        ] = None,
    ) -> Readiness:
        """Whether everything that is due can run, and what is in the way.

        Always 200: `ready` is false when something cannot run. Probes ask `/readyz`, which is about
        one node.
        """

    def problems(self) -> list[str]:
        """What keeps queued runs of this namespace from being begun, in words; mostly nothing."""

    @needs_database("enqueue()")
    def enqueue(
        self,
        task: str | Callable[..., Any],
        payload: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        connection: Any = None,
        **policies: Unpack[EnqueuePolicies],
    ) -> Run: ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


PARTS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {
        "schedules": SchedulesClient,
        "runs": RunsClient,
        "flows": FlowsClient,
        "nodes": NodesClient,
        "events": EventsClient,
        "queues": QueuesClient,
        "templates": TemplatesClient,
        "audit": AuditClient,
        "namespaces": NamespacesClient,
        "tokens": TokensClient,
    }
)
"""The parts of a client, in the order of the docs."""

_SERVED: Final = (
    UseCase(
        *("list_schedule_runs", "GET", f"{V1}/schedules/{{name}}/runs", Role.VIEWER),
        no_cli="`runs NAME` asks for the same list",
        tag="schedules",
        doc="The runs of a schedule, the newest first; also after it was deleted.",
    ),
    UseCase(
        *("get_me", "GET", f"{V1}/me", Role.VIEWER),
        no_cli="the command line has no session",
        shared=True,
        tag="tokens",
        doc="Which token this is, what it may do, and which namespaces it sees.",
    ),
    UseCase(
        *("healthz", "GET", "/healthz", None),
        no_cli="for probes",
        tag="health",
        doc="This process answers; it says nothing about the database.",
    ),
    UseCase(
        *("readyz", "GET", "/readyz", None),
        no_cli="for probes",
        tag="health",
        also=(503,),
        doc="""Whether this node works: 200, or 503 when not.

        It reaches its database, may use the schema, holds its lease and is not stopping. What
        cannot run is the answer of `/api/v1/status`. A token for all namespaces also learns the
        problems.
        """,
    ),
    UseCase(
        *("metrics", "GET", "/metrics", Role.VIEWER),
        no_cli="for Prometheus",
        tag="health",
        everywhere=True,
        media=("text/plain; version=0.0.4; charset=utf-8",),
        doc="What this process and the books count, as Prometheus reads it.",
    ),
)
"""What servers offer to others than clients of the books."""

TABLE: Final[Mapping[str, UseCase]] = MappingProxyType(
    {found.name: found for part, kind in PARTS.items() for found in declared(part, kind)}
    | {found.name: found for found in (*declared("", Client), *_SERVED)}
)
"""Every use case that a server offers, by name."""

if TYPE_CHECKING:

    def _local(book: Book) -> Client:
        return book
