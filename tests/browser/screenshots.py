"""Takes the pictures of the dashboard that the documents show, into docs/images."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.browser.conftest import Site, chromium
from tests.browser.demo import fill_demo
from tests.browser.pictures import with_palette

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
DESK: Final = {"width": 1200, "height": 760}
PHONE: Final = {"width": 390, "height": 760}
SHOTS: Final = (
    ("overview", "/", DESK, "light"),
    ("overview-dark", "/", DESK, "dark"),
    ("schedule", "/schedules/nightly-etl", DESK, "light"),
    ("why", "/schedules/reindex#why", DESK, "light"),
    ("flow", "/flows/warehouse", DESK, "light"),
    ("calendar", "/calendar", DESK, "light"),
    ("simulate", "/simulate?days=7&workers=3", DESK, "light"),
    ("phone", "/schedules", PHONE, "light"),
)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        books = Path(folder) / "books.db"
        fill_demo(books)
        with closing(Site(books, browser)) as site:
            failed = next(r.id for r in site.book.runs.list(status="failed") if not r.flow)
            for name, path, size, scheme in (*SHOTS, ("run", f"/runs/{failed}", DESK, "light")):
                page = site.visit(path, viewport=size, color_scheme=scheme)
                page.reload()
                if page.locator("body[data-live]").count():
                    page.get_by_text("Live", exact=True).wait_for()
                (IMAGES / f"{name}.png").write_bytes(with_palette(page.screenshot()))


if __name__ == "__main__":
    main()
