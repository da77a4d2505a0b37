"""What processes cost on Linux: memory, threads and descriptors of a process and its children."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["descriptors", "family", "memory", "processor_seconds", "threads"]


def family(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in task.read_text().split():
                found += family(int(child))
    return found


def memory(pid: int) -> float:
    """MB of the family; shared memory counts once."""
    return sum(_field(member, "smaps_rollup", "Pss:") for member in family(pid)) / 1e3


def threads(pid: int) -> int:
    return round(sum(_field(member, "status", "Threads:") for member in family(pid)))


def processor_seconds(pid: int) -> float:
    """Of one process, and of children that it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def descriptors(pid: int) -> int:
    return sum(_number_of_files(member) for member in family(pid))


def _field(pid: int, file: str, name: str) -> float:
    """0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0)


def _number_of_files(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return len([*Path(f"/proc/{pid}/fd").iterdir()])
    return 0
