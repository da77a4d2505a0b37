"""The commands `enqueue` and `wait`: keys, outputs, and exit codes."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.store.opening import open_store
from tests.support.builders import begin, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.cli import Cli

ANYWHERE = True


@pytest.fixture
def book(cli: Cli) -> Iterator[Book]:
    with Book(open_store(str(cli.path))) as opened:
        yield opened


@contextmanager
def working(book: Book, status: Any = "succeeded", **more: Any) -> Iterator[None]:
    """A worker in a thread, whose runs all end with the given outcome."""
    ending = threading.Event()
    begin(book.store, tasks=("digest",))

    def work() -> None:
        while not ending.wait(0.01):
            for claimed in book.store.transact(
                lambda tx: tx.claims.claim("node-1", "default", 10, ["digest"])
            ):
                settle(book.store, claimed.token, status, **more)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def test_a_task_is_enqueued_with_its_options(cli: Cli, book: Book) -> None:
    given = ("--payload", '{"n": 1}', "--queue", "mail", "--priority", "5", "--retry", "3")
    told = cli.ok("enqueue", "digest", *given, "--delay", "1h", "--attempt-timeout", "5m")
    run = book.runs.get(told.split()[2])
    assert told == f"queued run {run.id}\n"
    assert (run.task, run.payload, run.queue, run.priority) == ("digest", {"n": 1}, "mail", 5)
    assert (run.ready_at - run.created_at).total_seconds() == 3600
    assert (run.requested_by or "").startswith(cli.by)


def test_a_key_that_is_taken_is_told_with_what_became_of_the_payload(cli: Cli) -> None:
    first = cli.ok("enqueue", "digest", "--payload", '{"n": 1}', "--key", "k").split()[2]
    same = cli.ok("enqueue", "digest", "--payload", '{"n": 1}', "--key", "k")
    assert same == f'run {first} (queued) has the key "k"; nothing was created\n'
    other = cli.ok("enqueue", "digest", "--payload", '{"n": 2}', "--key", "k")
    assert "with another payload, which it keeps; nothing was created" in other
    newer = cli.json("enqueue", "digest", "--payload", '{"n": 3}', "--key", "k", "--debounce", "5s")
    assert (newer["result"], newer["payload"]) == ("payload_replaced", {"n": 3})
    assert cli.json("enqueue", "other", "--key", "k")["result"] == "created"


def test_the_output_of_an_awaited_run_is_printed(cli: Cli, book: Book) -> None:
    with working(book, output='{"rows": 3}'):
        result = cli("enqueue", "digest", "--wait", "--timeout", "1m")
        assert (result.exit_code, json.loads(result.stdout)) == (0, {"rows": 3})
        assert "succeeded" in result.stderr
        form = cli.json("enqueue", "digest", "--wait")
        assert (form["status"], form["output"]) == ("succeeded", {"rows": 3})
        run_id = form["id"]
        assert json.loads(cli.ok("wait", run_id)) == {"rows": 3}
        assert [run["id"] for run in cli.json("wait", run_id, "digest")] == [run_id] * 2


def test_an_awaited_run_that_fails_is_exit_code_5(cli: Cli, book: Book) -> None:
    with working(book, "failed", reason="error", error="it broke"):
        result = cli("enqueue", "digest", "--wait")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "failed: it broke" in result.stderr
    assert cli("wait", "digest").exit_code == 5
    assert cli("wait", "digest", "--json").exit_code == 5


def test_a_run_that_has_not_ended_in_time_is_exit_code_7(cli: Cli) -> None:
    run_id = cli.ok("enqueue", "digest").split()[2]
    result = cli("wait", run_id, "--timeout", "0.1")
    assert result.exit_code == 7
    assert f"run {run_id} has not ended within 0.1s; it continues" in result.stderr
    assert cli("enqueue", "digest", "--wait", "--timeout", "0").exit_code == 7


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ("digest", "--unique", "pending"),
            "such as key=customer-17 (--key customer-17)",
        ),
        (("digest", "--timeout", "5s"), "--timeout needs --wait"),
        (("digest", "--payload", "[1]"), "--payload is not a JSON object"),
        (("digest", "--key", "k", "--unique", "soon"), 'unique "soon" is not pending'),
        (("digest", "--wait", "--timeout", "soon"), 'timeout: "soon" is not a duration'),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    cli: Cli, given: tuple[str, ...], told: str
) -> None:
    result = cli("enqueue", *given)
    assert result.exit_code == 2
    assert told in result.stderr


def test_nothing_is_queued_when_the_time_to_wait_is_invalid(cli: Cli, book: Book) -> None:
    assert cli("enqueue", "digest", "--wait", "--timeout", "5x").exit_code == 2
    assert book.runs.list() == []


def test_waiting_for_a_run_that_nobody_starts_explains_why(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.cli.enqueue.HINT_AFTER", 0.01)
    cli.ok("enqueue", "digest")
    told = "no worker has started it yet"
    assert told in cli("wait", "digest", "--timeout", "0.1").stderr
    delayed = cli("enqueue", "later", "--delay", "1h", "--wait", "--timeout", "0.1")
    assert delayed.exit_code == 7
    assert told not in delayed.stderr


def test_a_run_that_does_not_exist_is_exit_code_3(cli: Cli) -> None:
    cli.ok("enqueue", "digest")
    assert cli("wait", "nothing").exit_code == 3
