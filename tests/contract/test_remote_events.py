"""Events through a server, from Python: the same methods, except those that need the database."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from duebook import Duebook
from duebook.errors import Conflict, Forbidden, Invalid, InvalidTime, NotFound
from duebook.ids import new_id
from duebook.model.listing import BadCursor
from duebook.remote import RemoteBook
from duebook.remote.needs import NeedsDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.serving import Served

HOOK = "https://example.com/hooks"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "books.db"


@pytest.fixture
def server(served: Served, path: Path) -> Iterator[Served]:
    store = served.use(path)
    yield served
    store.close()


@pytest.fixture
def remote(server: Served) -> Iterator[RemoteBook]:
    with RemoteBook(server.url, "admin") as opened:
        yield opened


def test_the_log_is_published_to_listed_and_followed(remote: RemoteBook) -> None:
    ids = [remote.events.publish("orders", {"n": n}, key=str(n % 2)) for n in range(5)]
    assert [event.id for event in remote.events.list("orders")] == ids
    assert [event.id for event in remote.events.list("*", limit=2)] == ids[:2]
    assert [event.id for event in remote.events.list(["orders", "other"], after=3)] == ids[3:]
    assert [event.data["n"] for event in remote.events.list(key="1")] == [1, 3]
    assert [event.id for event in remote.events.latest(limit=2)] == ids[3:]
    assert remote.events.get(ids[0]).id == ids[0]
    assert remote.events.position() == 5
    assert remote.events.position("2020-01-01T00:00:00Z") == 0
    assert [(use.topic, use.events) for use in remote.events.topics()] == [("orders", 5)]
    followed = remote.events.tail("orders", since="2020-01-01T00:00:00Z", pause=lambda _: None)
    assert [event.id for event in islice(followed, 5)] == ids
    ids.append(remote.events.publish("orders"))
    assert next(followed).id == ids[-1]


def test_more_than_a_server_gives_at_once_is_asked_for_in_parts(
    remote: RemoteBook, server: Served, path: Path
) -> None:
    assert server.url
    with Duebook(f"sqlite:///{path}") as here:
        for number in range(1_100):
            here.events.publish("t", number)
    assert [event.data for event in remote.events.list(limit=1_050)] == list(range(1_050))
    assert [event.data for event in remote.events.latest(limit=1_050)] == list(range(50, 1_100))


def test_secrets_stay_where_they_are(remote: RemoteBook, server: Served, path: Path) -> None:
    event_id = remote.events.publish("orders", {"token": "hunter2"})
    assert remote.events.get(event_id).data == {"token": "***"}
    sink, secret = remote.events.add_sink("hooks", "webhook", "orders", url=HOOK)
    assert sink.options == {"url": HOOK, "secret": "***"}
    assert (sink.topics, sink.namespace, sink.kind) == (("orders",), "default", "webhook")
    assert secret is not None
    again, none = remote.events.add_sink("hooks", "webhook", **sink.options)
    assert (again.topics, none) == (None, None)
    with Duebook(f"sqlite:///{path}") as here:
        assert here.events.get(event_id).data == {"token": "hunter2"}
        assert here.events.sinks()[0].options["secret"] == secret
    with RemoteBook(server.url, "operator") as operator, pytest.raises(Forbidden):
        operator.events.add_sink("mine", "webhook", url=HOOK)


def test_sinks_with_filters_and_pings_are_the_same_from_afar(
    remote: RemoteBook, server: Served, path: Path
) -> None:
    assert server.url
    remote.schedules.create("etl", trigger={"cron": "@daily"}, target={"command": ["true"]})
    remote.events.set_ping("etl", "https://hc-ping.com/eb095278-secret")
    remote.events.add_sink(
        *("hooks", "webhook"), url=HOOK, types=["run.failed"], labels={"team": "data"}
    )
    hooks, pings = remote.events.sinks()
    assert (hooks.types, hooks.labels) == (("run.failed",), {"team": "data"})
    assert pings.options == {"urls": {"etl": "https://hc-ping.com/***"}}
    with Duebook(f"sqlite:///{path}") as here:
        assert here.events.sinks()[1].options["urls"]["etl"].endswith("eb095278-secret")
    remote.events.remove_ping("etl")
    assert [sink.name for sink in remote.events.sinks()] == ["hooks"]


def test_who_reads_the_log_is_looked_at_and_forgotten(
    remote: RemoteBook, server: Served, path: Path
) -> None:
    assert server.url
    remote.events.publish("orders")
    with Duebook(f"sqlite:///{path}") as here:
        for _ in here.events.consume("orders", "billing", follow=False):
            pass
        assert remote.events.consumers() == here.events.consumers()
        assert remote.events.lags() == here.events.lags()
        assert remote.events.partitions("billing") == here.events.partitions("billing")
    assert remote.events.sinks() == []
    assert remote.events.replay("billing", after=0) == (0, 1)
    assert remote.events.replay_dead("billing") == 0
    assert remote.events.dead_letters("billing") == []
    remote.events.remove("billing")
    assert remote.events.consumers() == []


def test_refusals_are_those_of_the_books(remote: RemoteBook) -> None:
    with pytest.raises(NotFound):
        remote.events.get(new_id())
    with pytest.raises(NotFound):
        remote.events.remove("nobody")
    with pytest.raises(NotFound):
        remote.events.drop_dead("nobody", "../../x")
    with pytest.raises(NotFound):
        remote.events.partitions("../queues")
    with pytest.raises(Invalid):
        remote.events.publish("a b")
    with pytest.raises(Invalid):
        remote.events.list("a b")
    with pytest.raises(BadCursor):
        remote.events.page(cursor="x")
    remote.events.add_sink("bus", "kafka", servers="k:9092")
    with pytest.raises(Conflict):
        remote.events.add_sink("bus", "webhook", url=HOOK)
    with pytest.raises(Invalid, match="url"):
        remote.events.add_sink("hooks", "webhook")


def test_a_filter_that_does_not_exist_is_refused_by_the_server(remote: RemoteBook) -> None:
    wrong: dict[str, Any] = {"staus": "active"}
    with pytest.raises(Invalid, match='"staus" is not a parameter here'):
        remote.schedules.list(**wrong)
    with pytest.raises(TypeError):
        remote.schedules.get("job", **wrong)


def test_arguments_that_are_wrong_are_refused_as_by_the_books(remote: RemoteBook) -> None:
    nothing: Any = None
    number: Any = 5
    with pytest.raises(InvalidTime):
        remote.schedules.reschedule("job", nothing)
    with pytest.raises(InvalidTime):
        remote.readiness(nothing)
    with pytest.raises(Invalid, match="url None"):
        remote.events.add_sink("hooks", "webhook")
    with pytest.raises(Invalid, match="topics 5"):
        remote.events.page(number)
    with pytest.raises(Invalid, match='limit "few"'):
        remote.runs.list(limit="few")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"get\(\): missing"):
        remote.schedules.get()  # type: ignore[call-arg]


def test_what_needs_a_transaction_says_so(remote: RemoteBook) -> None:
    with pytest.raises(NeedsDatabase, match="give --database"):
        remote.events.consume("orders", "billing")
    with pytest.raises(NeedsDatabase, match="give --database"):
        remote.events.consumer("orders", "billing")
    with pytest.raises(NeedsDatabase, match="give --database"):
        remote.events.serve()
    with pytest.raises(NeedsDatabase, match="give --database"):
        remote.events.publish("orders", connection=object())
