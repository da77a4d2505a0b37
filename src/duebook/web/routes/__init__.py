"""The pages, one module for each part of the dashboard; each page declares its role."""

from __future__ import annotations

from duebook.web.routes import (
    access,
    account,
    alerts,
    backfill,
    bulk,
    calendars,
    catchup,
    creation,
    due,
    events,
    feeds,
    flows,
    insights,
    live,
    overview,
    run_logs,
    runs,
    schedule_actions,
    schedules,
    simulate,
    static_files,
    triage,
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
    triage.operations,
    runs.operations,
    run_logs.operations,
    flows.operations,
    flows.files,
    flows.checking,
    insights.operations,
    due.operations,
    simulate.operations,
    calendars.operations,
    windows.operations,
    feeds.operations,
    events.operations,
    alerts.operations,
    access.operations,
    live.operations,
    static_files.operations,
)
