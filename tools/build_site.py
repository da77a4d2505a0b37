"""Builds the documentation site into site/ (`make docs`). It fails if a page contains an external
address: the site works without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["outside_addresses"]

ROOT: Final = Path(__file__).resolve().parent.parent
SITE: Final = ROOT / "site"
_IN_HTML: Final = re.compile(
    r"""\b(?:src|href|srcset|action|data)\s*=\s*["']?((?:https?:)?//[^"'\s>]+)"""
)
_IN_CSS: Final = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"'\s)]+)""")


def outside_addresses(name: str, text: str) -> Iterator[str]:
    """External addresses that a browser showing this file would load, or link to."""
    if name.endswith((".html", ".svg")):
        yield from _IN_HTML.findall(text)
    if name.endswith((".html", ".svg", ".css")):
        yield from _IN_CSS.findall(text)


def build() -> int:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    return subprocess.run([*command, "docs", "site"], cwd=ROOT, check=False).returncode  # noqa: S603


def main() -> int:
    if code := build():
        return code
    found = 0
    for path in sorted(SITE.rglob("*.*")):
        if path.suffix not in {".html", ".svg", ".css"}:
            continue
        for address in outside_addresses(path.name, path.read_text("utf-8")):
            print(f"{path.relative_to(ROOT)} names {address}")
            found += 1
    if found:
        return 1
    print("site/index.html is the site; it also opens as a file")
    return 0


if __name__ == "__main__":
    sys.exit(main())
