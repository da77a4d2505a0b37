"""Builds a release into dist/ (`make dist`): sdist, wheel, its components as CycloneDX, and
checksums. It fails unless a second build gives the same bytes, and the wheel works in its own
environment."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from duebook.version import __version__
from tools.licences import licence, needed
from tools.lock import ROOT, RUN_LOCK, normal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import Distribution

__all__ = ["build", "commit_time", "complete", "digest", "try_wheel"]

DIST: Final = ROOT / "dist"
SUMS: Final = "SHA256SUMS"
_NO_PIP_NEWS: Final = ("--quiet", "--disable-pip-version-check")


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    build(DIST)
    with TemporaryDirectory() as folder:
        if differing := _differing(DIST, build(Path(folder) / "again")):
            print(f"two builds of this commit differ: {', '.join(differing)}", file=sys.stderr)
            return 1
        (wheel,) = DIST.glob("*.whl")
        print(try_wheel(wheel, Path(folder)))
    _write_parts(DIST / f"duebook-{__version__}.cdx.json")
    lines = [f"{digest(path)}  {path.name}" for path in sorted(DIST.iterdir())]
    (DIST / SUMS).write_text("".join(f"{line}\n" for line in lines))
    print(*lines, f"dist/ has release {__version__}", sep="\n")
    return 0


def build(folder: Path) -> Path:
    """The sdist of the working tree, and the wheel built from that sdist."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": commit_time()}
    words = ["-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    _run(sys.executable, *words, env=environment)
    return folder


def commit_time() -> str:
    """The time of the newest commit, which is used for every file of a release."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    return _run("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def try_wheel(wheel: Path, folder: Path) -> str:
    """The output for a schedule added with the wheel in an environment with nothing else."""
    venv.create(folder / "clean", with_pip=True)
    program = folder / "clean" / "bin"
    pip = (str(program / "python"), "-m", "pip", "install", *_NO_PIP_NEWS, "--no-deps")
    _run(*pip, "--require-hashes", "-r", str(RUN_LOCK))
    _run(*pip, str(wheel))
    duebook = (str(program / "duebook"), "--database", str(folder / "books.db"))
    _run(*duebook, "add", "hello", "--every", "1h", "--", "echo", "hello")
    return _run(*duebook, "preview", "hello", "-n", "1")


def _differing(first: Path, second: Path) -> list[str]:
    names = {path.name for folder in (first, second) for path in folder.iterdir()}
    return sorted(
        name
        for name in names
        if not (second / name).exists() or digest(first / name) != digest(second / name)
    )


def _write_parts(path: Path) -> None:
    """Every package that a node needs, with its version and hashes, in a form for auditors."""
    _run(
        *(sys.executable, "-m", "cyclonedx_py", "requirements", str(RUN_LOCK)),
        *("--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application"),
        *("--output-reproducible", "--of", "JSON", "-o", str(path)),
    )
    told = complete(json.loads(path.read_text("utf-8")), needed("duebook"))
    path.write_text(json.dumps(told, indent=2, sort_keys=True) + "\n", "utf-8")


def complete(parts: dict[str, Any], packages: Mapping[str, Distribution]) -> dict[str, Any]:
    """With our version and the licences, and without packages needed only for building."""
    kept = [part for part in parts["components"] if normal(part["name"]) in packages]
    for part in kept:
        name = licence(packages[normal(part["name"])])
        part["licenses"] = [{"license": {"name": name, "acknowledgement": "declared"}}]
        part.pop("description", None)  # the line of the lock file
    refs = {part["bom-ref"] for part in kept} | {"root-component"}
    root = parts["metadata"]["component"] | {"version": __version__}
    return parts | {
        "metadata": parts["metadata"] | {"component": root},
        "components": kept,
        "dependencies": [one for one in parts.get("dependencies", []) if one["ref"] in refs],
    }


def _run(*words: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
