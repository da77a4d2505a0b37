"""Stores the results of benchmarks: a JSON file for each, with the machine it was measured on.

A file contains no host name and no path: only the number of cores and the memory, the versions, the
commit and the day.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import environments

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RESULTS", "read_all", "slug", "write"]

RESULTS: Final = Path(__file__).with_name("results")
OURS: Final = ("duebook", "psycopg", "croniter", "cronsim")
MEMORY: Final = Path("/proc/meminfo")


def write(folder: Path, benchmark: str, lines: str, seconds: float, quick: bool) -> Path:
    """Write the result of one benchmark from its recorded lines of JSON."""
    found = [json.loads(line) for line in lines.splitlines()]
    result = {
        "benchmark": benchmark,
        "size": "quick" if quick else "full",
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "seconds": round(seconds),
        "machine": machine(),
        "versions": versions(),
        "figures": [one for one in found if "value" in one],
        "left_out": [one for one in found if "left_out" in one],
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slug(benchmark)}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def read_all(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        yield json.loads(path.read_text("utf-8"))


def slug(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower().replace("--store ", "")).strip("-")


def commit() -> str:
    """The commit of the source, with a plus if there are uncommitted changes."""
    here = Path(__file__).parent
    words = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    found: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "system": platform.system()}
    if MEMORY.exists() and (total := re.search(r"MemTotal: +(\d+) kB", MEMORY.read_text())):
        found["memory_gb"] = round(int(total[1]) / 1e6)
    return found


def versions() -> dict[str, str]:
    ours = {name: metadata.version(name) for name in OURS}
    postgres = os.environ.get("DUEBOOK_TEST_POSTGRES", "18")
    return {"python": platform.python_version(), "postgresql": postgres} | ours | peer_versions()


def peer_versions() -> dict[str, str]:
    """The versions of the installed peers."""
    return {peer: version for peer in environments.PEERS if (version := environments.version(peer))}
