"""Which partitions a member of a group releases and takes, so that all have about as many; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["share"]


def share(
    me: str, members: Collection[str], owners: Mapping[int, str | None]
) -> tuple[set[int], set[int]]:
    """What `me` releases, and which free partitions it takes: (released, taken).

    `owners` are those of all partitions; one that is not a live member owns nothing. Of n
    partitions and m members each member has n // m, and the first n % m by name have one more.
    """
    ranked = sorted(members)
    each, more = divmod(len(owners), len(ranked))
    fair = each + (1 if ranked.index(me) < more else 0)
    mine = sorted(part for part, owner in owners.items() if owner == me)
    free = sorted(part for part, owner in owners.items() if owner not in members)
    released = set(mine[fair:])
    taken = set(free[: max(fair - len(mine), 0)])
    return released, taken
