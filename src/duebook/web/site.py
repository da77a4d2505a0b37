"""Creates the site: the API and the dashboard in one app, behind one gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.api.app import create_app
from duebook.web.errors import explain
from duebook.web.forecast import Calendar
from duebook.web.routes import PAGES
from duebook.web.watching import Watches

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.api.gate import Authenticator
    from duebook.store.base import Store

__all__ = ["create_site"]


def create_site(store: Store, authenticator: Authenticator, **options: Any) -> App:
    """Like create_app, with the dashboard pages."""
    app = create_app(store, authenticator, pages=PAGES, explain=explain, **options)
    app.state.watches = Watches(store)
    app.state.calendar = Calendar()
    return app
