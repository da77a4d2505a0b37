"""Everything a client can do, declared once: the Protocol that the local and the remote client
implement, and the table of its use cases. Routes, the remote client, the permission matrix, the
OpenAPI document and the table in the docs are derived from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, Unpack

from duebook.book.readiness import GRACE
from duebook.client.access import (
    AuditClient,
    DoctorClient,
    NamespacesClient,
    NodesClient,
    QueuesClient,
    TemplatesClient,
    TokensClient,
    ZonesClient,
)
from duebook.client.alerts import AlertsClient
from duebook.client.arguments import NOT_SENT, Given
from duebook.client.calendars import CalendarsClient, FeedsClient, WindowsClient
from duebook.client.catchup import CatchupClient
from duebook.client.events import EventsClient
from duebook.client.flows import FlowsClient
from duebook.client.runs import RunsClient
from duebook.client.schedules import SchedulesClient
from duebook.client.shadow import ShadowClient
from duebook.client.use_cases import V1, UseCase, declared, operation
from duebook.errors import Invalid, shorten
from duebook.model.access import Role
from duebook.model.policies import EnqueuePolicies
from duebook.model.readiness import Readiness
from duebook.model.run import EnqueuedRun
from duebook.model.simulation import SimulationReport, SpreadProposal
from duebook.timetext import format_duration, parse_duration

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from duebook.book import Book

__all__ = ["PARTS", "TABLE", "Client"]


def _as_given(_: str, value: Any) -> Any:
    """Pass the value on: the use case validates it."""
    return value


Days = Annotated[int, Given("How many days to simulate.", read=_as_given)]
Start = Annotated[str | datetime | None, Given("When to start; by default now.", read=_as_given)]
Workers = Annotated[
    int | None, Given("How many runs can run at the same time; by default any.", read=_as_given)
]
Lengths = Annotated[
    Mapping[str, str | timedelta] | None,
    Given(
        "How long runs of a schedule take, by its name; `*` for those without past runs.",
        json=dict[str, str],
        read=_as_given,
        send=lambda takes: None if takes is None else _lengths(takes),
    ),
]
Percentile = Annotated[
    int, Given("Which percentile of the past durations each run takes.", read=_as_given)
]
Declared = Annotated[
    Sequence[Mapping[str, Any]],
    Given(
        "Definitions to simulate too; they replace stored schedules of the same name.",
        json=list[dict[str, Any]],
        read=_as_given,
        send=list,
    ),
]

DeclaredCalendars = Annotated[
    Sequence[Mapping[str, Any]],
    Given(
        "Calendars to use, each with its name; they replace stored calendars of the same name.",
        json=list[dict[str, Any]],
        read=_as_given,
        send=list,
    ),
]


def _lengths(takes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: format_duration(length) if isinstance(length, timedelta) else length
        for name, length in takes.items()
    }


def _task_name(task: object) -> str:
    if isinstance(task, str):
        return task
    raise Invalid(f"task {shorten(task)} is not the name of a task; a server takes names only")


class Client(Protocol):
    """One namespace, in a database or on a server."""

    namespace: str

    @property
    def schedules(self) -> SchedulesClient: ...
    @property
    def catchup(self) -> CatchupClient: ...
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
    def calendars(self) -> CalendarsClient: ...
    @property
    def windows(self) -> WindowsClient: ...
    @property
    def shadow(self) -> ShadowClient: ...
    @property
    def feeds(self) -> FeedsClient: ...
    @property
    def alerts(self) -> AlertsClient: ...
    @property
    def audit(self) -> AuditClient: ...
    @property
    def namespaces(self) -> NamespacesClient: ...
    @property
    def tokens(self) -> TokensClient: ...
    @property
    def doctor(self) -> DoctorClient: ...
    @property
    def zones(self) -> ZonesClient: ...

    @operation("get_status", "GET", "/status", Role.VIEWER, "status", shared=True)
    def readiness(
        self,
        grace: Annotated[
            timedelta | str,
            Given(
                "How long a schedule may be overdue.",
                send=lambda grace: format_duration(parse_duration(grace)),
            ),
        ] = GRACE,
        namespace: Annotated[
            str | None, Given("Only this namespace; by default all that the token sees.")
        ] = None,
    ) -> Readiness:
        """Whether everything that is due can run, and what prevents it.

        Always returns 200; `ready` is false when something cannot run. For probes of a single node,
        use `/readyz`.
        """

    @operation(
        *("simulate", "POST", "/simulate", Role.OPERATOR, "simulate"),
        errors=(429,),
        reads=True,
        computes=True,
        tag="schedules",
    )
    def simulate(
        self,
        days: Days = 30,
        start: Start = None,
        workers: Workers = None,
        takes: Lengths = None,
        percentile: Percentile = 50,
        schedules: Declared = (),
        only: Annotated[
            bool, Given("Simulate only the given definitions, not the stored schedules.")
        ] = False,
        progress: Annotated[Callable[[float, int], None] | None, NOT_SENT] = None,
        calendars: DeclaredCalendars = (),
    ) -> SimulationReport:
        """Simulate the schedules of a namespace, and report what would happen to their due times.

        Nothing is changed. On a server the processor time is limited; for long simulations, use
        the command line with the database or with a file.
        """

    @operation(
        *("spread", "POST", "/spread", Role.OPERATOR, "spread"),
        errors=(429,),
        reads=True,
        computes=True,
        tag="schedules",
    )
    def spread(
        self,
        names: Annotated[
            Sequence[str], Given("Schedules that may move.", json=list[str], read=_as_given)
        ] = (),
        label: Annotated[
            str | None, Given("Schedules with this label may move, such as `may-move:true`.")
        ] = "may-move:true",
        days: Days = 7,
        start: Start = None,
        workers: Workers = None,
        takes: Lengths = None,
        percentile: Percentile = 50,
        schedules: Declared = (),
        calendars: DeclaredCalendars = (),
    ) -> SpreadProposal:
        """Propose minutes for the schedules that may move, so that fewer runs start together.

        The named schedules, those with the label, and those with `H` as their minute may move.
        Nothing is changed: pass the returned `definitions` to `apply` to move them.
        """

    def problems(self) -> list[str]:
        """What prevents queued runs of this namespace from starting; usually empty."""

    @operation(
        *("enqueue_run", "POST", "/runs", Role.OPERATOR, "enqueue"),
        status=201,
        also=(200,),
        errors=(409,),
    )
    def enqueue(
        self,
        task: Annotated[
            str | Callable[..., Any], Given("The name of a task.", json=str, send=_task_name)
        ],
        payload: Annotated[
            Mapping[str, Any] | None, Given("Its arguments.", json=dict[str, Any])
        ] = None,
        *,
        key: Annotated[
            str | None, Given("While a run of the task has this key, it is returned.")
        ] = None,
        connection: Annotated[Any, NOT_SENT] = None,
        **policies: Unpack[EnqueuePolicies],
    ) -> EnqueuedRun:
        """Queue a run of a task, without a schedule.

        Returns 201 for a new run, and 200 with the run that has the `key`; `result` says what
        happened to the payload. `unique` sets how long a run keeps its key: `pending` (until a
        worker claims it), `active` (until it ends), `forever` or a duration. `debounce` and
        `throttle` replace the payload of a run that has not started.
        """

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
        "catchup": CatchupClient,
        "runs": RunsClient,
        "flows": FlowsClient,
        "nodes": NodesClient,
        "events": EventsClient,
        "queues": QueuesClient,
        "templates": TemplatesClient,
        "calendars": CalendarsClient,
        "windows": WindowsClient,
        "shadow": ShadowClient,
        "feeds": FeedsClient,
        "alerts": AlertsClient,
        "audit": AuditClient,
        "namespaces": NamespacesClient,
        "tokens": TokensClient,
        "doctor": DoctorClient,
        "zones": ZonesClient,
    }
)
"""The parts of a client, in the order of the docs."""

_SERVED: Final = (
    UseCase(
        *("list_schedule_runs", "GET", f"{V1}/schedules/{{name}}/runs", Role.VIEWER),
        no_cli="`runs NAME` asks for the same list",
        tag="schedules",
        doc="List the runs of a schedule, newest first; also after it was deleted.",
    ),
    UseCase(
        *("read_feed", "GET", f"{V1}/schedules.ics", None),
        no_cli="for calendar programs",
        shared=True,
        errors=(401, 429),
        tag="feeds",
        media=("text/calendar; charset=utf-8",),
        doc="""Due times of the next 60 days, and maintenance windows, as an iCal file.

        The query has the `token` of a feed. Schedules that are due more than 24 times a day are
        left out, and due times after the first 10,000.
        """,
    ),
    UseCase(
        *("get_me", "GET", f"{V1}/me", Role.VIEWER),
        no_cli="the command line has no session",
        shared=True,
        tag="tokens",
        doc="Get the name, the role and the namespaces of the token in use.",
    ),
    UseCase(
        *("healthz", "GET", "/healthz", None),
        no_cli="for probes",
        tag="health",
        doc="Check that this process responds; the database is not checked.",
    ),
    UseCase(
        *("readyz", "GET", "/readyz", None),
        no_cli="for probes",
        tag="health",
        also=(503,),
        doc="""Whether this node is ready: 200, or 503 if not.

        A ready node reaches its database, supports its schema, holds its lease and is not stopping.
        `/api/v1/status` says what cannot run. With a token for all namespaces, the response
        includes the problems.
        """,
    ),
    UseCase(
        *("metrics", "GET", "/metrics", Role.VIEWER),
        no_cli="for Prometheus",
        tag="health",
        everywhere=True,
        media=("text/plain; version=0.0.4; charset=utf-8",),
        doc="Metrics of this process and of the database, in the format of Prometheus.",
    ),
)
"""Operations of servers that are not methods of a client."""

TABLE: Final[Mapping[str, UseCase]] = MappingProxyType(
    {found.name: found for part, kind in PARTS.items() for found in declared(part, kind)}
    | {found.name: found for found in (*declared("", Client), *_SERVED)}
)
"""Every use case that a server offers, by name."""

if TYPE_CHECKING:

    def _local(book: Book) -> Client:
        return book
