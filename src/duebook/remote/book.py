"""The books of a server: every use case of `book`, each a request."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from duebook.book import Book
from duebook.book.readiness import GRACE, unreachable
from duebook.errors import Unavailable
from duebook.remote.audit import RemoteAudit
from duebook.remote.events import RemoteEvents
from duebook.remote.namespaces import RemoteNamespaces
from duebook.remote.needs import needs_database
from duebook.remote.nodes import RemoteNodes
from duebook.remote.queues import RemoteQueues
from duebook.remote.readings import read_readiness
from duebook.remote.runs import RemoteRuns
from duebook.remote.schedules import RemoteSchedules
from duebook.remote.server import Server
from duebook.remote.templates import RemoteTemplates
from duebook.remote.tokens import RemoteTokens
from duebook.timetext import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from typing import Unpack

    from duebook.model.policies import EnqueuePolicies
    from duebook.model.readiness import Readiness
    from duebook.remote.flows import RemoteFlows

__all__ = ["RemoteBook"]


class RemoteBook(Book):
    """A namespace of the books of a server; safe to use from several threads.

    Errors are those that the books themselves raise; Unavailable when nobody answers. What works
    on the database itself raises NeedsDatabase.
    """

    def __init__(self, url: str, token: str | None = None, namespace: str = "default") -> None:
        super().__init__(None, namespace)
        self._server = Server(url, token, self.namespace)

    @property
    def store(self) -> NoReturn:
        raise needs_database("this")

    @cached_property
    def schedules(self) -> RemoteSchedules:
        return RemoteSchedules(self._server)

    @cached_property
    def templates(self) -> RemoteTemplates:
        return RemoteTemplates(self._server)

    @cached_property
    def runs(self) -> RemoteRuns:
        return RemoteRuns(self._server)

    @cached_property
    def queues(self) -> RemoteQueues:
        return RemoteQueues(self._server)

    @cached_property
    def tokens(self) -> RemoteTokens:
        return RemoteTokens(self._server)

    @cached_property
    def namespaces(self) -> RemoteNamespaces:
        return RemoteNamespaces(self._server)

    @cached_property
    def audit(self) -> RemoteAudit:
        return RemoteAudit(self._server)

    @cached_property
    def flows(self) -> RemoteFlows:
        from duebook.remote.flows import RemoteFlows

        return RemoteFlows(self._server)

    @cached_property
    def nodes(self) -> RemoteNodes:
        return RemoteNodes(self._server)

    @cached_property
    def events(self) -> RemoteEvents:
        return RemoteEvents(self._server)

    def enqueue(
        self,
        task: str | Callable[..., Any],
        payload: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        connection: Any = None,
        **policies: Unpack[EnqueuePolicies],
    ) -> NoReturn:
        raise needs_database("enqueue()")

    def readiness(self, grace: timedelta | str = GRACE, namespace: str | None = None) -> Readiness:
        given = format_duration(parse_duration(grace))
        try:
            form = self._server.get("status", namespaced=False, grace=given, namespace=namespace)
            return read_readiness(form)
        except Unavailable as error:
            return unreachable(error)

    def close(self) -> None:
        self._server.close()
