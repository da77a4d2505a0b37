"""Use cases of namespaces: show what they hold, set and remove quotas, and set how long their
runs are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book.audit import SHARED, Auditor
from duebook.book.quotas import fires_of, rate_schedules
from duebook.errors import NotFound
from duebook.ids import check_name
from duebook.model.access import EVERYWHERE
from duebook.model.codec import encode
from duebook.model.history import read_keep
from duebook.model.quota import NamespaceUse, Quota, check_quota_name, load_quota
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from duebook.store.base import Store, Tx

    Uses = list[NamespaceUse]  # inside the class below `list` is a method

__all__ = ["Namespaces"]


class Namespaces:
    """Namespaces and their quotas. A namespace exists once it has a schedule."""

    def __init__(self, store: Store, by: str = "") -> None:
        self._store = store
        self._by = by

    def list(self) -> Uses:
        """Return every namespace that has a quota, a keep or schedules, by name."""

        def work(tx: Tx) -> Uses:
            quotas = {quota.namespace: quota for quota in tx.quotas.list_quotas()}
            counts, kept = tx.quotas.count_by_namespace(), tx.quotas.count_use()
            own = {n for n, known in tx.history.keeps().namespaces.items() if known.keep}
            return [
                _use(tx, quotas.get(name, Quota(name)), counts.get(name, 0), _size_in(kept, name))
                for name in sorted(quotas.keys() | counts.keys() | own)
            ]

        return self._store.read(work, patient=True)

    def limit(
        self,
        name: str,
        schedules: int | None = None,
        fires_per_minute: float | None = None,
        payload_bytes: int | None = None,
        definition_bytes: int | None = None,
        max_priority: int | None = None,
    ) -> NamespaceUse:
        """Set the quota of a namespace, replacing the previous one. Existing schedules stay; the
        result reports what exceeds the quota.

        `*` sets the default for every namespace without a limit of its own. Schedules keep a
        priority above `max_priority`, but their runs are limited to it, queued ones immediately.
        `fires_per_minute` counts the average rate of every schedule over its next hundred due
        times. Raises Invalid.
        """
        quota = load_quota(
            name, schedules, fires_per_minute, payload_bytes, definition_bytes, max_priority
        )
        if quota.fires_per_minute is not None:
            while self._store.transact(lambda tx: rate_schedules(tx, name)):
                pass

        def work(tx: Tx) -> NamespaceUse:
            former = tx.quotas.lock_quota(name) or Quota(name)
            tx.quotas.save_quota(quota)
            self._note(tx, "limit", former, quota)
            return _use(
                tx, quota, tx.quotas.count_schedules(name), _size_in(tx.quotas.count_use(), name)
            )

        use = self._store.transact(work)
        if (most := quota.max_priority) is not None:
            # in its own transaction: edits of schedules lock runs first, and then the quota
            self._store.transact(lambda tx: tx.quotas.cap_priorities(name, most))
        return use

    def free(self, name: str) -> None:
        """Remove the quota of a namespace; raises NotFound if it has none."""
        check_quota_name(name)

        def work(tx: Tx) -> None:
            former = tx.quotas.lock_quota(name)
            if former is None:
                raise NotFound(f'namespace "{name}" has no quota')
            tx.quotas.remove_quota(name)
            self._note(tx, "free", former, Quota(name))

        self._store.transact(work)

    def keep(self, name: str, keep: str | timedelta | None = None) -> NamespaceUse:
        """Set how long a namespace keeps its runs, with their logs and outputs; None: use the
        default.

        `*` sets it for every namespace without a setting of its own; the default is 90 days. Older
        runs are deleted within minutes and cannot be recovered. A schedule's own setting takes
        precedence. Raises Invalid.
        """
        check_quota_name(name)
        length = None if keep is None else read_keep("keep", keep)

        def work(tx: Tx) -> NamespaceUse:
            former = tx.history.keeps().own(name).keep
            tx.history.set_keep(name, length)
            before, after = ({"keep": _text(one)} for one in (former, length))
            self._audited(name).note(tx, "keep", "namespace", name, "", before, after)
            quota = tx.quotas.get_quota(name) or Quota(name)
            count = 0 if name == EVERYWHERE else tx.quotas.count_schedules(name)
            return _use(tx, quota, count, _size_in(tx.quotas.count_use(), name))

        return self._store.transact(work)

    def recount(self, name: str) -> tuple[int, int]:
        """Count the schedules of a namespace and the bytes of their definitions again, if
        `duebook db check --deep` finds wrong counts; writers wait until it is done."""
        check_name(name, "namespace")
        return self._store.transact(lambda tx: tx.quotas.recount_use(name))

    def _note(self, tx: Tx, action: str, was: Quota, is_now: Quota) -> None:
        name, before, after = is_now.namespace, encode(was), encode(is_now)
        self._audited(name).note(tx, action, "namespace", name, "", before, after)

    def _audited(self, name: str) -> Auditor:
        return Auditor(SHARED if name == EVERYWHERE else name, self._by)


def _text(length: timedelta | None) -> str | None:
    return None if length is None else format_duration(length)


def _use(tx: Tx, quota: Quota, schedules: int, size: int) -> NamespaceUse:
    fires = None if quota.fires_per_minute is None else fires_of(tx, quota.namespace)
    keep = format_duration(tx.history.keeps().of(quota.namespace))
    return NamespaceUse(quota, schedules, fires, size, keep)


def _size_in(kept: Mapping[str, tuple[int, int]], name: str) -> int:
    """The bytes of its definitions."""
    return kept.get(name, (0, 0))[1]
