"""What a message to Celery carries, in a broker in memory."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, cast

import pytest
from celery import Celery
from opentelemetry.trace import get_current_span

from duebook.errors import Unavailable
from duebook.model.target import load_target
from duebook.targets.celery_link import CeleryLink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.model.celery_target import CeleryTarget

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")

HEADER = f"00-{7:032x}-{9:016x}-01"


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("traced", broker="memory://", backend="cache+memory://", set_as_current=False)
    yield app
    app.close()


def sent(app: Celery, traceparent: str | None, **parts: Any) -> dict[str, Any]:
    """The headers of the message of a task."""
    target = cast("CeleryTarget", load_target({"celery": "proj.add", "args": [1], **parts}))
    CeleryLink(app).send(target, {}, "r-1", True, traceparent)
    with app.connection_for_read() as connection:
        message = connection.default_channel.basic_get("celery")
    return dict(message.headers)


def test_a_message_carries_the_trace_context_of_the_attempt(app: Celery) -> None:
    assert sent(app, HEADER)["traceparent"] == HEADER


def test_a_message_without_tracing_has_no_trace_context(app: Celery) -> None:
    assert "traceparent" not in sent(app, None)


def test_a_header_of_the_target_is_kept(app: Celery) -> None:
    assert sent(app, HEADER, headers={"traceparent": "own"})["traceparent"] == "own"


def test_what_the_program_does_while_it_publishes_belongs_to_the_attempt(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As instrumented apps do, which write a span of their own for each message."""
    spans = []
    original = app.send_task

    def send_task(*given: Any, **options: Any) -> Any:
        spans.append(get_current_span().get_span_context())
        return original(*given, **options)

    monkeypatch.setattr(app, "send_task", send_task)
    sent(app, HEADER)
    assert [(span.trace_id, span.span_id) for span in spans] == [(7, 9)]


@pytest.mark.parametrize("work", ["send", "revoke"])
def test_a_broker_that_is_down_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    """One thread serves all runs: it is the one that tries again, later."""
    pauses: list[float] = []
    monkeypatch.setattr("kombu.utils.functional.sleep", pauses.append)
    with socket.socket() as deaf:  # bound and not listening: nobody else takes the port
        deaf.bind(("127.0.0.1", 0))
        place = f"amqp://127.0.0.1:{deaf.getsockname()[1]}//"
        app = Celery("down", broker=place, backend="cache+memory://", set_as_current=False)
        link = CeleryLink(app)
        target = cast("CeleryTarget", load_target({"celery": "some.task"}))
        works: dict[str, Callable[[], object]] = {
            "send": lambda: link.send(target, {}, "r-1", bare=True),
            "revoke": lambda: link.revoke("r-1", terminate=False),
        }
        with pytest.raises(Unavailable, match="the broker of Celery cannot be reached"):
            works[work]()
        app.close()
    assert sum(pauses) == 0
