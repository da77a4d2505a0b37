"""Who may ask what, how much, and who changed what; requests that may be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.access import AccessToken
    from duebook.model.change import Change, ChangeFilter
    from duebook.model.listing import Found, PagePosition
    from duebook.model.quota import Quota, Standing
    from duebook.model.schedule import ScheduleSpec

__all__ = ["Access"]


class Access(Protocol):
    """A part of a Tx."""

    # -- who may use the books from outside
    def create_token(self, token: AccessToken, digest: str) -> None:
        """Store a new token; raises Conflict when another has its name that was not revoked."""

    def find_token(self, name: str) -> str:
        """The id of a token by its name, unless it was revoked, or by its id; raises NotFound."""

    def get_token(self, token_id: str) -> tuple[AccessToken, str] | None:
        """A token and the digest of its secret."""

    def get_tokens(self, token_ids: Sequence[str]) -> dict[str, tuple[AccessToken, str]]:
        """As `get_token`, for many, by their id; those that do not exist are left out."""

    def list_tokens(self) -> list[AccessToken]:
        """By name; also those that were revoked."""

    def revoke_token(self, token_id: str) -> bool:
        """False when it was revoked before."""

    def use_token(self, token_id: str, before: datetime) -> None:
        """Put down that it is used now, unless it was used since `before`."""

    def end_login(self, digest: str, token_id: str, expires_at: datetime) -> None:
        """A session of a browser opens nothing from now on; it would have ended at `expires_at`."""

    def list_ended_logins(self, digests: Sequence[str]) -> list[str]:
        """Those of them that were ended, as far as they would still open anything."""

    # -- requests that may be repeated
    def keep_key(self, scope: str, key: str, fingerprint: str) -> Any:
        """Make a key the one of this request; returns None, or what was answered to it before.

        Waits while another transaction has the key. Raises KeyReused when it came with another
        request. It is free again after a day.
        """

    def keep_answer(self, scope: str, key: str, answer: Any) -> None:
        """What `keep_key` returns from now on: any JSON but null."""

    def get_secret(self, name: str) -> bytes:
        """What only those know who open these books; `cursors` seals the cursors of lists."""

    # -- quotas of namespaces
    def get_quota(self, namespace: str) -> Quota | None: ...

    def lock_quota(self, namespace: str) -> Quota | None:
        """The limits of a namespace; others who lock them wait until this transaction ends."""

    def get_standing(self, namespace: str) -> Standing:
        """What limits a namespace, and how much it holds as it is kept, with what this transaction
        wrote; without a lock."""

    def count_use(self) -> dict[str, tuple[int, int]]:
        """How many schedules each namespace holds, and bytes of definitions, as it is kept."""

    def recount_use(self, namespace: str) -> tuple[int, int]:
        """Keep what a namespace truly holds, and return it; who writes meanwhile waits."""

    def sum_templates(self, namespace: str) -> int:
        """The bytes of its templates."""

    def cap_priorities(self, namespace: str, most: int) -> None:
        """Runs of a namespace that wait get no higher priority than `most`."""

    def list_quotas(self) -> list[Quota]:
        """By namespace."""

    def save_quota(self, quota: Quota) -> None:
        """Put limits in force; they replace the ones that the namespace had."""

    def remove_quota(self, namespace: str) -> None: ...

    def count_schedules(self, namespace: str) -> int:
        """Those that are not deleted."""

    def count_by_namespace(self) -> dict[str, int]:
        """As above, of every namespace that has any."""

    def sum_rates(self, namespace: str) -> float:
        """How often per minute its schedules are due that are not completed, where it is known."""

    def list_unrated(
        self, namespace: str, limit: int
    ) -> list[tuple[str, int, str, ScheduleSpec | None]]:
        """Schedules whose rate nobody knows: id, version, name and definition."""

    def rate_revisions(self, rates: Sequence[tuple[str, int, float]]) -> None:
        """How often per minute definitions are due: id of the schedule, version and rate."""

    # -- who changed what
    def record(self, changes: Sequence[Change]) -> None:
        """Put changes on the books, at their time; their ids are given here."""

    def list_changes(
        self, namespace: str | None, wanted: ChangeFilter, after: PagePosition | None, limit: int
    ) -> Found[Change]:
        """The newest first, of a namespace or of all; an instant and an id are a place."""
