"""A program that consumes events, for tests that kill it: `python -m … URL`."""

from __future__ import annotations

import sys
from typing import Any

from duebook import Duebook


def main(url: str) -> None:
    with Duebook(url) as book:

        @book.events.consumer("orders", group="billing", lease="2s", batch=20)
        def bill(event: Any, connection: Any) -> None:
            connection.execute(
                "INSERT INTO bills (key, n) VALUES (%s, %s)", (event.key, event.data["n"])
            )

        book.events.serve()


if __name__ == "__main__":
    main(sys.argv[1])
