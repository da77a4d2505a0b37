"""A process that ticks or claims on command, as fast as it can, and reports what it got.

Reads orders as lines of JSON, and responds to each with one. {"do": "tick" | "claim", "url": …,
"session": …, "at": …, "queue": …, "limit": …, "hold": …, "seconds": …}: it starts at the moment
`at`. Each claim is settled as succeeded `hold` seconds later. It ends after `seconds`, or without
them once it has got nothing for a while.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duebook.engine.ticker import Ticker
from duebook.model.run import Outcome
from duebook.store.postgres import PostgresStore
from duebook.store.values import SessionInfo

if TYPE_CHECKING:
    from duebook.store.base import Store

LEASE = timedelta(minutes=5)
WHILE = 0.5


def obey(order: dict[str, Any]) -> list[dict[str, Any]]:
    with closing(PostgresStore(order["url"])) as store:
        session = SessionInfo(order["session"], "host", 1, "worker", "0", "2026a")
        store.transact(lambda tx: tx.nodes.begin_session(session, LEASE))
        store.read(lambda tx: tx.now)
        threading.Event().wait(order["at"] - time.time())
        if order["do"] == "tick":
            ticker = Ticker(store, order["session"])
            ticker.step()
            return [{"fired": ticker.fired}]
        return _claim(store, order)


def _claim(store: Store, order: dict[str, Any]) -> list[dict[str, Any]]:
    """Every claim with its run, and the time in which it was certainly active."""
    got: list[dict[str, Any]] = []
    pause = threading.Event()
    last = time.time()
    while True:
        asked = time.time()
        claims = store.transact(
            lambda tx: tx.claims.claim(order["session"], order["queue"], order.get("limit", 1))
        )
        began = time.time()
        if claims:
            pause.wait(order["hold"])
        for claim in claims:
            ended, token = time.time(), claim.token
            assert store.transact(
                lambda tx, token=token: tx.attempts.settle(token, Outcome("succeeded"))  # type: ignore[misc]
            )
            got.append(
                {"run": claim.run.id, "attempt": claim.run.attempt, "asked": asked}
                | {"began": began, "ended": ended, "schedule": claim.run.schedule}
            )
            last = time.time()
        if time.time() > (order["at"] + order["seconds"] if "seconds" in order else last + WHILE):
            return got


def main() -> None:
    for line in sys.stdin:
        sys.stdout.write(json.dumps(obey(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
