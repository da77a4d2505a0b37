"""The receiver of a webhook on 127.0.0.1: it records what it gets, and can be set to be busy, to
fail now and then, or to do something before it responds."""

from __future__ import annotations

import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Webhook:
    """What it got while it was not busy; the test that opens it closes it."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 204
        self.fails: Callable[[], int | None] = lambda: None
        """a status to respond with instead, 0 to reset the connection"""
        self.before_answer: Callable[[], object] = lambda: None
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                failure = webhook.fails()
                status = webhook.status if failure is None else failure  # it may change meanwhile
                if status == 0:
                    return self.reset()
                if status == 204:
                    webhook.got.append(event)
                webhook.before_answer()
                self.send_response(status)
                self.end_headers()
                return None

            def reset(self) -> None:
                linger = struct.pack("ii", 1, 0)  # makes close() send RST
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True

            def log_message(self, *_: object) -> None: ...

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """The sender was killed."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hooks"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def heard(self) -> list[tuple[str, str]]:
        """The id and the key of each event, in order of arrival."""
        return [(event["id"], event["partitionkey"]) for event in list(self.got)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
