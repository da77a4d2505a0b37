"""Links between the documents lead to a file and, after `#`, to a heading of it; the menu of the
site has every page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from docs.navigation import INDEX_PAGES, sections

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
DOCUMENTS: Final = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
CODE: Final = re.compile(r"^( *)```.*?^\1```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
HEADING: Final = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
FENCE: Final = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
HOST: Final = re.compile(r"[a-z]+:")


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site write it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading).lower().strip()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    found: list[str] = []
    for heading in HEADING.findall(FENCE.sub("", page.read_text("utf-8"))):
        name = slug(heading)
        times = sum(
            one == name or re.fullmatch(rf"{re.escape(name)}-\d+", one) is not None for one in found
        )
        found.append(f"{name}-{times}" if times else name)
    return frozenset(found)


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for link in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        if HOST.match(link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), (
                f"{page.name} links to {link}, which has no such heading"
            )


def test_the_menu_of_the_site_has_every_page() -> None:
    listed = {"index"}
    for page in INDEX_PAGES:
        for section in sections(page, (DOCS / f"{page}.md").read_text("utf-8")):
            listed.update(section.pages)
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert listed == pages


def test_the_pages_of_the_site_link_to_no_other_site() -> None:
    """So that whoever reads it without a network misses nothing."""
    for page in DOCS.rglob("*.md"):
        outside = re.findall(
            r"\]\(https?:[^)]*\)|<https?:[^>]*>", CODE.sub("", page.read_text("utf-8"))
        )
        assert outside == [], page.name


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Why did it not run?", "why-did-it-not-run"),
        ("The `env` of a command", "the-env-of-a-command"),
        ("Upgrade, canary and rollback", "upgrade-canary-and-rollback"),
        ("`duebook db check`", "duebook-db-check"),
        ("[Targets](targets.md) and more", "targets-and-more"),
    ],
)
def test_an_anchor_is_what_github_makes_of_a_heading(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor
