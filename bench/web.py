"""How long the dashboard's pages take with 100,000 schedules and a million runs, how large they
are, and what a hundred live viewers of one page cost the database compared with one.

    python -m bench.web [--quick]

On PostgreSQL, with one request after another, as from a single user. With --quick everything is run
with few schedules and runs, and the figures mean little.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import statistics
import sys
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

import psycopg

from bench.api import served
from bench.goals import Goals, show
from bench.pages import fill
from bench.server import durable_server
from duebook.api.authenticator import BookAuthenticator
from duebook.book import Book
from duebook.clock import utc_now
from duebook.model.flow import Revision
from duebook.store.postgres import PostgresStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import Server

    from duebook.store.base import Tx

SCHEDULES: Final = 100_000
RUNS: Final = 1_000_000
ROUNDS: Final = 40
LONGEST: Final = 150.0
"""Milliseconds of a page, p95."""
LARGEST: Final = 200_000
"""Bytes."""
NAME: Final = "job-0000007"
VIEWERS: Final = 100
TOKENS: Final = 10
WATCHED: Final = 8
"""Changes that viewers see, one per second."""
HISTORY: Final = """
INSERT INTO duebook.node_sessions (id, node, pid, roles, version, tzdata, started_at, expires_at,
    seen_at)
SELECT 'bench', 'bench', 1, 'worker', '1', '1', now(), now() + interval '1 day', now();
UPDATE duebook.schedule_state AS s SET next_due_at = at, wake_at = at
FROM (SELECT schedule_id, now() + interval '1 second' * (3600 * random()) AS at
    FROM duebook.schedule_state) AS due
WHERE due.schedule_id = s.schedule_id;
INSERT INTO duebook.ended_runs (id, namespace, schedule_id, version, due_at, origin, trigger, queue,
    priority, exclusive, wakes, max_takeovers, status, attempt, created_at, ready_at, claimed_at,
    started_at, finished_at, session_id, error)
SELECT md5(n::text)::uuid::text, 'default', s.id, 1, at, 'schedule', 'every:1h', 'default', 0, true,
    false, 3,
    CASE WHEN n % 97 = 0 THEN 'failed' ELSE 'succeeded' END, 1, at, at, at,
    at + interval '1 second', at + interval '1 second' * (2 + n % 60), 'bench',
    CASE WHEN n % 97 = 0 THEN 'exit code 1: ' || repeat('it went wrong ', 20) END
FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS number FROM duebook.schedules) AS s
CROSS JOIN LATERAL (SELECT s.number + {schedules} * k AS n,
    date_trunc('hour', now()) - interval '1 hour' * ({each} - k)
        + interval '1 second' * (s.number % 3600) AS at
    FROM generate_series(0, {each} - 1) AS k) AS of_schedule
ORDER BY n;
INSERT INTO duebook.run_logs (run_id, attempt, seq, at, stream, text)
SELECT md5('{busy}')::uuid::text, 1, n, now(), 'stdout', 'line ' || n || ' of a log that goes on'
FROM generate_series(1, 5000) AS n;
INSERT INTO duebook.events (id, namespace, topic, type, key, slot, data, meta, at,
    position)
SELECT md5('event' || n)::uuid::text, 'default', CASE WHEN n = 7 THEN 'rare' ELSE 'orders' END,
    'placed', n::text, n % 1024, '{{"order": 7, "total": "17.50"}}', '{{}}', now(), n
FROM generate_series(1, {schedules}) AS n;
"""
FLOWS: Final = 50
FLOW: Final = """
schedule: "0 4 * * *"
steps:
  - {name: extract, command: "true"}
  - {name: load, command: "true"}
  - {name: report, command: "true"}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try everything with little")
    part = 50 if parser.parse_args().quick else 1
    with ExitStack() as stack:
        server = stack.enter_context(durable_server())
        url = stack.enter_context(server.database())
        sessions = prepare(url, SCHEDULES // part, RUNS // part)
        address = stack.enter_context(served(url))
        goals = Goals()
        report_pages(address, sessions[0], SCHEDULES // part, goals)
        report_viewers(server, url, address, sessions, goals)
    sys.exit(goals.exit_code)


def prepare(url: str, schedules: int, runs: int) -> list[str]:
    """A database with a history; returns sessions of users with different tokens."""
    with Book(PostgresStore(url), by="bench") as book:
        fill(book.store, schedules)
        book.schedules.pause(NAME, reason="a bench")
        book.schedules.resume(NAME)
        tokens = [book.tokens.create(f"bench-{n}", "admin", ["*"])[1] for n in range(TOKENS)]
        book.store.transact(_keep_flows)
        door = BookAuthenticator(book.store)
        sessions = [session for token in tokens if (session := door.open_session(token))]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            HISTORY.format(schedules=schedules, each=runs // schedules, busy=schedules)
        )
        connection.execute("VACUUM ANALYZE")
    print(f"{schedules:,} schedules, {runs:,} runs\n")
    return sessions


def _keep_flows(tx: Tx) -> None:
    revisions = [
        Revision(f"flow-{number}", f"flows/flow-{number}.yaml", "1", FLOW)
        for number in range(FLOWS)
    ]
    tx.flows.save_flows("default", revisions)


def pages(schedules: int) -> dict[str, str]:
    run, today = run_id(schedules), utc_now().date()
    stretch = f"from={today - timedelta(days=2)}T00:00&to={today - timedelta(days=1)}T00:00"
    return {
        "overview": "/",
        "schedules": "/schedules",
        "schedules by what is due": "/schedules?sort=next_due_at",
        "schedules, a part of a name": "/schedules?text=77",
        "schedules with a label": "/schedules?label=team:t3",
        "schedules with a problem": "/schedules?problem=true",
        "schedules that are paused": "/schedules?status=paused",
        "a schedule": f"/schedules/{NAME}",
        "its analytics": f"/schedules/{NAME}/analytics",
        "its edit": f"/schedules/{NAME}/edit",
        "its backfill, counted": f"/schedules/{NAME}/backfill?{stretch}",
        "pause all of a label": "/bulk?action=pause&all=1&label=team:t3",
        "runs": "/runs",
        "runs that failed": "/runs?status=failed",
        "runs of a schedule": f"/runs?schedule={NAME}",
        "runs of another queue": "/runs?queue=none",
        "runs of a label": "/runs?label=team:t3",
        "runs of a label that none has": "/runs?label=team:none",
        "runs of a node": "/runs?node=bench",
        "runs of a flow": "/runs?flow=flow-7",
        "failures by cause": "/failures",
        "retry of all failures, asked": "/bulk-runs?action=retry&status=failed",
        "retry of a label, asked": "/bulk-runs?action=retry&status=failed&label=team:t3",
        "a run with a long log": f"/runs/{run}",
        "its log, searched": f"/runs/{run}?find=4999",
        "find": "/find?text=7",
        "what is due": f"/due?from={today}T10:00&to={today}T10:10",
        "namespaces": "/namespaces",
        "schedules whose last run failed": "/schedules?last=failed",
        "flows": "/flows",
        "a flow": "/flows/flow-7",
        "events": "/events",
        "events of a rare topic": "/events?topic=rare",
        "calendar": "/calendar",
        "nodes": "/nodes",
        "changes": "/audit",
        "tokens": "/tokens",
    }


def run_id(number: int) -> str:
    return str(UUID(hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()))


def report_pages(address: str, session: str, schedules: int, goals: Goals) -> None:
    visitor = Visitor(address, session)
    for words, path in pages(schedules).items():
        times, size = visitor.measure(path)
        p95 = statistics.quantiles(times, n=20)[-1]
        show(f"{words}: median, ms", [statistics.median(times)])
        goals.below(f"{words}: p95, ms", LONGEST, [p95])
        goals.below(f"{words}: size, bytes", LARGEST, [size])


class Visitor:
    """A user with a browser."""

    def __init__(self, address: str, session: str) -> None:
        self._address = address
        self._headers = {"Cookie": f"duebook_session={session}", "Accept": "text/html"}

    def measure(self, path: str) -> tuple[list[float], int]:
        """The milliseconds of each request but the first, and the bytes of the largest response."""
        connection = http.client.HTTPConnection(self._address, timeout=60)
        times, size = [], 0
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            body = self._get(connection, path)
            times.append((time.perf_counter() - began) * 1e3)
            size = max(size, len(body))
        connection.close()
        return times[1:], size

    def watch(self, ready: threading.Semaphore, end: threading.Event) -> None:
        """Keep the overview open, and load it again whenever something changed."""
        pages = http.client.HTTPConnection(self._address, timeout=60)
        stream = http.client.HTTPConnection(self._address, timeout=60)
        stream.request("GET", "/live", headers=self._headers | {"Accept": "text/event-stream"})
        answer = stream.getresponse()
        self._get(pages, "/")
        ready.release()
        while not end.is_set():
            line = answer.readline().decode().strip()
            if line.startswith("data: "):
                self._get(pages, "/", line.removeprefix("data: "))
        stream.close()
        pages.close()

    def _get(self, connection: http.client.HTTPConnection, path: str, change: str = "") -> bytes:
        live = {"Duebook-Live": change} if change else {}
        connection.request("GET", path, headers=self._headers | live)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status, body[-2_000:])
        return body


def report_viewers(
    server: Server, url: str, address: str, sessions: list[str], goals: Goals
) -> None:
    one, many = (watched(server, url, address, sessions, n) for n in (1, VIEWERS))
    show("statements of a change, for one viewer", [one / WATCHED])
    show(f"statements of a change, for {VIEWERS} viewers with {TOKENS} tokens", [many / WATCHED])
    goals.at_most(f"statements for {VIEWERS} viewers, times for one", 1.1, [many / one])


def watched(server: Server, url: str, address: str, sessions: list[str], viewers: int) -> int:
    """Statements that the database executed while this many viewers watched the changes."""
    ready, end = threading.Semaphore(0), threading.Event()
    people = [Visitor(address, sessions[n % len(sessions)]) for n in range(viewers)]
    threads = [
        threading.Thread(target=person.watch, args=(ready, end), daemon=True) for person in people
    ]
    with Book(PostgresStore(url), by="bench") as book:
        for thread in threads:
            thread.start()
        for _ in threads:
            ready.acquire()
        book.schedules.trigger(NAME)
        time.sleep(2)
        log = server.folder / "log"
        settle(server, "all")
        before = statements(log)
        for _ in range(WATCHED):
            book.schedules.trigger(NAME)
            time.sleep(1)
        after = statements(log)
        settle(server, "none")
        end.set()
        book.schedules.trigger(NAME)
        for thread in threads:
            thread.join(30)
    return after - before


def settle(server: Server, which: str) -> None:
    server.execute(f"ALTER SYSTEM SET log_statement = '{which}'")
    server.execute("SELECT pg_reload_conf()")
    time.sleep(1)


def statements(log: Path) -> int:
    with log.open(errors="replace") as lines:
        return sum("LOG:  execute " in line or "LOG:  statement: " in line for line in lines)


if __name__ == "__main__":
    main()
