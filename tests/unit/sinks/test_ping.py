"""Pings: which request tells which end of a run, and which ends say nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duebook.errors import Unavailable
from duebook.model.ping import ping_url
from duebook.sinks.ping import PingSink
from tests.support.event_builders import delivery

if TYPE_CHECKING:
    from duebook.model.consumer import Delivery

URL = "https://hc-ping.com/u-1"


class Service:
    """Answers as it is told, and keeps what it was sent."""

    def __init__(self, *statuses: int | None) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self._statuses = list(statuses)

    def __call__(self, url: str, headers: dict[str, str], body: bytes) -> int:
        assert headers["Content-Type"].startswith("text/plain")
        self.sent.append((url, body))
        status = self._statuses.pop(0) if self._statuses else 200
        if status is None:
            raise Unavailable("nobody is there")
        return status

    def stop(self) -> None: ...


def ended(number: int, status: str, key: str = "etl", **more: Any) -> Delivery:
    found = delivery(number, key)
    data = {"run": f"r-{number}", "status": status, "step": None, "reason": None, "error": None}
    event = replace(
        found.event,
        type=f"run.{status}",
        data=data | more.pop("data", {}),
        meta={"origin": more.pop("origin", "schedule")},
    )
    return found._replace(event=event, **more)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        (URL, f"{URL}/fail"),
        (f"{URL}/", f"{URL}/fail"),
        ("https://hc-ping.com/key/etl?create=1", "https://hc-ping.com/key/etl/fail?create=1"),
    ],
)
def test_a_failure_goes_to_the_same_url_with_fail(url: str, wanted: str) -> None:
    assert ping_url(url, "run.succeeded") == url
    assert ping_url(url, "run.failed") == ping_url(url, "run.partial") == wanted


def test_the_end_of_a_run_is_one_request_with_its_error() -> None:
    service = Service()
    failed = {"reason": "exit_code", "error": "exit code 3"}
    report = PingSink({"etl": URL}, service).deliver(
        [ended(1, "succeeded"), ended(2, "failed", data=failed), ended(3, "partial")]
    )
    assert (report.rejected, report.undelivered, report.untried) == ({}, {}, set())
    assert service.sent == [
        (URL, b""),
        (f"{URL}/fail", b"run r-2 failed\nexit_code\nexit code 3"),
        (f"{URL}/fail", b"run r-3 partial"),
    ]


def test_what_says_nothing_about_the_present_is_left_out() -> None:
    service = Service()
    sink = PingSink({"etl": URL}, service)
    sink.deliver(
        [
            ended(1, "failed", data={"step": "load"}),
            ended(2, "succeeded", origin="backfill"),
            ended(3, "succeeded", replay=True),
            ended(4, "succeeded", key="unknown"),
        ]
    )
    assert service.sent == []
    sink.deliver([ended(5, "succeeded", replay=True, letter=True)])
    assert len(service.sent) == 1, "a dead letter is sent when somebody wants that"


def test_a_service_that_is_busy_or_refuses_holds_up_its_schedule_only() -> None:
    service = Service(503, 404, None)
    report = PingSink({"etl": URL, "b": URL, "c": URL}, service).deliver(
        [
            *(ended(1, "succeeded"), ended(2, "succeeded"), ended(3, "succeeded", key="b")),
            *(ended(4, "succeeded", key="c"), ended(5, "failed", key="b")),
        ]
    )
    assert set(report.undelivered) == {"e1", "e4"}
    assert report.rejected == {"e3": "it returned 404"}
    assert report.untried == {"e2", "e5"}
