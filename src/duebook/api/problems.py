"""Errors as RFC 9457 problem details: the status of each family, and what a client is told."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from duebook.errors import (
    Conflict,
    DuebookError,
    Forbidden,
    Invalid,
    InvalidTrigger,
    NotFound,
    Unavailable,
)
from duebook.lazy_dataclasses import dataclass
from duebook.model.filters import InvalidFilter
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.responses import Response
    from starlette.types import Scope

    Explain = Callable[[Scope, Exception], Response]

__all__ = [
    "Busy",
    "InvalidFields",
    "InvalidParameters",
    "Malformed",
    "Problem",
    "TooLarge",
    "Unauthorized",
    "VersionNeeded",
    "WrongMediaType",
    "explain_problem",
    "problem_of",
]

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = "5"
RETRY_SOON: Final = "1"


class Malformed(Invalid):
    """A request that cannot be read: invalid JSON, an unknown parameter."""

    code = "malformed"


class Unauthorized(DuebookError):
    """The request has no valid credentials."""

    code = "unauthorized"


class TooLarge(Invalid):
    """The body of a request is longer than allowed."""

    code = "too_large"


class WrongMediaType(Invalid):
    """The content type of a request's body is not JSON."""

    code = "media_type"


class Busy(Unavailable):
    """Too many requests of the same kind are in progress."""

    code = "busy"


class VersionNeeded(Invalid):
    """Replacing a whole definition requires the version that it replaces."""

    code = "version_needed"


class InvalidFields(Invalid):
    """Several fields of a request are wrong; `problems` maps each to its message."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = dict(problems)


class InvalidParameters(InvalidFields, Malformed):
    """Parameters of the query, or headers, that cannot be read."""


_STATUSES: Final[tuple[tuple[type[DuebookError], int], ...]] = (
    (Malformed, 400),
    (Unauthorized, 401),
    (TooLarge, 413),
    (WrongMediaType, 415),
    (VersionNeeded, 428),
    (Invalid, 422),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (Unavailable, 503),
)
"""The first matching family counts."""

_CODES: Final = {"bad_cursor": 400, "invalid_filter": 400, "key_reused": 422, "busy": 429}
"""Codes with a status other than their family's."""

_TITLES: Final = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Too large",
    414: "Too large",
    415: "JSON is needed",
    422: "Invalid request",
    428: "A version is needed",
    429: "Too many requests",
    431: "Too large",
    500: "Internal error",
    503: "Temporarily unavailable",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a client sees it."""

    status: int
    code: str
    detail: str
    errors: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def form(self) -> dict[str, Any]:
        form: dict[str, Any] = {
            "type": "about:blank",
            "title": _TITLES.get(self.status, "Refused"),
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if self.errors:
            form["errors"] = [
                {"field": name, "message": text} for name, text in self.errors.items()
            ]
        return form

    def response(self) -> JSONResponse:
        return JSONResponse(self.form(), self.status, dict(self.headers), MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """The problem for an error; an unexpected error reveals no internals."""
    match error:
        case DuebookError():
            status = _CODES.get(error.code) or next(
                (status for kind, status in _STATUSES if isinstance(error, kind)), 500
            )
            return Problem(status, error.code, str(error), _fields(error), _headers(status))
        case HTTPException():
            code = {404: "no_route", 405: "no_method"}.get(error.status_code, "refused")
            what = "method is not allowed" if error.status_code == 405 else "address does not exist"
            detail = f"this {what}"
            return Problem(error.status_code, code, detail, headers=error.headers or {})
    return Problem(500, "internal", "unexpected error; see the server's log")


def _fields(error: DuebookError) -> Mapping[str, str]:
    if isinstance(error, InvalidSchedule | InvalidFields | InvalidFilter):
        return error.problems
    return {error.field: str(error)} if isinstance(error, InvalidTrigger) else {}


def _headers(status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="duebook"'}
    if status == 429:
        return {"Retry-After": RETRY_SOON}
    return {"Retry-After": RETRY_AFTER} if status == 503 else {}


def explain_problem(_: Scope, error: Exception) -> Response:
    """An error response for programs."""
    return problem_of(error).response()
