"""The pages, one module for each part of the dashboard; each page declares its role."""

from __future__ import annotations

from duebook.web.routes import account, overview

__all__ = ["PAGES"]

PAGES = (
    account.operations,
    overview.operations,
)
