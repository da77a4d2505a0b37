"""Use cases of maintenance windows: add, list and end them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.book.audit import Auditor
from duebook.errors import Conflict, Invalid
from duebook.model.codec import encode
from duebook.model.fields import read_instant, read_labels
from duebook.model.window import MaintenanceWindow, check_window_name
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.store.base import Store, Tx

    WindowList = list[MaintenanceWindow]  # inside the class below `list` is a method

__all__ = ["Windows"]

LONGEST: Final = timedelta(days=366)
KEPT: Final = timedelta(days=90)
"""Counted from its end; then its name is free."""
MOST: Final = 1_000
"""In a namespace, with ended windows that are still kept: every plan reads them."""


class Windows:
    """Maintenance windows of a namespace. A due time in a window is recorded as `paused` when it is
    planned; a due time that was already waiting waits until the window ends."""

    def __init__(self, store: Store, namespace: str, by: str = "") -> None:
        self._store = store
        self._namespace = namespace
        self._audit = Auditor(namespace, by)

    def list(self) -> WindowList:
        """Return the windows of the namespace by start time, including ended ones."""
        return self._store.read(lambda tx: tx.calendars.list_windows(self._namespace))

    def add(
        self,
        name: str,
        start_at: str | datetime,
        end_at: str | datetime,
        labels: Mapping[str, str] | None = None,
        by: str = "",
    ) -> MaintenanceWindow:
        """Pause the schedules that have all of `labels` (all schedules, if there are none) from
        `start_at` until `end_at`.

        Raises Invalid if `end_at` is not after both `start_at` and now, or if the namespace has too
        many windows; Conflict if the name is taken.
        """
        title, pairs = check_window_name(name), dict(read_labels("labels", labels or {}))
        starts, ends = read_instant("start_at", start_at), read_instant("end_at", end_at)
        span = f"from {format_instant(starts)} to {format_instant(ends)}"
        if ends <= starts:
            raise Invalid(f"the window ends before it starts: {span}; choose a later end")
        if ends - starts > LONGEST:
            told = f"the window is longer than {LONGEST.days} days: {span}"
            raise Invalid(f"{told}; choose an earlier end, or pause the schedules")

        def work(tx: Tx) -> MaintenanceWindow:
            if ends <= tx.now:
                raise Invalid(f"the window is over: {span}; choose a later end")
            self._make_room(tx)
            maker = by or self._audit.by
            made = (starts, ends, tx.now, maker)
            window = MaintenanceWindow(self._namespace, title, pairs, *made)
            tx.calendars.add_window(window)
            tx.calendars.wake_selected(window)
            self._note(tx, "create", window, maker)
            return window

        return self._store.transact(work)

    def remove(self, name: str) -> None:
        """End a window now, or delete it if it has not started. Raises NotFound, and Conflict if it
        has already ended."""

        def work(tx: Tx) -> None:
            window = tx.calendars.get_window(self._namespace, name)
            if window.end_at <= tx.now:
                raise Conflict(f'window "{window.name}" is over')
            if window.start_at < tx.now:
                tx.calendars.end_window(self._namespace, window.name)
            else:
                tx.calendars.remove_window(self._namespace, window.name)
            tx.calendars.wake_selected(window)
            self._note(tx, "delete", window)

        self._store.transact(work)

    def _make_room(self, tx: Tx) -> None:
        """Delete windows that ended long ago; raises Invalid if there are too many others."""
        known = tx.calendars.list_windows(self._namespace)
        old = [window for window in known if window.end_at < tx.now - KEPT]
        for window in old:
            tx.calendars.remove_window(self._namespace, window.name)
        if len(known) - len(old) >= MOST:
            raise Invalid(
                f'namespace "{self._namespace}" already has {MOST:,} maintenance windows, with '
                f"those that ended in the last {KEPT.days} days; remove some that are planned, or "
                "use longer ones"
            )

    def _note(self, tx: Tx, action: str, window: MaintenanceWindow, by: str = "") -> None:
        form: dict[str, Any] = encode(window)
        told = {key: form[key] for key in ("labels", "start_at", "end_at")}
        before, after = (None, told) if action == "create" else (told, None)
        self._audit.note(tx, action, "window", window.name, "", before, after, by)
