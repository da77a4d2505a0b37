"""Use cases of shadow mode: turn it on and off, and list what it recorded."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from duebook.book.audit import Auditor
from duebook.errors import Invalid
from duebook.ids import check_name
from duebook.model.codec import encode
from duebook.model.fields import read_instant, read_labels, whole
from duebook.model.shadow import ShadowSwitch, superseded
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.shadow import ShadowRun
    from duebook.store.base import Store, Tx

    SwitchList = list[ShadowSwitch]  # inside the class below `list` is a method
    RunList = list[ShadowRun]

__all__ = ["Shadow"]

KEPT: Final = timedelta(days=90)
"""How long a switch is kept once a later one replaces it: due times may be planned that late."""
DAY: Final = timedelta(days=1)
MOST: Final = 1_000
"""In a namespace: every plan reads them."""
MOST_REPORTED: Final = 10_000
TOLERANCE: Final = timedelta(minutes=1)
"""How far the clock of a caller that passes `at` may be behind."""


class Shadow:
    """Shadow mode of a namespace. Due times of schedules in shadow mode are planned, and recorded
    as `shadow` instead of becoming runs; nothing is executed. The mode at the due time itself
    counts, whenever it is planned."""

    def __init__(self, store: Store, namespace: str, by: str = "") -> None:
        self._store = store
        self._namespace = namespace
        self._audit = Auditor(namespace, by)

    def list(self) -> SwitchList:
        """Return when shadow mode was turned on and off, in the order in which that applies."""
        found = self._store.read(lambda tx: tx.shadows.list(self._namespace))
        return [switch for _, switch in found]

    def on(
        self,
        schedule: str = "",
        labels: Mapping[str, str] | None = None,
        at: str | datetime | None = None,
        by: str = "",
    ) -> ShadowSwitch:
        """Record due times from `at` (default: now) on instead of running them.

        Without `schedule` and `labels`, it applies to all schedules of the namespace, including
        those created later. Raises Invalid for an `at` in the past.
        """
        return self._switch(True, schedule, labels, at, by)

    def off(
        self,
        schedule: str = "",
        labels: Mapping[str, str] | None = None,
        at: str | datetime | None = None,
        by: str = "",
    ) -> ShadowSwitch:
        """Run due times from `at` (default: now) on; earlier ones never run automatically.

        Raises Invalid for an `at` in the past.
        """
        return self._switch(False, schedule, labels, at, by)

    def report(
        self,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        limit: int = 1_000,
    ) -> RunList:
        """Return the due times from `start` (default: a day ago) to `end` (default: now) that
        shadow mode recorded, in order; the first `limit`."""
        most = whole(1, MOST_REPORTED)("limit", limit)

        def work(tx: Tx) -> RunList:
            since = tx.now - DAY if start is None else read_instant("start", start)
            until = tx.now if end is None else read_instant("end", end)
            return [*tx.shadows.list_runs(self._namespace, since, until, most)]

        return self._store.read(work)

    def _switch(
        self,
        shadow: bool,
        schedule: str,
        labels: Mapping[str, str] | None,
        at: str | datetime | None,
        by: str,
    ) -> ShadowSwitch:
        name = check_name(schedule, "schedule") if schedule else ""
        pairs = dict(read_labels("labels", labels or {}))
        begins = None if at is None else read_instant("at", at)

        def work(tx: Tx) -> ShadowSwitch:
            now = tx.shadows.lock(self._namespace)
            if begins is not None and begins < now - TOLERANCE:
                raise Invalid(
                    f"at {format_instant(begins)} is in the past: what was due then is decided; "
                    "choose a later time, or leave it out for now"
                )
            self._make_room(tx)
            place, maker = (name, pairs, tx.now), by or self._audit.by
            starts = now if begins is None else max(begins, now)
            switch = ShadowSwitch(self._namespace, starts, shadow, *place, maker)
            tx.shadows.add(switch)
            form = encode(switch)
            told = {key: form[key] for key in ("shadow", "at", "schedule", "labels")}
            self._audit.note(tx, "update", "shadow", name or "*", "", None, told, by)
            return switch

        return self._store.transact(work)

    def _make_room(self, tx: Tx) -> None:
        known = tx.shadows.list(self._namespace)
        old = superseded([switch for _, switch in known], tx.now - KEPT)
        if old:
            tx.shadows.remove([known[place][0] for place in old])
        if len(known) - len(old) >= MOST:
            raise Invalid(
                f'namespace "{self._namespace}" has switched shadow mode {MOST:,} times in the '
                f"last {KEPT.days} days, which is the most; use labels to switch many schedules at "
                "once"
            )
