"""An app with its own database, and clients with tokens of each role."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.api import (
    Api,
    shared_app,
)

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store


@pytest.fixture
def app(store: Store) -> App:
    return shared_app.on(store)


@pytest.fixture
def api(app: App) -> Api:
    return Api(app, "admin")
