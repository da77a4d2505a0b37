"""Who may define what runs: the one rule, which every use case that takes a definition applies."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from duebook.errors import Forbidden, shorten
from duebook.model.access import Role
from duebook.model.flow_target import FlowTarget
from duebook.model.target import TaskTarget
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from duebook.model.target import Target
    from duebook.store.base import Store, Tx

__all__ = ["UNLIMITED", "Rights", "refuse_target"]


class Rights:
    """What the user of a namespace may define. Whoever has the database may define everything."""

    def __init__(
        self,
        namespace: str = "default",
        tasks: Tasks | None = None,
        by: str = "",
        role: Role = Role.ADMIN,
    ) -> None:
        self._namespace = namespace
        self._tasks = tasks or Tasks()
        self._by = by
        self._role = role

    def allow(self, store: Store, target: Target, current: Target | None = None) -> bool:
        """Whether a target may replace the `current` one, for pages that offer it."""
        if self._role >= Role.ADMIN or target == current:
            return True
        try:
            store.read(lambda tx: self.refuse(tx, target, current))
        except Forbidden:
            return False
        return True

    def refuse(self, tx: Tx, target: Target, current: Target | None = None) -> None:
        """Raises Forbidden for a target that may not replace the `current` one."""
        self.refuse_all(tx, [(target, current)])

    def refuse_all(self, tx: Tx, targets: Iterable[tuple[Target, Target | None]]) -> None:
        """As `refuse`, for many: what workers know is read once."""
        if self._role >= Role.ADMIN:
            return

        @cache
        def known() -> frozenset[str]:
            return frozenset({*self._tasks.names, *tx.nodes.list_known_tasks(self._namespace)})

        @cache
        def has_flow(name: str) -> bool:
            return tx.flows.get_flow(self._namespace, name) is not None

        kind, _, name = self._by.partition(":")
        for target, current in targets:
            if target != current:
                refuse_target(f'{kind} "{name}" is {self._role}', target, known, has_flow)


UNLIMITED: Final = Rights()


def refuse_target(
    who: str,
    target: Target,
    known: Callable[[], Collection[str]],
    has_flow: Callable[[str], bool],
) -> None:
    """Defining what runs is more than saying when: raises Forbidden for what only admins define.

    Others may name tasks that a live worker knows, and flows that exist.
    """
    if isinstance(target, FlowTarget):
        if not has_flow(target.name):
            raise Forbidden(f'flow "{target.name}" does not exist; only an admin may refer to it')
    elif not isinstance(target, TaskTarget):
        raise Forbidden(f"{who}; only an admin may define commands, requests and events")
    elif target.name not in known():
        raise Forbidden(
            f'no live worker knows task "{shorten(target.name)}"; only an admin may refer to it'
        )
