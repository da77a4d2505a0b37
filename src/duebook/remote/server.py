"""One server and the token for it: sends requests, decodes JSON, raises the server's errors."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import httpx2

from duebook.client.use_cases import V1
from duebook.errors import DuebookError, Invalid, NotFound, Unavailable, shorten
from duebook.ids import new_id
from duebook.model.fields import DateRange
from duebook.model.listing import Listing
from duebook.model.queue import Rate
from duebook.remote.problems import error_of
from duebook.timetext import format_duration, format_instant, parse_duration, parse_instant
from duebook.version import API_HEADER, __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["Server", "is_loopback_url"]

PAGE: Final = 1_000
"""The maximum number of items that a server returns at once."""
TIMEOUT: Final = httpx2.Timeout(60.0, connect=5.0)
TRIES: Final = 2
"""How often a request that is safe to repeat is sent if a connection breaks."""


class Server:
    """Safe to use from several threads."""

    def __init__(self, url: str, token: str | None, namespace: str) -> None:
        """Raises Invalid if the URL is not the address of a server."""
        self.url = _checked(url)
        self.namespace = namespace
        headers = {"User-Agent": f"duebook/{__version__}", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {_printable(token)}"
        self._how: dict[str, Any] = {
            "base_url": self.url,
            "headers": headers,
            "timeout": TIMEOUT,
            "verify": self.url.startswith("https:"),  # loading all certificates is slow
            "trust_env": not is_loopback_url(self.url),  # a proxy cannot reach it
        }
        self._client = httpx2.Client(**self._how)

    def get(self, *path: str, namespaced: bool = True, **parameters: Any) -> Any:
        return self._ask("GET", path, None, self._query(parameters, namespaced), repeat=True)

    def connect_async(self) -> httpx2.AsyncClient:
        """Connections for one event loop; the caller closes them."""
        return httpx2.AsyncClient(**self._how)

    async def get_async(
        self, client: httpx2.AsyncClient, *path: str, **parameters: Any
    ) -> dict[str, Any]:
        """As `get`, without a thread."""
        place, query = _place(path), self._query(parameters)
        try:
            answer = await client.get(place, params=query)
        except httpx2.RequestError as error:
            raise self._unreachable(error) from error
        found: dict[str, Any] = self._answer(answer)
        return found

    def post(self, *path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Takes effect once, even if it is sent again because a connection broke."""
        return self._ask("POST", path, body or {}, self._query({}), key=new_id(), repeat=True)

    def send(
        self,
        method: str,
        *path: str,
        body: Mapping[str, Any] | None = None,
        version: int | None = None,
        namespaced: bool = True,
        **parameters: Any,
    ) -> Any:
        """PUT, PATCH and DELETE; with a version, only if that is the latest."""
        query = self._query(parameters, namespaced)
        return self._ask(method, path, body, query, version=version)

    def pages(
        self, read: Callable[[dict[str, Any]], T], limit: int, *path: str, **parameters: Any
    ) -> Listing[T]:
        """Up to `limit` items, in as many requests as needed, and the cursor for the next ones."""
        found: Listing[T] = Listing()
        cursor = parameters.pop("cursor", None)
        while True:
            left = min(limit - len(found), PAGE)
            page = self.get(*path, limit=left, cursor=cursor, **parameters)
            found += map(read, page["items"])
            cursor = found.next_cursor = page["next_cursor"]
            if cursor is None or len(found) >= limit:
                return found

    def close(self) -> None:
        self._client.close()

    def _query(self, given: Mapping[str, Any], namespaced: bool = True) -> dict[str, Any]:
        place = {"namespace": self.namespace} if namespaced else {}
        return place | {name: _text(value) for name, value in given.items() if value is not None}

    def _ask(
        self,
        method: str,
        path: tuple[str, ...],
        body: Mapping[str, Any] | None,
        query: dict[str, Any],
        key: str | None = None,
        version: int | None = None,
        repeat: bool = False,
    ) -> Any:
        headers = {"Idempotency-Key": key} if key else {}
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        content = None
        if body is not None:
            content = _body(body)
            headers["Content-Type"] = "application/json"
        request = self._client.build_request(
            method, _place(path), params=query, content=content, headers=headers
        )
        return self._answer(self._send(request, TRIES if repeat else 1))

    def _send(self, request: httpx2.Request, tries: int) -> httpx2.Response:
        for left in reversed(range(tries)):
            try:
                return self._client.send(request)
            except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError) as error:
                if not left:
                    raise self._unreachable(error) from error
            except httpx2.RequestError as error:
                raise self._unreachable(error) from error
        raise AssertionError("the request may have been processed")

    def _unreachable(self, error: httpx2.RequestError) -> Unavailable:
        if isinstance(error, httpx2.TimeoutException):
            told = "it does not respond in time"
        else:
            told = shorten(str(error), 200) or type(error).__name__
        return Unavailable(
            f"cannot reach {self.url}: {told}; check that `duebook up` runs there and that this is "
            "its address"
        )

    def _unknown(self, error: DuebookError) -> DuebookError:
        """The client knows better than the server whether it sent a token."""
        told = f"{self.url} needs a token; give --token, or DUEBOOK_TOKEN"
        if "authorization" in self._client.headers:
            told = (
                f"{self.url} does not know this token; it may be revoked, expired or for another "
                "server"
            )
        found = DuebookError(f"{told}. duebook token create creates one")
        found.code = error.code
        return found

    def _answer(self, answer: httpx2.Response) -> Any:
        if not answer.is_success:
            error = error_of(answer, self.url)
            raise self._unknown(error) if error.code == "unauthorized" else error
        if API_HEADER not in answer.headers:
            raise DuebookError(
                f"{self.url} does not respond like a Duebook server; check the address"
            )
        return answer.json() if answer.content else None


def is_loopback_url(url: str) -> bool:
    """Whether a server is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        known = known and url.isprintable() and " " not in url
        plain = not (parts.username or parts.password or parts.query or parts.fragment)
        _ = parts.port  # raises if it is not a port
    except ValueError:
        known = plain = False
    if not known or not plain:
        raise Invalid(f'url "{shorten(url)}" is not a server address such as http://127.0.0.1:7420')
    return url.rstrip("/")


def _printable(token: str) -> str:
    if token.isascii() and token.isprintable() and token and " " not in token:
        return token
    raise Invalid("that is not a token: it contains spaces or other invalid characters")


def _place(path: tuple[str, ...]) -> str:
    return f"{V1}/" + "/".join(map(_part, path))


def _part(name: object) -> str:
    """A part of a path. Names do not contain slashes; one with a slash is not found."""
    if not isinstance(name, str) or not name.strip(".") or "/" in name:
        raise NotFound(f'"{shorten(name)}" does not exist')
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise Invalid("the text contains unpaired surrogates, which cannot be stored") from None


def _text(value: Any) -> Any:
    """A value as text for a query; several values as a list."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return [_text(item) for item in value]
    return value if isinstance(value, str | int) else str(plain(value))


def _body(body: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(body, default=plain, ensure_ascii=False, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, Invalid):
            raise
        raise Invalid(f"this is not valid JSON: {shorten(str(error), 120)}") from None


def plain(value: Any) -> Any:
    """A Python value in its JSON form; raises Invalid."""
    match value:
        case datetime():
            return format_instant(parse_instant(value))
        case timedelta():
            return format_duration(parse_duration(value))
        case date() | time():
            return value.isoformat()
        case DateRange() | Rate():
            return str(value)
    if hasattr(value, "to_json"):
        return value.to_json()
    raise Invalid(f"{shorten(value)} is not valid JSON")
