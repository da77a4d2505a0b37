"""Runs tests against deliberate faults: `make mutants` puts each of them into a copy of the tree.

The working tree is never changed. A mutant is caught if one of its tests fails or times out; if
its tests could not even be collected, it counts as broken, not as caught.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.mutants import ROOT, Mutant, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENOUGH: Final = 0.95
"""The required share of caught mutants."""
SECONDS: Final = 300.0
SECONDS_WIDE: Final = 1_500.0
WIDE: Final = ("tests/unit", "tests/conformance")
QUICK: Final = "not lengthy and not long and not zones and not kills"
_LEFT_OUT: Final = {"site", "dist", "build", "node_modules", "__pycache__"}
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Result:
    """The result for a mutant."""

    name: str
    area: str
    verdict: str
    """caught, survived or broken"""
    by: str
    """the test that failed first"""
    seconds: float


def main() -> int:
    arguments = _arguments()
    mutants = [m for m in load() if not arguments.names or _is_named(m, arguments.names)]
    if not mutants:
        print("no mutant has such a name", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="duebook-mutants-") as folder:
        tree = _copied(Path(folder) / "tree")
        if not arguments.no_baseline and not _is_sound(tree, mutants):
            return 1
        results = list(_tried(tree, mutants, arguments.all_tests))
    return _told(results, Path(arguments.json))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="run only mutants with one of these texts in the name"
    )
    parser.add_argument(
        "--all-tests",
        action="store_true",
        help="run all unit and conformance tests against those that their own tests miss",
    )
    parser.add_argument(
        "--no-baseline", action="store_true", help="do not run the tests without a fault first"
    )
    parser.add_argument(
        "--json",
        default=str(Path(tempfile.gettempdir()) / "duebook-mutants.json"),
        help="where to write the results (default: %(default)s)",
    )
    return parser.parse_args()


def _is_named(mutant: Mutant, names: Sequence[str]) -> bool:
    return any(name.lower() in mutant.name.lower() for name in names)


def _copied(tree: Path) -> Path:
    tree.mkdir()
    for path in sorted(ROOT.iterdir()):
        if path.name.startswith(".") or path.name in _LEFT_OUT:
            continue
        if path.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", ".duebook")
            shutil.copytree(path, tree / path.name, ignore=ignore)
        else:
            shutil.copy2(path, tree / path.name)
    return tree


def _is_sound(tree: Path, mutants: Sequence[Mutant]) -> bool:
    """Whether the tests pass without a fault: otherwise their failures would mean nothing."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    began = time.monotonic()
    code, output = _pytest(tree, [*tests, "-n", "2"], SECONDS_WIDE)
    if code == 0:
        print(f"without a fault {len(tests)} test files pass ({time.monotonic() - began:.0f} s)")
        return True
    print(f"without a fault the tests do not pass:\n{output[-3000:]}", file=sys.stderr)
    return False


def _tried(tree: Path, mutants: Sequence[Mutant], all_tests: bool) -> Iterator[Result]:
    for number, mutant in enumerate(mutants, 1):
        path, began = tree / mutant.file, time.monotonic()
        sound, times = path.read_text("utf-8"), path.stat()
        path.write_text(mutant.applied(sound), "utf-8")
        # compiled code of the previous content is stale, even within the same second
        os.utime(path, (times.st_atime, times.st_mtime + number))
        try:
            code, output = _pytest(tree, [*mutant.tests, *_stores(mutant)], SECONDS)
            if code == 0 and all_tests:
                code, output = _pytest(tree, [*WIDE, "-n", "2"], SECONDS_WIDE)
        finally:
            path.write_text(sound, "utf-8")
            os.utime(path, (times.st_atime, times.st_mtime))
        found = _FAILED.search(output)
        verdict = {0: "survived", 1: "caught", None: "caught"}.get(code, "broken")
        by = "out of time" if code is None else found[1] if found else ""
        result = Result(mutant.name, mutant.area, verdict, by, round(time.monotonic() - began, 1))
        print(f"{verdict:<9}{result.seconds:>6.1f} s  {mutant.name}  {by}", flush=True)
        yield result


def _stores(mutant: Mutant) -> list[str]:
    others = {"sqlite": "postgres", "postgres": "sqlite"}
    return ["-k", f"not {others[mutant.only]}"] if mutant.only else []


def _pytest(tree: Path, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """The exit code of pytest, None if it timed out, and its output."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", QUICK]
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(  # noqa: S603 - pytest, with the tests of the list
        [*command, *arguments],
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
    return process.returncode, output


def _told(results: Sequence[Result], path: Path) -> int:
    caught = sum(result.verdict == "caught" for result in results)
    score = caught / len(results)
    form = {
        "count": len(results),
        "caught": caught,
        "score": round(score, 4),
        "mutants": [asdict(result) for result in results],
    }
    path.write_text(json.dumps(form, indent=2) + "\n", "utf-8")
    print(f"\n{'area':<12}{'mutants':>8}{'caught':>8}")
    for area in sorted({result.area for result in results}):
        own = [result for result in results if result.area == area]
        print(f"{area:<12}{len(own):>8}{sum(r.verdict == 'caught' for r in own):>8}")
    print(f"{'all':<12}{len(results):>8}{caught:>8}  {score:.1%}; results in {path}")
    for result in results:
        if result.verdict != "caught":
            print(f"{result.verdict}: {result.name}")
    return 0 if score >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
