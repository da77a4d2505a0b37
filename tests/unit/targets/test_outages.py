"""When services that failed are tried again, and what is said about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.targets.outages import Outages

if TYPE_CHECKING:
    import pytest


class World:
    def __init__(self) -> None:
        self.now = 0.0
        names = {"broker": "the broker of Celery", "backend": "the result backend of Celery"}
        self.outages = Outages(lambda: self.now, names)


def test_a_service_that_failed_is_not_tried_for_a_while_longer_each_time() -> None:
    world, waits = World(), []
    assert world.outages.may("broker")
    for _ in range(4):
        world.outages.failed("broker", "no broker")
        assert not world.outages.may("broker")
        waits.append(world.outages.wait("broker"))
        world.now += waits[-1]
        assert world.outages.may("broker")
    assert waits == sorted(set(waits))


def test_services_fail_separately() -> None:
    outages = World().outages
    outages.failed("broker", "no broker")
    assert outages.may("backend")
    assert outages.reasons == {"broker": "no broker"}
    outages.failed("backend", "no backend")
    assert outages.reached("broker")
    assert outages.reasons == {"backend": "no backend"}


def test_an_outage_and_its_end_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    outages = World().outages
    assert not outages.reached("broker")
    for _ in range(3):
        outages.failed("broker", "no broker")
    assert outages.reached("broker")
    assert not outages.reached("broker")
    assert caplog.messages == [
        "no broker; trying again",
        "the broker of Celery can be reached again",
    ]
