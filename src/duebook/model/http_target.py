"""An HTTP request as a target: the value, its JSON form, and its form without secrets."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from duebook.errors import Invalid, quoted, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import bounded_json
from duebook.model.secret import (
    HIDDEN,
    is_by_reference,
    refuse_hidden,
    show_payload,
    show_text,
)

__all__ = ["HttpTarget", "is_public_header", "load_http", "origin_of"]

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

LONGEST_URL: Final = 8_000
LONGEST_HEADER: Final = 8_000
MOST_HEADERS: Final = 100
MOST_STATUSES: Final = 400
LONGEST_BODY: Final = 1_000_000

_KEYS: Final = ("url", "method", "headers", "json", "body", "expect")
_SCHEME: Final = re.compile(r"https?://", re.IGNORECASE)
_STOP: Final = re.compile(r"[/?#]|\{\{|\{%")
_TAG_ENDS: Final = {"{{": "}}", "{%": "%}"}
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_STATUS_CLASS: Final = re.compile(r"[1-5]xx")
_OURS: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "idempotency-key", "te"}
    | {"trailer", "transfer-encoding", "upgrade"}
)
_PUBLIC: Final = frozenset(
    {"accept", "accept-language", "cache-control", "content-language", "content-type"}
    | {"if-modified-since", "if-none-match", "prefer", "user-agent"}
)


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A request and the statuses that mean success; `json` or `body` is its content."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    json: Any = None
    body: str | None = None
    expect: tuple[int | str, ...] = ("2xx",)

    def accepts(self, status: int) -> bool:
        return status in self.expect or f"{status // 100}xx" in self.expect

    def masked(self) -> HttpTarget:
        """As it may be shown: without the values of headers that may be secret, and without those
        of JSON, form and query fields with secret names."""
        return replace(
            self,
            url=show_text(self.url),
            headers=tuple((k, _shown_header(k, v)) for k, v in self.headers),
            json=show_payload(self.json),
            body=None if self.body is None else show_text(self.body),
        )

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {"method": self.method, "url": self.url}
        if self.headers:
            form["headers"] = dict(self.headers)
        if self.json is not None:
            form["json"] = self.json
        if self.body is not None:
            form["body"] = self.body
        if self.expect != ("2xx",):
            form["expect"] = list(self.expect)
        return {"http": form}

    def __str__(self) -> str:
        path, question, _ = self.url.partition("?")
        return f"{self.method} {path}{question and '?…'}"


def _shown_header(name: str, value: str) -> str:
    return value if is_public_header(name) or is_by_reference(value) else HIDDEN


def is_public_header(name: str) -> bool:
    """Whether its value is never secret; all other headers are always shown without values."""
    return name.lower() in _PUBLIC


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, which may have templates; empty if it has none."""
    scheme = _SCHEME.match(url)
    if scheme is None:
        return ""
    place, endless = scheme.end(), set[str]()
    while (found := _STOP.search(url, place)) is not None:
        tag = found[0]
        if tag not in _TAG_ENDS:
            return url[: found.start()]
        end = -1 if tag in endless else url.find(_TAG_ENDS[tag], found.end())
        if end < 0:
            endless.add(tag)  # nor will it find one later
        place = found.start() + 1 if end < 0 else end + 2
    return url


def load_http(form: object) -> HttpTarget:
    """A request from its JSON form, or from a URL alone; raises Invalid that names the part."""
    if isinstance(form, str):
        form = {"url": form}
    if not isinstance(form, dict):
        raise Invalid(
            f'target http {shorten(show_payload(form))} is not an object such as {{"url": "https://…"}}'
        )
    if unknown := [key for key in form if key not in _KEYS]:
        known = ", ".join(_KEYS)
        raise Invalid(f'target http key "{shorten(unknown[0])}" is unknown; use one of {known}')
    content, body = form.get("json"), form.get("body")
    if content is not None and body is not None:
        raise Invalid('target http has both "json" and "body"; give one of them')
    if content is not None:
        bounded_json("target http json", content, LONGEST_BODY)
        refuse_hidden("target http json", content)
    if body is not None and not _is_text(body, LONGEST_BODY):
        told = shorten(show_payload(body))
        raise Invalid(f"target http body {told} is not a string of up to 1,000,000 characters")
    refuse_hidden("target http body", body)
    sends = content is not None or body is not None
    return HttpTarget(
        url=_url(form.get("url")),
        method=_method(form.get("method") or ("POST" if sends else "GET")),
        headers=_headers(form.get("headers") or {}),
        json=content,
        body=body,
        expect=_expect(form.get("expect")),
    )


def _is_text(value: object, longest: int) -> bool:
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _url(value: object) -> str:
    if not isinstance(value, str) or not _is_text(value, LONGEST_URL) or not value.isprintable():
        raise Invalid(
            f"target http url {quoted(show_payload(value))} is not a string of up to 8,000 "
            "characters"
        )
    refuse_hidden("target http url", value)
    origin = origin_of(value)
    if not origin.partition("://")[2]:
        told = shorten(show_text(value))
        raise Invalid(f'target http url "{told}" does not start like https://example.com')
    if "@" in origin:
        raise Invalid(
            "target http url contains a user name or password; use an Authorization header"
        )
    if "{" not in origin:
        _check_host(origin)
    return value


def _check_host(origin: str) -> None:
    try:
        parts = urlsplit(origin)
        right = bool(parts.hostname) and parts.port != 0
    except ValueError:
        right = False
    if not right or re.search(r"[\s\\<>\"|^`]", origin):
        raise Invalid(f'target http url: "{shorten(origin)}" does not have a valid host and port')


def _method(value: object) -> str:
    if isinstance(value, str) and value.upper() in METHODS:
        return value.upper()
    raise Invalid(f"target http method {quoted(value)} is not one of {', '.join(METHODS)}")


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or len(value) > MOST_HEADERS:
        told = value if isinstance(value, int | float) else HIDDEN
        raise Invalid(f"target http headers {told} is not an object of up to 100 strings")
    names = set()
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise Invalid(f"target http header {quoted(name)} is not a valid header name")
        if name.lower() in _OURS or name.lower().startswith("duebook-"):
            raise Invalid(f'target http header "{name}" is set by Duebook; leave it out')
        if name.lower() in names:
            raise Invalid(f'target http header "{name}" is given twice')
        names.add(name.lower())
        if not _is_text(text, LONGEST_HEADER) or not (text.isascii() and text.isprintable()):
            raise Invalid(
                f'target http header "{name}" is not one line of up to 8,000 ASCII characters'
            )
        if text == HIDDEN:
            raise Invalid(
                f'target http header "{name}" is {HIDDEN}, a placeholder for a hidden value; '
                "give the real value"
            )
    return tuple(sorted(value.items()))


def _expect(value: object) -> tuple[int | str, ...]:
    if value is None:
        return ("2xx",)
    items = value if isinstance(value, list | tuple) else [value]
    if len(items) > MOST_STATUSES:
        told = f"target http expect has {len(items):,} items; at most {MOST_STATUSES} are allowed"
        raise Invalid(told)
    for item in items:
        whole = isinstance(item, int) and not isinstance(item, bool) and 200 <= item <= 599
        if not whole and not (isinstance(item, str) and _STATUS_CLASS.fullmatch(item)):
            raise Invalid(f"target http expect {quoted(item)} is not a status such as 204 or 2xx")
    if not items:
        raise Invalid("target http expect is empty; leave it out for 2xx")
    return tuple(items)
