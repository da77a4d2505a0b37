"""Turns error responses of a server into the errors that a local client would raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.errors import (
    Conflict,
    DuebookError,
    Forbidden,
    Invalid,
    InvalidTime,
    InvalidTrigger,
    KeyReused,
    NotFound,
    OverBudget,
    QuotaReached,
    Unavailable,
    WaitTimeout,
    shorten,
)
from duebook.model.filters import InvalidFilter
from duebook.model.listing import BadCursor
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    import httpx2

__all__ = ["error_of"]

_KNOWN: Final = {
    kind.code: kind
    for kind in (
        BadCursor,
        Conflict,
        Forbidden,
        Invalid,
        InvalidTime,
        KeyReused,
        NotFound,
        OverBudget,
        QuotaReached,
        Unavailable,
        WaitTimeout,
    )
}
_FAMILIES: Final[dict[int, type[DuebookError]]] = {
    400: Invalid,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    428: Invalid,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
"""For codes without a class here."""


def error_of(answer: httpx2.Response, url: str) -> DuebookError:
    """The error of a response; one without problem+json is not from a Duebook server."""
    form = _form(answer)
    code, detail = form.get("code"), form.get("detail")
    if not isinstance(code, str) or not isinstance(detail, str):
        family = _FAMILIES.get(answer.status_code, DuebookError)
        if family is not Unavailable:
            family = DuebookError
        return family(
            f"{url} returned {answer.status_code}, but not as a Duebook server would; check the "
            "address"
        )
    return _error(code, detail, answer.status_code, _fields(form))


def _error(code: str, detail: str, status: int, fields: dict[str, str]) -> DuebookError:
    if code == InvalidSchedule.code and fields:
        return InvalidSchedule(fields)
    if code == InvalidFilter.code and fields:
        return InvalidFilter(fields)
    if code == InvalidTrigger.code and fields:
        return InvalidTrigger(detail, next(iter(fields)))
    if code in _KNOWN:
        return _KNOWN[code](detail)
    error = _FAMILIES.get(status, DuebookError)(detail)
    error.code = code
    return error


def _form(answer: httpx2.Response) -> dict[str, Any]:
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    try:
        form = answer.json()
    except ValueError:
        return {}
    return form if isinstance(form, dict) else {}


def _fields(form: dict[str, Any]) -> dict[str, str]:
    errors = form.get("errors")
    if not isinstance(errors, list):
        return {}
    return {
        shorten(error["field"]): str(error["message"])
        for error in errors
        if isinstance(error, dict) and {"field", "message"} <= error.keys()
    }
