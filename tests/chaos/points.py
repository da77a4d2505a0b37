"""The points at which nodes are killed or stopped: before and after each important statement, by
the thread that executes it (a node takes over in its keeper, or when it starts)."""

from __future__ import annotations

from typing import Final

STATEMENTS: Final = {
    "MainThread": ("insert_session", "renew_all", "end_session", "release_lead"),
    "ticker": (
        "take_due",
        "lock_exclusive",
        "list_active",
        "insert_run",
        "start_runs",
        "insert_ledger",
        "move_state",
    ),
    "dispatcher": (
        "get_limiter",
        "read_clock",
        "count_running",
        "claim_ready",
        "lock_exclusive",
        "lock_limited",
        "claim_limited",
        "note_begun",
    ),
    "settler": ("lock_wakes", "settle_runs", "wake_schedules", "insert_attempt", "retry_run"),
    "slot": ("insert_log",),
    "keeper": ("renew_all", "end_expired_sessions"),
    "advancer": ("use_wakes", "begin_flow_run", "insert_step_run", "end_flow_runs"),
    "*": (
        "end_gone_sessions",
        "list_orphans",
        "take_orphans",
        "insert_lost_attempts",
        "requeue_runs",
    ),
}
POINTS: Final = [
    f"{thread} {when}:{statement}"
    for thread, statements in STATEMENTS.items()
    for statement in (statements if thread == "*" else (*statements, "COMMIT"))
    for when in ("before", "after")
]
