"""A run's log: whole lines, both streams, head and tail within the cap, and a store that fails."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from duebook.engine.logs import LINE_COST, LONGEST_LINE, RunLog
from duebook.errors import Unavailable
from duebook.model.run import LogLine, Token
from tests.support.waiting import PATIENCE

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Pages:
    """A stand-in for the store that keeps lines by number."""

    def __init__(self) -> None:
        self.lines: dict[int, LogLine] = {}
        self.fails = False

    def transact(self, work: Any) -> Any:
        if self.fails:
            raise Unavailable("the disk is full")
        return work(SimpleNamespace(attempts=self))

    def append_log(self, token: Token, first_seq: int, lines: list[LogLine]) -> None:  # noqa: ARG002
        self.lines |= dict(enumerate(lines, first_seq))

    def trim_log(self, token: Token, head_seq: int, tail_seq: int) -> None:  # noqa: ARG002
        self.lines = {n: x for n, x in self.lines.items() if n <= head_seq or n >= tail_seq}

    def texts(self) -> list[str]:
        return [f"{line.stream}: {line.text}" for _, line in sorted(self.lines.items())]


def new_log(pages: Pages, cap: int = 1_000_000, clock: Any = lambda: 0.0) -> RunLog:
    return RunLog(pages, Token("run", 1, "session"), lambda: NOW, clock, cap)  # type: ignore[arg-type]


def test_lines_are_whole_and_streams_interleaved() -> None:
    pages = Pages()
    log = new_log(pages)
    for stream, data in (
        ("stdout", b"first li"),
        ("stderr", b"oops\n"),
        ("stdout", b"ne\r\nsecond\n\n"),
        ("stdout", b"no end"),
    ):
        log.write(stream, data)  # type: ignore[arg-type]
    log.close()
    assert pages.texts() == [
        "stderr: oops",
        "stdout: first line",
        "stdout: second",
        "stdout: ",
        "stdout: no end",
    ]


def test_what_is_secret_is_hidden_however_it_arrives() -> None:
    pages = Pages()
    log = RunLog(
        pages,  # type: ignore[arg-type]
        Token("run", 1, "session"),
        lambda: NOW,
        lambda: 0.0,
        1_000_000,
        lambda text: text.replace("s3cret", "***"),
    )
    log.write("stdout", b"key=s3c")
    log.write("stdout", b"ret\n" + b"x" * (LONGEST_LINE - 3) + b"s3cret")
    log.write("stderr", b"s3cret")
    log.close()
    assert pages.texts() == [
        "stdout: key=***",
        "stdout: " + "x" * (LONGEST_LINE - 3) + "***",
        "stderr: ***",
    ]


def test_bytes_that_are_no_text_and_split_characters_are_kept_readable() -> None:
    pages = Pages()
    log = new_log(pages)
    log.write("stdout", "é".encode()[:1])
    log.write("stdout", "é".encode()[1:] + b"\xff\0\n")
    log.close()
    assert pages.texts() == ["stdout: é\ufffd\ufffd"]


def test_a_line_without_end_is_cut_into_pieces() -> None:
    pages = Pages()
    log = new_log(pages)
    log.write("stdout", b"x" * (LONGEST_LINE * 3 + 5))
    log.close()
    assert [len(line.text) for _, line in sorted(pages.lines.items())] == [LONGEST_LINE] * 3 + [5]


def test_a_long_log_keeps_its_head_and_its_tail() -> None:
    pages = Pages()
    log = new_log(pages, cap=40_000)
    for number in range(10_000):
        log.write("stdout", f"line {number}\n".encode())
        if number % 100 == 0:
            log.flush()
    log.close()
    texts = pages.texts()
    assert texts[0] == "stdout: line 0"
    assert texts[-1] == "stdout: line 9999"
    assert sum(len(line.text) + LINE_COST for line in pages.lines.values()) <= 40_000
    assert len(texts) > 300


def test_lines_wait_while_the_books_cannot_be_reached() -> None:
    pages = Pages()
    log = new_log(pages)
    pages.fails = True
    log.write("stdout", b"kept\n")
    log.flush()
    pages.fails = False
    log.write("stdout", b"later\n")
    log.close()
    assert pages.texts() == ["stdout: kept", "stdout: later"]


def test_a_silent_run_is_flushed_after_a_while() -> None:
    pages, now = Pages(), [0.0]
    log = new_log(pages, clock=lambda: now[0])
    log.write("stdout", b"working\n")
    assert pages.texts() == []
    now[0] = 1.0
    log.flush_if_overdue()
    assert pages.texts() == ["stdout: working"]


def test_a_note_while_another_thread_flushes_is_not_lost() -> None:
    pages = Pages()
    log = new_log(pages)
    log.write("stdout", b"first\n")
    append = pages.append_log

    def append_while_somebody_notes(token: Token, first_seq: int, lines: list[LogLine]) -> None:
        append(token, first_seq, lines)
        thread.start()

    thread = threading.Thread(target=log.note, args=("exit code 3",))
    pages.append_log = append_while_somebody_notes  # type: ignore[method-assign]
    log.flush()
    thread.join()
    pages.append_log = append  # type: ignore[method-assign]
    log.close()
    assert pages.texts() == ["stdout: first", "duebook: exit code 3"]


def test_who_logs_does_not_wait_while_another_thread_writes() -> None:
    pages = Pages()
    log = new_log(pages, cap=4_000)
    log.add("stdout", "first")
    append, writes, goes_on = pages.append_log, threading.Event(), threading.Event()

    def append_slowly(token: Token, first_seq: int, lines: list[LogLine]) -> None:
        writes.set()
        assert goes_on.wait(2 * PATIENCE)
        append(token, first_seq, lines)

    def flood() -> None:
        for number in range(1_000):
            log.add("stdout", f"line {number}")

    pages.append_log = append_slowly  # type: ignore[method-assign]
    flushing = threading.Thread(target=log.flush)
    flushing.start()
    assert writes.wait(PATIENCE)
    logging = threading.Thread(target=flood)
    logging.start()
    logging.join(PATIENCE)
    waited = logging.is_alive()
    goes_on.set()
    flushing.join()
    logging.join()
    log.close()
    assert not waited
    texts = pages.texts()
    assert (texts[0], texts[-1]) == ("stdout: first", "stdout: line 999")
    assert sum(len(line.text) + LINE_COST for line in pages.lines.values()) <= 4_000


def test_a_flood_while_the_books_cannot_be_reached_keeps_its_head_and_its_tail() -> None:
    pages = Pages()
    log = new_log(pages, cap=4_000)
    pages.fails = True
    for number in range(1_000):
        log.write("stdout", f"line {number}\n".encode())
        if number % 10 == 0:
            log.flush()
    pages.fails = False
    log.close()
    texts = pages.texts()
    assert (texts[0], texts[-1]) == ("stdout: line 0", "stdout: line 999")
    assert sum(len(line.text) + LINE_COST for line in pages.lines.values()) <= 4_000
