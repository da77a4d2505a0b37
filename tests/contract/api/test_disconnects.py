"""A client that disconnects early: the server continues, and its log shows no failure."""

from __future__ import annotations

import logging
import socket
import struct
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from duebook.book import Book
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.serving import Served

pytestmark = pytest.mark.both_databases

HEAD = "Host: 127.0.0.1\r\nAuthorization: Bearer admin\r\n"
UPLOAD = f"POST /api/v1/schedules HTTP/1.1\r\n{HEAD}Content-Type: application/json\r\n"


def leave(served: Served, sent: str, until: str | None, abruptly: bool) -> None:
    """Send a part of a request, read until a text arrives, and disconnect."""
    place = urlsplit(served.url)
    with socket.create_connection((place.hostname, place.port), timeout=30) as client:
        client.sendall(sent.encode())
        heard = b""
        while until is not None and until.encode() not in heard:
            heard += client.recv(4096)
        if abruptly:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("abruptly", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize(
    "body", ["Content-Length: 900\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n900\r\n{"]
)
def test_leaving_during_an_upload_is_no_failure(
    served: Served, body: str, abruptly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "duebook")
    leave(served, UPLOAD + body, None, abruptly)
    eventually(lambda: "the client has disconnected" in caplog.text)
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


@pytest.mark.parametrize("abruptly", [False, True], ids=["closed", "reset"])
def test_leaving_a_stream_is_no_failure(
    served: Served, tmp_path: Path, abruptly: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = served.use(tmp_path / "books.db")
    run = Book(store).enqueue("digest")
    asked = f"GET /api/v1/runs/{run.id}/log HTTP/1.1\r\n{HEAD}Accept: text/event-stream\r\n\r\n"
    leave(served, asked, "text/event-stream", abruptly)
    eventually(lambda: served.open_streams == 0)
    store.close()
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_leaving_before_the_answer_is_no_failure(
    served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = served.use(tmp_path / "books.db")
    for abruptly in (False, True):
        leave(served, f"GET /api/v1/schedules HTTP/1.1\r\n{HEAD}\r\n", None, abruptly)
    asked = f"GET /api/v1/schedules HTTP/1.1\r\n{HEAD}\r\n"
    leave(served, asked, "items", abruptly=False)  # it still responds
    eventually(lambda: not served.is_answering)
    store.close()
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
