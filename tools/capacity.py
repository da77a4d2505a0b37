"""Computes from measured constants what schedules need of PostgreSQL: `python -m tools.capacity`
prints the tables of docs/capacity.md.

    python -m tools.capacity [SCHEDULES [A_DAY [KEEP_DAYS]]]

The constants are from `python -m bench sizes costs` on two cores, PostgreSQL 18 and Python 3.11;
those that are not measured are marked as assumed.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CONSTANTS", "Need", "need", "table_of_constants", "table_of_needs"]

DAY: Final = 86_400
KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12

SCHEDULE_BYTES: Final = 1_400
STATE_BYTES: Final = 770
RUN_BYTES: Final = 640
KEY_BYTES: Final = 210
LEDGER_BYTES: Final = 320
EVENT_BYTES: Final = 260
PLAN_SERVER: Final = 47
RUN_SERVER: Final = 64
DELETE_SERVER: Final = 16
PLAN_PYTHON: Final = 24
RUN_PYTHON: Final = 51
WAL_BYTES: Final = 3_300
PAGE_BYTES: Final = 8_192
PAGES: Final = 2
BUSY: Final = 0.7
PEAK: Final = 10
MOST_DUE: Final = 10_000
MOST_HISTORY: Final = 1 * TB
NODE_CONNECTIONS: Final = 18
FEWEST_NODES: Final = 3

CONSTANTS: Final = (
    ("a schedule, with its definition and state", f"{SCHEDULE_BYTES:,} bytes", "measured"),
    ("of that, its state, which each due time writes", f"{STATE_BYTES:,} bytes", "measured"),
    ("a finished run", f"{RUN_BYTES:,} bytes", "measured"),
    ("the key of its due time", f"{KEY_BYTES:,} bytes", "measured"),
    ("a ledger entry", f"{LEDGER_BYTES:,} bytes", "measured"),
    ("an event", f"{EVENT_BYTES:,} bytes", "measured"),
    ("plan a due time: server, Python", f"{PLAN_SERVER} µs, {PLAN_PYTHON} µs", "measured"),
    ("claim, run and settle: server, Python", f"{RUN_SERVER} µs, {RUN_PYTHON} µs", "measured"),
    ("delete a run after its keep", f"{DELETE_SERVER} µs", "measured"),
    ("WAL of a due time and its run", f"{WAL_BYTES:,} bytes", "measured"),
    (
        "pages that a due time writes whole after each checkpoint, at worst",
        f"{PAGES} of {PAGE_BYTES:,} bytes",
        "assumed",
    ),
    ("the busiest minute, times the mean", f"{PEAK}", "assumed"),
    ("how busy processors may be then", f"{BUSY:.0%}", "assumed"),
    ("due times a second of one database", f"{MOST_DUE:,}", "assumed"),
    ("history of one database", "1 TB", "assumed"),
)

EXAMPLES: Final = (
    (1_000_000, 1, 90),
    (1_000_000, 24, 90),
    (10_000_000, 1, 90),
    (10_000_000, 24, 7),
    (100_000_000, 1, 90),
    (100_000_000, 1, 7),
    (100_000_000, 24, 1),
)
"""Schedules, how often per day each is due, and days for which runs are kept."""


@dataclass(frozen=True)
class Need:
    """What schedules need of all databases together."""

    schedules: int
    a_day: float
    keep_days: float
    due: float
    """mean due times per second"""
    hot: float
    """bytes that any due time may access, and that should fit into memory"""
    static: float
    """bytes of schedules, including the hot ones"""
    history: float
    """bytes of runs and their keys"""
    wal: float
    """mean bytes per second, in the worst case"""
    server_cores: int
    """of all servers, for the busiest minute"""
    node_cores: int
    databases: int
    nodes: int
    connections: int
    """maximum for all nodes of one database"""


def need(schedules: int, a_day: float, keep_days: float) -> Need:
    due = schedules * a_day / DAY
    busiest = due * PEAK
    history = due * DAY * keep_days * (RUN_BYTES + KEY_BYTES)
    databases = max(math.ceil(busiest / MOST_DUE), math.ceil(history / MOST_HISTORY), 1)
    node_cores = cores(busiest, PLAN_PYTHON + RUN_PYTHON)
    nodes = max(math.ceil(node_cores / databases), FEWEST_NODES)
    return Need(
        schedules,
        a_day,
        keep_days,
        due,
        schedules * STATE_BYTES,
        schedules * SCHEDULE_BYTES,
        history,
        due * (WAL_BYTES + PAGES * PAGE_BYTES),
        cores(busiest, PLAN_SERVER + RUN_SERVER + DELETE_SERVER),
        node_cores,
        databases,
        nodes * databases,
        nodes * NODE_CONNECTIONS,
    )


def cores(a_second: float, microseconds: float) -> int:
    return max(math.ceil(a_second * microseconds / 1e6 / BUSY), 1)


def table_of_constants() -> Iterator[str]:
    yield "| what | figure | |"
    yield "|---|---|---|"
    for what, figure, source in CONSTANTS:
        yield f"| {what} | {figure} | {source} |"


def table_of_needs() -> Iterator[str]:
    yield (
        "| schedules | each due | runs kept | due a second | busiest | state | schedules |"
        " history | WAL a second | cores of servers | cores of nodes | databases |"
        " nodes | connections of each database |"
    )
    yield "|" + "---|" * 14
    for example in EXAMPLES:
        yield row(need(*example))


def row(one: Need) -> str:
    often = "daily" if one.a_day == 1 else "hourly" if one.a_day == DAY // 3600 else f"{one.a_day}"
    cells = [
        f"{one.schedules / 1e6:g} million",
        often,
        f"{one.keep_days:g} d",
        rounded(one.due),
        rounded(one.due * PEAK),
        size(one.hot),
        size(one.static),
        size(one.history),
        size(one.wal),
        str(one.server_cores),
        str(one.node_cores),
        str(one.databases),
        str(one.nodes),
        f"at most {one.connections}",
    ]
    return f"| {' | '.join(cells)} |"


def rounded(figure: float) -> str:
    """To two digits: more would suggest a precision that was not measured."""
    digits = 1 - math.floor(math.log10(figure))
    return f"{round(figure, digits):,.0f}" if figure >= 10 else f"{figure:.2g}"


def size(figure: float) -> str:
    for unit, words in ((TB, "TB"), (GB, "GB"), (MB, "MB")):
        if figure >= unit:
            digits = ".2g" if figure < 100 * unit else ".0f"
            return f"{figure / unit:{digits}} {words}"
    return f"{figure / KB:.0f} kB"


def main(schedules: str = "", a_day: str = "1", keep_days: str = "90") -> None:
    lines = [*table_of_constants(), "", *table_of_needs()]
    if schedules:
        lines = [row(need(int(schedules), float(a_day), float(keep_days)))]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
