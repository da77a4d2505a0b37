"""What people do with the schedule templates of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.book.templates import Templates
from duebook.errors import Invalid, shorten
from duebook.remote.readings import read_template

if TYPE_CHECKING:
    from duebook.book.templates import Listed
    from duebook.model.template import ScheduleTemplate
    from duebook.remote.server import Server

__all__ = ["RemoteTemplates"]


class RemoteTemplates(Templates):
    """As Templates."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def save(self, name: str, by: str = "", **defaults: Any) -> ScheduleTemplate:
        return read_template(self._server.send("PUT", "templates", _text(name), body=defaults))

    def get(self, name: str) -> ScheduleTemplate:
        return read_template(self._server.get("templates", _text(name)))

    def list(self) -> Listed:
        return [read_template(form) for form in self._server.get("templates")["items"]]

    def remove(self, name: str) -> None:
        self._server.send("DELETE", "templates", _text(name))


def _text(name: object) -> str:
    if isinstance(name, str):
        return name
    raise Invalid(f"template {shorten(name)} is no text")
