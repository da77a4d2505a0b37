"""What a server refuses becomes the error that the books themselves raise."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import httpx2
import pytest

import duebook
from duebook.api.problems import InvalidFields, Problem, Unauthorized, problem_of
from duebook.errors import (
    Conflict,
    DuebookError,
    Forbidden,
    Invalid,
    InvalidTime,
    InvalidTrigger,
    KeyReused,
    NotFound,
    QuotaReached,
    Unavailable,
)
from duebook.model.filters import InvalidFilter
from duebook.model.listing import BadCursor
from duebook.model.schedule import InvalidSchedule
from duebook.remote.problems import error_of

URL = "http://127.0.0.1:7420"


def through(error: Exception) -> DuebookError:
    """The error that a client has when a server raises this one."""
    return answered(problem_of(error))


def answered(problem: Problem) -> DuebookError:
    headers = {"content-type": "application/problem+json"}
    return error_of(httpx2.Response(problem.status, headers=headers, json=problem.form()), URL)


@pytest.mark.parametrize(
    "error",
    [
        Conflict("it was changed"),
        Forbidden("you may not"),
        Invalid("that is wrong"),
        InvalidTime("no time"),
        InvalidTrigger("no trigger", "cron"),
        InvalidSchedule({"trigger": "trigger is missing", "target": "target is missing"}),
        KeyReused("another body"),
        InvalidFilter({"status": "no such status"}),
        BadCursor("not of this list"),
        NotFound("nobody"),
        QuotaReached("no room"),
        Unavailable("not now"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_of_the_books_is_the_same_far_away(error: DuebookError) -> None:
    found = through(error)
    assert type(found) is type(error)
    assert (found.code, str(found), vars(found)) == (error.code, str(error), vars(error))


def kinds() -> list[type[DuebookError]]:
    """Every error that Duebook has."""
    for info in pkgutil.walk_packages(duebook.__path__, "duebook."):
        if "django" not in info.name and not info.name.endswith("__main__"):
            importlib.import_module(info.name)
    found, left = [], [DuebookError]
    while left:
        kind = left.pop()
        found.append(kind)
        left += kind.__subclasses__()
    return [kind for kind in found if kind.__module__.startswith("duebook.")]


FAMILIES = (Invalid, NotFound, Conflict, Forbidden, Unavailable)


def test_every_code_and_family_comes_through() -> None:
    for kind in kinds():
        error: Any = kind.__new__(kind)
        Exception.__init__(error, "words")
        error.problems, error.field = {"field": "words"}, "field"
        found = through(error)
        assert found.code == kind.code
        family = next((family for family in FAMILIES if issubclass(kind, family)), None)
        if family is not None:
            assert isinstance(found, family), kind


def test_a_token_that_is_none_is_an_error_of_its_own() -> None:
    found = through(Unauthorized("send a token"))
    assert (type(found), found.code) == (DuebookError, "unauthorized")


def test_fields_of_another_kind_of_request_are_in_the_words() -> None:
    found = through(
        InvalidFields({"until": "until is not a time", "why": "why is not a field here"})
    )
    assert isinstance(found, Invalid)
    assert str(found) == "until is not a time; why is not a field here"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (httpx2.Response(502, text="<h1>Bad gateway</h1>"), Unavailable),
        (httpx2.Response(404, text="<h1>Not found</h1>"), DuebookError),
        (httpx2.Response(500, json={"oh": "no"}), DuebookError),
        (
            httpx2.Response(409, text="[", headers={"content-type": "application/problem+json"}),
            DuebookError,
        ),
        (httpx2.Response(301, headers={"location": "https://elsewhere"}), DuebookError),
    ],
)
def test_whoever_is_no_duebook_is_told_apart(
    answer: httpx2.Response, kind: type[DuebookError]
) -> None:
    found = error_of(answer, URL)
    assert type(found) is kind
    assert f"{URL} returned {answer.status_code}, but not as a Duebook server would" in str(found)
