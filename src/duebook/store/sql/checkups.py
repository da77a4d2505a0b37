"""What doctor asks a database about itself and its nodes; each query is bounded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from duebook.model.checkup import ExpiredSession
from duebook.store.sql.statements import Part

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duebook.model.checkup import FileFacts, ServerFacts

__all__ = ["Checkups"]


class Checkups(Part, ABC):
    """Reads only, and takes no locks."""

    @abstractmethod
    def database(self) -> FileFacts | ServerFacts:
        """The state of the database itself."""

    @property
    def clock_ahead(self) -> timedelta:
        """How far this machine's clock is ahead of the database's; negative: behind."""
        return self._db.ahead

    @property
    def clock_behind(self) -> timedelta:
        """How far the database's clock is behind the latest time that it has shown."""
        return self._db.behind

    def list_expired_sessions(self, limit: int) -> list[ExpiredSession]:
        """Nodes whose lease has expired and that were not declared dead, the first one first."""
        rows = self._db.all("list_expired_sessions", now=self._db.now, limit=limit)
        return [ExpiredSession(node, pid, self._db.time(at), runs) for node, pid, at, runs in rows]

    def list_asleep(self, limit: int) -> list[tuple[str, str]]:
        """Namespace and name of schedules that no node would ever look at again."""
        rows = self._db.all("list_asleep", limit=limit)
        return [(namespace, name) for _, namespace, name in rows]

    def list_secret_flows(self, limit: int) -> list[tuple[str, str, str]]:
        """Namespace, name and file of flows that may name a secret."""
        return [(row[0], row[1], row[2]) for row in self._db.all("list_secret_flows", limit=limit)]

    def oldest_end(self) -> datetime | None:
        """When the first of the stored runs ended."""
        found: datetime | None = self._db.time(self._db.value("get_oldest_end"))
        return found

    def last_backup(self) -> datetime | None:
        """When `duebook db backup` last copied the database."""
        found: datetime | None = self._db.time(self._db.value("get_last_backup"))
        return found
