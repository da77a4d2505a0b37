"""The gate that every request passes first; only an exact list of paths needs no credentials.

Checks Host and Origin, identifies the caller, limits the body, and adds the security headers to
every response. Does not know the routes.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from duebook.api.cookies import read_cookie
from duebook.api.problems import TooLarge, Unauthorized, explain_problem
from duebook.errors import DuebookError, Forbidden, Unavailable
from duebook.version import API_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from duebook.api.origins import Hosts
    from duebook.api.permissions import Caller
    from duebook.api.problems import Explain

    Check = Callable[[], Caller | None]

__all__ = ["CALLER", "COOKIE", "LIVE", "STILL", "Authenticator", "Gate"]

log = logging.getLogger(__name__)

CALLER: Final = "duebook.caller"
"""Key of the caller in a request's scope; None on an open path without credentials."""
STILL: Final = "duebook.still"
"""Key in a request's scope of the function that checks whether its caller still has access."""
COOKIE: Final = "duebook_session"
LIVE: Final = "duebook-live"
"""The header of a page that refreshes itself, with the number of the change it waits for."""
_NOWHERE: Final[Mapping[str, frozenset[str]]] = {}
MAX_OPEN_BODY: Final = 4 * 1024
"""Bytes of a body that may be sent without credentials, such as the form with a token."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with none, browsers omit the Origin of our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    API_HEADER: "v1",
}
_RAW_HEADERS: Final = [
    (name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
]


class Authenticator(Protocol):
    """Identifies callers; may query the database, so all methods but `known` run in a thread."""

    def known(self, text: str) -> Caller | None:
        """The owner of a token, if `check` accepted it less than a second ago; never waits."""

    def forget(self) -> None:
        """Tokens may have been revoked: from now on `known` returns none accepted before."""

    def check(self, text: str, again: bool = False) -> Caller | None:
        """The owner of a token; None if it is invalid. `again`: it was accepted, and a stream asks
        whether it still is; the result may be half a second old."""

    def open_session(self, text: str) -> str | None:
        """The session of a browser for the holder of this token; None if the token is invalid."""

    def use_link(self, code: str) -> str | None:
        """A session for a login link's code; None: the code was already used, or has expired."""

    def check_session(self, text: str, again: bool = False) -> Caller | None:
        """The caller who logged in with a browser, by its cookie's value; None if it is invalid.

        `again`: it was accepted, and its page refreshes itself; the result may be half a second
        old.
        """

    def end_session(self, text: str) -> None:
        """Reject this value of a cookie from now on, in all processes."""


class Gate:
    """ASGI middleware around the whole app. `open_paths` maps paths without credentials to their
    methods; `any_host` are those that accept any host name; `bulk_paths` take a body of up to
    `max_bulk` bytes instead of `max_body`. Open paths take 4 KiB."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        hosts: Hosts,
        open_paths: Mapping[str, frozenset[str]],
        max_body: int,
        explain: Explain = explain_problem,
        any_host: Mapping[str, frozenset[str]] = _NOWHERE,
        bulk_paths: Mapping[str, frozenset[str]] = _NOWHERE,
        max_bulk: int = 0,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._hosts = hosts
        self._open = open_paths
        self._any_host = any_host
        self._max_body = max_body
        self._bulk = bulk_paths
        self._bulk_folders = {
            path.rpartition("/")[0]: methods
            for path, methods in bulk_paths.items()
            if path.endswith("}")
        }
        self._max_bulk = max_bulk
        self._explain = explain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _SecuredSend(send)
        try:
            headers = Headers(scope=scope)
            self._refuse_foreign(scope, headers)
            checks = self._checks_of(headers)
            if checks.by_cookie and scope["method"] not in SAFE:
                self._refuse_other_pages(headers)
            looks_again = LIVE in headers and scope["method"] == "GET"
            scope[CALLER] = checks.known or await self._admit(
                scope, checks.again if looks_again else checks.first
            )
            scope[STILL] = checks.again
            await self._app(scope, self._bounded(scope, headers, receive), answer)
        except ClientDisconnect:
            log.debug("%s %s: the client has disconnected", scope["method"], scope["path"])
        except Exception as error:
            if not isinstance(error, DuebookError):
                log.exception("%s %s failed", scope["method"], scope["path"])
            if answer.begun:
                raise
            await self._explain(scope, error)(scope, receive, answer)

    def _refuse_foreign(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host")
        any_host = scope["method"] in self._any_host.get(scope["path"], ())
        if not any_host and not self._hosts.knows(host):
            raise _Foreign("the Host header does not name this server; see allowed_hosts")
        origin = headers.get("origin")
        if origin is not None and not self._hosts.trusts(origin, host or ""):
            raise _Foreign("requests from pages of other sites are rejected")

    def _refuse_other_pages(self, headers: Headers) -> None:
        """Browsers send cookies even with requests that another site's page caused."""
        origin, host = headers.get("origin"), headers.get("host", "")
        if origin is None or not self._hosts.owns(origin, host):
            raise _Foreign("a browser request that writes needs this server's Origin, or a token")

    async def _admit(self, scope: Scope, check: Check) -> Caller | None:
        is_open = scope["method"] in self._open.get(scope["path"], ())
        try:
            caller = None if check is _nobody else await run_in_threadpool(check)
        except Unavailable:
            if not is_open:
                raise
            return None  # open paths do not need the database
        if caller is None and not is_open:
            raise Unauthorized(
                "send a token as `Authorization: Bearer …`, or log in at /login; "
                "duebook token create creates one"
            )
        return caller

    def _checks_of(self, headers: Headers) -> _Checks:
        """How to identify the caller; a request with two tokens has none."""
        given = headers.getlist("authorization")
        if not given:
            session = read_cookie(headers, COOKIE)
            if session is None:
                return _Checks(_nobody, _nobody)
            check = partial(self._authenticator.check_session, session)
            return _Checks(check, partial(check, again=True), by_cookie=True)
        scheme, _, token = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer" or not token.strip():
            return _Checks(_nobody, _nobody)
        check = partial(self._authenticator.check, token.strip())
        known = self._authenticator.known(token.strip())
        return _Checks(check, partial(check, again=True), known)

    def _bounded(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """Read no more than allowed, whatever the headers claim; raises TooLarge."""
        most = self._most(scope)
        told = f"the body is limited to {most:,} bytes here; send less"
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > most:
            raise TooLarge(told)
        read = 0

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                if read > most:
                    raise TooLarge(told)
            return message

        return bounded

    def _most(self, scope: Scope) -> int:
        """The maximum bytes of a body."""
        method, path = scope["method"], scope["path"]
        if method in self._open.get(path, ()):
            return MAX_OPEN_BODY
        methods = self._bulk.get(path) or self._bulk_folders.get(path.rpartition("/")[0])
        return self._max_bulk if methods and method in methods else self._max_body


class _Checks(NamedTuple):
    """How to identify the caller."""

    first: Check
    again: Check
    known: Caller | None = None
    """the caller, if it was identified just before"""
    by_cookie: bool = False


def _nobody() -> None:
    return None


class _Foreign(Forbidden):
    code = "foreign"


class _SecuredSend:
    """Sends a response with the security headers; records whether it has started."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            given = {name for name, _ in message["headers"]}
            missing = [pair for pair in _RAW_HEADERS if pair[0] not in given]
            message["headers"] = [*message["headers"], *missing]
        await self._send(message)
