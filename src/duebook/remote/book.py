"""A namespace on a server: every use case of `client`, each as a request."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from duebook.book.readiness import GRACE, unable, unreachable
from duebook.client import TABLE
from duebook.closing import Closing
from duebook.errors import Unavailable
from duebook.ids import check_name
from duebook.model.access import Role
from duebook.model.codec import decode
from duebook.model.run import EnqueuedRun, Run
from duebook.remote.needs import needs_database
from duebook.remote.parts import (
    RemoteAlerts,
    RemoteAudit,
    RemoteCalendars,
    RemoteCatchup,
    RemoteDoctor,
    RemoteEvents,
    RemoteFeeds,
    RemoteFlows,
    RemoteNamespaces,
    RemoteNodes,
    RemoteQueues,
    RemoteRuns,
    RemoteSchedules,
    RemoteShadow,
    RemoteTemplates,
    RemoteTokens,
    RemoteWindows,
    RemoteZones,
)
from duebook.remote.requests import ask, send
from duebook.remote.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from typing import Unpack

    from duebook.aio import AsyncBook
    from duebook.client import Client
    from duebook.model.policies import EnqueuePolicies
    from duebook.model.readiness import Readiness
    from duebook.model.simulation import SimulationReport, SpreadProposal

    def _is_client(book: RemoteBook) -> Client:
        return book


__all__ = ["RemoteBook"]


class RemoteBook(Closing):
    """A namespace on a server; safe to use from several threads.

    Raises the same errors as a local client, and Unavailable if the server does not respond.
    Methods that need the database itself raise NeedsDatabase.
    """

    def __init__(self, url: str, token: str | None = None, namespace: str = "default") -> None:
        self.namespace = check_name(namespace, "namespace")
        self._server = Server(url, token, self.namespace)

    @property
    def store(self) -> NoReturn:
        raise needs_database("this")

    @property
    def insights(self) -> NoReturn:
        raise needs_database("this")

    @cached_property
    def schedules(self) -> RemoteSchedules:
        return RemoteSchedules.of(self._server)

    @cached_property
    def catchup(self) -> RemoteCatchup:
        return RemoteCatchup.of(self._server)

    @cached_property
    def templates(self) -> RemoteTemplates:
        return RemoteTemplates.of(self._server)

    @cached_property
    def calendars(self) -> RemoteCalendars:
        return RemoteCalendars.of(self._server)

    @cached_property
    def windows(self) -> RemoteWindows:
        return RemoteWindows.of(self._server)

    @cached_property
    def shadow(self) -> RemoteShadow:
        return RemoteShadow.of(self._server)

    @cached_property
    def feeds(self) -> RemoteFeeds:
        return RemoteFeeds.of(self._server)

    @cached_property
    def alerts(self) -> RemoteAlerts:
        return RemoteAlerts.of(self._server)

    @cached_property
    def runs(self) -> RemoteRuns:
        return RemoteRuns.of(self._server)

    @cached_property
    def queues(self) -> RemoteQueues:
        return RemoteQueues.of(self._server)

    @cached_property
    def tokens(self) -> RemoteTokens:
        return RemoteTokens.of(self._server)

    @cached_property
    def namespaces(self) -> RemoteNamespaces:
        return RemoteNamespaces.of(self._server)

    @cached_property
    def audit(self) -> RemoteAudit:
        return RemoteAudit.of(self._server)

    @cached_property
    def flows(self) -> RemoteFlows:
        return RemoteFlows.of(self._server)

    @cached_property
    def nodes(self) -> RemoteNodes:
        return RemoteNodes.of(self._server)

    @cached_property
    def doctor(self) -> RemoteDoctor:
        return RemoteDoctor.of(self._server)

    @cached_property
    def zones(self) -> RemoteZones:
        return RemoteZones.of(self._server)

    @cached_property
    def events(self) -> RemoteEvents:
        return RemoteEvents.of(self._server)

    def enqueue(
        self,
        task: str | Callable[..., Any],
        payload: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        connection: Any = None,
        **policies: Unpack[EnqueuePolicies],
    ) -> EnqueuedRun:
        if connection is not None:
            raise needs_database("enqueue(connection=…)")
        given = {"task": task, "payload": payload, "key": key, "policies": policies}
        form = send(self._server, TABLE["enqueue_run"], given)
        return EnqueuedRun.of(decode(Run, form), form["result"], self.runs.wait)

    @cached_property
    def aio(self) -> AsyncBook:
        """The same use cases as coroutines, for async programs."""
        from duebook.aio import AsyncBook

        return AsyncBook(self, wait=self.runs.wait_async)

    def role(self) -> Role:
        """The role of the token in use; raises Unavailable if the server does not respond."""
        return Role(self._server.get("me", namespaced=False)["role"])

    def problems(self) -> list[str]:
        return unable(self.readiness(namespace=self.namespace))

    def readiness(self, grace: timedelta | str = GRACE, namespace: str | None = None) -> Readiness:
        try:
            given = {"grace": grace, "namespace": namespace}
            readiness: Readiness = ask(self._server, TABLE["get_status"], given)
        except Unavailable as error:
            return unreachable(error)
        return readiness

    def simulate(self, *values: Any, **named: Any) -> SimulationReport:
        case = TABLE["simulate"]
        report: SimulationReport = ask(self._server, case, case.bind(*values, **named))
        return report

    def spread(self, *values: Any, **named: Any) -> SpreadProposal:
        case = TABLE["spread"]
        proposal: SpreadProposal = ask(self._server, case, case.bind(*values, **named))
        return proposal

    def close(self) -> None:
        if "aio" in vars(self):
            self.aio.stop()
        self._server.close()
