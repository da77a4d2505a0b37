"""Runs every benchmark even if others fail, stores and renders the figures, and sums up the goals
at the end.

python -m bench [--quick] [--results FOLDER] [NAME ...]
python -m bench render [--results FOLDER]

With names, runs only benchmarks with one of them in their command line. With --quick everything is
run briefly: the figures mean little, and are stored in a separate folder that is printed at the
end. `render` writes docs/benchmarks.md again from the stored results.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import results
from bench.goals import RECORD
from bench.listing import BENCHMARKS
from bench.render import render

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--quick", action="store_true", help="try everything for a moment")
    parser.add_argument("--results", type=Path, help="where results are stored")
    options = parser.parse_args()
    folder = options.results or results.RESULTS
    if options.names == ["render"]:
        return render(folder)
    if options.quick and options.results is None:
        folder = Path(tempfile.mkdtemp(prefix="duebook-bench-"))
    failed = [words for words in chosen(options.names) if not run(words, folder, options.quick)]
    if options.results is None and not options.quick:
        render(folder)
    code = summary(folder, options.names, failed)
    print(f"results: {folder}")
    return code


def chosen(names: list[str]) -> Iterator[str]:
    for benchmark in BENCHMARKS:
        if not names or any(name in benchmark.words for name in names):
            yield benchmark.words


def run(benchmark: str, folder: Path, quick: bool) -> bool:
    """Print its output and store its figures; returns whether it ran to its end."""
    print(f"\n== {benchmark}", flush=True)
    words = [sys.executable, "-u", "-m", *f"bench.{benchmark}".split()]
    began = time.monotonic()
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl", encoding="utf-8") as record:
        env = os.environ | {RECORD: record.name}
        code = subprocess.run([*words, *["--quick"] * quick], env=env, check=False).returncode
        lines = record.read()
    results.write(folder, benchmark, lines, time.monotonic() - began, quick)
    return not code or '"holds": false' in lines


def summary(folder: Path, names: list[str], failed: list[str]) -> int:
    wanted = {results.slug(words): words for words in chosen(names)}
    goals: list[tuple[str, dict[str, Any]]] = [
        (result["benchmark"], figure)
        for result in results.read_all(folder)
        if results.slug(result["benchmark"]) in wanted
        for figure in result["figures"]
        if "goal" in figure
    ]
    missed = [figure for _, figure in goals if not figure["holds"]]
    print(f"\n== {len(goals)} goals, of which {len(goals) - len(missed)} hold")
    for benchmark, figure in goals:
        verdict = "holds" if figure["holds"] else "MISSED"
        print(
            f"{benchmark:22}{figure['name']:64}{figure['value']:>12,.6g}"
            f"  goal {figure['goal']:12}{verdict}"
        )
    for benchmark in failed:
        print(f"{benchmark:22}FAILED")
    return 1 if missed or failed else 0


if __name__ == "__main__":
    sys.exit(main())
