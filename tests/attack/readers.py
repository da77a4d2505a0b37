"""Readers that make a server compute as much as they can, while its node has to be on time."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from datetime import date, timedelta
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import httpx2

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ASKED", "FINE", "node_numbers", "prepare", "run"]

PARALLEL: Final = 60
SILENT: Final = 60.0
"""Seconds after which a server counts as silent."""
FIRST: Final = date(2100, 1, 1)
"""None of what is asked about is due before: the attack is made by questions alone."""
_PLACE: Final = "/api/v1/schedules/attack"
ASKED: Final = (
    f"{_PLACE}-seconds/preview?count=10000",
    f"{_PLACE}-ranges/preview?count=10000",
    f"{_PLACE}-ranges/explain?start=2100-01-01T00:00:00Z&end=2105-01-01T00:00:00Z",
    "/schedules/attack-ranges",
    "/calendar",
)
FINE: Final = frozenset({200, 422, 429, 503})
"""What a server may answer: the truth, or that this is too much."""


def prepare(url: str, admin: str) -> None:
    """Create the schedules that the attack asks about; they may be there already."""
    ranges = [str(FIRST + timedelta(days=2 * number)) for number in range(1000)]
    many = [{"cron": f"{minute} * * * * *"} for minute in range(20)]
    common = {"start_at": f"{FIRST}T00:00:00Z", "target": {"command": ["true"]}}
    definitions: list[dict[str, Any]] = [
        {"name": "attack-seconds", "cron": "* * * * * *", **common},
        {"name": "attack-ranges", "trigger": many, "exclude": ranges, **common},
    ]
    with _client(url, admin) as client:
        for definition in definitions:
            answer = client.post("/api/v1/schedules", json=definition)
            if answer.status_code not in (201, 409):
                raise RuntimeError(answer.text)


def run(
    url: str, tokens: Mapping[str, str], seconds: float, parallel: int = PARALLEL
) -> dict[str, Any]:
    """Attack with the token `viewer` for so long; `admin` prepares it, and reads what the node
    counted meanwhile: `lost` sessions, `stalls` of its renewals, runs `late` by more than 1 s."""
    prepare(url, tokens["admin"])
    before = node_numbers(url, tokens["admin"])
    answers: Counter[int | str] = Counter()
    lock, over = threading.Lock(), time.monotonic() + seconds

    def ask(number: int) -> None:
        paths = cycle(ASKED[number % len(ASKED) :] + ASKED[: number % len(ASKED)])
        with _client(url, tokens["viewer"]) as client:
            more = True  # each asks at least once, however long it took to start them all
            while more:
                status = _status(client, next(paths))
                with lock:
                    answers[status] += 1
                more = time.monotonic() < over

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(parallel)]
    for thread in threads:
        thread.start()
    healthz = _slowest_healthz(url, tokens["admin"], over)
    for thread in threads:
        thread.join()
    after = node_numbers(url, tokens["admin"])
    found: dict[str, Any] = {name: after[name] - before[name] for name in after}
    return found | {"answers": dict(answers), "slowest_healthz": healthz}


def node_numbers(url: str, admin: str) -> dict[str, float]:
    """What the node counted so far."""
    with _client(url, admin) as client:
        text = client.get("/metrics").text

    def number(pattern: str) -> float:
        found = re.search(f"^{pattern} (\\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    in_time = number(r'duebook_lateness_seconds_bucket\{le="1.0"\}')
    return {
        "lost": number("duebook_sessions_lost_total"),
        "stalls": number("duebook_lease_stalls_total"),
        "started": number("duebook_lateness_seconds_count"),
        "late": number("duebook_lateness_seconds_count") - in_time,
        "node_cpu": number("duebook_node_process_cpu_seconds_total"),
        "web_cpu": number("process_cpu_seconds_total"),
    }


def _slowest_healthz(url: str, token: str, over: float) -> float:
    slowest = 0.0
    with _client(url, token) as client:
        while time.monotonic() < over:
            began = time.monotonic()
            client.get("/healthz")
            slowest = max(slowest, time.monotonic() - began)
            threading.Event().wait(0.05)
    return slowest


def _status(client: httpx2.Client, path: str) -> int | str:
    try:
        return client.get(path, headers={"Accept": "text/html"}).status_code
    except httpx2.TransportError as error:
        return type(error).__name__


def _client(url: str, token: str) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.Client(base_url=url, headers=headers, timeout=SILENT)
