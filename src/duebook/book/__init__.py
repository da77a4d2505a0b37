"""The client: every use case of schedules, runs and queues, one transaction each."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from duebook.book.queues import Queues
from duebook.book.runs import Runs
from duebook.book.schedules import Schedules
from duebook.closing import Closing
from duebook.ids import check_name
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from duebook.store.base import Store

__all__ = ["Book", "Queues", "Runs", "Schedules"]


class Book(Closing):
    """A namespace of the books; safe to use from several threads.

    `tasks` are those whose payloads can be checked here.
    """

    def __init__(
        self, store: Store | None, namespace: str = "default", tasks: Tasks | None = None
    ) -> None:
        self._opened = store
        self.namespace = check_name(namespace, "namespace")
        self.tasks = tasks or Tasks()

    @property
    def store(self) -> Store:
        assert self._opened is not None  # noqa: S101 - it was given
        return self._opened

    @cached_property
    def schedules(self) -> Schedules:
        return Schedules(self.store, self.namespace, self.tasks)

    @cached_property
    def runs(self) -> Runs:
        return Runs(self.store, self.namespace)

    @cached_property
    def queues(self) -> Queues:
        return Queues(self.store)

    def problems(self) -> list[str]:
        """What keeps queued runs of any namespace from being begun, in words; mostly nothing."""
        stranded = self.store.read(lambda tx: tx.list_stranded_tasks())
        return [f'runs wait for task "{task}", which no live worker knows' for task in stranded]

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
