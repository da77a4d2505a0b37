"""What people do with namespaces: look at what they hold, limit it, lift the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book.audit import Auditor
from duebook.book.quotas import fires_of, rate_schedules
from duebook.errors import NotFound
from duebook.ids import check_name
from duebook.model.forms import quota_form
from duebook.model.quota import NamespaceUse, Quota, load_quota

if TYPE_CHECKING:
    from duebook.store.base import Store, Tx

    Uses = list[NamespaceUse]  # inside the class below `list` is a method

__all__ = ["Namespaces"]


class Namespaces:
    """Namespaces come into being with their first schedule; only quotas are kept."""

    def __init__(self, store: Store, by: str = "") -> None:
        self._store = store
        self._by = by

    def list(self) -> Uses:
        """Every namespace that has a quota or schedules, by name."""

        def work(tx: Tx) -> Uses:
            quotas = {quota.namespace: quota for quota in tx.list_quotas()}
            counts = tx.count_by_namespace()
            return [
                _use(tx, quotas.get(name, Quota(name)), counts.get(name, 0))
                for name in sorted(quotas.keys() | counts.keys())
            ]

        return self._store.read(work, patient=True)

    def limit(
        self,
        name: str,
        schedules: int | None = None,
        fires_per_minute: float | None = None,
        payload_bytes: int | None = None,
    ) -> NamespaceUse:
        """These limits replace the ones it had; what is there already stays, and is told.

        `fires_per_minute` counts the mean rate of every schedule over its next hundred due times.
        Raises Invalid.
        """
        quota = load_quota(name, schedules, fires_per_minute, payload_bytes)
        if quota.fires_per_minute is not None:
            while self._store.transact(lambda tx: rate_schedules(tx, name)):
                pass

        def work(tx: Tx) -> NamespaceUse:
            former = tx.lock_quota(name) or Quota(name)
            tx.save_quota(quota)
            self._note(tx, "limit", former, quota)
            return _use(tx, quota, tx.count_schedules(name))

        return self._store.transact(work)

    def free(self, name: str) -> None:
        """Lift the quota of a namespace; raises NotFound when it has none."""
        check_name(name, "namespace")

        def work(tx: Tx) -> None:
            former = tx.lock_quota(name)
            if former is None:
                raise NotFound(f'namespace "{name}" has no quota')
            tx.remove_quota(name)
            self._note(tx, "free", former, Quota(name))

        self._store.transact(work)

    def _note(self, tx: Tx, action: str, was: Quota, is_now: Quota) -> None:
        name, before, after = is_now.namespace, quota_form(was), quota_form(is_now)
        Auditor(name, self._by).note(tx, action, "namespace", name, "", before, after)


def _use(tx: Tx, quota: Quota, schedules: int) -> NamespaceUse:
    fires = None if quota.fires_per_minute is None else fires_of(tx, quota.namespace)
    return NamespaceUse(quota, schedules, fires)
