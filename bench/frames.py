"""How smoothly a browser follows a long log that grows, and how much memory its tab takes.

    python -m bench.frames [--quick] [--minutes 5]

A run prints 1,000 lines a second. Frames are counted by the page itself; memory is what its script
holds after a collection. Needs Chromium.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.browser.conftest import Site, chromium
from tests.support.builders import begin, claim

from bench.goals import Goals, show
from duebook.clock import utc_now
from duebook.model.run import LogLine

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

    from duebook.model.run import Claim

PARTS: Final = 12
LINES: Final = 1_000
"""Of a second."""
BATCH: Final = 100
BEFORE: Final = 170_000
"""Lines that there are before anybody looks: more than a page keeps."""
FEWEST: Final = 60.0
MOST_GROWTH: Final = 1.1
COUNT_FRAMES: Final = """() => {
  window.frames_at = [];
  const look = (at) => { window.frames_at.push(at); requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""
TAKE_FRAMES: Final = "() => window.frames_at.splice(0)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="look for some seconds only")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to look")
    options = parser.parse_args()
    seconds = 8.0 if options.quick else options.minutes * 60
    goals = Goals()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        site = Site(Path(folder) / "books.db", browser)
        begin(site.store, lease=timedelta(days=1))
        site.book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
        site.book.schedules.trigger("job")
        (claimed,) = claim(site.store)
        for first in range(0, BEFORE, LINES):
            append(site, claimed, first, LINES)
        page = site.visit(f"/runs/{claimed.run.id}")
        page.locator(".log .log-window").wait_for(state="attached")
        end = threading.Event()
        printer = threading.Thread(target=print_lines, args=(site, claimed, end), daemon=True)
        printer.start()
        report(page, seconds, goals)
        end.set()
        printer.join()
        site.close()
    sys.exit(goals.exit_code)


def print_lines(site: Site, claimed: Claim, end: threading.Event) -> None:
    """So many a second, whatever each batch takes."""
    began, number = time.monotonic(), 0
    while not end.wait(max(began + number / LINES - time.monotonic(), 0)):
        append(site, claimed, BEFORE + number, BATCH)
        number += BATCH


def append(site: Site, claimed: Claim, first: int, count: int) -> None:
    texts = [f"line {first + n + 1} of a log that goes on and on" for n in range(count)]
    lines = [LogLine(utc_now(), "stdout", text) for text in texts]
    site.store.transact(lambda tx: tx.attempts.append_log(claimed.token, first + 1, lines))


def report(page: Page, seconds: float, goals: Goals) -> None:
    """Frames of each second, and memory, which goes up and down with what the page lets go of."""
    tab = page.context.new_cdp_session(page)
    page.evaluate(COUNT_FRAMES)
    held: list[float] = []
    rates: list[float] = []
    for _ in range(PARTS):
        page.wait_for_timeout(seconds / PARTS * 1_000)
        at = page.evaluate(TAKE_FRAMES)
        rates += [1_000 / (late - early) for early, late in itertools.pairwise(at)]
        held.append(megabytes(tab))
    show("lines that the page has", [float(page.locator(".log .line").count())])
    show("memory of the script, MB", held)
    frames = statistics.median(rates)
    show("frames a second, of the slowest 5 %", [statistics.quantiles(rates, n=20)[0]])
    goals.at_most("frames wanted, times those there were", 1.0, [(FEWEST - 1) / frames])
    early, late = max(held[: PARTS // 2]), max(held[PARTS // 2 :])
    goals.at_most("memory in the second half, times the first", MOST_GROWTH, [late / early])


def megabytes(tab: CDPSession) -> float:
    tab.send("HeapProfiler.collectGarbage")
    return float(tab.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


if __name__ == "__main__":
    main()
