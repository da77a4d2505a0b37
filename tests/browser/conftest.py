"""A browser, and a site for each test; without a browser the tests fail, unless told otherwise."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api.authenticator import BookAuthenticator
from duebook.api.server import Server, bind
from duebook.book import Book
from duebook.store.sqlite import SqliteStore
from tests.browser.demo import fill_demo
from tests.support.made_once import made_once
from tests.support.pages import site_on
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

LOCAL = f"dbk_local_{'a' * 43}"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_browser() -> str:
    """Where chromium is, the one without a window if it is there, which needs half the processor
    time; skips or fails when it is nowhere."""
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    if os.environ.get("DUEBOOK_NO_BROWSER") == "1":
        pytest.skip("DUEBOOK_NO_BROWSER=1")
    raise AssertionError(
        "no chromium: `make test` installs it as root; DUEBOOK_NO_BROWSER=1 leaves these tests out"
    )


@contextmanager
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=FLAGS, timeout=2 * PATIENCE * 1_000
        )
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


class Site:
    """A dashboard that is served, the books behind it, and people who look at it."""

    def __init__(self, path: Path, browser: Browser) -> None:
        self.store = SqliteStore(path)
        self.book = Book(self.store, by="a test")
        self._browser = browser
        place = bind("127.0.0.1", 0)
        self.address = place.address
        door = BookAuthenticator(self.store, lambda: LOCAL)
        self._server = Server(site_on(self.store, door), place)
        self._server.start()
        self.amiss: list[str] = []
        """what a browser complained about, and what it asked of other hosts"""
        self.expected = {"status of 4"}
        """what it may complain about"""

    def visit(self, path: str = "/", role: str = "", **options: Any) -> Page:
        """Somebody logs in and goes to a page; `role` is that of a token, else the local one."""
        token = LOCAL if not role else self.book.tokens.create(role, role, "*")[1]
        options = {"locale": "en-GB", "timezone_id": "Europe/Brussels"} | options
        context = self._browser.new_context(
            java_script_enabled=options.pop("script", True), **options
        )
        context.set_default_timeout(PATIENCE * 1_000)
        page = context.new_page()
        page.on("pageerror", lambda error: self.amiss.append(str(error)))
        page.on("dialog", lambda dialog: self.amiss.append(f"dialog {dialog.message}"))
        page.on("console", lambda told: self._hear(told.type, told.text))
        page.on("request", lambda asked: self._see(asked.url))
        context.request.post(f"{self.address}/login", form={"token": token}, max_redirects=0)
        page.goto(f"{self.address}{path}")
        return page

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error" and not any(words in text for words in self.expected):
            self.amiss.append(text)

    def _see(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "about:")):
            self.amiss.append(f"asked {url}")

    def close(self) -> None:
        for context in self._browser.contexts:
            context.close()
        self._server.close()
        self.store.close()


@pytest.fixture(scope="session")
def demo_books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "demo.db", fill_demo)


@pytest.fixture
def demo(browser: Browser, demo_books: Path, tmp_path: Path) -> Iterator[Site]:
    """With a day of history."""
    shutil.copy(demo_books, tmp_path / "books.db")
    site = Site(tmp_path / "books.db", browser)
    yield site
    site.close()
    assert site.amiss == []


@pytest.fixture
def site(browser: Browser, tmp_path: Path) -> Iterator[Site]:
    """With empty books."""
    opened = Site(tmp_path / "books.db", browser)
    yield opened
    opened.close()
    assert opened.amiss == []
