"""A site with its own database, and browsers that are logged in with each role."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.pages import Browser, site_on

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store


@pytest.fixture
def app(store: Store) -> App:
    return site_on(store)


@pytest.fixture
def admin(app: App) -> Browser:
    return Browser(app, "admin")


@pytest.fixture
def operator(app: App) -> Browser:
    return Browser(app, "operator")


@pytest.fixture
def viewer(app: App) -> Browser:
    return Browser(app, "viewer")
