"""Who may define what runs: the one rule, applied by every use case that takes a definition."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from duebook.errors import Forbidden, shorten
from duebook.model.access import Role
from duebook.model.flow_target import FlowTarget
from duebook.model.secret_values import names_in
from duebook.model.target import TaskTarget
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from duebook.model.channel import Channel
    from duebook.model.schedule import ScheduleSpec
    from duebook.model.target import Target
    from duebook.store.base import Store, Tx

__all__ = ["UNLIMITED", "Rights", "refuse_target"]


class Rights:
    """What a user of a namespace may define. Programs with database access may define anything."""

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

    def allow(self, store: Store, spec: ScheduleSpec, current: ScheduleSpec | None = None) -> bool:
        """Whether a definition may replace the `current` one; for pages that offer to edit it."""
        if self._role >= Role.ADMIN:
            return True
        was = None if current is None else current.target
        try:
            self.refuse_secrets(spec, current)
            if spec.target != was:
                store.read(lambda tx: self.refuse(tx, spec.target, was))
        except Forbidden:
            return False
        return True

    def refuse_secrets(self, spec: ScheduleSpec, current: ScheduleSpec | None = None) -> None:
        """Raises Forbidden for a payload that names secrets, unless payload and target are the
        `current` ones: a user who chooses either one could have the secrets printed."""
        if self._role >= Role.ADMIN or not names_in(spec.payload):
            return
        if current is None or (spec.payload, spec.target) != (current.payload, current.target):
            kind, _, name = self._by.partition(":")
            raise Forbidden(
                f'{kind} "{name}" is {self._role}; only an admin may define a payload that names '
                "secrets, or choose what receives it"
            )

    def refuse(self, tx: Tx, target: Target, current: Target | None = None) -> None:
        """Raises Forbidden for a target that may not replace the `current` one."""
        self.refuse_all(tx, [(target, current)])

    def refuse_all(self, tx: Tx, targets: Iterable[tuple[Target, Target | None]]) -> None:
        """As `refuse`, for many targets: the tasks that workers know are read once."""
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

    def refuse_channels(self, channels: Iterable[Channel], current: Iterable[Channel] = ()) -> None:
        """Raises Forbidden for a channel that is not among the `current` ones: only admins define
        channels, because they send data elsewhere or run a command."""
        known = list(current)
        if self._role < Role.ADMIN and any(channel not in known for channel in channels):
            kind, _, name = self._by.partition(":")
            raise Forbidden(
                f'{kind} "{name}" is {self._role}; only an admin may define where alerts go'
            )


UNLIMITED: Final = Rights()


def refuse_target(
    who: str,
    target: Target,
    known: Callable[[], Collection[str]],
    has_flow: Callable[[str], bool],
) -> None:
    """Raises Forbidden for a target that only admins may define: deciding what runs needs more
    rights than deciding when.

    Other roles may name tasks that a live worker knows, and flows that exist.
    """
    if isinstance(target, FlowTarget):
        if not has_flow(target.name):
            raise Forbidden(f'flow "{target.name}" does not exist; only an admin may refer to it')
    elif not isinstance(target, TaskTarget):
        raise Forbidden(
            f"{who}; only an admin may define commands, requests, events and Celery tasks"
        )
    elif target.name not in known():
        raise Forbidden(
            f'no live worker knows task "{shorten(target.name)}"; only an admin may refer to it'
        )
