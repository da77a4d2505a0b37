"""Executes http targets: one request with its redirects, and how it ended.

It uses no proxy, cookie or password of the machine, verifies certificates, and limits what a
response may cost.
"""

from __future__ import annotations

import json
import ssl
import time
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

import httpcore2
import httpx2

from duebook.model.http_target import HttpTarget, is_public_header
from duebook.model.run import Outcome
from duebook.targets.hiding import hiding_run
from duebook.targets.http_response import HttpResponse
from duebook.targets.outbound import Interrupted, OutboundConnections, Refused, resolve
from duebook.targets.outcomes import LONGEST_REF
from duebook.timetext import format_instant
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Claim
    from duebook.model.secret_values import SecretValues
    from duebook.targets.addresses import Network
    from duebook.targets.http_response import Output
    from duebook.targets.outbound import Resolver
    from duebook.targets.processes import Stop

__all__ = ["Failed", "perform_http", "read_url", "send", "verified"]

DEFAULT_TIMEOUT: Final = 60.0
"""Timeout in seconds for a request whose schedule has none."""
LONGEST_TIMEOUT: Final = 864_000.0
"""Ten days, about the longest time that a poll can wait."""
MOST_REDIRECTS: Final = 5
MOST_READ: Final = 1_000_000
"""Bytes of a response that are read before the connection is closed."""
OUTPUT_REF: Final = "Duebook-Output-Ref"
"""The header of a response that tells where its result is."""
_OURS: Final = (
    *("accept-encoding", "connection", "content-length", "duebook-", "idempotency-key"),
    "traceparent",
)


class Failed(Exception):
    """The exchange ended without a response; `reason` is that of the outcome."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason


def perform_http(
    claim: Claim,
    stop: Stop,
    output: Output,
    note: Callable[[str], None],
    allowed: tuple[Network, ...] = (),
    resolver: Resolver = resolve,
    tls: ssl.SSLContext | None = None,
) -> Outcome:
    """Send the request of a claim with rendered templates, and judge the response.

    Addresses that are not public are refused unless they are in an `allowed` network.
    """
    target = claim.spec.target
    assert isinstance(target, HttpTarget)  # noqa: S101 - the performer has looked
    timeout = claim.spec.timeout
    seconds = DEFAULT_TIMEOUT if timeout is None else timeout.total_seconds()
    began = time.monotonic()
    deadline = began + min(seconds, LONGEST_TIMEOUT)
    hide = hiding_run(claim)
    try:
        with httpcore2.ConnectionPool(
            ssl_context=tls or verified(),
            network_backend=OutboundConnections(stop, deadline, allowed, resolver),
            max_keepalive_connections=0,
        ) as pool:
            answer = _exchange(pool, target, claim, note)
    except Interrupted as error:
        if error.reason == "timeout":
            return Outcome("failed", "timeout", "it took longer than its timeout")
        return Outcome("cancelled", error.reason)
    except Failed as error:
        return Outcome("failed", error.reason, hide(str(error)))
    note(f"{_shown(answer.url)} returned {answer.status_line} in {time.monotonic() - began:.1f} s")
    answer.show(hide, output, note)
    kept = answer.kept(hide)
    if target.accepts(answer.status):
        return _with_ref(Outcome("succeeded", exit_code=answer.status, output=kept), answer, hide)
    wanted = ", ".join(map(str, target.expect))
    told = f"returned {answer.status_line}; expected {wanted}"
    return Outcome("failed", "http_status", hide(told), answer.status, kept)


def _with_ref(outcome: Outcome, answer: HttpResponse, hide: Callable[[str], str]) -> Outcome:
    """With the reference to a result in the response's header, if any, as for tasks."""
    ref = hide(str(answer.headers.get(OUTPUT_REF, "")).strip())
    if len(ref) > LONGEST_REF:
        told = f"header {OUTPUT_REF} has more than {LONGEST_REF:,} characters"
        return replace(outcome, status="failed", reason="output", error=told)
    return replace(outcome, output_ref=ref) if ref else outcome


@cache
def verified() -> ssl.SSLContext:
    """The machine's certificates, or those that SSL_CERT_FILE names; read once."""
    return ssl.create_default_context()


def _exchange(
    pool: httpcore2.ConnectionPool, target: HttpTarget, claim: Claim, note: Callable[[str], None]
) -> HttpResponse:
    """Follow redirects to a response; a redirect with an expected status is not followed."""
    request = _request(target, claim)
    for _ in range(MOST_REDIRECTS + 1):
        answer = send(pool, request)
        place = answer.headers.get("location")
        if answer.status not in (301, 302, 303, 307, 308) or not place:
            return answer
        if target.accepts(answer.status):
            return answer
        request = _redirected(request, answer.status, place, claim.secret_values)
        note(f"{answer.status} redirects to {_shown(request.url)}")
    raise Failed("redirect", f"there are more than {MOST_REDIRECTS} redirects")


def _request(target: HttpTarget, claim: Claim) -> httpx2.Request:
    run = claim.run
    headers = {
        "User-Agent": f"duebook/{__version__}",
        "Accept": "*/*",
        "Accept-Encoding": "identity",  # so that the bytes read are the bytes counted
    }
    content: bytes | None = None
    if target.json is not None:
        content = json.dumps(target.json, ensure_ascii=False).encode()
        headers["Content-Type"] = "application/json"
    elif target.body is not None:
        content = target.body.encode()
        headers["Content-Type"] = "text/plain; charset=utf-8"
    merged = httpx2.Headers(headers)
    merged.update(dict(target.headers))
    merged.update(
        {
            "Connection": "close",
            "Idempotency-Key": run.id,
            "Duebook-Attempt": str(run.attempt),
            "Duebook-Schedule": run.schedule or "",
            "Duebook-Due-At": format_instant(run.due_at or run.created_at),
        }
    )
    if claim.traceparent is not None:
        merged["traceparent"] = claim.traceparent
    return httpx2.Request(target.method, read_url(target.url), headers=merged, content=content)


def read_url(text: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise Failed("refused", f"the url cannot be used: {error}") from None
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise Failed("refused", "the url does not start with http:// or https:// and a host")
    return url


def send(pool: httpcore2.ConnectionPool, request: httpx2.Request) -> HttpResponse:
    url = request.url
    where = f"{url.host}:{url.port or {'http': 80, 'https': 443}[url.scheme]}"
    try:
        answer = pool.handle_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.read(),
            )
        )
        body, whole = _read(answer)
    except Refused as error:
        raise Failed(
            "refused", f"no request to {url.host}: {error}; the setting http_allow can allow it"
        ) from None
    except ssl.SSLError as error:
        told = getattr(error, "verify_message", "") or error.reason or str(error)
        raise Failed("tls", f"no secure connection to {where}: {told}") from None
    except httpcore2.ConnectError as error:
        raise Failed("connect", f"cannot connect to {where}: {error}") from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        raise Failed("protocol", f"{where} closed the connection: {error}") from None
    words = answer.extensions.get("reason_phrase", b"").decode("ascii", "replace")
    return HttpResponse(url, answer.status, words, httpx2.Headers(answer.headers), body, whole)


def _read(answer: httpcore2.Response) -> tuple[bytes, bool]:
    """The body within the limit, and whether that was all."""
    body = bytearray()
    try:
        for piece in answer.iter_stream():
            body += piece
            if len(body) > MOST_READ:
                return bytes(body[:MOST_READ]), False
    finally:
        answer.close()
    return bytes(body), True


def _redirected(
    request: httpx2.Request, status: int, place: str, secrets: SecretValues | None = None
) -> httpx2.Request:
    """The request after a redirect; another host gets no header that may be secret, and nothing
    that a reference to a secret has added to the request."""
    former = request.url
    try:
        url = read_url(str(former.join(place)))
    except (Failed, httpx2.InvalidURL, ValueError):
        raise Failed("redirect", f"{status} redirects to an unusable address") from None
    if former.scheme == "https" and url.scheme == "http":
        raise Failed("redirect", f"{status} redirects from https to http")
    headers, method, content = httpx2.Headers(request.headers), request.method, request.read()
    del headers["Host"]
    is_elsewhere = (url.scheme, url.host, url.port) != (former.scheme, former.host, former.port)
    if is_elsewhere:
        for name in list(headers):
            is_private = not is_public_header(name) and not name.startswith(_OURS)
            if is_private or (secrets and secrets.carried_by(headers[name])):
                del headers[name]
    if method != "HEAD" and (status == 303 or (status in (301, 302) and method == "POST")):
        method, content = "GET", b""
        for name in ("Content-Type", "Content-Length"):
            headers.pop(name, None)
    if secrets and is_elsewhere and secrets.carried_by(content):
        raise Failed(
            "redirect",
            f"{status} redirects a body with secrets to {url.host}; give that url if it is right",
        )
    return httpx2.Request(method, url, headers=headers, content=content or None)


def _shown(url: httpx2.URL) -> str:
    """Without its query, which may have a secret."""
    port = "" if url.port is None else f":{url.port}"
    host = f"[{url.host}]" if ":" in url.host else url.host
    path = url.raw_path.decode("ascii").partition("?")[0]
    return f"{url.scheme}://{host}{port}{path}{'?…' if url.query else ''}"
