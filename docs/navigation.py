"""Which pages the site's menu has, and in which order: those that index pages link to.

Index pages are ordinary Markdown, so that the same lists lead through the docs in the repository.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["INDEX_PAGES", "Section", "menu", "sections"]

INDEX_PAGES: Final = (
    "index",
    "how-to/index",
    "reference/index",
    "explanation/index",
    "explanation/decisions",
)
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\((?!https?:)([^)#]+)\.md\)")


class Section(NamedTuple):
    """A heading of an index page, and the pages linked below it, by path without suffix."""

    title: str
    pages: tuple[str, ...]


def sections(page: str, text: str) -> Iterator[Section]:
    """The sections of an index page that link to other pages."""
    parts = _HEADING.split(text)
    for title, body in zip(["", *parts[1::2]], parts[::2], strict=True):
        folder = posixpath.dirname(page)
        found = [posixpath.normpath(posixpath.join(folder, link)) for link in _LINK.findall(body)]
        pages = tuple(dict.fromkeys(one for one in found if not one.startswith("..")))
        if pages:
            yield Section(title, pages)


def menu(page: str, text: str) -> str:
    """What Sphinx reads below an index page: a hidden list for each of its sections."""
    blocks = []
    for section in sections(page, text):
        if page == "index" and not section.title:
            continue  # its introduction, whose links are below as well
        caption = f":caption: {section.title}\n" if page == "index" else ""
        entries = "\n".join(f"/{one}" for one in section.pages)
        blocks.append(f"\n```{{toctree}}\n:hidden:\n{caption}\n{entries}\n```\n")
    return "".join(blocks)
