"""What people ask of the audit of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book.audit import Audit
from duebook.remote.readings import read_change

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book.audit import Changes
    from duebook.remote.server import Server

__all__ = ["RemoteAudit"]


class RemoteAudit(Audit):
    """As Audit."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def list(
        self,
        kind: str | None = None,
        subject: str | None = None,
        by: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        cursor: str | None = None,
        limit: int = 100,
        everywhere: bool = False,
    ) -> Changes:
        return self._server.pages(
            read_change,
            limit,
            "audit",
            kind=kind,
            subject=subject,
            by=by,
            since=since,
            until=until,
            cursor=cursor,
            everywhere=everywhere or None,
        )
