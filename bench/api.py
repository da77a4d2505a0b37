"""Requests per second and p99 of a server in its own process, called by 8 clients.

    python -m bench.api [--quick]

One schedule, a page of 50 and a POST in turn, among a thousand schedules and among a million, on a
durable PostgreSQL; then 10,000 schedules in one request. The clients share the server's processors.
With --quick everything is run with few schedules, and the figures mean little.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from bench.goals import Goals, show
from bench.pages import AT_ONCE, FEW, LONGEST, MANY, MOST, PAGE, fill
from bench.server import durable_server
from duebook.book import Book
from duebook.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.postgres import Server

CLIENTS: Final = 8
SECONDS: Final = 3.0
ROUNDS: Final = 3
STARTED: Final = "http://"
WANTED: Final = {"one schedule": 700, "a page of 50": 300, "a POST": 400}
"""Requests per second, among few schedules and among many."""

Request = tuple[str, str, bytes | None]
"""method, path and body"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try everything with few schedules")
    options = parser.parse_args()
    part = 50 if options.quick else 1
    with ExitStack() as stack:
        server = stack.enter_context(durable_server())
        sys.exit(report(server, stack, MANY // part, SECONDS / part, AT_ONCE // part))


def report(server: Server, stack: ExitStack, many: int, seconds: float, at_once: int) -> int:
    figures: dict[tuple[str, int], Figures] = {}
    for number in (FEW, many):
        url = stack.enter_context(server.database())
        store = PostgresStore(url)
        fill(store, number)
        _, secret = Book(store).tokens.create("bench", "admin", ["*"])
        store.close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        print(f"\namong {number:,} schedules, {CLIENTS} clients")
        with served(url) as address:
            site = Site(address, secret)
            for words, found in by_turns(site, requests(number), seconds).items():
                figures[words, number] = found
                where = f"{words} among {number:,}"
                show(f"{where}, requests per second", [found.per_second])
                show(f"{where}: median, ms", [found.median])
                show(f"{where}: p99, ms", [found.p99])
            if number == many:
                took = site.bulk(at_once)
    page = "a page of 50"
    ratio = figures[page, many].median / figures[page, FEW].median
    print()
    goals = Goals()
    goals.at_most("a page among many, times one among few", MOST, [ratio])
    goals.below(f"{at_once:,} schedules in one request, s", LONGEST, [took])
    for words, wanted in WANTED.items():
        least = min(figures[words, number].per_second for number in (FEW, many))
        chart = "Requests per second, 8 clients"
        goals.at_least(f"{words}, requests per second", wanted, [least], chart=chart)
    return goals.exit_code


class Figures(NamedTuple):
    """Figures of one kind of request; times in milliseconds."""

    per_second: float
    median: float
    p99: float


def by_turns(
    site: Site, kinds: dict[str, Callable[[], Request]], seconds: float
) -> dict[str, Figures]:
    """Run each kind for some seconds, several times in turn, because the machine may be busy at
    times; returns the median of the rounds."""
    found: dict[str, list[list[float]]] = {words: [] for words in kinds}
    for _ in range(ROUNDS):
        for words, make in kinds.items():
            found[words].append(site.measure(make, seconds))
    return {words: _figures(rounds, seconds) for words, rounds in found.items()}


def _figures(rounds: list[list[float]], seconds: float) -> Figures:
    times = [time for one in rounds for time in one]
    return Figures(
        statistics.median(len(one) / seconds for one in rounds),
        statistics.median(times),
        statistics.quantiles(times, n=100)[98],
    )


def requests(number: int) -> dict[str, Callable[[], Request]]:
    places, names = count(), count()
    body = {"cron": "17 * * * *", "target": "work"}

    def one() -> Request:
        return "GET", f"/api/v1/schedules/job-{next(places) * 7919 % number:07}", None

    def page() -> Request:
        path = f"/api/v1/schedules?limit={PAGE}&text=job-{next(places) * 37 % number:07}"[:-3]
        return "GET", f"{path}*", None

    def post() -> Request:
        made = json.dumps(body | {"name": f"made-{next(names)}"})
        return "POST", "/api/v1/schedules", made.encode()

    return {"one schedule": one, "a page of 50": page, "a POST": post}


@contextmanager
def served(url: str) -> Iterator[str]:
    """The address of a server in its own process."""
    command = [sys.executable, "-m", "duebook", "--database", url, "web", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if STARTED in line:
                yield line[line.index(STARTED) + len(STARTED) :].split("/")[0].split()[0]
                return
        raise AssertionError("the server has not said where it is")
    finally:
        process.terminate()
        process.communicate(timeout=30)


class Site:
    """A server, and a connection to it."""

    def __init__(self, address: str, secret: str) -> None:
        self._address = address
        self._headers = {
            "Authorization": f"Bearer {secret}",
            "Content-Type": "application/json",
        }

    def measure(self, make: Callable[[], Request], seconds: float) -> list[float]:
        """The milliseconds of each request."""
        found: list[float] = []
        failures: list[Any] = []
        end = time.perf_counter() + seconds

        def client() -> None:
            connection = http.client.HTTPConnection(self._address, timeout=30)
            mine = []
            while (began := time.perf_counter()) < end:
                status, answer = self._ask(connection, *make())
                mine.append((time.perf_counter() - began) * 1e3)
                if status >= 300:
                    failures.append(answer)
                    break
            connection.close()
            found.extend(mine)

        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]
        return found

    def bulk(self, number: int) -> float:
        forms = [
            {"name": f"new-{place}", "cron": f"{place % 60} * * * *", "target": "work"}
            for place in range(number)
        ]
        body = json.dumps({"schedules": forms}).encode()
        connection = http.client.HTTPConnection(self._address, timeout=60)
        began = time.perf_counter()
        status, answer = self._ask(connection, "POST", "/api/v1/bulk/schedules", body)
        took = time.perf_counter() - began
        assert status == 201, answer
        connection.close()
        return took

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> tuple[int, bytes]:
        connection.request(method, path, body, self._headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


if __name__ == "__main__":
    main()
