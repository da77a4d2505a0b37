"""Writes requirements-dev.txt, for the tests, and requirements.txt, for running Duebook: every
package with the hashes of its files.

`make lock` uses the index that pip is configured with, so no address is in the repository. Versions
are those of constraints.txt; hashes are of all files for CPython 3.11 to 3.14 on Linux and macOS,
so that pip can choose any of them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "requirements-dev.txt"
RUN_LOCK: Final = ROOT / "requirements.txt"
"""The part that `make run` installs."""
BUILD: Final = ("hatchling", "editables")
"""Builds the package itself, which is installed without an isolated environment."""
VERSIONS: Final = ("311", "312", "313", "314")
HEAD: Final = """\
# What the tests run with: versions of constraints.txt, with the hashes of their files.
# Written by `make lock`; installed by `make setup`.
"""
RUN_HEAD: Final = """\
# What running from this folder needs: the part of requirements-dev.txt without the tests' tools.
# Written by `make lock`; installed by `make run`.
"""
_WHEEL: Final = re.compile(
    r".+?-.+?(?:-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>.+)\.whl"
)
_MACHINES: Final = ("x86_64", "aarch64", "arm64", "universal2")


class File(NamedTuple):
    name: str
    sha256: str


class _Links(HTMLParser):
    """Collects the files of an index page."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href") or ""
        address, _, digest = href.partition("#sha256=")
        if tag == "a" and digest:
            self.files.append(File(address.rpartition("/")[2], digest.partition("&")[0]))


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def is_of(file: str, name: str, version: str) -> bool:
    """Whether a file is that version of a package."""
    stem = file.removesuffix(".tar.gz")
    found, _, rest = stem.partition("-") if file.endswith(".whl") else stem.rpartition("-")
    return normal(found) == normal(name) and rest.partition("-")[0] == version


def fits(file: str) -> bool:
    """Whether it is a wheel for a Python version and platform that the tests run on."""
    found = _WHEEL.fullmatch(file)
    if found is None:
        return False
    pythons, platform = found["python"].split("."), found["platform"]
    known = {"py3", *(f"cp{version}" for version in VERSIONS), *(f"py{v}" for v in VERSIONS)}
    stable = found["abi"] == "abi3" and all(re.fullmatch(r"cp3\d+", one) for one in pythons)
    if not stable and not known.intersection(pythons):
        return False
    if found["abi"].endswith("t"):  # without the GIL
        return False
    if platform == "any":
        return True
    unix = re.search(r"manylinux|musllinux|macosx|^linux", platform) is not None
    return unix and platform.endswith(_MACHINES)


def choose(files: list[File]) -> list[File]:
    """The wheels that fit; the source if there are none."""
    wheels = [file for file in files if fits(file.name)]
    return wheels or [file for file in files if file.name.endswith(".tar.gz")]


def index_url() -> str:
    """The index that pip uses."""
    from pip._internal.models.index import PyPI  # type: ignore[import-not-found,unused-ignore]

    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    url: str = told.stdout.strip() or PyPI.simple_url
    return url.rstrip("/")


def files_of(url: str, name: str) -> list[File]:
    page = urllib.request.Request(f"{url}/{normal(name)}/", headers={"Accept": "text/html"})  # noqa: S310
    links = _Links()
    with urllib.request.urlopen(page, timeout=120) as answer:  # noqa: S310
        links.feed(answer.read().decode())
    return links.files


def pinned() -> dict[str, str]:
    """Names and versions in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().split()
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def resolved(extra: str = "") -> list[tuple[str, str]]:
    """The names and versions that pip would install to build the package and run it with an
    `extra`."""
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"),
        *("--report", "-", "-c", str(ROOT / "constraints.txt"), *BUILD, f"{ROOT}{extra}"),
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    found = (one["metadata"] for one in json.loads(told.stdout)["install"])
    return sorted(
        (normal(one["name"]), one["version"]) for one in found if one["name"] != "duebook"
    )


def block(url: str, name: str, version: str) -> str:
    """The lines of a package; raises SystemExit if the index has no file for it."""
    files = choose([file for file in files_of(url, name) if is_of(file.name, name, version)])
    if not files:
        raise SystemExit(f"{name} {version}: the index lists no file that fits")
    print(f"{name} {version}: {len(files)} files", flush=True)
    hashes = sorted({file.sha256 for file in files})
    return " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{one}" for one in hashes)])


def main() -> None:
    found, needed = resolved("[dev]"), {name for name, _ in resolved()}
    if missing := sorted({name for name, _ in found} - pinned().keys()):
        raise SystemExit(f"constraints.txt does not pin {', '.join(missing)}; add them")
    url = index_url()
    with ThreadPoolExecutor(8) as pool:
        blocks = list(pool.map(lambda one: block(url, *one), found))
    LOCK.write_text(HEAD + "\n".join(blocks) + "\n")
    kept = [text for text, (name, _) in zip(blocks, found, strict=True) if name in needed]
    RUN_LOCK.write_text(RUN_HEAD + "\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
