"""Runs every benchmark, whatever becomes of the others, and sums up their goals at the end.

python -m bench [NAME ...]        (all of them, or those whose words contain a NAME)
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from bench.goals import LINE

BENCHMARKS: Final = (
    "triggers",
    "simulate",
    "ahead",
    "fire",
    "fire --store postgres",
    "speeds",
    "forms",
    "held",
    "work",
    "commands",
    "retention",
    "events",
    "flows",
    "pages",
    "api",
    "web",
)


def main() -> None:
    names = sys.argv[1:]
    chosen = [b for b in BENCHMARKS if not names or any(name in b for name in names)]
    goals: list[tuple[str, str]] = []
    failed: list[str] = []
    for benchmark in chosen:
        found, code = run(benchmark)
        goals += [(benchmark, line) for line in found]
        if code and not any(line.endswith("MISSED") for line in found):
            failed.append(benchmark)
    sys.exit(summary(goals, failed))


def run(benchmark: str) -> tuple[list[str], int]:
    """Its goals, as it printed them, and how it ended; prints what it prints."""
    print(f"\n== {benchmark}", flush=True)
    words = [sys.executable, "-u", "-m", *f"bench.{benchmark}".split()]
    goals = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if LINE.search(line.rstrip()):
                goals.append(line.rstrip())
    return goals, process.returncode


def summary(goals: list[tuple[str, str]], failed: list[str]) -> int:
    missed = [goal for goal in goals if goal[1].endswith("MISSED")]
    print(f"\n== {len(goals)} goals, of which {len(goals) - len(missed)} hold")
    for benchmark, line in goals:
        print(f"{benchmark:22}{line}")
    for benchmark in failed:
        print(f"{benchmark:22}FAILED without saying which goal it missed")
    return 1 if missed or failed else 0


if __name__ == "__main__":
    main()
