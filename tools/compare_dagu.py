"""How many files of Dagu Duebook reads, and whether both do the same with them.

    python -m tools.compare_dagu FOLDER --dagu PATH [--run] [--within SECONDS]

FOLDER has the files, PATH is the program of Dagu: `npm pack @dagu-org/dagu-linux-x64@1.30.2` has
it in `package/bin/dagu`. `--run` also executes what both accept and what looks harmless, in
directories of their own; only run files that you trust.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from duebook.errors import printable, shorten
from duebook.flows.check import check_files
from tools.dagu_runs import Ended, differences, run_in_dagu, run_in_duebook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.flows.problems import Problem

__all__ = ["Reading", "cause", "is_harmless", "main", "share"]

_QUOTED: Final = re.compile(r'"[^"]*"')
_REACHES_OUT: Final = re.compile(
    r"\b(?:curl|wget|nc|ssh|s?ftp|rsync|docker|podman|kubectl|helm|aws|gcloud|gsutil|psql|mysql\w*|"
    r"npm|pip|git|rm|mail|sendmail|systemctl|vault|dbt|make|pytest|spark-submit|redis\w*|sudo|"
    r"https?|smtp|executor|container|image|schedule|delay_?sec|worker_?selector|uuidgen|"
    r"hostname|free|df|uptime|ls|secrets|date)\b|RANDOM|/(?:etc|data|var|tmp|path|opt|home|logs|output)/",
    re.IGNORECASE,
)
"""What would reach for a network, other programs or the files of a machine, or always differs."""
_WAITS: Final = re.compile(
    r"(?:sleep|interval_?sec:?) +(?:[1-9]\d|[6-9])|human|approval|hitl", re.IGNORECASE
)


@dataclass(frozen=True)
class Reading:
    """What became of one file."""

    file: Path
    by_dagu: bool
    problems: tuple[Problem, ...]

    @property
    def is_read(self) -> bool:
        return not self.problems


def share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none"


def cause(problem: Problem) -> str:
    """The message without what is special to a file, so that equal causes can be counted."""
    return printable(_QUOTED.sub('"…"', problem.message))


def is_harmless(text: str) -> bool:
    """Whether a file may be executed to compare both: it prints, tests and exits, and soon."""
    return not _REACHES_OUT.search(text) and not _WAITS.search(text)


def _accepted(dagu: str, file: Path, home: str) -> bool:
    """Whether `dagu validate` accepts a file."""
    variables = {"PATH": os.environ["PATH"], "HOME": home, "DAGU_HOME": home}
    words = [dagu, "validate", str(file)]
    done = subprocess.run(  # noqa: S603 - the program that the user names
        words, env=variables, cwd=home, capture_output=True, timeout=60, check=False
    )
    return done.returncode == 0


def _read(dagu: str, files: Sequence[Path], home: str) -> list[Reading]:
    found = []
    for file in files:
        problems = check_files([file])[0].problems
        found.append(Reading(file, _accepted(dagu, file, home), problems))
    return found


def _print_readings(readings: Sequence[Reading]) -> None:
    valid = [reading for reading in readings if reading.by_dagu]
    print(f"files                 {len(readings)}")
    print(f"accepted by Dagu      {len(valid)}")
    print(f"of these, read        {share(sum(r.is_read for r in valid), len(valid))}")
    others = [reading for reading in readings if not reading.by_dagu and reading.is_read]
    print(f"read, but not by Dagu {len(others)}")
    for reading in others:
        print(f"    {reading.file.name}")
    causes = Counter(cause(reading.problems[0]) for reading in valid if not reading.is_read)
    print("\nwhy files are not read (the first reason of each)")
    for told, count in causes.most_common():
        print(f"{count:4}  {told}")
        for reading in valid:
            if not reading.is_read and cause(reading.problems[0]) == told:
                print(f"          {reading.file.name}: {printable(str(reading.problems[0]))[:150]}")


def _print_runs(readings: Sequence[Reading], dagu: str, within: float) -> None:
    files = [reading.file for reading in readings if reading.by_dagu and reading.is_read]
    files = [file for file in files if is_harmless(file.read_text())]
    with TemporaryDirectory(prefix="compare-") as name:
        first = run_in_dagu(dagu, files, Path(name) / "dagu", within)
        second = run_in_duebook(files, Path(name) / "duebook", within)
    both = [file for file in files if file in first and file in second]
    told = {file: differences(first[file], second[file]) for file in both}
    same = [file for file in both if not told[file]]
    print(f"\nexecuted by both      {len(both)}, of {len(files)} that look harmless")
    print(f"ended the same        {share(len(same), len(both))}")
    for file in both:
        for line in told[file]:
            print(f"    {file.name}: {shorten(printable(line), 200)}")
    for file in files:
        if file not in both:
            print(f"    {file.name}: {_unfinished(first.get(file), second.get(file))}")


def _unfinished(first: Ended | None, second: Ended | None) -> str:
    who = [name for name, end in (("Dagu", first), ("Duebook", second)) if end is None]
    return f"did not end in time in {' and '.join(who)}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="compare_dagu", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dagu", required=True, help="the program of Dagu")
    parser.add_argument("--run", action="store_true", help="execute what both accept")
    parser.add_argument("--within", type=float, default=30.0, help="seconds for each run")
    given = parser.parse_args(words)
    files = sorted(given.folder.glob("*.y*ml"))
    dagu = str(Path(given.dagu).resolve())
    with TemporaryDirectory(prefix="dagu-") as home:
        readings = _read(dagu, files, home)
    _print_readings(readings)
    if given.run:
        _print_runs(readings, dagu, given.within)
    return 0


if __name__ == "__main__":
    sys.exit(main())
