"""One cookie of a request, read in linear time."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from duebook.api.cookies import read_cookie
from tests.support.waiting import takes_less_than


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        (["a=1; session=x.y; b=2"], "x.y"),
        (['session="Europe/Berlin"'], "Europe/Berlin"),
        (["session=x=y"], "x=y"),
        (["session=1; session=2"], "2"),
        (["a=1", "session=2"], "2"),
        (["session="], ""),
        (["session"], ""),
        (["xsession=1; sessionx=2"], None),
        ([], None),
    ],
)
def test_a_cookie_is_found_by_its_name(sent: list[str], value: str | None) -> None:
    headers = Headers(raw=[(b"cookie", text.encode()) for text in sent])
    assert read_cookie(headers, "session") == value


def test_a_long_cookie_full_of_escapes_takes_no_time() -> None:
    headers = Headers({"cookie": 'session="' + '\\"' * 100_000 + '"'})
    assert takes_less_than(0.1, lambda: read_cookie(headers, "session"))
