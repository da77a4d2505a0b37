"""Writes docs/licences.md: the licences of Duebook's run-time dependencies (`make licences`)."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING, Final

from tools.lock import ROOT, normal

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PAGE: Final = ROOT / "docs" / "licences.md"
SHIPPED: Final = ("apprise", "celery", "holidays", "jq", "kafka", "mcp", "otel", "postgres")
"""The extras that users install."""
HEAD: Final = """\
# Licences of dependencies

These packages are installed on Linux with Duebook and all of its extras. Duebook itself has the
MIT licence and contains no code of them. `make licences` writes this page from the metadata of the
packages that the tests run with.

| package | licence |
|---|---|
"""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_EXTRAS: Final = re.compile(r"\[([^\]]*)\]")


def licence(package: Distribution) -> str:
    """From its metadata: an expression, a text of one line, or the classifiers."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classified = [
        text.rpartition(" :: ")[2]
        for text in metadata.get_all("Classifier") or []
        if text.startswith("License :: OSI Approved :: ")
    ]
    told = "".join(metadata.get_all("License") or [])
    if told and "\n" not in told and len(told) < 60:
        return told
    return ", ".join(classified) or "unknown"


def needed(name: str, extras: tuple[str, ...] = ()) -> dict[str, Distribution]:
    """The dependencies of a package, by name; those for other platforms are not installed."""
    found: dict[str, Distribution] = {}
    waiting = [(name, extras)]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        try:
            package = distribution(one[0])
        except PackageNotFoundError:
            continue
        found[normal(one[0])] = package
        waiting += [each for text in package.requires or [] if (each := _wanted(text, one[1]))]
    return found


def _wanted(text: str, extras: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """A requirement as name and extras; None if only another extra needs it."""
    requirement, _, marker = text.partition(";")
    only = _EXTRA.search(marker)
    if only is not None and only[1] not in extras:
        return None
    named = _NAME.match(requirement)
    inner = _EXTRAS.search(requirement)
    own = tuple(sorted(part.strip() for part in inner[1].split(","))) if inner else ()
    return (named[0], own) if named else None


def page() -> str:
    packages = needed("duebook", SHIPPED)
    del packages["duebook"]
    rows = [f"| {name} | {licence(package)} |" for name, package in sorted(packages.items())]
    return HEAD + "\n".join(rows) + "\n"


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
