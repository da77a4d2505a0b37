"""What a message to Celery carries, in a broker in memory; brokers that do not answer."""

from __future__ import annotations

import socket
import sys
from contextlib import closing, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import pytest
from amqp.exceptions import AccessRefused, PreconditionFailed
from celery import Celery
from celery.backends.database import DatabaseBackend
from kombu.connection import Connection
from kombu.messaging import Producer
from opentelemetry.trace import get_current_span
from redis.exceptions import NoPermissionError

from duebook.errors import Unavailable
from duebook.model.target import load_target
from duebook.targets.celery_broker import MaybeSent, NotRevoked
from duebook.targets.celery_link import CeleryLink
from duebook.targets.celery_states import UNREADABLE, CeleryRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duebook.model.celery_target import CeleryTarget

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")

TARGET = cast("CeleryTarget", load_target({"celery": "some.task"}))
HEADER = f"00-{7:032x}-{9:016x}-01"


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("traced", broker="memory://", backend="cache+memory://", set_as_current=False)
    yield app
    app.close()


def sent(app: Celery, traceparent: str | None, **parts: Any) -> dict[str, Any]:
    """The headers of the message of a task."""
    target = cast("CeleryTarget", load_target({"celery": "proj.add", "args": [1], **parts}))
    CeleryLink(app).broker().send(target, {}, "r-1", True, traceparent)
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


def test_tasks_are_revoked_in_one_message_that_workers_understand(app: Celery) -> None:
    """As Celery's own `control.revoke` sends it."""
    found = []
    with app.connection_for_write() as connection:
        node = app.control.mailbox(connection).Node("worker", channel=connection.default_channel)
        node.handlers["revoke"] = lambda _state, **given: found.append(given)
        consumer = node.listen()
        CeleryLink(app).broker().revoke(["r-1", "s-1"], terminate=True)
        app.control.revoke(["r-1", "s-1"], terminate=True, connection=connection)
        connection.drain_events(timeout=5)
        connection.drain_events(timeout=5)
        consumer.cancel()
    assert found == [{"task_id": ["r-1", "s-1"], "terminate": True, "signal": "SIGTERM"}] * 2


REFUSALS = [
    ("memory", AccessRefused("pidbox")),
    ("memory", PreconditionFailed("pidbox")),
    ("redis", NoPermissionError("pidbox")),
]


@pytest.mark.parametrize(("kind", "error"), REFUSALS)
def test_a_broker_that_refuses_to_revoke_counts_as_reached(
    app: Celery, monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception
) -> None:
    def publish(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Producer, "publish", publish)
    broker = CeleryLink(app).broker()
    known = cast("Any", Connection)(f"{kind}://")
    for name in ("recoverable_connection_errors", "channel_errors"):
        monkeypatch.setattr(Connection, name, getattr(known, name))
    with pytest.raises(NotRevoked, match=f"{type(error).__name__}: .*pidbox"):
        broker.revoke(["r-1"], terminate=False)


@pytest.fixture
def place() -> Iterator[str]:
    """Bound and not listening: nobody else takes the port, and connections are refused."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{deaf.getsockname()[1]}"


@pytest.fixture
def black_hole() -> Iterator[str]:
    """Connections are accepted, and nothing is ever answered."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen()
        yield f"127.0.0.1:{hole.getsockname()[1]}"


WORKS: dict[str, Callable[[CeleryLink], object]] = {
    "send": lambda link: link.broker().send(TARGET, {}, "r-1", bare=True),
    "revoke": lambda link: link.broker().revoke(["r-1"], terminate=False),
    "connect": lambda link: link.broker().connect(),
    "look": lambda link: link.results().look(["r-1"]),
    "mark": lambda link: link.results().mark("r-1"),
}


@pytest.mark.parametrize("work", ["send", "revoke", "connect"])
def test_a_broker_that_is_down_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, place: str, work: str
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("kombu.utils.functional.sleep", pauses.append)
    with (
        linked(f"amqp://{place}//", "cache+memory://") as link,
        pytest.raises(Unavailable, match="the broker of Celery cannot be reached"),
    ):
        WORKS[work](link)
    assert sum(pauses) == 0


def test_each_host_of_a_broker_is_tried(place: str) -> None:
    with linked(f"amqp://{place}//;amqp://{place}//;memory://", "cache+memory://") as link:
        WORKS["send"](link)


@pytest.mark.parametrize("kind", ["redis", "amqp"])
@pytest.mark.parametrize("work", ["send", "revoke", "connect"])
def test_a_broker_that_never_answers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, black_hole: str, kind: str, work: str
) -> None:
    for name in ("CONNECT_WITHIN", "ANSWER_WITHIN"):
        monkeypatch.setattr(f"duebook.targets.celery_broker.{name}", 0.2)
    with (
        linked(f"{kind}://{black_hole}//", "cache+memory://") as link,
        pytest.raises(Unavailable, match="the broker of Celery cannot be reached") as raised,
    ):
        WORKS[work](link)
    assert not isinstance(raised.value, MaybeSent)


@pytest.mark.parametrize("work", ["look", "mark"])
def test_a_backend_that_never_answers_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, black_hole: str, work: str
) -> None:
    monkeypatch.setattr("duebook.targets.celery_results.ANSWER_WITHIN", 0.2)
    with (
        linked("memory://", f"redis://{black_hole}/0") as link,
        pytest.raises(Unavailable, match="the result backend of Celery cannot be reached"),
    ):
        WORKS[work](link)


class Lost:
    """Found by nobody who reads a pickle of it, once its module is gone."""

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr(sys.modules["a_lost_module"], "made"), ()  # noqa: B009 - not its own


def test_a_record_that_cannot_be_read_fails_no_other_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("a_lost_module")
    exec("def made(): return None", vars(module))  # noqa: S102
    with linked("memory://", f"db+sqlite:///{tmp_path}/results.db") as link:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "a_lost_module", module)
            link.app.backend.store_result("bad-1", Lost(), "SUCCESS")
        link.app.backend.store_result("good-1", 3, "SUCCESS")
        found = link.results().look(["bad-1", "good-1", "new-1"])
    assert (found["bad-1"].state, found["good-1"].result) == (UNREADABLE, 3)
    assert "a_lost_module" in found["bad-1"].result
    assert found["new-1"] == CeleryRecord()


def test_a_backend_without_keys_that_is_down_says_nothing_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_task_meta(*_: Any, **__: Any) -> None:
        raise ConnectionError("gone")

    with linked("memory://", f"db+sqlite:///{tmp_path}/results.db") as link:
        results = link.results()
        monkeypatch.setattr(DatabaseBackend, "get_task_meta", get_task_meta)
        with pytest.raises(Unavailable, match="the result backend of Celery cannot be reached"):
            results.look(["r-1"])


@contextmanager
def linked(broker: str, backend: str) -> Iterator[CeleryLink]:
    with closing(Celery("far", broker=broker, backend=backend, set_as_current=False)) as app:
        yield CeleryLink(app)
