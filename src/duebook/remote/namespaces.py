"""What people do with the namespaces of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from duebook.book.namespaces import Namespaces
from duebook.model.quota import check_quota_name
from duebook.remote.needs import needs_database
from duebook.remote.readings import read_namespace

if TYPE_CHECKING:
    from duebook.book.namespaces import Uses
    from duebook.model.quota import NamespaceUse
    from duebook.remote.server import Server

__all__ = ["RemoteNamespaces"]


class RemoteNamespaces(Namespaces):
    """As Namespaces; only those that the token sees are listed."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def list(self) -> Uses:
        found = self._server.get("namespaces", namespaced=False)
        return [read_namespace(form) for form in found["items"]]

    def limit(
        self,
        name: str,
        schedules: int | None = None,
        fires_per_minute: float | None = None,
        payload_bytes: int | None = None,
        definition_bytes: int | None = None,
        max_priority: int | None = None,
    ) -> NamespaceUse:
        body = {
            "schedules": schedules,
            "fires_per_minute": fires_per_minute,
            "payload_bytes": payload_bytes,
            "definition_bytes": definition_bytes,
            "max_priority": max_priority,
        }
        path = ("namespaces", check_quota_name(name))
        return read_namespace(self._server.send("PUT", *path, body=body, namespaced=False))

    def free(self, name: str) -> None:
        self._server.send("DELETE", "namespaces", check_quota_name(name), namespaced=False)

    def recount(self, name: str) -> NoReturn:
        raise needs_database("counting a namespace anew")
