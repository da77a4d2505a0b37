"""What people do with the tokens of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from duebook.book.tokens import Tokens
from duebook.errors import Invalid, shorten
from duebook.model.access import read_namespaces, read_role
from duebook.remote.needs import needs_database
from duebook.remote.readings import read_token
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.book.tokens import TokenList
    from duebook.model.access import AccessToken, Role
    from duebook.remote.server import Server

__all__ = ["RemoteTokens"]


class RemoteTokens(Tokens):
    """As Tokens."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def create(
        self,
        name: str,
        role: str | Role,
        namespaces: str | Sequence[str],
        expires_at: str | datetime | None = None,
    ) -> tuple[AccessToken, str]:
        body = {
            "name": name,
            "role": str(read_role(role)),
            "namespaces": list(read_namespaces(namespaces)),
            "expires_at": None if expires_at is None else parse_instant(expires_at),
        }
        form = self._server.send("POST", "tokens", body=body, namespaced=False)
        return read_token(form), form["token"]

    def list(self) -> TokenList:
        found = self._server.get("tokens", namespaced=False)
        return [read_token(form) for form in found["items"]]

    def revoke(self, name: str) -> AccessToken:
        if not isinstance(name, str):
            raise Invalid(f"token {shorten(name)} is no text")
        return read_token(self._server.send("DELETE", "tokens", name, namespaced=False))

    def check(self, text: str) -> NoReturn:
        raise needs_database("checking a token")
