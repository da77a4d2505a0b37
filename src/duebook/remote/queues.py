"""What people do with the queues of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book.queues import Queues
from duebook.errors import Invalid
from duebook.ids import check_name
from duebook.remote.readings import read_queue

if TYPE_CHECKING:
    from duebook.book.queues import QueueList
    from duebook.model.queue import Queue, Rate
    from duebook.remote.server import Server

__all__ = ["RemoteQueues"]


class RemoteQueues(Queues):
    """As Queues."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def list(self) -> QueueList:
        found = self._server.get("queues", namespaced=False)
        return [read_queue(form) for form in found["items"]]

    def limit(
        self, name: str, concurrency: int | None = None, rate: str | Rate | None = None
    ) -> Queue:
        if concurrency is None and rate is None:
            raise Invalid("a limit needs a concurrency, a rate, or both")
        body = {"concurrency": concurrency, "rate": rate}
        path = ("queues", check_name(name, "queue"))
        return read_queue(self._server.send("PUT", *path, body=body, namespaced=False)).queue

    def free(self, name: str) -> None:
        self._server.send("DELETE", "queues", check_name(name, "queue"), namespaced=False)
