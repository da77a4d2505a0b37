"""What `systemd-analyze calendar` returns for a year, kept in a table for machines without it.

`python -m tests.support.systemd_times` writes the table again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

__all__ = ["BASE", "SPECS", "TABLE", "analyze", "is_installed", "summary"]

TABLE: Final = Path(__file__).with_name("systemd_times.json")
BASE: Final = datetime(2026, 11, 18, 6, 0, tzinfo=UTC)
YEAR: Final = timedelta(days=365)
MOST: Final = 400
"""Due times that are compared: a year of daily ones."""
SPECS: Final = (
    "minutely",
    "hourly",
    "daily",
    "weekly",
    "monthly",
    "quarterly",
    "semiannually",
    "yearly",
    "*:0/15",
    "*:00/30:10",
    "00/6:30",
    "02,07,12,17,22:05,50",
    "Mon..Fri *-*-* 18:30:00",
    "Mon-Fri 22:00",
    "Sat,Sun 08:05:40",
    "Thu",
    "Mon,Wed..Fri *-1-1/3",
    "*-*-1,8,15,22,29 12:00",
    "*-*-1..7 06:00",
    "Sun *-*-8..14 06:00",
    "*-*~01 04:00",
    "*-*~03,07 04:00",
    "Mon *-05~07/1",
    "*-02~01 00:00",
    "*-10,03-25..31 13:30",
    "2026-12-24 *:30",
    "2027-03-05 08:15:30",
    "2026..2027-01,12-24 09:00",
    "*-*-* 20..22/2:00",
    "Fri *-*-13 13:13",
    "*-12-31 23:59:59",
    "@1800000000",
    "Mon..Fri *-*-* 05:30 Europe/Brussels",
    "*-*-* 09,17:00 America/New_York",
    "Sat *-*~07/1 23:30 Asia/Kathmandu",
    "daily Pacific/Auckland",
)
_ELAPSE: Final = re.compile(r"(?:Next elapse|Iter. #\d+): \w{3} (\S+ \S+) UTC")


def is_installed() -> bool:
    return shutil.which("systemd-analyze") is not None


def analyze(spec: str, number: int = MOST, base: datetime = BASE) -> list[datetime] | None:
    """The next due times after `base` from systemd, within a year; None if it refuses the
    expression."""
    command = ["systemd-analyze", "calendar", f"--iterations={number}"]
    command += [f"--base-time={base:%Y-%m-%d %H:%M:%S} UTC", spec]
    done = subprocess.run(  # noqa: S603 - our own arguments
        command, capture_output=True, text=True, check=False, env={**os.environ, "TZ": "UTC"}
    )
    if done.returncode:
        return None
    texts = _ELAPSE.findall(done.stdout)
    found = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts)
    return [due for due in found if due <= base + YEAR]


def summary(due_times: list[datetime]) -> dict[str, Any]:
    """Some due times to read, and a digest of all."""
    lines = "\n".join(f"{due:%Y-%m-%dT%H:%M:%SZ}" for due in due_times)
    return {
        "count": len(due_times),
        "first": lines.split("\n")[:3] if due_times else [],
        "digest": hashlib.sha256(lines.encode()).hexdigest()[:16],
    }


if __name__ == "__main__":
    table = {spec: summary(analyze(spec) or []) for spec in SPECS}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
