"""The site that `make docs` builds of these pages, with Sphinx; see ADR 45."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE))

from navigation import INDEX_PAGES, menu  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Duebook"
author = "The Duebook authors"
html_title = "Duebook"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_templates"]
templates_path = ["_templates"]

# the anchors of headings are those of the repository's own pages
myst_heading_anchors = 4
myst_dmath_double_inline = False

html_theme = "furo"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"


OF_REPOSITORY: Final = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([A-Z]+\.md)\)")
"""Links to pages that are not part of the site, such as CHANGELOG.md."""


def prepare(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add the menu to index pages; of links that leave the site, keep the text."""
    source[0] = OF_REPOSITORY.sub(r"\1", source[0])
    if page in INDEX_PAGES:
        source[0] += menu(page, source[0])


def setup(app: Sphinx) -> None:
    app.connect("source-read", prepare)
