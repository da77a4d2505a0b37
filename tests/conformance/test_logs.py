"""Logs: appended without duplicates, trimmed in the middle, read one page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.engine.books_clock import BooksClock
from duebook.engine.reports import Desk
from duebook.errors import Invalid
from duebook.model.run import LogLine
from duebook.store.values import START, Page
from tests.support.builders import (
    BEGIN,
    SECOND,
    VirtualClock,
    begin,
    claim,
    claimed_run,
    lose,
)

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.run import Token
    from duebook.store.base import Store


@pytest.fixture
def token(store: Store, clock: VirtualClock) -> Token:
    return claimed_run(store, clock).token


def lines(*texts: str) -> list[LogLine]:
    return [LogLine(BEGIN + number * SECOND, "stdout", text) for number, text in enumerate(texts)]


def append(store: Store, token: Token, first_seq: int, *texts: str) -> None:
    store.transact(lambda tx: tx.attempts.append_log(token, first_seq, lines(*texts)))


def read(
    store: Store, token: Token, after: Page = START, limit: int = 1_000
) -> list[tuple[int, int, str]]:
    found = store.read(lambda tx: tx.runs.list_log(token.run_id, after, limit))
    return [(page.attempt, page.seq, line.text) for page, line in found]


def test_the_end_of_a_log_is_read_without_its_beginning(store: Store, token: Token) -> None:
    append(store, token, 1, *"abcde")
    end = store.read(lambda tx: tx.runs.list_log_end(token.run_id, 2))
    assert [(page.seq, line.text) for page, line in end] == [(4, "d"), (5, "e")]
    assert store.read(lambda tx: tx.runs.list_log_end("nothing", 2)) == []


def test_a_log_tells_how_much_of_it_is_kept(store: Store, token: Token) -> None:
    append(store, token, 1, *"abcdefgh")
    store.transact(lambda tx: tx.attempts.trim_log(token, 2, 7))
    assert store.read(lambda tx: tx.runs.measure_log(token.run_id)) == [(1, 4, 8)]


def test_a_log_comes_back_as_it_was_written(store: Store, token: Token) -> None:
    written = [
        LogLine(BEGIN, "stdout", "out"),
        LogLine(BEGIN + SECOND, "stderr", "err ä\n\x1b[0m"),
        LogLine(BEGIN, "duebook", ""),
    ]
    store.transact(lambda tx: tx.attempts.append_log(token, 1, written))
    found = store.read(lambda tx: tx.runs.list_log(token.run_id, START, 10))
    assert found == [(Page(1, seq), line) for seq, line in enumerate(written, 1)]


def test_appending_again_doubles_nothing_and_changes_nothing(store: Store, token: Token) -> None:
    append(store, token, 1, "a", "b")
    append(store, token, 1, "a", "b")
    append(store, token, 2, "changed", "c")
    assert read(store, token) == [(1, 1, "a"), (1, 2, "b"), (1, 3, "c")]


def test_appending_nothing_is_harmless(store: Store, token: Token) -> None:
    append(store, token, 1)
    assert read(store, token) == []


def test_trimming_keeps_head_and_tail(store: Store, token: Token) -> None:
    append(store, token, 1, *(str(seq) for seq in range(1, 11)))
    store.transact(lambda tx: tx.attempts.trim_log(token, 3, 8))
    assert [seq for _, seq, _ in read(store, token)] == [1, 2, 3, 8, 9, 10]
    store.transact(lambda tx: tx.attempts.trim_log(token, 3, 9))
    assert [seq for _, seq, _ in read(store, token)] == [1, 2, 3, 9, 10]
    store.transact(lambda tx: tx.attempts.trim_log(token, 3, 4))
    assert [seq for _, seq, _ in read(store, token)] == [1, 2, 3, 9, 10]


def test_a_log_is_read_a_page_at_a_time(store: Store, token: Token) -> None:
    append(store, token, 1, *"abcde")
    after, seen = START, []
    while page := store.read(lambda tx: tx.runs.list_log(token.run_id, after, 2)):  # noqa: B023
        assert len(page) <= 2
        seen += [line.text for _, line in page]
        after = page[-1][0]
    assert seen == list("abcde")
    append(store, token, 6, "f")
    assert read(store, token, after) == [(1, 6, "f")]


def test_attempts_have_logs_of_their_own_read_in_order(store: Store, token: Token) -> None:
    append(store, token, 1, "first", "second")
    lose(store, "node-1")
    begin(store, "node-2")
    (again,) = claim(store, "node-2")
    append(store, again.token, 1, "third")
    assert read(store, token) == [(1, 1, "first"), (1, 2, "second"), (2, 1, "third")]
    assert read(store, token, Page(1, 1), limit=2) == [(1, 2, "second"), (2, 1, "third")]
    store.transact(lambda tx: tx.attempts.trim_log(again.token, 0, 100))
    assert read(store, token) == [(1, 1, "first"), (1, 2, "second")]


@pytest.mark.parametrize("text", ["a\0b", "lone \udc80 surrogate", "x" * 200_000])
def test_a_log_survives_any_text(store: Store, token: Token, text: str) -> None:
    append(store, token, 1, "before", text, "after")
    found = read(store, token)
    assert [seq for _, seq, _ in found] == [1, 2, 3]
    assert found[0][2] == "before"
    assert found[2][2] == "after"


def test_the_book_refuses_a_page_without_lines(book: Book, token: Token) -> None:
    for limit in (0, -1):
        with pytest.raises(Invalid, match="limit"):
            book.runs.log(token.run_id, limit=limit)


def test_lines_carry_the_time_of_the_books_and_not_that_of_the_machine(
    book: Book, clock: VirtualClock
) -> None:
    """The clock of the worker is wrong by hours."""
    claimed = claimed_run(book.store, clock)
    books = BooksClock(lambda: 7.0)
    books.heard(clock.now, 7.0)
    desk = Desk(book.store, 10_000, books)
    log = desk.open_log(claimed)
    log.note("begun")
    log.add("stdout", "hello")
    desk.close_log(log, lambda: True)
    assert {line.at for _, line in book.runs.log(claimed.run.id)} == {clock.now}
