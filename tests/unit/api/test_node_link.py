"""What a web process hears of its node, and what it says when the node is silent."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api.metrics import Metrics
from duebook.api.node_link import Heartbeat, Line, NodeLink, answer_asks
from duebook.book.readiness import look_here
from duebook.engine.measures import Measures
from duebook.errors import Unavailable
from duebook.store.sqlite import SqliteStore
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SOON = 0.05


@contextmanager
def linked(
    answers: dict[str, Callable[[], Any]] | None, within: float = PATIENCE
) -> Iterator[tuple[NodeLink, socket.socket]]:
    """The web's side of a link, and the node's socket; without answers the node is silent."""
    node, web = socket.socketpair()
    ours, theirs = Line(node), Line(web)
    link = NodeLink(theirs, within)
    threads = [threading.Thread(target=link.listen)]
    if answers is not None:
        threads.append(threading.Thread(target=answer_asks, args=(ours, answers)))
    for thread in threads:
        thread.start()
    try:
        yield link, node
    finally:
        for line in (ours, theirs):
            line.let_go()
        for thread in threads:
            thread.join()
        ours.close()
        theirs.close()


def counted() -> Measures:
    measures = Measures()
    measures.took_over(3, 1)
    measures.step_failed("ticker")
    measures.lateness.add([0.02, 400.0])
    return measures


def test_a_node_tells_its_trouble_and_what_it_counted() -> None:
    told = ["this node is stopping", None]
    answers = {"trouble": lambda: told.pop(0), "measures": counted().to_json}
    with linked(answers) as (link, _):
        assert link.trouble() == "this node is stopping"
        assert link.trouble() is None
        measures = link.measures()
    assert measures is not None
    assert measures.takeovers == 3
    assert measures.step_failures == Counter(ticker=1)
    assert measures.lateness.counts == counted().lateness.counts


def test_an_answer_that_fails_is_not_the_last_one() -> None:
    answers: dict[str, Callable[[], Any]] = {"trouble": lambda: 1 / 0, "measures": dict}
    with linked(answers) as (link, _):
        link._line.send({"ask": "trouble"})
        assert link.ask("measures") == {}


def test_all_numbers_survive_their_json_form() -> None:
    form = json.loads(json.dumps(counted().to_json()))
    assert Measures.load(form).to_json() == json.loads(json.dumps(form)) | {
        name: value | {"bounds": tuple(value["bounds"])}
        for name, value in form.items()
        if isinstance(value, dict) and "bounds" in value
    }
    assert form.keys() == {name for name in vars(Measures()) if name[0] != "_"}


def test_a_silent_node_is_not_ready_and_only_its_own_numbers_are_missing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "books.db")
    with linked(None, SOON) as (link, _):
        readiness = look_here(store, link.trouble)
        text = Metrics(store, link.measures).text().decode()
    store.close()
    assert [problem.code for problem in readiness.problems] == ["node"]
    assert "did not respond within" in readiness.problems[0].message
    assert "duebook_node_up 0.0" in text
    assert "duebook_database_up 1.0" in text
    assert "process_cpu_seconds_total" in text
    assert "duebook_fired_total" not in text


def test_a_node_that_reads_nothing_is_asked_each_question_once() -> None:
    with linked(None, SOON) as (link, node):
        for _ in range(3):
            with pytest.raises(Unavailable, match="did not respond"):
                link.ask("trouble")
        assert node.recv(10_000) == b'{"ask": "trouble"}\n'
        node.sendall(b'{"answer": "trouble", "value": "late"}\n')
        eventually(lambda: not link._waiting)
        with pytest.raises(Unavailable):  # a late answer is nobody's
            link.ask("trouble")
        assert node.recv(10_000) == b'{"ask": "trouble"}\n'


def test_a_node_that_is_gone_answers_nothing() -> None:
    with linked(None, SOON) as (link, node):
        node.shutdown(socket.SHUT_WR)
        assert link.measures() is None
        assert link.trouble() is not None


def test_a_web_process_hangs_after_ten_pings_without_an_answer() -> None:
    heartbeat = Heartbeat(silent=10, at_first=60)
    heartbeat.answered()
    assert [heartbeat.missed() for _ in range(11)] == [False] * 10 + [True]


def test_a_web_process_that_starts_has_a_minute_for_its_first_answer() -> None:
    heartbeat = Heartbeat(silent=10, at_first=60)
    assert not any(heartbeat.missed() for _ in range(60))
    heartbeat.answered()
    assert not any(heartbeat.missed() for _ in range(10))
    assert heartbeat.missed()


def test_an_answer_after_a_long_silence_counts() -> None:
    heartbeat = Heartbeat(silent=10, at_first=60)
    for _ in range(100):
        heartbeat.answered()
        assert not any(heartbeat.missed() for _ in range(9))


def test_the_event_loop_answers_pings_and_nothing_else_does() -> None:
    node, web = socket.socketpair()
    ours, theirs = Line(node), Line(web)
    link = NodeLink(theirs)
    soon: list[Callable[[], None]] = []
    thread = threading.Thread(target=link.listen)
    thread.start()
    link.answer_pings(soon.append)  # which is a sign of life, too
    ours.send({"ping": True})
    eventually(lambda: len(soon) == 2)
    node.settimeout(SOON)
    with pytest.raises(TimeoutError):
        node.recv(100)  # the loop has not come round
    soon[0]()
    node.settimeout(PATIENCE)
    assert json.loads(node.recv(100)) == {"pong": True}
    ours.let_go()
    thread.join()
    ours.close()
    theirs.close()
