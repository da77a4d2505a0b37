"""The pages, one module for each part of the dashboard; each page declares its role."""

from __future__ import annotations

from duebook.web.routes import (
    access,
    account,
    backfill,
    bulk,
    calendars,
    catchup,
    creation,
    events,
    feeds,
    flows,
    insights,
    live,
    overview,
    runs,
    schedule_actions,
    schedules,
    simulate,
    windows,
)

__all__ = ["PAGES"]

PAGES = (
    account.operations,
    overview.operations,
    schedules.operations,
    schedule_actions.operations,
    backfill.operations,
    catchup.operations,
    bulk.operations,
    creation.operations,
    runs.operations,
    flows.operations,
    flows.files,
    flows.checking,
    insights.operations,
    simulate.operations,
    calendars.operations,
    windows.operations,
    feeds.operations,
    events.operations,
    access.operations,
    live.operations,
)
