"""Which answers are compressed, and that nothing else is."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from starlette.requests import Request

from duebook.api.answers import Answer, about_schedule
from duebook.api.compression import LEAST, accepts_gzip
from duebook.clock import utc_now
from duebook.model.schedule import Schedule
from tests.support.builders import make_spec

LONG = {"items": ["x" * LEAST]}
ACCEPTS = {"accept-encoding": "gzip, deflate", "authorization": "Bearer x"}


def asked(method: str = "GET", **headers: str) -> Request:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "headers": raw})


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5, br", True),
        ("gzip; q=1.0", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip; q = 0.000", False),
        ("identity", False),
        ("br", False),
        ("notgzip", False),
        ("", False),
        (",;,q=", False),
    ],
)
def test_gzip_is_accepted_where_it_is_named_and_not_refused(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


def test_long_json_is_compressed_for_a_program_that_accepts_it() -> None:
    plain = Answer(LONG).response()
    response = Answer(LONG).response(asked(**ACCEPTS))
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["vary"] == "Accept-Encoding"
    assert response.headers["content-length"] == str(len(response.body))
    assert len(response.body) < len(plain.body) // 10
    assert gzip.decompress(response.body) == plain.body


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        ({"items": []}, asked(**ACCEPTS)),
        (LONG, asked(**ACCEPTS | {"accept-encoding": "identity"})),
        (LONG, asked(authorization="Bearer x")),
        (LONG, asked(cookie="duebook_session=x", **{"accept-encoding": "gzip"})),
        (LONG, asked("POST", **ACCEPTS)),
    ],
    ids=["short", "refused", "not asked for", "by a cookie", "a write"],
)
def test_other_answers_stay_as_they_are(body: Any, request_: Request) -> None:
    response = Answer(body).response(request_)
    assert "content-encoding" not in response.headers
    assert response.body == Answer(body).response().body


def test_an_entity_tag_stands_for_one_body() -> None:
    spec = make_spec(description="x" * LEAST)
    schedule = Schedule("id", "default", "job", 3, spec, "active", utc_now())
    response = about_schedule(schedule).response(asked(**ACCEPTS))
    assert response.headers["etag"] == '"3"'
    assert "content-encoding" not in response.headers
